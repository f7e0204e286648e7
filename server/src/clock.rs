//! The Clock seam: where time comes in.
//!
//! Deciding code takes [`Now`] as an argument; only what drives it reads a [`Clock`].

use std::fmt::Debug;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub(crate) use zoolet_replica::Now;

/// A source of time.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Both clocks, now.
    fn now(&self) -> Now;

    /// Microseconds on the monotonic clock, to measure short spans by. A clock without them counts
    /// whole milliseconds.
    fn mono_us(&self) -> u64 {
        self.now().mono_ms.saturating_mul(1000)
    }
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug)]
pub struct RealClock {
    start: Instant,
}

impl RealClock {
    /// A clock whose monotonic zero is this moment.
    #[allow(clippy::disallowed_methods, reason = "this is the seam")]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for RealClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for RealClock {
    #[allow(clippy::disallowed_methods, reason = "this is the seam")]
    fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now {
            mono_ms: u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX),
            wall_ms: i64::try_from(wall.as_millis()).unwrap_or(i64::MAX),
        }
    }

    fn mono_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}
