//! What happens when: a function of the seed and the settings alone.

use std::fmt;
use std::time::Duration;

use crate::random::Random;
use crate::sequence_offset::SequenceOffset;
use crate::servers::ServerFault;

/// More locks than a run has: the number is taken modulo theirs.
const LOCKS_DRAWN: usize = 1 << 16;
/// A queue near the end of its numbers has fewer left than this.
const NUMBERS_LEFT_MAX: u64 = 30;

/// What is done to a contender in the middle of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderFault {
    /// Its thread stands still for so long. It writes when it goes on, before it looks.
    Pause(Duration),
    /// Its connections are cut for so long, and it goes on writing.
    Cut(Duration),
    /// Its connections stay and nothing passes for so long, and it goes on writing.
    Silence(Duration),
    /// It is gone, without a word.
    Die,
    /// The znode of its lock is deleted by hand, and it goes on writing.
    Delete,
}

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// To a contender, in its next grant of an exclusive lock.
    Holder(usize, HolderFault),
    /// To a contender, wherever it stands: most of its tasks wait.
    Anywhere(usize, HolderFault),
    /// The reply of a contender's request behind this many others is lost.
    LoseReply(usize, usize),
    /// The reply of a contender's delete behind this many other deletes is lost.
    LoseDeleteReply(usize, usize),
    /// The same of a contender's transactions.
    LoseTransactionReply(usize, usize),
    /// The same of the request itself.
    LoseRequest(usize, usize),
    /// All contenders are cut off for so long that their sessions expire.
    ExpireAll(Duration),
    /// The directories of the locks are deleted whenever they are empty, for so long, as a reaper
    /// of containers does; no contender begins a turn in the first half of it.
    Reap(Duration),
    /// The znode of one who waits for this lock, or for one behind it in the list, is deleted by hand.
    DeleteWaiter(usize),
    /// To a server, for so long.
    Server(usize, ServerFault, Duration),
    /// The leader is killed right when a lock is granted, and stays down for so long.
    KillLeaderAtGrant(Duration),
}

impl HolderFault {
    /// For how long.
    pub(crate) const fn long(self) -> Duration {
        match self {
            Self::Pause(long) | Self::Cut(long) | Self::Silence(long) => long,
            Self::Die | Self::Delete => Duration::ZERO,
        }
    }

    /// Its kind, of a contender wherever it stands.
    pub(crate) const fn kind(self) -> &'static str {
        match self {
            Self::Pause(_) => "paused",
            Self::Cut(_) => "cut off",
            Self::Silence(_) => "silenced",
            Self::Die => "killed",
            Self::Delete => "znode deleted",
        }
    }

    /// Its kind, in the middle of a grant.
    pub(crate) const fn kind_of_holder(self) -> &'static str {
        match self {
            Self::Pause(_) => "holder paused",
            Self::Cut(_) => "holder cut off",
            Self::Silence(_) => "holder silenced",
            Self::Die => "holder killed",
            Self::Delete => "holder's znode deleted",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holder(who, what) => write!(f, "holder {who}: {what:?}"),
            Self::Anywhere(who, what) => write!(f, "contender {who}: {what:?}"),
            Self::LoseReply(who, after) => write!(f, "contender {who}: reply {after} lost"),
            Self::LoseDeleteReply(who, after) => {
                write!(f, "contender {who}: reply of delete {after} lost")
            }
            Self::LoseTransactionReply(who, after) => {
                write!(f, "contender {who}: reply of transaction {after} lost")
            }
            Self::DeleteWaiter(lock) => write!(f, "a waiter of lock {lock} deleted"),
            Self::LoseRequest(who, after) => write!(f, "contender {who}: request {after} lost"),
            Self::ExpireAll(long) => write!(f, "all sessions expire ({long:?})"),
            Self::Reap(long) => write!(f, "directories reaped ({long:?})"),
            Self::Server(which, what, long) => write!(f, "server {which}: {what:?} ({long:?})"),
            Self::KillLeaderAtGrant(long) => write!(f, "leader killed at a grant ({long:?})"),
        }
    }
}

