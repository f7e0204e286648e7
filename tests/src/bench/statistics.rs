//! Medians, percentiles and spreads.

/// The middle, the least and the greatest of some values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Summary {
    /// Returns `None` for no values.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let sorted = sorted(values);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let upper = *sorted.get(sorted.len() / 2)?;
        let lower = *sorted.get((sorted.len() - 1) / 2)?;
        Some(Self { median: f64::midpoint(lower, upper), min, max })
    }
}

/// Returns the least value that `percent` of all values do not exceed.
pub(crate) fn percentile(values: &[f64], percent: usize) -> Option<f64> {
    let rank = (values.len() * percent).div_ceil(100).max(1);
    sorted(values).get(rank - 1).copied()
}

/// Returns the values, the least first.
pub(crate) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_of_values_is_between_the_two_in_the_middle() {
        let summary = |values: &[f64]| {
            Summary::of(values).map(|summary| (summary.median, summary.min, summary.max))
        };
        assert_eq!(summary(&[9.0, 1.0, 4.0]), Some((4.0, 1.0, 9.0)));
        assert_eq!(summary(&[10.0, 2.0, 4.0, 1.0]), Some((3.0, 1.0, 10.0)));
        assert_eq!(summary(&[7.0]), Some((7.0, 7.0, 7.0)));
        assert_eq!(summary(&[]), None);
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        assert_eq!(percentile(&values, 50), Some(5.0));
        assert_eq!(percentile(&values, 99), Some(10.0));
        assert_eq!(percentile(&values, 0), Some(1.0));
        assert_eq!(percentile(&[], 50), None);
    }
}
