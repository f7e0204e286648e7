//! How long a server waits for a leader that is silent, on a machine that is short of processor time.
//!
//! A server that is scheduled late sends late and reads late, so on a starved machine a silent leader is
//! mostly a late one. [`Patience`] measures two things:
//!
//! - The time in which this server ran: a suspension of any length counts as two ticks of the supervisor.
//!   The silence of a leader is measured in this time, because the messages of a suspension wait in the
//!   sockets at its end.
//! - The recent delays of this server's ticks and of one leader's messages. A server waits for twice the
//!   second-longest of them beyond the lease. The longest alone does not count, so that one suspension
//!   does not slow the next elections down.
//!
//! The clock bounds both: without the longest suspension, a silence of `sync_limit` is too long,
//! as it is for Apache ZooKeeper.
//!
//! Meanwhile the server begins no election and grants no vote (`docs/decisions/0031-patience.md`). The
//! leases and the limits of age stay on the clock: nothing is served for longer.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use zoolet_replica::Term;

use super::options::Timing;

/// The time in which the weight of a delay halves.
const HALF_LIFE: Duration = Duration::from_secs(5);

/// The patience is this many times the second-longest delay, and at most `sync_limit` divided by
/// `LIMIT_PART`.
const DELAYS: u32 = 2;
const LIMIT_PART: u32 = 4;

/// The patience of a server. It starts without any.
#[derive(Debug)]
pub(super) struct Patience {
    tick: Duration,
    heartbeat: Duration,
    lease: Duration,
    max: Duration,
    sync_limit: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// When the server was last known to run, and how long it had run by then.
    last: Option<Instant>,
    ran: Duration,
    /// The two longest delays by their weights, and when each was seen.
    delays: [Option<(Duration, Instant)>; 2],
    message: Option<LeaderMessage>,
    /// The longest suspension since then.
    suspended: Duration,
    /// The last term whose leader is gone or hands over.
    waived: Option<Term>,
}

/// The last message of a leader.
#[derive(Clone, Copy, Debug)]
struct LeaderMessage {
    term: Term,
    at: Instant,
    /// How long this server had run by then.
    ran: Duration,
}

impl Patience {
    pub(super) fn new(timing: &Timing) -> Self {
        Self {
            tick: timing.heartbeat / 2,
            heartbeat: timing.heartbeat,
            lease: timing.election_max,
            max: timing.sync_limit / LIMIT_PART,
            sync_limit: timing.sync_limit,
            state: Mutex::default(),
        }
    }

    /// Notes that the server runs. The supervisor calls this at least once per tick, so a longer pause
    /// is a delay.
    pub(super) fn runs(&self, now: Instant) {
        let mut state = self.lock();
        let pause = state.pause(now);
        state.ran = self.ran(&state, now);
        state.last = Some(now);
        state.suspended = state.suspended.max(pause);
        state.note(now, pause.saturating_sub(self.tick));
    }

    /// Notes a message of the leader of `term`.
    pub(super) fn note_message(&self, now: Instant, term: Term) {
        let mut state = self.lock();
        let ran = self.ran(&state, now);
        let before = state.message.replace(LeaderMessage { term, at: now, ran });
        state.suspended = Duration::ZERO;
        if let Some(before) = before.filter(|before| before.term == term) {
            state.note(now, ran.saturating_sub(before.ran).saturating_sub(self.heartbeat));
        }
    }

    /// Notes that the leader of `term` is gone or hands over: nothing waits for it.
    pub(super) fn waive(&self, term: Term) {
        let mut state = self.lock();
        state.waived = state.waived.max(Some(term));
    }

    /// Returns the present patience beyond the lease.
    pub(super) fn length(&self, now: Instant) -> Duration {
        if planted!("starved-servers-are-impatient") {
            return Duration::ZERO;
        }
        let weights = self.lock().delays.map(|delay| weight(delay, now));
        (DELAYS * weights[0].min(weights[1])).min(self.max)
    }

    /// Returns whether this server, a follower, still waits for the leader of `term`, and `longer` than
    /// the others.
    pub(super) fn trusts(&self, now: Instant, term: Term, longer: Duration) -> bool {
        let limit = self.lease(now) + longer;
        let state = self.lock();
        let is_waived = state.waived.is_some_and(|waived| waived >= term);
        let Some(message) = state.message.filter(|message| message.term == term && !is_waived)
        else {
            return false;
        };
        let suspended = state.suspended.max(state.pause(now));
        let awake = now.saturating_duration_since(message.at).saturating_sub(suspended);
        let silence = self.ran(&state, now).saturating_sub(message.ran);
        silence < limit && awake < self.sync_limit && !planted!("starved-servers-are-impatient")
    }

    /// Returns for how long a leader waits for a majority that is silent.
    pub(super) fn lease(&self, now: Instant) -> Duration {
        self.lease + self.length(now)
    }

    /// How long the server has run until now.
    fn ran(&self, state: &State, now: Instant) -> Duration {
        state.ran + state.pause(now).min(2 * self.tick)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The time since the server was last known to run.
    fn pause(&self, now: Instant) -> Duration {
        self.last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last))
    }

    fn note(&mut self, now: Instant, delay: Duration) {
        let [one, other] = self.delays;
        let (lesser, greater) =
            if weight(one, now) < weight(other, now) { (one, other) } else { (other, one) };
        if delay > weight(lesser, now) {
            self.delays = [greater, Some((delay, now))];
        }
    }
}

