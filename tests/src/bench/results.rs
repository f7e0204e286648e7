//! What a run measures.

use serde_json::{Value, json};

use super::loads::Load;
use super::machine::Machine;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    OperationsPerSecond,
    P50,
    P99,
    CpuPerOperation,
    SwitchesPerOperation,
    Rss,
}

/// All figures, in the order of the columns.
pub(super) const FIGURES: [Figure; 6] = [
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
        }
    }
}

/// The figures of one measurement; CPU, switches and RSS are those of all servers together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Figures {
    pub(super) ops_s: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) cpu_us_per_op: f64,
    pub(super) switches_per_op: f64,
    pub(super) rss_mb: f64,
    /// Replies with an error.
    pub(super) errors: f64,
}

impl Figures {
    const fn get(&self, figure: Figure) -> f64 {
        match figure {
            Figure::OperationsPerSecond => self.ops_s,
            Figure::P50 => self.p50_us,
            Figure::P99 => self.p99_us,
            Figure::CpuPerOperation => self.cpu_us_per_op,
            Figure::SwitchesPerOperation => self.switches_per_op,
            Figure::Rss => self.rss_mb,
        }
    }
}

/// One turn of one system.
#[derive(Clone, Debug)]
pub(super) struct Measurement {
    pub(super) load: Load,
    pub(super) system: Kind,
    /// Counted from 1.
    pub(super) round: usize,
    pub(super) figures: Figures,
}

/// What happens to the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// `kill -9`.
    Killed,
    /// SIGSTOP: its connections stay open, and nothing comes.
    Stopped,
    /// SIGTERM: a planned end.
    Terminated,
}

pub(super) const FAULTS: [Fault; 3] = [Fault::Killed, Fault::Stopped, Fault::Terminated];

impl Fault {
    pub(super) const fn signal(self) -> &'static str {
        match self {
            Self::Killed => "KILL",
            Self::Stopped => "STOP",
            Self::Terminated => "TERM",
        }
    }

    /// Returns the fault and what is measured, in words.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Killed => "kill -9, to the first write",
            Self::Stopped => "SIGSTOP, to the first write",
            Self::Terminated => "SIGTERM, longest gap",
        }
    }
}

/// One run of one fault.
#[derive(Clone, Debug)]
pub(super) struct Failover {
    pub(super) fault: Fault,
    pub(super) system: Kind,
    /// Counted from 1.
    pub(super) run: usize,
    pub(super) ms: f64,
}

/// A whole run.
#[derive(Clone, Debug)]
pub(super) struct Results {
    pub(super) machine: Machine,
    pub(super) apache_version: String,
    pub(super) zoolet_version: String,
    pub(super) rounds: usize,
    pub(super) warm_up_seconds: f64,
    pub(super) seconds: u32,
    /// In the order in which they are shown.
    pub(super) loads: Vec<Load>,
    pub(super) measurements: Vec<Measurement>,
    pub(super) failovers: Vec<Failover>,
}

impl Results {
    /// Returns a figure over all rounds.
    pub(super) fn summary(&self, load: &Load, system: Kind, figure: Figure) -> Option<Summary> {
        let values: Vec<f64> =
            self.of(load, system).map(|measurement| measurement.figures.get(figure)).collect();
        Summary::of(&values)
    }

    /// Returns the replies with errors over all rounds.
    pub(super) fn errors(&self, load: &Load, system: Kind) -> f64 {
        self.of(load, system).map(|measurement| measurement.figures.errors).sum()
    }

    fn of(&self, load: &Load, system: Kind) -> impl Iterator<Item = &Measurement> {
        self.measurements
            .iter()
            .filter(move |measurement| measurement.load == *load && measurement.system == system)
    }

    /// Returns the times of a fault, in the order of the runs.
    pub(super) fn times(&self, fault: Fault, system: Kind) -> Vec<f64> {
        let runs = self.failovers.iter();
        let runs = runs.filter(|failover| failover.fault == fault && failover.system == system);
        runs.map(|failover| failover.ms).collect()
    }

