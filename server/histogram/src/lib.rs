//! The histograms that openraft counts its own steps in, in its feature-less build never shown.
//!
//! The package of this name on crates.io computes tables for sixteen resolutions when the first
//! histogram is made: 26 MB for one resolution that is used, in every server. This one keeps one
//! count for each power of two, and has of the interface what openraft calls.

use std::fmt;
use std::marker::PhantomData;

/// One bucket for zero, and one for each power of two.
const BUCKETS: usize = 65;

/// Counts of values, by their order of magnitude.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram<T = ()> {
    counts: Box<[u64; BUCKETS]>,
    kind: PhantomData<T>,
}

/// Where the values of a histogram lie: each figure is the largest power of two that is not above
/// the value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PercentileStats {
    pub samples: u64,
    pub p0_1: u64,
    pub p1: u64,
    pub p5: u64,
    pub p10: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p99_9: u64,
}

impl fmt::Display for PercentileStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { samples, p50, p99, .. } = self;
        write!(f, "{samples} values, half from {p50} on, 1% from {p99} on")
    }
}

impl<T> Histogram<T> {
    /// An empty histogram.
    pub fn new() -> Self {
        Self { counts: Box::new([0; BUCKETS]), kind: PhantomData }
    }

    /// Counts a value.
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts a value several times.
    pub fn record_n(&mut self, value: u64, times: u64) {
        // The number of significant bits: zero has none, one has one.
        let bucket = (u64::BITS - value.leading_zeros()) as usize;
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += times;
        }
    }

    /// The percentiles that openraft reports.
    pub fn percentile_stats(&self) -> PercentileStats {
        PercentileStats {
            samples: self.counts.iter().sum(),
            p0_1: self.quantile(1),
            p1: self.quantile(10),
            p5: self.quantile(50),
            p10: self.quantile(100),
            p50: self.quantile(500),
            p90: self.quantile(900),
            p99: self.quantile(990),
            p99_9: self.quantile(999),
        }
    }

    /// The order of magnitude below which `permille` of the values lie; zero without values.
    fn quantile(&self, permille: u64) -> u64 {
        let samples: u64 = self.counts.iter().sum();
        let rank = samples.saturating_mul(permille).div_ceil(1000);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank && seen > 0 {
                return if bucket == 0 { 0 } else { 1 << (bucket - 1) };
            }
        }
        0
    }
}

impl<T> Default for Histogram<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Histograms side by side, as lines of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AsciiChart {
    rows: Vec<(String, Histogram)>,
}

impl AsciiChart {
    /// A chart without rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a row.
    #[must_use]
    pub fn add(mut self, name: &str, histogram: Histogram) -> Self {
        self.rows.push((name.to_owned(), histogram));
        self
    }
}

impl fmt::Display for AsciiChart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, histogram) in &self.rows {
            writeln!(f, "{name}: {}", histogram.percentile_stats())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_powers_of_two_at_or_below_the_values() {
        let mut histogram = Histogram::<()>::new();
        assert_eq!(histogram.percentile_stats(), PercentileStats::default());
        for value in 1..=1000 {
            histogram.record(value);
        }
        let stats = histogram.percentile_stats();
        assert_eq!((stats.samples, stats.p0_1, stats.p1, stats.p5), (1000, 1, 8, 32));
        assert_eq!((stats.p10, stats.p50, stats.p99_9), (64, 256, 512));
        histogram.record(u64::MAX);
        assert_eq!(histogram.quantile(1000), 1 << 63);
    }

    #[test]
    fn zeros_count_as_zero() {
        let mut histogram = Histogram::<()>::default();
        histogram.record_n(0, 2);
        histogram.record(5);
        assert_eq!((histogram.quantile(500), histogram.quantile(990)), (0, 4));
    }

    #[test]
    fn a_chart_names_each_histogram() {
        let mut histogram = Histogram::new();
        histogram.record(9);
        let chart = AsciiChart::new().add("apply", histogram).to_string();
        assert_eq!(chart, "apply: 1 values, half from 8 on, 1% from 8 on\n");
    }
}
