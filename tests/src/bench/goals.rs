//! What the figures are to be, and whether they are.

use super::results::{Figure, Results};
use super::rows::Row;
use super::statistics::{Summary, percentile};
use crate::builder::Kind;

use Against::{Apache, Nothing};
use Bound::{AtLeast, AtMost};
use Figure::{
    Bytes, CpuPerOperation, CyclesPerSecond, Elections, FailedRequests, LongestHold, Milliseconds,
    OperationsPerSecond, P50, P99, Seconds, SwitchesPerOperation,
};

/// What zoolet's figure is held against.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Against {
    /// Nothing: the goal is a number of the figure's unit.
    Nothing,
    /// Apache's: the goal is a factor.
    Apache,
    /// Its own in another row: the goal is a factor.
    Row(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

/// Which of the values of all rounds counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Median,
    Percentile99,
    Greatest,
}

/// One goal.
#[derive(Clone, Copy, Debug)]
struct Goal {
    row: &'static str,
    figure: Figure,
    of: Of,
    against: Against,
    bound: Bound,
}

const fn goal(row: &'static str, figure: Figure, against: Against, bound: Bound) -> Goal {
    Goal { row, figure, of: Of::Median, against, bound }
}

const fn over_runs(row: &'static str, figure: Figure, of: Of, at_most: f64) -> Goal {
    Goal { row, figure, of, against: Nothing, bound: AtMost(at_most) }
}

const GOALS: [Goal; 52] = [
    goal("3:set:1x1:leader", P50, Apache, AtMost(0.5)),
    goal("3:set:1x1:leader", P50, Nothing, AtMost(300.0)),
    goal("3:set:1x1:leader", SwitchesPerOperation, Nothing, AtMost(14.0)),
    goal("3:lock:1x1:leader", P50, Apache, AtMost(0.5)),
    goal("3:lock:1x1:leader", P50, Nothing, AtMost(300.0)),
    goal("3:lock:1x1:leader", SwitchesPerOperation, Nothing, AtMost(14.0)),
    goal("3:set:4x1", OperationsPerSecond, Apache, AtLeast(2.5)),
    goal("3:set:4x1", P99, Apache, AtMost(1.0)),
    goal("3:set:16x1", OperationsPerSecond, Apache, AtLeast(2.5)),
    goal("3:set:16x1", P99, Apache, AtMost(1.0)),
    goal("3:lock:4x1", OperationsPerSecond, Apache, AtLeast(2.5)),
    goal("3:lock:4x1", P99, Apache, AtMost(1.0)),
    goal("3:lock:16x1", OperationsPerSecond, Apache, AtLeast(2.5)),
    goal("3:lock:16x1", P99, Apache, AtMost(1.0)),
    goal("1:set:1x1", P50, Apache, AtMost(0.6)),
    goal("3:set:16x8", OperationsPerSecond, Apache, AtLeast(8.0)),
    goal("3:set:16x8", CpuPerOperation, Nothing, AtMost(10.0)),
    goal("3:set:64x32", OperationsPerSecond, Apache, AtLeast(10.0)),
    goal("3:set:64x32", CpuPerOperation, Nothing, AtMost(5.0)),
    goal("lock:curator:mutex", CyclesPerSecond, Apache, AtLeast(2.5)),
    goal("lock:curator:semaphore-mutex", CyclesPerSecond, Apache, AtLeast(2.5)),
    goal("lock:curator:read-write", CyclesPerSecond, Apache, AtLeast(2.5)),
    goal("lock:curator:semaphore", CyclesPerSecond, Apache, AtLeast(2.5)),
    goal("lock:curator:multi", CyclesPerSecond, Apache, AtLeast(2.5)),
    goal("lock:client:mutex", CyclesPerSecond, Apache, AtLeast(2.5)),
    goal("lock:client:semaphore-mutex", CyclesPerSecond, Apache, AtLeast(2.5)),
    goal("lock:client:read-write", CyclesPerSecond, Apache, AtLeast(2.5)),
    goal("lock:client:semaphore", CyclesPerSecond, Apache, AtLeast(2.5)),
    goal("lock:client:multi", CyclesPerSecond, Apache, AtLeast(2.5)),
    goal("hand-over:1", P50, Apache, AtMost(0.4)),
    goal("hand-over:1", P99, Apache, AtMost(0.5)),
    goal("hand-over:100", P50, Apache, AtMost(0.4)),
    goal("hand-over:100", P99, Apache, AtMost(0.5)),
    over_runs("KILL", Milliseconds, Of::Median, 250.0),
    over_runs("KILL", Milliseconds, Of::Percentile99, 600.0),
    over_runs("STOP", Milliseconds, Of::Median, 900.0),
    over_runs("STOP", Milliseconds, Of::Percentile99, 1_500.0),
    over_runs("TERM", Milliseconds, Of::Greatest, 50.0),
    over_runs("TERM", FailedRequests, Of::Greatest, 0.0),
    over_runs("busy", Elections, Of::Greatest, 0.0),
    over_runs("starved:load", Elections, Of::Greatest, 0.0),
    over_runs("starved:quota", Elections, Of::Greatest, 0.0),
    goal("memory:znode", Bytes, Nothing, AtMost(250.0)),
    goal("memory:session", Bytes, Nothing, AtMost(3_072.0)),
    goal("memory:watch", Bytes, Nothing, AtMost(150.0)),
    goal("restart", Milliseconds, Nothing, AtMost(1_000.0)),
    goal("snapshot:with", P99, Against::Row("snapshot:without"), AtMost(2.0)),
    goal("watchers", Milliseconds, Nothing, AtMost(60.0)),
    goal("connections:10k", OperationsPerSecond, Against::Row("connections:100"), AtLeast(0.9)),
    goal("znodes:10m", OperationsPerSecond, Against::Row("znodes:10k"), AtLeast(0.9)),
    goal("up", Milliseconds, Nothing, AtMost(500.0)),
    goal("build", Seconds, Nothing, AtMost(90.0)),
];

