//! The silent sessions that a server knows, its own and those reported by others (`silence`).

use std::collections::BTreeMap;

use zoolet_jute::SessionId;

use super::client::Client;
use super::silence::{Silence, Silences};
use crate::state::{Change, Session, State};
use crate::{ConnectionId, Input, ProposalNumber, Replica, Role};

/// The sessions whose connections have ended, at this server or at another one.
#[derive(Debug, Default)]
pub(crate) struct SilentSessions {
    /// The time in which this server ran and knew a leader.
    counted_ms: i64,
    ended: BTreeMap<SessionId, Ended>,
    // Invariant: the sessions of `ended`, under their numbers.
    order: BTreeMap<u64, SessionId>,
    number_last: u64,
}

#[derive(Clone, Copy, Debug)]
struct Ended {
    generation: u64,
    /// The last sign of life, on the clock of `counted_ms`.
    active_ms: i64,
    number: u64,
    /// Whether this server owned the connection.
    is_own: bool,
}

impl SilentSessions {
    /// Returns the moment of a sign of life that comes now.
    pub(super) fn now_ms(&self) -> i64 {
        self.counted_ms
    }

    /// Returns the time since a sign of life.
    fn since(&self, active_ms: i64) -> u64 {
        u64::try_from(self.counted_ms.saturating_sub(active_ms)).unwrap_or(0)
    }

    fn insert(&mut self, session: SessionId, generation: u64, active_ms: i64, is_own: bool) {
        self.forget(session);
        self.number_last += 1;
        let (number, active_ms) = (self.number_last, active_ms.min(self.counted_ms));
        self.ended.insert(session, Ended { generation, active_ms, number, is_own });
        self.order.insert(number, session);
    }

    /// Learns from another server that a connection has ended.
    fn learn(&mut self, report: &Silence) {
        let is_newer = |known: &Ended| known.generation < report.generation;
        if self.ended.get(&report.session).is_none_or(is_newer) {
            let silence_ms = i64::try_from(report.silence_ms).unwrap_or(0);
            let active_ms = self.counted_ms.saturating_sub(silence_ms);
            self.insert(report.session, report.generation, active_ms, false);
        }
    }

    /// The session has ended.
    pub(super) fn forget(&mut self, session: SessionId) {
        if let Some(known) = self.ended.remove(&session) {
            self.order.remove(&known.number);
        }
    }

    /// The session was resumed in this generation.
    pub(super) fn forget_before(&mut self, session: SessionId, generation: u64) {
        if self.ended.get(&session).is_some_and(|known| known.generation < generation) {
            self.forget(session);
        }
    }

    /// Forgets the sessions that have ended or were resumed according to a state that was replaced.
    pub(super) fn follow(&mut self, state: &State) {
        let stale = self.ended.iter().filter(|(session, known)| {
            state.session(**session).is_none_or(|it| it.generation > known.generation)
        });
        for session in stale.map(|(session, _)| *session).collect::<Vec<_>>() {
            self.forget(session);
        }
    }

    pub(crate) fn check(&self) {
        let is_same = self.order.len() == self.ended.len()
            && self.order.iter().all(|(number, session)| {
                self.ended.get(session).is_some_and(|known| known.number == *number)
            });
        invariant!(is_same, "{} silent sessions, {} in order", self.ended.len(), self.order.len());
    }
}

impl Replica {
    /// Counts time in which this process ran.
    pub(super) fn count_silence(&mut self, ms: u64) {
        if self.role != Role::Looking {
            let ms = i64::try_from(ms).unwrap_or(0);
            self.silent.counted_ms = self.silent.counted_ms.saturating_add(ms);
        }
    }

    /// Notes the end of a connection, unless its session has moved to another one.
    pub(crate) fn note_hang_up(&mut self, gone: &Client) {
        if let Some(known) = self.state.session(gone.session)
            && self.is_at(known, gone)
        {
            self.silent.insert(gone.session, known.generation, gone.active_ms, true);
        }
    }

    /// Notes sessions that a command of this server has begun or resumed after its client hung up.
    pub(super) fn note_hung_up_early(&mut self, number: ProposalNumber, changes: &[Change]) {
        let client = self.proposals.connection_of(number);
        if client.is_some_and(|client| self.connections.contains_key(&client)) {
            return;
        }
        for change in changes {
            if let Change::SessionOpened(session) | Change::SessionResumed { session, .. } = change
                && let Some(known) = self.state.session(*session)
            {
                let active_ms = self.silent.now_ms();
                self.silent.insert(*session, known.generation, active_ms, true);
            }
        }
    }

