//! The time of the simulated world.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// A moment of a run, in microseconds since its begin. It is the true time; the clocks of simulated
/// machines may go wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SimTime(pub u64);

impl SimTime {
    /// A moment in whole milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms * 1000)
    }

    /// Whole milliseconds.
    pub const fn ms(self) -> u64 {
        self.0 / 1000
    }
}

impl Add<Duration> for SimTime {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)))
    }
}

impl Sub for SimTime {
    type Output = Duration;

    /// Zero if the other moment is later.
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for SimTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>4}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}
