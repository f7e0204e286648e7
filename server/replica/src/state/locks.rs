//! Which locks are held and waited for, and for how long: figures for operators, of the znodes by
//! which Curator, kazoo, Go's `zk`, `ZooKeeper`'s own recipes and zoolet's client queue for a lock
//! (`docs/locks.md`).
//!
//! Nothing here decides anything. It follows from the tree and from the times in the log, so every
//! server comes to the same figures. Each such znode costs a few searches in short maps when it comes
//! and when it goes; all others cost a look at the end of their names.

use std::collections::{BTreeMap, BTreeSet};

use super::lock_name::LockName;
use super::znode::ZnodeId;

/// The most events that wait to be taken; a server takes them behind each command.
const EVENTS_MAX: usize = 4096;

/// How many locks there are, now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockFigures {
    /// Locks and leaderships with a holder.
    pub held: usize,
    /// Those among them that somebody waits for.
    pub contended: usize,
    /// The places that wait in all of them.
    pub waiters: usize,
}

/// Something that has happened to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockEvent {
    /// A place was held for this number of milliseconds, and is given up.
    Held(u64),
    /// A place holds the lock that waited for it for this number of milliseconds.
    Waited(u64),
    /// The place that held was not given up: its session has expired.
    Expired,
    /// The end of a hold has given the lock to those who waited for it.
    HandedOver,
}

/// A place in a queue.
#[derive(Clone, Copy, Debug)]
struct Place {
    id: u64,
    created_ms: i64,
    /// Unknown for one that has held since before this server has read the state.
    held_since_ms: Option<i64>,
}

/// The queue of one lock.
#[derive(Clone, Debug, Default)]
struct Queue {
    // Invariant: never empty between two changes.
    places: BTreeMap<u64, Place>,
    exclusive: BTreeSet<u64>,
    // Invariant: the places that do not hold.
    waiting: BTreeSet<u64>,
}

/// The queues of all locks, by the znode that they are below.
#[derive(Clone, Debug, Default)]
pub(super) struct Locks {
    queues: BTreeMap<ZnodeId, Queue>,
    // Invariant: the sums over all queues.
    contended: usize,
    waiters: usize,
    /// The time of the command that is applied; none while a state is put together, where the order
    /// of its znodes means nothing.
    now_ms: Option<i64>,
    /// Whether that command ends a session that has expired.
    is_expiry: bool,
    /// What a transaction has done so far.
    undecided: Option<Vec<Move>>,
    events: Vec<LockEvent>,
}

/// A place that comes or goes.
#[derive(Clone, Copy, Debug)]
enum Move {
    Come(ZnodeId, LockName, i64),
    Go(ZnodeId, LockName),
}

impl Locks {
    /// Notes the time of the command that is applied next, and whether it ends a session that has
    /// expired.
    pub(super) fn begin_command(&mut self, now_ms: i64, is_expiry: bool) {
        (self.now_ms, self.is_expiry) = (Some(now_ms), is_expiry);
    }

    /// Decides who holds, once all places of a state are there.
    pub(super) fn settle(&mut self) {
        for queue in self.queues.values_mut() {
            queue.grant(None, &mut self.events);
        }
        (self.contended, self.waiters) = (0, 0);
        for queue in self.queues.values() {
            self.contended += usize::from(!queue.waiting.is_empty());
            self.waiters += queue.waiting.len();
        }
        self.events = Vec::new();
    }

    /// A transaction begins, which may be undone.
    pub(super) fn begin(&mut self) {
        self.undecided = Some(Vec::new());
    }

    /// The transaction is undone, by moves that are not noted either.
    pub(super) fn roll_back(&mut self) {
        self.undecided = None;
    }

    /// The transaction is done.
    pub(super) fn commit(&mut self) {
        for next in self.undecided.take().into_iter().flatten() {
            self.make(next);
        }
    }

