//! The context switches of the servers' threads, from `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// How often each thread was switched away from, by its process and its number.
pub(super) type Switches = BTreeMap<(u32, u32), u64>;

/// The counts at one moment of a measurement.
#[derive(Debug)]
pub(super) struct Sample {
    /// Since the load generator was started.
    pub(super) at: Duration,
    pub(super) switches: Switches,
}

/// Reads the counts of all threads of some processes. Threads that end meanwhile are left out.
pub(super) fn read(pids: &[u32]) -> Switches {
    let mut switches = Switches::new();
    for pid in pids {
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for thread in threads.flatten() {
            let number = thread.file_name().to_str().and_then(|name| name.parse().ok());
            let status = fs::read_to_string(thread.path().join("status"));
            if let (Some(number), Ok(status)) = (number, status) {
                switches.insert((*pid, number), count(&status));
            }
        }
    }
    switches
}

/// Returns the voluntary and nonvoluntary switches of a thread's `status` file together.
fn count(status: &str) -> u64 {
    let counts = status.lines().filter_map(|line| {
        let (key, value) = line.split_once(':')?;
        let is_count = ["voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"].contains(&key);
        if is_count { value.trim().parse::<u64>().ok() } else { None }
    });
    counts.sum()
}

/// Returns the switches per second in the measured window, which is as long as `window` and ends
/// with the load generator: after the last sample, and before the next one was due.
pub(super) fn per_second(samples: &[Sample], window: Duration, period: Duration) -> Option<f64> {
    let last = samples.last()?;
    let begun = (last.at + period).saturating_sub(window);
    let first = samples.iter().find(|sample| sample.at >= begun)?;
    let seconds = last.at.saturating_sub(first.at).as_secs_f64();
    if seconds == 0.0 {
        return None;
    }
    let between: u64 = last
        .switches
        .iter()
        .map(|(thread, count)| {
            count.saturating_sub(first.switches.get(thread).copied().unwrap_or_default())
        })
        .sum();
    #[allow(clippy::cast_precision_loss, reason = "counts of seconds are far below 2^52")]
    let between = between as f64;
    Some(between / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ms: u64, counts: &[(u32, u64)]) -> Sample {
        let switches = counts.iter().map(|(thread, count)| ((1, *thread), *count)).collect();
        Sample { at: Duration::from_millis(at_ms), switches }
    }

    #[test]
    fn both_kinds_of_switches_count() {
        let status = "Name:\tx\nThreads:\t2\nvoluntary_ctxt_switches:\t40\n\
                      nonvoluntary_ctxt_switches:\t2\n";
        assert_eq!(count(status), 42);
        assert_eq!(count("Name:\tx\n"), 0);
    }

    #[test]
    fn the_switches_before_the_window_do_not_count() {
        let samples = [
            sample(0, &[(1, 0)]),
            sample(1_000, &[(1, 90_000)]),
            sample(2_000, &[(1, 90_100), (2, 5)]),
            sample(3_000, &[(1, 90_200), (2, 10), (3, 50)]),
        ];
        // The window begins between 1 and 2 s.
        let rate = per_second(&samples, Duration::from_secs(2), Duration::from_secs(1)).unwrap();
        assert!((rate - 155.0).abs() < 1e-9, "{rate}");
    }

    #[test]
    fn one_sample_gives_no_rate() {
        let samples = [sample(1_000, &[(1, 3)])];
        assert_eq!(per_second(&samples, Duration::from_secs(1), Duration::from_millis(100)), None);
        assert_eq!(per_second(&[], Duration::from_secs(1), Duration::from_millis(100)), None);
    }

    #[test]
    fn the_threads_of_this_process_are_found() {
        let pid = std::process::id();
        assert!(read(&[pid]).keys().all(|(process, _)| *process == pid));
        assert!(!read(&[pid]).is_empty());
    }
}