/// What a plan is made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// How long the faults go on.
    pub duration: Duration,
    /// How many contenders there are.
    pub contenders: usize,
    /// The session timeout that the servers grant.
    pub session_timeout: Duration,
    /// How many servers there are, and what can be done to them.
    pub servers: usize,
    /// The faults of servers that are wanted and possible.
    pub server_faults: Vec<ServerFault>,
    /// Whether contenders are hurt.
    pub client_faults: bool,
}

/// The schedule of a run: faults and when they begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// In the order of their beginning.
    pub steps: Vec<(Duration, Fault)>,
    /// What contenders see of sequence numbers: in a third of the plans that hurt contenders, every
    /// queue starts some numbers before 2³¹−1.
    pub offset: SequenceOffset,
}

/// Until when each contender and the servers are busy with a fault.
struct Busy {
    contenders: Vec<Duration>,
    servers: Duration,
}

impl Plan {
    /// The plan of a seed.
    pub fn new(seed: u64, frame: &Frame) -> Self {
        let mut random = Random::fork(seed, 1);
        let mut busy = Busy {
            contenders: vec![Duration::ZERO; frame.contenders],
            servers: frame.session_timeout / 2,
        };
        let mut steps = Vec::new();
        let mut now = frame.session_timeout / 4;
        while now < frame.duration {
            if let Some(fault) = draw(&mut random, frame, &mut busy, now) {
                steps.push((now, fault));
            }
            let timeout_ms = u64::try_from(frame.session_timeout.as_millis()).unwrap_or(u64::MAX);
            now += random.millis(timeout_ms / 20, timeout_ms / 3);
        }
        let offset = if frame.client_faults { offset(seed) } else { SequenceOffset::default() };
        Self { steps, offset }
    }

    /// Whether a server stands still or is cut off.
    pub fn pauses_servers(&self) -> bool {
        self.steps.iter().any(
            |(_, fault)| matches!(fault, Fault::Server(_, kind, _) if *kind != ServerFault::Kill),
        )
    }
}

fn offset(seed: u64) -> SequenceOffset {
    let mut random = Random::fork(seed, 2);
    if random.below(3) > 0 {
        return SequenceOffset::default();
    }
    let left = i32::try_from(random.below(NUMBERS_LEFT_MAX)).unwrap_or(0);
    SequenceOffset::to(i32::MAX - left)
}

fn draw(random: &mut Random, frame: &Frame, busy: &mut Busy, now: Duration) -> Option<Fault> {
    let timeout = frame.session_timeout;
    if !frame.server_faults.is_empty() && busy.servers <= now && random.chance(30) {
        let long = timeout.mul_f64(0.2) + random.millis(0, 1500);
        // The servers get some time in which all of them serve.
        busy.servers = now + long + timeout * 2;
        let kind = *frame.server_faults.get(random.index(frame.server_faults.len()))?;
        let server = random.index(frame.servers);
        return Some(if kind == ServerFault::Kill && random.chance(50) {
            Fault::KillLeaderAtGrant(long)
        } else {
            Fault::Server(server, kind, long)
        });
    }
    if !frame.client_faults {
        return None;
    }
    match random.below(100) {
        0..2 => return Some(Fault::ExpireAll(timeout.mul_f64(1.6))),
        2..6 => return Some(Fault::Reap(timeout / 2)),
        6..14 => return Some(Fault::DeleteWaiter(random.index(LOCKS_DRAWN))),
        _ => {}
    }
    let who = random.index(frame.contenders);
    let kind = random.below(100);
    let what = match kind {
        0..16 => return Some(Fault::LoseReply(who, random.index(24))),
        16..23 => return Some(Fault::LoseDeleteReply(who, random.index(4))),
        23..30 => return Some(Fault::LoseTransactionReply(who, random.index(4))),
        30..40 => return Some(Fault::LoseRequest(who, random.index(24))),
        40..65 => HolderFault::Pause(timeout.mul_f64(pause_factor(random))),
        65..78 => HolderFault::Cut(timeout.mul_f64(pause_factor(random))),
        78..84 => HolderFault::Silence(timeout.mul_f64(pause_factor(random))),
        84..92 => return Some(Fault::Holder(who, HolderFault::Delete)),
        _ => HolderFault::Die,
    };
    let idle = busy.contenders.iter().filter(|until| **until <= now).count();
    let until = busy.contenders.get_mut(who)?;
    // Two at least go on, or the other one of two, and take over from those that are stopped.
    if *until > now || idle <= 2.min(frame.contenders.saturating_sub(1)) {
        return None;
    }
    *until = now
        + match what {
            HolderFault::Pause(long) | HolderFault::Cut(long) | HolderFault::Silence(long) => long,
            HolderFault::Die | HolderFault::Delete => timeout,
        };
    Some(if random.chance(70) { Fault::Holder(who, what) } else { Fault::Anywhere(who, what) })
}