    /// Returns every single measurement, for programs.
    pub(super) fn to_json(&self) -> Value {
        let measurements: Vec<Value> = self.measurements.iter().map(measurement).collect();
        let failovers: Vec<Value> = self.failovers.iter().map(failover).collect();
        json!({
            "machine": {
                "cores": self.machine.cores,
                "memory_mib": self.machine.memory_mib,
                "kernel": self.machine.kernel,
            },
            "versions": { "apache": self.apache_version, "zoolet": self.zoolet_version },
            "warm_up_seconds": self.warm_up_seconds,
            "rounds": self.rounds,
            "seconds": self.seconds,
            "measurements": measurements,
            "failovers": failovers,
        })
    }
}

fn measurement(measurement: &Measurement) -> Value {
    let Measurement { load, system, round, figures } = measurement;
    json!({
        "load": load.to_string(),
        "system": name(*system),
        "round": round,
        "ops_s": figures.ops_s,
        "p50_us": figures.p50_us,
        "p99_us": figures.p99_us,
        "cpu_us_per_op": figures.cpu_us_per_op,
        "switches_per_op": rounded(figures.switches_per_op),
        "rss_mb": figures.rss_mb,
        "errors": figures.errors,
    })
}

fn failover(failover: &Failover) -> Value {
    let Failover { fault, system, run, ms } = failover;
    json!({ "signal": fault.signal(), "system": name(*system), "run": run, "ms": rounded(*ms) })
}

/// To three decimals.
fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::bench::loads::LOADS;

    /// One load in three rounds, and two runs of each fault; zoolet is ten times as fast.
    pub(in crate::bench) fn example() -> Results {
        let load = LOADS[4];
        let mut measurements = Vec::new();
        let mut failovers = Vec::new();
        for (system, factor) in [(Kind::Apache, 1.0), (Kind::Zoolet, 10.0)] {
            for (round, ops_s) in [(1, 11_000.0), (2, 10_000.0), (3, 12_000.0)] {
                let figures = Figures {
                    ops_s: ops_s * factor,
                    p50_us: 5_000.0 / factor,
                    p99_us: 30_000.0 / factor,
                    cpu_us_per_op: 130.0 / factor,
                    switches_per_op: 2.51 / factor,
                    rss_mb: 500.0 / factor,
                    errors: 0.0,
                };
                measurements.push(Measurement { load, system, round, figures });
            }
            for fault in FAULTS {
                for (run, ms) in [(1, 3_000.0), (2, 2_000.0)] {
                    failovers.push(Failover { fault, system, run, ms: ms / factor });
                }
            }
        }
        Results {
            machine: Machine { cores: 2, memory_mib: 8_000, kernel: "6.1".to_owned() },
            apache_version: "3.9.5".to_owned(),
            zoolet_version: "0.1.0".to_owned(),
            rounds: 3,
            warm_up_seconds: 1.5,
            seconds: 3,
            loads: vec![load],
            measurements,
            failovers,
        }
    }

    #[test]
    fn a_figure_is_summed_up_over_the_rounds_of_its_system() {
        let results = example();
        let load = results.loads[0];
        let summary = results.summary(&load, Kind::Zoolet, Figure::OperationsPerSecond);
        let expected = Summary { median: 110_000.0, min: 100_000.0, max: 120_000.0 };
        assert_eq!(summary, Some(expected));
        assert_eq!(results.summary(&LOADS[0], Kind::Zoolet, Figure::P50), None);
        assert_eq!(results.times(Fault::Stopped, Kind::Apache), [3_000.0, 2_000.0]);
    }

    #[test]
    fn the_json_has_every_single_measurement() {
        let json = example().to_json();
        assert_eq!(json["measurements"].as_array().unwrap().len(), 6);
        assert_eq!(json["failovers"].as_array().unwrap().len(), 12);
        assert_eq!(json["measurements"][3]["load"], "3:set:16x8");
        assert_eq!(json["measurements"][3]["switches_per_op"], 0.251);
        assert_eq!(json["failovers"][2]["signal"], "STOP");
        assert_eq!(json["machine"]["cores"], 2);
    }
}