    /// A place comes.
    pub(super) fn come(&mut self, lock: ZnodeId, name: LockName, created_ms: i64) {
        self.note(Move::Come(lock, name, created_ms));
    }

    /// A place goes.
    pub(super) fn go(&mut self, lock: ZnodeId, name: LockName) {
        self.note(Move::Go(lock, name));
    }

    /// Takes the events that were noted.
    pub(super) fn take_events(&mut self) -> Vec<LockEvent> {
        std::mem::take(&mut self.events)
    }

    pub(super) fn figures(&self) -> LockFigures {
        let Self { queues, contended, waiters, .. } = self;
        LockFigures { held: queues.len(), contended: *contended, waiters: *waiters }
    }

    fn note(&mut self, next: Move) {
        match &mut self.undecided {
            Some(undecided) => undecided.push(next),
            None => self.make(next),
        }
    }

    fn make(&mut self, next: Move) {
        let lock = match next {
            Move::Come(lock, ..) | Move::Go(lock, _) => lock,
        };
        let queue = self.queues.entry(lock).or_default();
        let before = queue.waiting.len();
        let has_ended = match next {
            Move::Come(_, name, created_ms) => {
                queue.come(name, created_ms);
                false
            }
            Move::Go(_, name) => queue.go(name, self.now_ms, &mut self.events),
        };
        if has_ended && self.is_expiry {
            self.events.push(LockEvent::Expired);
        }
        if self.now_ms.is_some() {
            queue.grant(self.now_ms, &mut self.events);
        }
        let after = queue.waiting.len();
        if has_ended && after < before {
            self.events.push(LockEvent::HandedOver);
        }
        self.waiters = self.waiters.saturating_sub(before) + after;
        let was_contended = usize::from(before > 0);
        self.contended = self.contended.saturating_sub(was_contended) + usize::from(after > 0);
        if queue.places.is_empty() {
            self.queues.remove(&lock);
        }
        self.events.truncate(EVENTS_MAX);
    }
}

impl Queue {
    fn come(&mut self, name: LockName, created_ms: i64) {
        let (key, id) = (name.order(), name.id());
        let has_exclusive = self.places.contains_key(&name.order_of_exclusive());
        let id_before = self.places.range(..key).next_back().map(|(_, place)| place.id);
        if name.is_part_of_another(has_exclusive, id_before) {
            return;
        }
        self.places.insert(key, Place { id, created_ms, held_since_ms: None });
        self.waiting.insert(key);
        if !name.is_shared() {
            self.exclusive.insert(key);
        }
    }

    /// Removes a place. Returns whether it held.
    fn go(&mut self, name: LockName, now_ms: Option<i64>, events: &mut Vec<LockEvent>) -> bool {
        let Some(place) = self.places.remove(&name.order()) else { return false };
        self.exclusive.remove(&name.order());
        if self.waiting.remove(&name.order()) {
            return false;
        }
        if let (Some(since_ms), Some(now_ms)) = (place.held_since_ms, now_ms) {
            events.push(LockEvent::Held(elapsed(since_ms, now_ms)));
        }
        true
    }

    /// Gives the lock to the first place, or to all readers before the first place that excludes
    /// others. Each place gets it once.
    fn grant(&mut self, now_ms: Option<i64>, events: &mut Vec<LockEvent>) {
        let first_exclusive = self.exclusive.first().copied().unwrap_or(u64::MAX);
        let first = self.places.first_key_value().map(|(key, _)| *key);
        let is_granted = |key: u64| key < first_exclusive || Some(key) == first;
        while let Some(key) = self.waiting.first().copied().filter(|key| is_granted(*key)) {
            self.waiting.remove(&key);
            let Some(place) = self.places.get_mut(&key) else { continue };
            place.held_since_ms = now_ms;
            if let Some(now_ms) = now_ms {
                events.push(LockEvent::Waited(elapsed(place.created_ms, now_ms)));
            }
        }
    }
}

