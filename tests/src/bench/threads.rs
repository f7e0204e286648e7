//! The context switches and the CPU time of the servers' threads, from `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// What a thread has done since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// How often it was switched away from.
    pub(super) switches: u64,
    pub(super) cpu_ns: u64,
}

/// The counts of each thread, by its process and its number.
pub(super) type Threads = BTreeMap<(u32, u32), Counts>;

/// The counts at one moment of a measurement.
#[derive(Debug)]
pub(super) struct Sample {
    /// Since the load generator was started.
    pub(super) at: Duration,
    pub(super) threads: Threads,
}

/// Reads the counts of all threads of some processes. Threads that end meanwhile are left out.
pub(super) fn read(pids: &[u32]) -> Threads {
    let mut counts = Threads::new();
    for pid in pids {
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for thread in threads.flatten() {
            let number = thread.file_name().to_str().and_then(|name| name.parse().ok());
            let status = fs::read_to_string(thread.path().join("status"));
            let schedstat = fs::read_to_string(thread.path().join("schedstat"));
            if let (Some(number), Ok(status), Ok(schedstat)) = (number, status, schedstat) {
                let count = Counts { switches: switches(&status), cpu_ns: cpu_ns(&schedstat) };
                counts.insert((*pid, number), count);
            }
        }
    }
    counts
}

/// Returns the voluntary and nonvoluntary switches of a thread's `status` file together.
fn switches(status: &str) -> u64 {
    let counts = status.lines().filter_map(|line| {
        let (key, value) = line.split_once(':')?;
        let is_count = ["voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"].contains(&key);
        if is_count { value.trim().parse::<u64>().ok() } else { None }
    });
    counts.sum()
}

/// Returns the first number of a thread's `schedstat` file.
fn cpu_ns(schedstat: &str) -> u64 {
    schedstat.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// What the servers' threads do in a second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) switches: f64,
    /// CPU time in microseconds, by process and thread.
    cpu_us: BTreeMap<(u32, u32), f64>,
}

impl Rates {
    /// Returns the CPU time of all threads of a process.
    pub(super) fn process_cpu_us(&self, pid: u32) -> f64 {
        self.threads(pid).sum()
    }

    /// Returns the CPU time of the thread of a process that takes most of it.
    pub(super) fn busiest_thread_us(&self, pid: u32) -> f64 {
        self.threads(pid).fold(0.0, f64::max)
    }

    fn threads(&self, pid: u32) -> impl Iterator<Item = f64> {
        self.cpu_us.iter().filter(move |((of, _), _)| *of == pid).map(|(_, cpu)| *cpu)
    }
}

/// Returns the rates in the measured window, which is as long as `window` and ends with the load
/// generator: after the last sample, and before the next one was due.
pub(super) fn per_second(samples: &[Sample], window: Duration, period: Duration) -> Option<Rates> {
    let last = samples.last()?;
    let begun = (last.at + period).saturating_sub(window);
    let first = samples.iter().find(|sample| sample.at >= begun)?;
    let seconds = last.at.saturating_sub(first.at).as_secs_f64();
    if seconds == 0.0 {
        return None;
    }
    let mut rates = Rates::default();
    for (thread, counts) in &last.threads {
        let before = first.threads.get(thread).copied().unwrap_or_default();
        rates.switches += float(counts.switches.saturating_sub(before.switches)) / seconds;
        let cpu_us = float(counts.cpu_ns.saturating_sub(before.cpu_ns)) / 1_000.0 / seconds;
        rates.cpu_us.insert(*thread, cpu_us);
    }
    Some(rates)
}

#[allow(clippy::cast_precision_loss, reason = "counts of seconds are far below 2^52")]
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ms: u64, counts: &[(u32, u64)]) -> Sample {
        let threads = counts.iter().map(|(thread, count)| {
            ((1, *thread), Counts { switches: *count, cpu_ns: *count * 1_000 })
        });
        Sample { at: Duration::from_millis(at_ms), threads: threads.collect() }
    }

    #[test]
    fn both_kinds_of_switches_count() {
        let status = "Name:\tx\nThreads:\t2\nvoluntary_ctxt_switches:\t40\n\
                      nonvoluntary_ctxt_switches:\t2\n";
        assert_eq!(switches(status), 42);
        assert_eq!(switches("Name:\tx\n"), 0);
    }

    #[test]
    fn the_cpu_time_is_the_first_number_of_the_scheduler() {
        assert_eq!(cpu_ns("123456789 42 7\n"), 123_456_789);
        assert_eq!(cpu_ns(""), 0);
    }

    #[test]
    fn what_was_before_the_window_does_not_count() {
        let samples = [
            sample(0, &[(1, 0)]),
            sample(1_000, &[(1, 90_000)]),
            sample(2_000, &[(1, 90_100), (2, 5)]),
            sample(3_000, &[(1, 90_200), (2, 10), (3, 50)]),
        ];
        // The window begins between 1 and 2 s.
        let rates = per_second(&samples, Duration::from_secs(2), Duration::from_secs(1)).unwrap();
        assert!((rates.switches - 155.0).abs() < 1e-9, "{rates:?}");
        assert!((rates.process_cpu_us(1) - 155.0).abs() < 1e-9, "{rates:?}");
        assert!((rates.busiest_thread_us(1) - 100.0).abs() < 1e-9, "{rates:?}");
        assert!(rates.process_cpu_us(2).abs() < 1e-9);
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
        let threads = read(&[pid]);
        assert!(threads.keys().all(|(process, _)| *process == pid));
        assert!(threads.values().any(|counts| counts.cpu_ns > 0));
    }
}
