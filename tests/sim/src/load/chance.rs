//! The one source of chance of a load.

use std::ops::RangeInclusive;
use std::time::Duration;

/// A seeded generator: the same seed and the same questions give the same answers.
#[derive(Clone, Debug)]
pub struct Chance {
    rng: fastrand::Rng,
}

impl Chance {
    /// A generator for one purpose of a run: two purposes of one seed have nothing in common.
    pub fn new(seed: u64, purpose: u64) -> Self {
        let mut mixed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ purpose;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        Self { rng: fastrand::Rng::with_seed(mixed ^ (mixed >> 27)) }
    }

    /// A generator of its own for a part, which asks as often as it likes without an effect on others.
    pub fn fork(&mut self) -> Self {
        Self { rng: fastrand::Rng::with_seed(self.rng.u64(..)) }
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.rng.u64(..)
    }

    /// A number of a range; its begin if it is empty.
    pub fn between(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (first, last) = range.into_inner();
        if first < last { self.rng.u64(first..=last) } else { first }
    }

    /// A place of a list of this length; 0 if it is empty.
    pub fn place(&mut self, length: usize) -> usize {
        if length > 1 { self.rng.usize(..length) } else { 0 }
    }

    /// True once in so often; never for 0.
    pub fn one_in(&mut self, times: u64) -> bool {
        times > 0 && self.rng.u64(..times) == 0
    }

    /// One of a list.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.place(items.len()))
    }

    /// One of a list, each as often as its weight says.
    pub fn weighted<T: Copy>(&mut self, items: &[(T, u32)]) -> Option<T> {
        let total: u64 = items.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let mut at = self.between(0..=total.checked_sub(1)?);
        for (item, weight) in items {
            match at.checked_sub(u64::from(*weight)) {
                Some(rest) => at = rest,
                None => return Some(*item),
            }
        }
        None
    }

    /// A span of whole milliseconds, from 0 to the given one.
    pub fn up_to(&mut self, most: Duration) -> Duration {
        let most = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(self.between(0..=most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_and_a_purpose_others() {
        let numbers = |seed, purpose| {
            let mut chance = Chance::new(seed, purpose);
            std::iter::repeat_with(move || chance.number()).take(8).collect::<Vec<_>>()
        };
        assert_eq!(numbers(7, 1), numbers(7, 1));
        assert_ne!(numbers(7, 1), numbers(7, 2));
        assert_ne!(numbers(7, 1), numbers(8, 1));
    }

    #[test]
    fn weights_decide_how_often_and_zero_means_never() {
        let mut chance = Chance::new(1, 0);
        let mut drawn = [0; 3];
        for _ in 0..4000 {
            drawn[chance.weighted(&[(0_usize, 1), (1, 0), (2, 3)]).unwrap()] += 1;
        }
        assert_eq!(drawn[1], 0);
        assert!(drawn[2] > 2 * drawn[0] && drawn[0] > 500, "{drawn:?}");
        assert_eq!(chance.weighted(&[(0, 0)]), None::<i32>);
        assert_eq!(chance.weighted::<i32>(&[]), None);
    }

    #[test]
    fn empty_ranges_and_lists_are_no_panic() {
        let mut chance = Chance::new(1, 0);
        #[allow(clippy::reversed_empty_ranges, reason = "an empty range is what is tested")]
        let empty = 5..=4;
        assert_eq!(chance.between(empty), 5);
        assert_eq!(chance.between(0..=0), 0);
        assert_eq!(chance.place(0), 0);
        assert_eq!(chance.pick::<u8>(&[]), None);
        assert!(!chance.one_in(0));
        assert!(chance.between(0..=u64::MAX) > 0);
    }
}