/// The clocks of two leaders may differ.
fn elapsed(since_ms: i64, now_ms: i64) -> u64 {
    u64::try_from(now_ms.saturating_sub(since_ms)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: ZnodeId = ZnodeId(7);
    const UUID: &str = "_c_0f8fad5b-d9cb-469f-a165-70867728950e-";
    const HEX: &str = "0f8fad5bd9cb469fa16570867728950e";

    /// Locks at a time.
    fn locks() -> Locks {
        let mut locks = Locks::default();
        locks.settle();
        locks.begin_command(0, false);
        locks
    }

    fn name(text: &str) -> LockName {
        LockName::parse(text).unwrap_or_else(|| panic!("{text}"))
    }

    fn other(mark: &str, number: i32) -> LockName {
        name(&format!("_c_{number:08x}-0000-4000-8000-000000000000-{mark}{number:010}"))
    }

    /// A place comes or goes at a time; returns what happens by it.
    fn step(locks: &mut Locks, at_ms: i64, comes: bool, name: LockName) -> Vec<LockEvent> {
        locks.begin_command(at_ms, false);
        if comes {
            locks.come(LOCK, name, at_ms);
        } else {
            locks.go(LOCK, name);
        }
        locks.take_events()
    }

    #[test]
    fn the_names_of_places_are_known_and_no_others() {
        for (text, number) in [
            (format!("{UUID}lock-0000000012"), 12),
            (format!("{HEX}__lock__0000000012"), 12),
            (format!("{UUID}latch-2147483647"), i32::MAX),
            (format!("{UUID}lock--2147483648"), i32::MIN),
            (format!("{HEX}__lock__-1999999999"), -1_999_999_999),
            (format!("{UUID}lock--000000001"), -1),
            ("x-72057594037927936-0000000007".into(), 7),
            ("x--72057594037927936--2147483648".into(), i32::MIN),
            ("x-0100000000000000-0000000008".into(), 8),
        ] {
            let expected = u64::from(number.cast_unsigned()) << 1;
            assert_eq!(name(&text).order(), expected, "{text}");
        }
        assert_eq!(name(&format!("{UUID}__READ__0000000003")).order(), 7);
        assert_eq!(name(&format!("{UUID}lock-0000000001")).id(), 0x0f8f_ad5b_d9cb_469f);
        assert_eq!(name(&format!("{HEX}__lock__0000000001")).id(), 0x0f8f_ad5b_d9cb_469f);
        for text in [
            "",
            "lock-",
            "lock-000000001",
            "lease-0000000001",
            "a0000000001",
            "é000000001",
            "x-0000000001",
            "x--0000000001",
            "x-abc-0000000001",
        ] {
            assert_eq!(LockName::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_mutex_is_held_and_waited_for() {
        let mut locks = locks();
        let [a, b, c] = [1, 2, 3].map(|number| other("lock-", number));
        assert_eq!(step(&mut locks, 100, true, a), [LockEvent::Waited(0)]);
        assert_eq!(step(&mut locks, 110, true, b), []);
        assert_eq!(step(&mut locks, 120, true, c), []);
        assert_eq!(locks.figures(), LockFigures { held: 1, contended: 1, waiters: 2 });
        // One that gives up while it waits has neither waited for it nor held it.
        assert_eq!(step(&mut locks, 130, false, b), []);
        let passed_on = [LockEvent::Held(50), LockEvent::Waited(30), LockEvent::HandedOver];
        assert_eq!(step(&mut locks, 150, false, a), passed_on);
        assert_eq!(locks.figures(), LockFigures { held: 1, contended: 0, waiters: 0 });
        assert_eq!(step(&mut locks, 155, false, c), [LockEvent::Held(5)]);
        assert_eq!(locks.figures(), LockFigures::default());
    }

    #[test]
    fn readers_hold_together_and_a_writer_alone() {
        let mut locks = locks();
        let (reader, writer) = ("__READ__", "__WRIT__");
        let places = [(reader, 1), (reader, 2), (writer, 3), (reader, 4), (reader, 5)]
            .map(|(mark, number)| other(mark, number));
        for place in places {
            step(&mut locks, 0, true, place);
        }
        assert_eq!(locks.figures(), LockFigures { held: 1, contended: 1, waiters: 3 });
        assert_eq!(step(&mut locks, 1, false, places[0]), [LockEvent::Held(1)]);
        let written = step(&mut locks, 2, false, places[1]);
        assert_eq!(written, [LockEvent::Held(2), LockEvent::Waited(2), LockEvent::HandedOver]);
        let read = step(&mut locks, 9, false, places[2]);
        let (waited, once) = (LockEvent::Waited(9), LockEvent::HandedOver);
        assert_eq!(read, [LockEvent::Held(7), waited, waited, once]);
        assert_eq!(locks.figures().waiters, 0);
    }

    /// The end of a session deletes the places of holders and of those who wait alike.
    #[test]
    fn only_holders_whose_session_expires_are_counted_as_expired() {
        let mut locks = locks();
        let [a, b, c] = [1, 2, 3].map(|number| other("lock-", number));
        for place in [a, b, c] {
            step(&mut locks, 0, true, place);
        }
        locks.begin_command(7, true);
        locks.go(LOCK, b);
        assert_eq!(locks.take_events(), [], "it has waited");
        locks.go(LOCK, a);
        let [held, waited] = [LockEvent::Held(7), LockEvent::Waited(7)];
        let passed_on = [held, LockEvent::Expired, waited, LockEvent::HandedOver];
        assert_eq!(locks.take_events(), passed_on);
        assert_eq!(step(&mut locks, 9, false, c), [LockEvent::Held(2)], "it was given up");
    }

    #[test]
    fn a_lock_for_two_families_is_one_place() {
        let mut locks = locks();
        step(&mut locks, 0, true, name(&format!("{UUID}lock-0000000001")));
        step(&mut locks, 0, true, name(&format!("{HEX}__lock__0000000002")));
        assert_eq!(locks.figures(), LockFigures { held: 1, contended: 0, waiters: 0 });
        step(&mut locks, 1, false, name(&format!("{HEX}__lock__0000000002")));
        assert_eq!(locks.figures().held, 1);
        step(&mut locks, 1, false, name(&format!("{UUID}lock-0000000001")));
        assert_eq!(locks.figures(), LockFigures::default());
    }

    #[test]
    fn a_transaction_that_is_undone_has_no_part_in_it() {
        let mut locks = locks();
        let [a, b] = [1, 2].map(|number| other("lock-", number));
        step(&mut locks, 0, true, a);
        step(&mut locks, 0, true, b);
        locks.begin();
        assert_eq!(step(&mut locks, 5, false, a), []);
        assert_eq!(step(&mut locks, 5, true, a), [], "the way back");
        locks.roll_back();
        assert_eq!(locks.figures().waiters, 1);
        locks.begin();
        locks.go(LOCK, a);
        locks.commit();
        let passed_on = [LockEvent::Held(5), LockEvent::Waited(5), LockEvent::HandedOver];
        assert_eq!(locks.take_events(), passed_on);
    }

    #[test]
    fn places_that_were_read_in_any_order_wait_for_the_first() {
        let mut locks = Locks::default();
        for number in [3, 1, 2] {
            locks.come(LOCK, other("lock-", number), 10);
        }
        locks.settle();
        assert_eq!(locks.figures(), LockFigures { held: 1, contended: 1, waiters: 2 });
        assert_eq!(locks.take_events(), [], "since when it is held is not known");
        let passed_on = step(&mut locks, 30, false, other("lock-", 1));
        assert_eq!(passed_on, [LockEvent::Waited(20), LockEvent::HandedOver]);
    }
}
