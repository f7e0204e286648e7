//! How long work that blocks takes at the machine that has its step: a read of the log, a snapshot, a
//! number that must be durable.

use std::cell::RefCell;
use std::mem::swap;
use std::time::Duration;

use crate::chance::Chance;

thread_local! {
    /// That of the machine that has its step.
    static PRESENT: RefCell<Option<WorkPace>> = const { RefCell::new(None) };
}

/// How long work that blocks takes at a machine.
#[derive(Debug)]
pub(super) struct WorkPace {
    chance: Chance,
    /// In microseconds, at most; any time up to that.
    most_us: u64,
    /// For how long the disk does nothing yet.
    stalled_for: Duration,
}

impl WorkPace {
    /// Work takes no time.
    pub(super) fn new(chance: Chance) -> Self {
        Self { chance, most_us: 0, stalled_for: Duration::ZERO }
    }

    /// Work that begins now takes so long at most, behind the end of a stall.
    pub(super) fn set(&mut self, most_us: u64, stalled_for: Duration) {
        (self.most_us, self.stalled_for) = (most_us, stalled_for);
    }

    /// Carries out a step of its machine.
    pub(super) fn step(pace: &mut Option<Self>, step: impl FnOnce()) {
        PRESENT.with_borrow_mut(|present| swap(present, pace));
        step();
        PRESENT.with_borrow_mut(|present| swap(present, pace));
    }

    /// How long work that begins now takes.
    pub(super) fn takes() -> Duration {
        PRESENT.with_borrow_mut(|present| {
            present.as_mut().map_or(Duration::ZERO, |pace| match pace.most_us {
                0 => pace.stalled_for,
                most_us => pace.stalled_for + pace.chance.span_us((0, most_us)),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_what_the_machine_of_the_step_takes() {
        let mut pace = Some(WorkPace::new(Chance::of(1, "test")));
        let mut takes = |most_us, stalled_ms| {
            let mut took = Duration::MAX;
            if let Some(pace) = &mut pace {
                pace.set(most_us, Duration::from_millis(stalled_ms));
            }
            WorkPace::step(&mut pace, || took = WorkPace::takes());
            took
        };
        assert_eq!(takes(0, 0), Duration::ZERO);
        assert_eq!(takes(0, 7), Duration::from_millis(7));
        let (at_least, at_most) = (Duration::from_millis(7), Duration::from_millis(17));
        let slow = [takes(10_000, 7), takes(10_000, 7), takes(10_000, 7)];
        assert!(slow.iter().all(|took| (at_least..=at_most).contains(took)), "{slow:?}");
        assert_ne!(slow[0], slow[1]);
        assert_eq!(WorkPace::takes(), Duration::ZERO, "outside of a step");
    }
}
