//! What runs measure.

use std::collections::BTreeMap;

use super::machine::Machine;
use super::rows::{self, Group, Row};
use super::statistics::Summary;
use crate::builder::Kind;

/// Both systems, the one that is compared with first.
pub(super) const SYSTEMS: [Kind; 2] = [Kind::Apache, Kind::Zoolet];

/// Returns the name of a system in documents.
pub(super) fn name(system: Kind) -> &'static str {
    match system {
        Kind::Apache => "Apache",
        Kind::Zoolet => "zoolet",
    }
}

/// One figure of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Figure {
    OperationsPerSecond,
    P50,
    P99,
    CpuPerOperation,
    SwitchesPerOperation,
    Rss,
    /// Replies with an error.
    Errors,
    /// CPU time of the leader; of a follower on average; of the busiest thread of the leader.
    LeaderCpu,
    FollowerCpu,
    LeaderThread,
    /// What the leader sends to one follower on average.
    PeerBytes,
    CyclesPerSecond,
    Milliseconds,
    Bytes,
    LongestHold,
    Elections,
    /// Requests that got an error or no reply.
    FailedRequests,
    Seconds,
}

/// All figures.
const FIGURES: [Figure; 18] = [
    Figure::OperationsPerSecond,
    Figure::P50,
    Figure::P99,
    Figure::CpuPerOperation,
    Figure::SwitchesPerOperation,
    Figure::Rss,
    Figure::Errors,
    Figure::LeaderCpu,
    Figure::FollowerCpu,
    Figure::LeaderThread,
    Figure::PeerBytes,
    Figure::CyclesPerSecond,
    Figure::Milliseconds,
    Figure::Bytes,
    Figure::LongestHold,
    Figure::Elections,
    Figure::FailedRequests,
    Figure::Seconds,
];

/// Those of a load, in the order of the columns.
pub(super) const LOAD_FIGURES: [Figure; 6] = [
    Figure::OperationsPerSecond,
    Figure::P50,
    Figure::P99,
    Figure::CpuPerOperation,
    Figure::SwitchesPerOperation,
    Figure::Rss,
];

impl Figure {
    /// Returns its name with its unit.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::OperationsPerSecond => "ops/s",
            Self::P50 => "p50 µs",
            Self::P99 => "p99 µs",
            Self::CpuPerOperation => "CPU µs/op",
            Self::SwitchesPerOperation => "switches/op",
            Self::Rss => "RSS MB",
            Self::Errors => "errors",
            Self::LeaderCpu => "leader's CPU µs/op",
            Self::FollowerCpu => "a follower's CPU µs/op",
            Self::LeaderThread => "leader's busiest thread, CPU µs/op",
            Self::PeerBytes => "bytes/op to each follower",
            Self::CyclesPerSecond => "cycles/s",
            Self::Milliseconds => "ms",
            Self::Bytes => "bytes",
            Self::LongestHold => "longest µs",
            Self::Elections => "elections",
            Self::FailedRequests => "failed requests",
            Self::Seconds => "s",
        }
    }

    /// Returns its name in JSON.
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::OperationsPerSecond => "ops_s",
            Self::P50 => "p50_us",
            Self::P99 => "p99_us",
            Self::CpuPerOperation => "cpu_us_per_op",
            Self::SwitchesPerOperation => "switches_per_op",
            Self::Rss => "rss_mb",
            Self::Errors => "errors",
            Self::LeaderCpu => "leader_cpu_us_per_op",
            Self::FollowerCpu => "follower_cpu_us_per_op",
            Self::LeaderThread => "leader_thread_us_per_op",
            Self::PeerBytes => "peer_bytes_per_op",
            Self::CyclesPerSecond => "cycles_s",
            Self::Milliseconds => "ms",
            Self::Bytes => "bytes",
            Self::LongestHold => "longest_us",
            Self::Elections => "elections",
            Self::FailedRequests => "failed_requests",
            Self::Seconds => "s",
        }
    }

    pub(super) fn find(key: &str) -> Option<Self> {
        FIGURES.into_iter().find(|figure| figure.key() == key)
    }
}

/// The figures of one measurement. CPU, switches and RSS are those of all servers together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figures(pub(super) BTreeMap<Figure, f64>);

impl<const N: usize> From<[(Figure, f64); N]> for Figures {
    fn from(figures: [(Figure, f64); N]) -> Self {
        Self(figures.into())
    }
}

impl Figures {
    pub(super) fn get(&self, figure: Figure) -> Option<f64> {
        self.0.get(&figure).copied()
    }

    /// Returns the figures as they are printed while a run goes on.
    pub(super) fn shown(&self) -> String {
        let shown = self.0.iter().filter(|(figure, _)| !Self::is_detail(**figure));
        let shown = shown.map(|(figure, value)| format!("{value:.0} {}", figure.title()));
        shown.collect::<Vec<_>>().join(", ")
    }

    /// Whether a figure is left out while a run goes on.
    const fn is_detail(figure: Figure) -> bool {
        matches!(
            figure,
            Figure::LeaderCpu | Figure::FollowerCpu | Figure::LeaderThread | Figure::PeerBytes
        )
    }
}

/// One turn of one system.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measurement {
    pub(super) row: Row,
    pub(super) system: Kind,
    /// Counted from 1.
    pub(super) round: usize,
    pub(super) figures: Figures,
}

/// What the figures of a run depend on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Facts {
    pub(super) machine: Machine,
    pub(super) apache_version: String,
    pub(super) zoolet_version: String,
    /// Turns of each load.
    pub(super) rounds: usize,
    /// Of one measurement, without its warm-up.
    pub(super) seconds: u32,
}

/// A run, or what is left of it when others have measured some of its rows anew.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run {
    pub(super) facts: Facts,
    pub(super) measurements: Vec<Measurement>,
}

