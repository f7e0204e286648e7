//! What a run has measured so far, and lines on stderr while it takes its time.

use std::time::{Duration, Instant};

use super::results::{Figures, Measurement, name};
use super::rows::Row;
use crate::builder::Kind;
use crate::tools::announce;

/// The measurements of a run under way.
#[derive(Debug)]
pub(super) struct Recorder {
    progress: Progress,
    measurements: Vec<Measurement>,
}

impl Recorder {
    /// `total` is the sum of what [`Recorder::finish`] will be called with.
    pub(super) fn start(total: Duration) -> Self {
        Self { progress: Progress::start(total), measurements: Vec::new() }
    }

    /// Keeps the figures of one turn, and prints them.
    pub(super) fn add(&mut self, row: Row, system: Kind, round: usize, figures: Figures) {
        announce(&format!("{row} on {}, round {round}: {}", name(system), figures.shown()));
        self.measurements.push(Measurement { row, system, round, figures });
    }

    /// Keeps the figures of one more turn of a row whose turns are not those of the run.
    pub(super) fn add_next(&mut self, row: Row, system: Kind, figures: Figures) {
        let earlier = self.measurements.iter();
        let earlier = earlier.filter(|other| other.row == row && other.system == system);
        self.add(row, system, earlier.count() + 1, figures);
    }

    /// Prints the time that is left after a step, which was expected to take `expected`.
    pub(super) fn finish(&mut self, expected: Duration) {
        self.progress.finish(expected);
    }

    pub(super) fn count(&self) -> usize {
        self.measurements.len()
    }

    /// Drops what was measured after the first `count` turns.
    pub(super) fn forget_after(&mut self, count: usize) {
        self.measurements.truncate(count);
    }

    pub(super) fn into_measurements(self) -> Vec<Measurement> {
        self.measurements
    }
}

/// How far a run is.
#[derive(Debug)]
struct Progress {
    began: Instant,
    /// What the whole run was expected to take.
    total: Duration,
    /// What the finished steps were expected to take.
    done: Duration,
}

impl Progress {
    #[allow(clippy::disallowed_methods, reason = "the bench measures real time")]
    fn start(total: Duration) -> Self {
        Self { began: Instant::now(), total, done: Duration::ZERO }
    }

    fn finish(&mut self, expected: Duration) {
        self.done += expected;
        let left = left(self.began.elapsed(), self.done, self.total);
        announce(&format!("  {} left", minutes(left)));
    }
}

/// Estimates the time that is left, by how much longer the finished steps took than was expected.
fn left(elapsed: Duration, done: Duration, total: Duration) -> Duration {
    if done.is_zero() {
        return total;
    }
    let remaining = total.saturating_sub(done);
    elapsed.mul_f64(remaining.as_secs_f64() / done.as_secs_f64())
}

fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 90 {
        format!("about {seconds} s")
    } else {
        format!("about {} min", seconds.div_ceil(60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_the_pace_of_the_finished_steps() {
        let seconds = Duration::from_secs;
        assert_eq!(left(seconds(0), seconds(0), seconds(60)), seconds(60));
        assert_eq!(left(seconds(30), seconds(10), seconds(60)), seconds(150));
        assert_eq!(left(seconds(90), seconds(70), seconds(60)), seconds(0));
    }

    #[test]
    fn a_long_time_is_given_in_minutes() {
        assert_eq!(minutes(Duration::from_secs(89)), "about 89 s");
        assert_eq!(minutes(Duration::from_secs(121)), "about 3 min");
    }
}