    /// A session was resumed.
    pub(super) fn forget_old_silence(&mut self, session: SessionId) {
        if let Some(known) = self.state.session(session) {
            self.silent.forget_before(session, known.generation);
        }
    }

    /// Returns the silence of a session whose client is connected here, or whose connection has ended;
    /// zero for any other session.
    pub(super) fn silence_of(&self, session: SessionId, known: &Session) -> u64 {
        let ended = self.silent.ended.get(&session);
        if let Some(ended) = ended.filter(|it| it.generation == known.generation) {
            return self.silent.since(ended.active_ms);
        }
        let connection = self.sessions.get(&session).and_then(|at| self.connections.get(at));
        connection
            .filter(|client| self.is_at(known, client) && client.awaits_nothing())
            .map_or(0, |client| self.silent.since(client.active_ms))
    }

    /// Whether a session is at this connection of this server, according to the state.
    fn is_at(&self, known: &Session, client: &Client) -> bool {
        known.owner == self.owner() && known.attachment == client.attachment
    }

    /// Takes reports of other servers.
    pub(crate) fn on_silences(&mut self, silences: &[Silence]) {
        self.spend(silences.len());
        for report in silences {
            let Some(known) = self.state.session(report.session).copied() else { continue };
            if report.has_ended && report.generation >= known.generation {
                self.silent.learn(report);
            }
            let is_current =
                report.generation == known.generation || planted!("silence-outlives-a-resume");
            if is_current && self.role == Role::Leader {
                self.grant_early(report.session);
                // The touch of an open connection may be on its way for half a tick.
                let late_ms = if report.has_ended { 0 } else { self.options.tick_ms / 2 };
                let silence_ms = report.silence_ms.saturating_sub(late_ms);
                let from_ms = self.active_before_takeover(silence_ms, known.timeout_ms);
                self.expiry.carry(report.session, from_ms);
            }
        }
    }

    /// Returns the moment from which a new leader counts the timeout of a session with this silence. At
    /// least the grace of a new leader is left.
    pub(super) fn active_before_takeover(&self, silence_ms: u64, timeout_ms: i32) -> u64 {
        let timeout_ms = u64::try_from(timeout_ms).unwrap_or(0);
        self.takeover_from_ms().saturating_sub(silence_ms.min(timeout_ms))
    }

    /// Returns sessions whose connections have ended, oldest reports first; without `all`, only those that
    /// were connected to this server.
    pub fn ended_connections(&self, after: u64, all: bool) -> Silences<u64> {
        let mut some = Silences { after, ..Silences::default() };
        let (mut left, silent) = (Input::SESSIONS_MAX, &self.silent);
        for (number, session) in silent.order.range(after.saturating_add(1)..) {
            if left == 0 {
                some.has_more = true;
                break;
            }
            (left, some.after) = (left - 1, *number);
            let known = silent.ended.get(session).filter(|known| known.is_own || all);
            some.silences.extend(known.map(|known| Silence {
                session: *session,
                generation: known.generation,
                silence_ms: silent.since(known.active_ms),
                has_ended: true,
            }));
        }
        some
    }

    /// Returns this server's clients that have been silent for more than half of their timeouts, by their
    /// connections.
    pub fn silent_connections(&self, after: ConnectionId) -> Silences<ConnectionId> {
        let mut some = Silences { silences: Vec::new(), after, has_more: false };
        let mut left = Input::SESSIONS_MAX;
        for (connection, client) in self.connections.range(ConnectionId(after.0 + 1)..) {
            if left == 0 {
                some.has_more = true;
                break;
            }
            (left, some.after) = (left - 1, *connection);
            let silence_ms = self.silent.since(client.active_ms);
            let half_ms = u64::try_from(client.timeout_ms / 2).unwrap_or(0);
            if silence_ms <= half_ms || !client.awaits_nothing() {
                continue;
            }
            let known = self.state.session(client.session);
            let known = known.filter(|known| self.is_at(known, client));
            some.silences.extend(known.map(|known| Silence {
                session: client.session,
                generation: known.generation,
                silence_ms,
                has_ended: false,
            }));
        }
        some
    }
}
