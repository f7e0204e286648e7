//! Numbers that a seed decides, the same on every machine.

use std::time::Duration;

/// A generator (`SplitMix64`): it decides schedules, so it needs no secret and no long period.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The generator of a seed.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A generator of its own for a purpose, so that one does not disturb the others.
    pub fn fork(seed: u64, purpose: u64) -> Self {
        let mut mixed = Self::new(seed ^ purpose.wrapping_mul(0xA24B_AED4_963E_E407));
        let state = mixed.next();
        Self { state }
    }

    /// The next 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 when that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next().checked_rem(end).unwrap_or(0)
    }

    /// An index below `end`; 0 when that is 0.
    pub fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(u64::try_from(end).unwrap_or(u64::MAX))).unwrap_or(0)
    }

    /// Whether an event of `percent` percent happens.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A time between two, in whole milliseconds.
    pub fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to.saturating_sub(from) + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_and_purposes_give_others() {
        let numbers = |mut random: Random| (0..8).map(|_| random.below(1000)).collect::<Vec<_>>();
        assert_eq!(numbers(Random::fork(7, 1)), numbers(Random::fork(7, 1)));
        assert_ne!(numbers(Random::fork(7, 1)), numbers(Random::fork(7, 2)));
        assert_ne!(numbers(Random::fork(7, 1)), numbers(Random::fork(8, 1)));
        assert_eq!(Random::new(1).below(0), 0);
    }
}
