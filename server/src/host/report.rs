//! What the host reports about itself: copies, so that the lock is not held while they are printed.

use std::sync::Arc;

use zoolet_jute::{SessionId, Zxid};
use zoolet_replica::state::{LockFigures, LockPlace, PathList};
use zoolet_replica::{Limit, Role, SessionReport, WatchPlace};

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
    /// All sessions.
    pub sessions: Vec<SessionReport>,
    /// The ephemeral znodes of those that have any.
    pub ephemerals: Vec<(SessionId, PathList)>,
}

/// A path, and the sessions that watch it.
type Watched = (String, Vec<SessionId>);

/// The watched paths, some per hold of the lock.
#[derive(Debug)]
pub(crate) struct WatchParts<'a> {
    host: &'a Host,
    after: Option<WatchPlace>,
    /// The last path so far: more of its watchers may follow.
    last: Option<Watched>,
    is_done: bool,
}

impl Iterator for WatchParts<'_> {
    type Item = Vec<Watched>;

    fn next(&mut self) -> Option<Vec<Watched>> {
        if self.is_done {
            return self.last.take().map(|last| vec![last]);
        }
        let some = self
            .host
            .locked(|inner, _| inner.replica.watched_paths(self.after.as_ref(), WATCHES_PER_HOLD));
        let mut whole = Vec::new();
        for (path, sessions) in some.paths {
            match &mut self.last {
                Some((known, all)) if *known == path => all.extend(sessions),
                last => whole.extend(last.replace((path, sessions))),
            }
        }
        self.after = some.last;
        self.is_done = self.after.is_none();
        Some(whole)
    }
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
    /// is seen. For callers on a thread of their own.
    pub fn sessions(&self) -> SessionsReport {
        let mut sessions: Vec<_> = self.session_parts().flatten().collect();
        sessions.sort_unstable_by_key(|known| known.session);
        let ephemerals = self.ephemeral_parts().flatten().collect();
        SessionsReport { sessions, ephemerals }
    }

    /// The server's part in the ensemble.
    pub(crate) fn role(&self) -> Role {
        self.locked(|inner, _| inner.replica.role())
    }

    /// The sessions of the ensemble, in no order; each part is taken in a hold of the lock.
    pub(crate) fn session_parts(&self) -> impl Iterator<Item = Vec<SessionReport>> {
        (0..).map_while(|part| self.locked(|inner, _| inner.replica.sessions(part)))
    }

    /// The sessions with ephemeral znodes, in order; each part is taken in a hold of the lock.
    pub(crate) fn ephemeral_parts(&self) -> impl Iterator<Item = Vec<(SessionId, PathList)>> {
        let mut after = None;
        std::iter::from_fn(move || {
            let some = self.locked(|inner, _| inner.replica.ephemerals(after, OWNERS_PER_HOLD));
            after = some.last().map(|(session, _)| *session);
            (!some.is_empty()).then_some(some)
        })
    }

    /// The data of `/zookeeper/config`.
    pub fn config_text(&self) -> String {
        self.locked(|inner, _| inner.replica.config_data())
    }

    /// Calls `visit` with each path of the data table and the sessions that watch it. The lock is
    /// given back in between, so it is not one moment that is seen. For callers on a thread of their
    /// own.
    pub fn watched_paths(&self, mut visit: impl FnMut(String, Vec<SessionId>)) {
        self.watch_parts().flatten().for_each(|(path, sessions)| visit(path, sessions));
    }

    /// The paths of the data table, each with the sessions that watch it; each part is taken in a hold
    /// of the lock.
    pub(crate) fn watch_parts(&self) -> WatchParts<'_> {
        WatchParts { host: self, after: None, last: None, is_done: false }
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