impl Run {
    fn has(&self, row: Row) -> bool {
        self.measurements.iter().any(|measurement| measurement.row == row)
    }

    /// Returns the groups that it has rows of.
    pub(super) fn groups(&self) -> Vec<Group> {
        let mut groups: Vec<Group> =
            self.measurements.iter().map(|measurement| measurement.row.group()).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }
}

/// Everything that is known: each row is from the last run that measured it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Results {
    pub(super) runs: Vec<Run>,
}

impl Results {
    /// Adds a run, which replaces the rows that it has.
    pub(super) fn add(&mut self, run: Run) {
        for older in &mut self.runs {
            older.measurements.retain(|measurement| !run.has(measurement.row));
        }
        self.runs.retain(|older| !older.measurements.is_empty());
        match self.runs.iter_mut().find(|older| older.facts == run.facts) {
            Some(same) => same.measurements.extend(run.measurements),
            None => self.runs.push(run),
        }
    }

    /// Returns the measured rows of a group, in the order in which they are shown.
    pub(super) fn rows(&self, group: Group) -> Vec<Row> {
        let rows = rows::all().filter(|row| row.group() == group);
        rows.filter(|row| self.runs.iter().any(|run| run.has(*row))).collect()
    }

    /// Returns a figure over all rounds, in their order.
    pub(super) fn values(&self, row: Row, system: Kind, figure: Figure) -> Vec<f64> {
        let measurements = self.runs.iter().flat_map(|run| &run.measurements);
        let of = measurements.filter(|it| it.row == row && it.system == system);
        of.filter_map(|measurement| measurement.figures.get(figure)).collect()
    }

    pub(super) fn summary(&self, row: Row, system: Kind, figure: Figure) -> Option<Summary> {
        Summary::of(&self.values(row, system, figure))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::bench::loads::LOADS;
    use crate::bench::rows::{FAULTS, Fault};

    pub(in crate::bench) fn row() -> Row {
        Row::Load(LOADS[4])
    }

    /// One load in three rounds, and two runs of each fault; zoolet is ten times as fast.
    pub(in crate::bench) fn example() -> Results {
        let mut measurements = Vec::new();
        for (system, factor) in [(Kind::Apache, 1.0), (Kind::Zoolet, 10.0)] {
            for (round, ops_s) in [(1, 11_000.0), (2, 10_000.0), (3, 12_000.0)] {
                let figures = Figures::from([
                    (Figure::OperationsPerSecond, ops_s * factor),
                    (Figure::P50, 5_000.0 / factor),
                    (Figure::P99, 30_000.0 / factor),
                    (Figure::CpuPerOperation, 130.0 / factor),
                    (Figure::SwitchesPerOperation, 2.51 / factor),
                    (Figure::Rss, 500.0 / factor),
                    (Figure::Errors, 0.0),
                ]);
                measurements.push(Measurement { row: row(), system, round, figures });
            }
            for fault in FAULTS {
                for (round, ms) in [(1, 3_000.0), (2, 2_000.0)] {
                    let figures = Figures::from([(Figure::Milliseconds, ms / factor)]);
                    measurements.push(Measurement {
                        row: Row::Fault(fault),
                        system,
                        round,
                        figures,
                    });
                }
            }
        }
        let facts = Facts {
            machine: Machine { cores: 2, memory_mib: 8_000, kernel: "6.1".to_owned() },
            apache_version: "3.9.5".to_owned(),
            zoolet_version: "0.1.0".to_owned(),
            rounds: 3,
            seconds: 3,
        };
        Results { runs: vec![Run { facts, measurements }] }
    }

    /// The example with one kind of rows alone.
    pub(in crate::bench) fn example_of(group: Group) -> Results {
        let mut results = example();
        results.runs[0].measurements.retain(|measurement| measurement.row.group() == group);
        results
    }

    #[test]
    fn a_figure_is_summed_up_over_the_rounds_of_its_system() {
        let results = example();
        let summary = results.summary(row(), Kind::Zoolet, Figure::OperationsPerSecond);
        let expected = Summary { median: 110_000.0, min: 100_000.0, max: 120_000.0 };
        assert_eq!(summary, Some(expected));
        assert_eq!(results.summary(Row::Load(LOADS[0]), Kind::Zoolet, Figure::P50), None);
        let stopped = Row::Fault(Fault::Stopped);
        let times = results.values(stopped, Kind::Apache, Figure::Milliseconds);
        assert_eq!(times, [3_000.0, 2_000.0]);
    }

    #[test]
    fn a_run_replaces_the_rows_that_it_has() {
        let mut results = example();
        let mut run = example_of(Group::Failovers).runs.remove(0);
        for measurement in &mut run.measurements {
            measurement.figures = Figures::from([(Figure::Milliseconds, 7.0)]);
        }
        results.add(run.clone());
        assert_eq!(results.runs.len(), 1, "runs on the same machine are one");
        let killed = Row::Fault(Fault::Killed);
        assert_eq!(results.values(killed, Kind::Zoolet, Figure::Milliseconds), [7.0, 7.0]);
        assert_eq!(results.values(row(), Kind::Zoolet, Figure::P50).len(), 3);
        run.facts.zoolet_version = "0.2.0".to_owned();
        results.add(run);
        assert_eq!(results.runs[0].groups(), [Group::Loads]);
        assert_eq!(results.runs[1].groups(), [Group::Failovers]);
    }

    #[test]
    fn each_figure_has_a_name_and_a_key_of_its_own() {
        for (index, figure) in FIGURES.into_iter().enumerate() {
            assert_eq!(Figure::find(figure.key()), Some(figure));
            assert!(FIGURES[..index].iter().all(|other| other.title() != figure.title()));
        }
    }
}