/// Those of holds of the lock, one for each row.
const HOLDS: [Goal; 3] = [
    over_runs("hold:loads", LongestHold, Of::Greatest, 5_000.0),
    over_runs("hold:million", LongestHold, Of::Greatest, 5_000.0),
    over_runs("hold:clients", LongestHold, Of::Greatest, 5_000.0),
];

/// A goal with what was measured.
#[derive(Debug, PartialEq)]
pub(super) struct Judged {
    pub(super) row: Row,
    /// The figure, and which of its values.
    pub(super) figure: String,
    pub(super) goal: String,
    /// zoolet's value, or its ratio.
    pub(super) measured: f64,
    pub(super) is_ratio: bool,
    pub(super) is_met: bool,
}

/// Holds everything that was measured against its goals.
pub(super) fn judge(results: &Results) -> Vec<Judged> {
    GOALS.iter().chain(&HOLDS).filter_map(|goal| goal.judge(results)).collect()
}

impl Goal {
    /// Returns `None` for what was not measured.
    fn judge(&self, results: &Results) -> Option<Judged> {
        let row = Row::find(self.row)?;
        let value = self.value(results, row, Kind::Zoolet)?;
        let other = match self.against {
            Nothing => None,
            Apache => Some(self.value(results, row, Kind::Apache)?),
            Against::Row(name) => Some(self.value(results, Row::find(name)?, Kind::Zoolet)?),
        };
        let measured = match other {
            None => value,
            Some(other) if other > 0.0 => value / other,
            Some(_) => return None,
        };
        let is_met = match self.bound {
            AtMost(limit) => measured <= limit,
            AtLeast(limit) => measured >= limit,
        };
        let (goal, is_ratio) = (self.goal(), other.is_some());
        Some(Judged { row, figure: self.figure(), goal, measured, is_ratio, is_met })
    }

    fn value(&self, results: &Results, row: Row, system: Kind) -> Option<f64> {
        let values = results.values(row, system, self.figure);
        match self.of {
            Of::Median => Summary::of(&values).map(|summary| summary.median),
            Of::Percentile99 => percentile(&values, 99),
            Of::Greatest => percentile(&values, 100),
        }
    }

    fn figure(&self) -> String {
        let of = match self.of {
            Of::Median => "",
            Of::Percentile99 => ", p99 of all runs",
            Of::Greatest => ", greatest",
        };
        format!("{}{of}", self.figure.title())
    }

    fn goal(&self) -> String {
        let (sign, limit) = match self.bound {
            AtMost(limit) => ('≤', limit),
            AtLeast(limit) => ('≥', limit),
        };
        match self.against {
            Nothing => format!("{sign} {limit}"),
            Apache => format!("{sign} {limit}× Apache's"),
            Against::Row(name) => {
                let title = Row::find(name).map(Row::title).unwrap_or_default();
                format!("{sign} {limit}× of {title}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::example;
    use super::*;

    #[test]
    fn each_goal_is_of_a_row_that_there_is() {
        for goal in GOALS.iter().chain(&HOLDS) {
            assert!(Row::find(goal.row).is_some(), "{}", goal.row);
            if let Against::Row(name) = goal.against {
                assert!(Row::find(name).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn a_goal_is_met_by_the_figure_it_names() {
        let judged = judge(&example());
        let shown: Vec<_> = judged
            .iter()
            .map(|it| {
                format!("{}, {}: {} {:.1} {}", it.row, it.figure, it.goal, it.measured, it.is_met)
            })
            .collect();
        let expected = [
            "3:set:16x8, ops/s: ≥ 8× Apache's 10.0 true",
            "3:set:16x8, CPU µs/op: ≤ 10 13.0 false",
            "KILL, ms: ≤ 250 250.0 true",
            "KILL, ms, p99 of all runs: ≤ 600 300.0 true",
            "STOP, ms: ≤ 900 250.0 true",
            "STOP, ms, p99 of all runs: ≤ 1500 300.0 true",
            "TERM, ms, greatest: ≤ 50 300.0 false",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn what_was_not_measured_on_both_has_no_ratio() {
        let mut results = example();
        results.runs[0].measurements.retain(|measurement| measurement.system == Kind::Zoolet);
        let judged = judge(&results);
        assert!(judged.iter().all(|it| !it.is_ratio), "{judged:?}");
        assert_eq!(judged.len(), 6);
    }
}
