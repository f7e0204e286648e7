//! The wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the time of the wall clock, in milliseconds since 1970.
#[allow(clippy::disallowed_methods, reason = "people compare it with their clocks")]
pub fn now_ms() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
}
