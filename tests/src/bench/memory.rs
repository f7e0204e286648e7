//! The resident memory of a server.

use std::fs;

use super::error::BenchError;
use crate::servers::Servers;

/// Returns the resident memory of one server in bytes.
pub(super) fn resident_bytes(servers: &Servers, index: usize) -> Result<u64, BenchError> {
    let pid = servers.pid(index);
    let status = pid.and_then(|pid| fs::read_to_string(format!("/proc/{pid}/status")).ok());
    let bytes = status.as_deref().and_then(|status| bytes(status, "VmRSS:"));
    bytes.ok_or_else(|| BenchError::of(servers.kind(), "its resident memory is unknown"))
}

/// Returns the memory that programs can get without swapping.
pub(super) fn available_bytes() -> Option<u64> {
    bytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")
}

/// Returns how much each of `count` things has added.
#[allow(clippy::cast_precision_loss, reason = "the memory of a machine is far below 2^52 bytes")]
pub(super) fn growth_of_each(before: u64, after: u64, count: u32) -> f64 {
    after.saturating_sub(before) as f64 / f64::from(count)
}

fn bytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_bytes() {
        let status = "VmPeak:\t  900 kB\nVmRSS:\t     12 kB\n";
        assert_eq!(bytes(status, "VmRSS:"), Some(12 * 1024));
        assert_eq!(bytes(status, "VmSwap:"), None);
        assert!(available_bytes().unwrap() > 0);
    }

    #[test]
    fn memory_that_shrinks_counts_as_zero() {
        assert!((growth_of_each(1_000, 3_000, 10) - 200.0).abs() < 1e-9);
        assert!(growth_of_each(3_000, 1_000, 10).abs() < 1e-9);
    }
}
