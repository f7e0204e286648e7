//! What the host reports about itself: copies, so that the lock is not held while they are printed.

use std::sync::Arc;

use zoolet_jute::{SessionId, Zxid};
use zoolet_replica::state::{LockFigures, LockPlace, PathList};
use zoolet_replica::{Limit, Role, SessionReport};

use super::{Figures, Host, RequestTimes};
use crate::clock::Now;
use crate::histogram::Distribution;
use crate::limits::LimitTable;

/// The most looks at watched paths and their watchers under one lock.
const WATCHES_PER_HOLD: usize = 1000;

/// The most sessions whose ephemeral znodes are listed under one lock.
const OWNERS_PER_HOLD: usize = 500;

/// The most places of a lock that are looked at under one lock.
const PLACES_PER_HOLD: usize = 500;

/// The server in numbers.
#[derive(Clone, Copy, Debug)]
pub struct ServerReport {
    /// Its part in the ensemble.
    pub role: Role,
    /// The last transaction applied here.
    pub zxid: Zxid,
    /// The digest of the state.
    pub digest: u64,
    /// Znodes, the root counted twice as in Apache `ZooKeeper` (protocol §6.2).
    pub znodes: usize,
    /// Ephemeral znodes.
    pub ephemerals: usize,
    /// The bytes of data of all znodes.
    pub data_bytes: u64,
    /// Sessions of the ensemble.
    pub sessions: usize,
    /// Entries of both watch tables.
    pub watches: usize,
    /// Requests without a reply.
    pub outstanding: usize,
    /// What it did since the last `srst`.
    pub figures: Figures,
    /// How long reads and updates took since then, in milliseconds.
    pub read_ms: Distribution,
    pub update_ms: Distribution,
    /// How long batches took from the leader's log until they were applied here.
    pub propagation_ms: Distribution,
    /// The locks of the ensemble, now, and how long they were held and waited for.
    pub locks: LockFigures,
    pub lock_hold_ms: Distribution,
    pub lock_wait_ms: Distribution,
    /// Locks whose holder's session has expired since then.
    pub locks_expired: u64,
    /// Locks that went from a holder to those who waited, since then.
    pub locks_handed_over: u64,
}

/// The sessions of the ensemble.
#[derive(Clone, Debug)]
pub struct SessionsReport {
    /// The server's part: only the leader knows when sessions expire.
    pub role: Role,
    /// All sessions.
    pub sessions: Vec<SessionReport>,
    /// The ephemeral znodes of those that have any.
    pub ephemerals: Vec<(SessionId, PathList)>,
}

impl Host {
    /// The server in numbers.
    pub fn report(&self) -> ServerReport {
        self.locked(|inner, _| {
            let state = inner.replica.state();
            let (zxid, digest) = inner.replica.digest();
            ServerReport {
                role: inner.replica.role(),
                zxid,
                digest,
                znodes: state.node_count() + 1,
                ephemerals: state.ephemerals_count(),
                data_bytes: state.data_bytes(),
                sessions: state.session_count(),
                watches: inner.replica.watch_count(),
                outstanding: inner.requests_in_flight,
                figures: inner.figures,
                read_ms: inner.times.reads.distribution(),
                update_ms: inner.times.updates.distribution(),
                propagation_ms: inner.times.propagations.distribution(),
                locks: state.locks(),
                lock_hold_ms: inner.times.lock_holds.distribution(),
                lock_wait_ms: inner.times.lock_waits.distribution(),
                locks_expired: inner.times.locks_expired,
                locks_handed_over: inner.times.locks_handed_over,
            }
        })
    }

    /// Returns the limits of the server. The use of those that the host keeps is updated by
    /// [`Host::measure_limits`].
    pub(crate) fn limit_table(&self) -> &Arc<LimitTable> {
        &self.limit_table
    }