/// Of the session timeout: less than it takes to lose a lock, about as long, and far longer.
fn pause_factor(random: &mut Random) -> f64 {
    match random.below(10) {
        0..3 => 0.5,
        3..6 => 1.0,
        6..9 => 2.0,
        _ => 3.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Frame {
        Frame {
            duration: Duration::from_mins(2),
            contenders: 5,
            session_timeout: Duration::from_secs(2),
            servers: 3,
            server_faults: vec![ServerFault::Kill, ServerFault::Pause],
            client_faults: true,
        }
    }

    #[test]
    fn a_seed_is_a_schedule() {
        let plan = Plan::new(42, &frame());
        assert_eq!(plan, Plan::new(42, &frame()));
        assert_ne!(plan, Plan::new(43, &frame()));
        assert!(plan.steps.is_sorted_by_key(|(at, _)| *at));
    }

    #[test]
    fn a_third_of_the_seeds_starts_near_the_last_number() {
        let shifts = || (0..300).map(|seed| Plan::new(seed, &frame()).offset);
        let near = shifts().filter(|offset| !offset.is_none()).count();
        assert!((60..140).contains(&near), "{near}");
        let shown = |offset: SequenceOffset| offset.shown("lock-0000000030");
        assert!(
            shifts().all(|offset| offset.is_none() || shown(offset).starts_with("lock--21474836"))
        );
        let calm = Frame { client_faults: false, ..frame() };
        assert!((0..300).all(|seed| Plan::new(seed, &calm).offset.is_none()));
    }

    #[test]
    fn one_of_two_is_stopped() {
        let plan = Plan::new(1, &Frame { contenders: 2, ..frame() });
        let stopped = |fault: &Fault| matches!(fault, Fault::Holder(..) | Fault::Anywhere(..));
        assert!(plan.steps.iter().any(|(_, fault)| stopped(fault)));
    }

    #[test]
    fn two_minutes_have_every_kind_of_fault() {
        let plan = Plan::new(1, &frame());
        let has = |wanted: fn(&Fault) -> bool| plan.steps.iter().any(|(_, fault)| wanted(fault));
        assert!(has(|fault| matches!(fault, Fault::Holder(_, HolderFault::Pause(_)))));
        assert!(has(|fault| matches!(fault, Fault::Holder(_, HolderFault::Cut(_)))));
        assert!(has(|fault| matches!(fault, Fault::Holder(_, HolderFault::Silence(_)))));
        assert!(has(|fault| matches!(fault, Fault::Holder(_, HolderFault::Die))));
        assert!(has(|fault| matches!(fault, Fault::Anywhere(..))));
        assert!(has(|fault| matches!(fault, Fault::LoseReply(..))));
        assert!(has(|fault| matches!(fault, Fault::LoseRequest(..))));
        assert!(has(|fault| matches!(fault, Fault::LoseDeleteReply(..))));
        assert!(has(|fault| matches!(fault, Fault::LoseTransactionReply(..))));
        assert!(has(|fault| matches!(fault, Fault::DeleteWaiter(_))));
        assert!(has(|fault| matches!(fault, Fault::Holder(_, HolderFault::Delete))));
        assert!(has(|fault| matches!(fault, Fault::ExpireAll(_))));
        assert!(has(|fault| matches!(fault, Fault::Reap(_))));
        assert!(has(|fault| matches!(fault, Fault::Server(_, ServerFault::Kill, _))));
        assert!(has(|fault| matches!(fault, Fault::Server(_, ServerFault::Pause, _))));
        assert!(has(|fault| matches!(fault, Fault::KillLeaderAtGrant(_))));
        assert!(plan.pauses_servers());
    }
}
