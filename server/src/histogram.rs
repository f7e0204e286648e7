//! How values are distributed, in a fixed amount of memory: the figures of the metrics that are
//! summaries or histograms.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The buckets of each power of two (three bits): a quantile is at most an eighth too high.
const BUCKETS_PER_POWER: usize = 8;
const BUCKET_BITS: u32 = 3;

/// Values above this count as this: two weeks in microseconds.
const VALUE_MAX: u64 = (1 << 40) - 1;

/// Values below eight have a bucket each; then come the powers of two from the third to the 39th.
const BUCKETS: usize = BUCKETS_PER_POWER * 38;

/// The bounds that histograms of other servers have too: 1, 2, 4 and so on, up to 2³¹.
const BOUNDS: usize = 32;

/// Counts values by their size.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    buckets: Box<[u64; BUCKETS]>,
    /// The values up to each power of two, and above the one before it. The largest are in none.
    up_to_power: [u64; BOUNDS],
    count: u64,
    sum: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: Box::new([0; BUCKETS]), up_to_power: [0; BOUNDS], count: 0, sum: 0 }
    }
}

/// What a histogram comes to. A quantile is 0 without values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Distribution {
    /// How many values there were, and their sum.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// Half of the values are not above this one.
    pub p50: u64,
    /// Nine of ten are not.
    pub p90: u64,
    /// 99 of 100 are not.
    pub p99: u64,
    /// How many values are at most 1, 2, 4 and so on, up to 2³¹.
    pub at_most: [u64; BOUNDS],
}

impl Histogram {
    /// Counts a value.
    pub(crate) fn record(&mut self, value: u64) {
        let value = value.min(VALUE_MAX);
        if let Some(bucket) = self.buckets.get_mut(bucket_of(value)) {
            *bucket += 1;
        }
        if let Some(power) = self.up_to_power.get_mut(power_above(value)) {
            *power += 1;
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
    }

    /// Sums it up.
    pub(crate) fn distribution(&self) -> Distribution {
        let [p50, p90, p99] = [50, 90, 99].map(|percent| self.percentile(percent));
        let mut at_most = self.up_to_power;
        let mut below = 0;
        for count in &mut at_most {
            below += *count;
            *count = below;
        }
        Distribution { count: self.count, sum: self.sum, p50, p90, p99, at_most }
    }

    /// Returns the largest value of the bucket in which this part of the values ends.
    fn percentile(&self, percent: u64) -> u64 {
        let rank = self.count.saturating_mul(percent).div_ceil(100);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if *count > 0 && seen >= rank {
                return largest_of(bucket);
            }
        }
        0
    }
}

/// A histogram that several threads fill.
#[derive(Debug, Default)]
pub(crate) struct SharedHistogram(Mutex<Histogram>);

impl SharedHistogram {
    /// Counts a value.
    pub(crate) fn record(&self, value: u64) {
        self.lock().record(value);
    }

    /// Sums it up.
    pub(crate) fn distribution(&self) -> Distribution {
        self.lock().distribution()
    }

    fn lock(&self) -> MutexGuard<'_, Histogram> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[allow(clippy::cast_possible_truncation, reason = "at most three bits are left, or 40 shifts")]
fn bucket_of(value: u64) -> usize {
    let Some(power) = value.checked_ilog2().filter(|power| *power >= BUCKET_BITS) else {
        return value as usize;
    };
    let shift = power - BUCKET_BITS;
    let within = (value >> shift) as usize % BUCKETS_PER_POWER;
    (shift as usize + 1) * BUCKETS_PER_POWER + within
}

/// Returns the exponent of the smallest power of two that is not below a value.
fn power_above(value: u64) -> usize {
    value.saturating_sub(1).checked_ilog2().map_or(0, |power| power as usize + 1)
}

fn largest_of(bucket: usize) -> u64 {
    let (power, within) = (bucket / BUCKETS_PER_POWER, (bucket % BUCKETS_PER_POWER) as u64);
    match power.checked_sub(1) {
        None => within,
        Some(shift) => ((BUCKETS_PER_POWER as u64 + within + 1) << shift) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_the_bucket_that_ends_at_it_or_an_eighth_above() {
        let powers = (0..40).map(|power| 1_u64 << power);
        for value in (0..5000).chain(powers.flat_map(|it| [it - 1, it, it + 1])).chain([VALUE_MAX])
        {
            let bucket = bucket_of(value);
            assert!(bucket < BUCKETS, "{value}");
            let largest = largest_of(bucket);
            assert!(value <= largest && largest - value <= value / 8, "{value}: {largest}");
            assert!(bucket == 0 || largest_of(bucket - 1) < value, "{value}");
        }
    }

    #[test]
    fn a_distribution_has_the_values_quantiles() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.distribution(), Distribution::default());
        for value in 1..=100 {
            histogram.record(value);
        }
        let Distribution { count, sum, p50, p90, p99, .. } = histogram.distribution();
        assert_eq!((count, sum), (100, 5050));
        assert_eq!([p50, p90, p99].map(bucket_of), [50, 90, 99].map(bucket_of));
        histogram.record(u64::MAX);
        assert_eq!(histogram.distribution().sum, 5050 + VALUE_MAX);
    }

    #[test]
    fn the_bounds_of_a_histogram_are_exact() {
        let mut histogram = Histogram::default();
        for value in [0, 1, 2, 3, 4, 5, 1024, 1025, 1 << 31, (1 << 31) + 1, u64::MAX] {
            histogram.record(value);
        }
        let Distribution { count, at_most, .. } = histogram.distribution();
        assert_eq!((count, at_most[..4].to_vec()), (11, vec![2, 3, 5, 6]));
        assert_eq!([at_most[10], at_most[11], at_most[30], at_most[31]], [7, 8, 8, 9]);
    }
}