    /// Counts requests that were refused because they had waited too long.
    pub(super) fn note_throttled(&self, now: Now, count: u64) {
        for _ in 0..count {
            let refused = "a request that had waited for throttled_op_wait_time_ms is refused";
            self.limit_table.refuse(Limit::Requests, now.mono_ms, refused);
        }
    }

    /// Updates the use of the limits that the host keeps.
    pub(crate) fn measure_limits(&self) {
        let (own, of_replica) = self.locked(|inner, _| {
            let own = [
                (Limit::Requests, inner.requests_in_flight),
                (Limit::RequestBytes, inner.bytes_in_flight),
            ];
            (own, inner.replica.limits_used())
        });
        for (limit, used) in own.into_iter().chain(of_replica) {
            self.limit_table.set_used(limit, used);
        }
    }

    /// The last transaction and the digest of the state at it.
    pub fn digest(&self) -> (Zxid, u64) {
        self.locked(|inner, _| inner.replica.digest())
    }

    /// The sessions of the ensemble. The lock is given back in between, so it is not one moment that
    /// is seen.
    pub fn sessions(&self) -> SessionsReport {
        let role = self.locked(|inner, _| inner.replica.role());
        let part = |part| self.locked(|inner, _| inner.replica.sessions(part));
        let mut sessions: Vec<_> = (0..).map_while(part).flatten().collect();
        sessions.sort_unstable_by_key(|known| known.session);
        let mut ephemerals: Vec<(SessionId, PathList)> = Vec::new();
        loop {
            let after = ephemerals.last().map(|(session, _)| *session);
            let some = self.locked(|inner, _| inner.replica.ephemerals(after, OWNERS_PER_HOLD));
            if some.is_empty() {
                return SessionsReport { role, sessions, ephemerals };
            }
            ephemerals.extend(some);
        }
    }

    /// The data of `/zookeeper/config`.
    pub fn config_text(&self) -> String {
        self.locked(|inner, _| inner.replica.config_data())
    }

    /// Calls `visit` with each path of the data table and the sessions that watch it. The lock is
    /// given back in between, so it is not one moment that is seen.
    pub fn watched_paths(&self, mut visit: impl FnMut(String, Vec<SessionId>)) {
        let mut after = None;
        // More watchers of the last path may follow.
        let mut last: Option<(String, Vec<SessionId>)> = None;
        loop {
            let some = self
                .locked(|inner, _| inner.replica.watched_paths(after.as_ref(), WATCHES_PER_HOLD));
            for (path, sessions) in some.paths {
                match &mut last {
                    Some((known, all)) if *known == path => all.extend(sessions),
                    _ => {
                        if let Some((path, sessions)) = last.replace((path, sessions)) {
                            visit(path, sessions);
                        }
                    }
                }
            }
            after = some.last;
            if after.is_none() {
                break;
            }
        }
        if let Some((path, sessions)) = last {
            visit(path, sessions);
        }
    }

    /// The places in the queue of a lock; the first ones by name, if there are more than `max`. The
    /// lock of the state is given back in between: one that goes meanwhile is left out.
    pub fn lock_places(&self, lock: &str, max: usize) -> Vec<LockPlace> {
        let names = self.locked(|inner, _| inner.replica.state().child_names(lock));
        let Some(names) = names else { return Vec::new() };
        let parent = lock.trim_end_matches('/');
        let paths: Vec<_> =
            names.of_places().take(max).map(|name| format!("{parent}/{name}")).collect();
        let places = paths.chunks(PLACES_PER_HOLD).flat_map(|some| {
            self.locked(|inner, _| {
                let state = inner.replica.state();
                some.iter().filter_map(|path| state.lock_place(path)).collect::<Vec<_>>()
            })
        });
        places.collect()
    }

    /// Starts the server's figures from zero (`srst`).
    pub fn reset_figures(&self) {
        self.locked(|inner, _| {
            inner.figures = Figures::default();
            inner.times = RequestTimes::default();
        });
        self.limit_table.reset();
    }
}