/// Returns the present weight of a delay: the half of it for each half-life that has passed.
fn weight(delay: Option<(Duration, Instant)>, now: Instant) -> Duration {
    let Some((delay, at)) = delay else { return Duration::ZERO };
    let half_lives = now.saturating_duration_since(at).as_millis() / HALF_LIFE.as_millis();
    delay / 2_u32.pow(u32::try_from(half_lives.min(16)).unwrap_or(16))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const TERM: Term = Term(7);

    /// A server whose clock the test moves; its supervisor ticks every 50 ms.
    struct Server {
        patience: Patience,
        now: Instant,
    }

    impl Server {
        fn new() -> Self {
            let timing = Timing::from_tick(Duration::from_secs(2));
            assert_eq!((timing.heartbeat, timing.election_max), (100 * MS, 500 * MS));
            let server = Self { patience: Patience::new(&timing), now: Instant::now() };
            server.patience.runs(server.now);
            server
        }

        fn ticks(&mut self, count: u32) {
            for _ in 0..count {
                self.now += 50 * MS;
                self.patience.runs(self.now);
            }
        }

        /// The server is suspended for this time, and its next tick comes that much late.
        fn is_suspended(&mut self, time: Duration) {
            self.now += 50 * MS + time;
            self.patience.runs(self.now);
        }

        fn note_message(&self, term: Term) {
            self.patience.note_message(self.now, term);
        }

        fn length(&self) -> Duration {
            self.patience.length(self.now)
        }

        fn trusts(&self, term: Term) -> bool {
            self.patience.trusts(self.now, term, Duration::ZERO)
        }
    }

    #[test]
    fn a_server_that_runs_on_time_waits_for_the_lease_alone() {
        let mut server = Server::new();
        assert!(!server.trusts(TERM), "a leader without a message");
        server.note_message(TERM);
        server.ticks(9);
        assert!(server.trusts(TERM) && !server.trusts(Term(8)));
        server.ticks(1);
        assert!(!server.trusts(TERM));
        assert_eq!(server.length(), Duration::ZERO);
    }

    /// The leader's messages of that time wait in the sockets.
    #[test]
    fn the_silence_of_a_leader_does_not_count_while_the_server_is_suspended() {
        let mut server = Server::new();
        server.note_message(TERM);
        server.ticks(2);
        server.now += 12_000 * MS;
        assert!(server.trusts(TERM), "also before the tick that notices");
        server.patience.runs(server.now);
        assert!(server.trusts(TERM));
        assert_eq!(server.length(), Duration::ZERO, "once alone does not count");
        server.ticks(5);
        assert!(server.trusts(TERM));
        server.ticks(1);
        assert!(!server.trusts(TERM), "two ticks, the suspension as two ticks, and six");
    }

    /// Such a server runs for 100 ms per second by its own count, and waited for half a minute.
    #[test]
    fn a_server_that_hardly_runs_waits_for_sync_limit_at_most() {
        let mut server = Server::new();
        server.note_message(TERM);
        for _ in 0..10 {
            assert!(server.trusts(TERM));
            server.is_suspended(950 * MS);
        }
        assert!(server.trusts(TERM), "9 s, and the longest suspension");
        server.is_suspended(950 * MS);
        assert!(!server.trusts(TERM));
    }

    #[test]
    fn patience_is_twice_the_second_longest_delay_and_halves_every_five_seconds() {
        let mut server = Server::new();
        for delay in [900, 100, 300, 200] {
            server.is_suspended(delay * MS);
        }
        assert_eq!(server.length(), 600 * MS);
        server.note_message(TERM);
        server.ticks(21);
        assert!(server.trusts(TERM), "1,050 ms");
        server.ticks(1);
        assert!(!server.trusts(TERM), "1,100 ms");
        server.ticks(90);
        assert_eq!(server.length(), 300 * MS);
        server.is_suspended(200 * MS);
        assert_eq!(server.length(), 400 * MS, "longer than the weight that was left");
        server.ticks(2_000);
        assert!(server.length() < MS);
    }

    #[test]
    fn patience_has_a_limit() {
        let mut server = Server::new();
        server.is_suspended(12_000 * MS);
        server.is_suspended(12_000 * MS);
        assert_eq!(server.length(), 2_500 * MS, "a quarter of syncLimit");
    }

    #[test]
    fn late_messages_of_one_leader_make_patient_and_the_pause_between_two_leaders_does_not() {
        let mut server = Server::new();
        let mut after_message = |ticks, term| {
            server.ticks(ticks);
            server.note_message(term);
            server.length()
        };
        after_message(0, TERM);
        after_message(2, TERM);
        assert_eq!(after_message(20, Term(8)), Duration::ZERO, "another leader");
        assert_eq!(after_message(8, Term(8)), Duration::ZERO, "300 ms late, once");
        assert_eq!(after_message(6, Term(8)), 400 * MS, "200 ms late");
    }

    #[test]
    fn nothing_waits_for_a_leader_that_is_gone() {
        let server = Server::new();
        server.note_message(TERM);
        assert_eq!(server.patience.lease(server.now), 500 * MS);
        assert!(server.trusts(TERM));
        server.patience.waive(TERM);
        assert!(!server.trusts(TERM));
        server.note_message(Term(8));
        assert!(server.trusts(Term(8)));
    }
}
