//! Everything that a run has found, and its form as JSON.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::figures::{CASES, Case, Figure, SAMPLES};
use super::observation::{NOT_EXCLUSIVE, Observation, QUESTIONS, Question};
use super::options::Options;
use super::servers::{NOT_GRANTED_AGAIN, RELEASE_DOES_NOT_END};
use super::store::System;
use super::way::{Group, NO_LOCK, Way};
use super::{LEASE, POLL, clients, must_be_whole};
use crate::bench::machine::Machine;
use crate::bench::statistics::Summary;

/// What the figures depend on.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) cores: usize,
    pub(super) memory_mib: u64,
    pub(super) kernel: String,
    pub(super) is_short: bool,
    pub(super) rounds: usize,
    pub(super) faults: usize,
    pub(super) lanes: usize,
    /// That of the directories of the servers.
    pub(super) file_system: String,
    pub(super) window_ms: u128,
}

impl Facts {
    pub(super) fn new(options: &Options, machine: Machine) -> Self {
        Self {
            cores: machine.cores,
            memory_mib: machine.memory_mib,
            kernel: machine.kernel,
            is_short: options.is_short,
            rounds: options.rounds,
            faults: options.faults,
            lanes: options.lanes,
            file_system: file_system(
                &std::env::temp_dir(),
                &fs::read_to_string("/proc/mounts").unwrap_or_default(),
            ),
            window_ms: options.window.as_millis(),
        }
    }
}

/// The kind of file system that a directory is on, by a table of mounts.
fn file_system(directory: &Path, mounts: &str) -> String {
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    // Of two mounts at one place the later one is seen.
    let around = mounts.filter(|(at, _)| directory.starts_with(at));
    around.max_by_key(|(at, _)| at.len()).map_or("an unknown file system", |(_, it)| it).to_owned()
}

#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) facts: Facts,
    pub(super) versions: BTreeMap<System, String>,
    /// What is not compared, and why.
    pub(super) missing: Vec<(String, String)>,
    pub(super) observations: Vec<Observation>,
    pub(super) figures: Vec<Figure>,
    pub(super) failures: Vec<String>,
}

impl Report {
    /// What was seen of a way, in the order of the rounds.
    pub(super) fn seen(
        &self,
        way: &str,
        question: Question,
    ) -> impl Iterator<Item = &Observation> + Clone {
        let way = way.to_owned();
        self.observations.iter().filter(move |it| it.way == way && it.question == question)
    }

    /// The numbers that were seen.
    pub(super) fn numbers(&self, way: &str, question: Question) -> Vec<f64> {
        self.seen(way, question).filter_map(|it| it.number).collect()
    }

    /// The values of a figure over all rounds.
    pub(super) fn values(&self, way: &str, case: &str, name: &str) -> Vec<f64> {
        let figures = self.figures.iter().filter(|it| it.way == way && it.case == case);
        let values = figures.flat_map(|it| it.values.iter().filter(|(known, _)| *known == name));
        values.map(|(_, value)| *value).collect()
    }

    pub(super) fn summary(&self, way: &str, case: &str, name: &str) -> Option<Summary> {
        Summary::of(&self.values(way, case, name))
    }

    /// What keeps this run from being whole, and promises of zoolet that it saw broken.
    pub(super) fn problems(&self, groups: &[Group], options: &Options) -> Vec<String> {
        let mut problems = self.failures.clone();
        if !self.no_lock_is_found() {
            problems.push("a lock that excludes no contender was not found".to_owned());
        }
        for way in groups.iter().flat_map(|group| &group.ways) {
            for question in QUESTIONS {
                if self.seen(way.name, question).next().is_none() {
                    problems.push(format!(
                        "{}: nothing was seen of `{}`",
                        way.name,
                        question.name()
                    ));
                }
            }
            let measured = CASES.into_iter().filter(|case| is_measured(way, *case, options));
            for case in measured {
                if self.figures.iter().all(|it| it.way != way.name || it.case != case.name) {
                    problems.push(format!("{}: no figures of `{}`", way.name, case.name));
                }
            }
            problems.extend(self.broken(way));
            problems.extend(self.stuck(way));
            problems.extend(self.idle(way));
        }
        if must_be_whole() {
            let absent = self.missing.iter().filter(|(what, _)| what != "Consul");
            problems.extend(absent.map(|(what, why)| format!("{what}: {why}")));
        }
        problems
    }

    /// Whether the harness has found, in each round, that a lock excluded no contender.
    pub(super) fn no_lock_is_found(&self) -> bool {
        [Question::ExclusivePaused, Question::ExclusiveCut, Question::ExclusiveKilled]
            .into_iter()
            .all(|question| {
                let mut seen = self.seen(NO_LOCK, question).peekable();
                seen.peek().is_some() && seen.all(|it| it.verdict == NOT_EXCLUSIVE)
            })
    }

    /// Locks that were not released, or not granted any more.
    fn stuck(&self, way: &Way) -> Vec<String> {
        let is_stuck = |it: &&Observation| {
            [RELEASE_DOES_NOT_END, NOT_GRANTED_AGAIN].iter().any(|stuck| it.verdict.contains(stuck))
        };
        let own = self.observations.iter().filter(|it| it.way == way.name);
        own.filter(is_stuck).map(shown).collect()
    }

    /// Figures of programs that did nothing.
    fn idle(&self, way: &Way) -> Vec<String> {
        let own = self.figures.iter().filter(|it| it.way == way.name);
        own.filter(|it| it.values.contains(&(SAMPLES, 0.0)))
            .map(|it| format!("{}: nothing ended in round {} of `{}`", it.way, it.round, it.case))
            .collect()
    }

    /// What zoolet promises, and this run saw broken.
    fn broken(&self, way: &Way) -> Vec<String> {
        if way.system != System::Zoolet {
            return Vec::new();
        }
        let is_fenced = self.seen(way.name, Question::Token).any(|it| it.verdict == "yes");
        let accepts_some = |it: &&Observation| {
            it.question == Question::Stale
                && is_fenced
                && it.verdict.split(" / ").next() != it.verdict.split(" / ").last()
        };
        let does_not_rise =
            |it: &&Observation| it.question == Question::Token && it.verdict == "does not rise";
        // A paused holder cannot notice anything.
        let is_shared = |it: &&Observation| {
            [Question::ExclusiveCut, Question::ExclusiveKilled].contains(&it.question)
                && it.verdict == NOT_EXCLUSIVE
        };
        let own = self.observations.iter().filter(|it| it.way == way.name);
        own.filter(|it| {
            accepts_some(it)
                || does_not_rise(it)
                || is_shared(it)
                || it.verdict.contains("held twice")
        })
        .map(shown)
        .collect()
    }
}

fn shown(it: &Observation) -> String {
    format!("{}: {}: {}; {}", it.way, it.question.name(), it.verdict, it.evidence)
}

fn is_measured(way: &Way, case: Case, options: &Options) -> bool {
    options.rounds > 0
        && (way.excludes || !case.hands_over)
        && (!options.is_short || way.is_main && case.is_main)
}

pub(super) fn write(report: &Report) -> Value {
    let Facts { cores, memory_mib, kernel, is_short, rounds, faults, window_ms, .. } =
        &report.facts;
    let versions: BTreeMap<&str, &String> =
        report.versions.iter().map(|(system, version)| (system.title(), version)).collect();
    let observations = report.observations.iter().map(|it| {
        json!({
            "way": it.way, "question": it.question.name(), "verdict": it.verdict,
            "number": it.number, "evidence": it.evidence,
        })
    });
    let figures = report.figures.iter().map(|it| {
        let values: BTreeMap<&str, f64> = it.values.iter().copied().collect();
        json!({"way": it.way, "case": it.case, "round": it.round, "values": values})
    });
    json!({
        "machine": {"cores": cores, "memory_mib": memory_mib, "kernel": kernel,
            "file_system": report.facts.file_system},
        "clients": clients::clients(), "lanes": report.facts.lanes,
        "short": is_short, "rounds": rounds, "fault_rounds": faults, "window_ms": window_ms,
        "lease_ms": LEASE.as_millis(), "poll_ms": POLL.as_millis(),
        "versions": versions,
        "missing": report.missing,
        "no_lock_is_found": report.no_lock_is_found(),
        "failures": report.failures,
        "build": BUILD,
        "observations": observations.collect::<Vec<_>>(),
        "figures": figures.collect::<Vec<_>>(),
    })
}

/// How the programs of this project are built; the command builds all of them alike.
pub(super) const BUILD: &str = if cfg!(debug_assertions) { "debug" } else { "release" };

#[cfg(test)]
pub(super) mod tests {
    use super::super::way::WAYS;
    use super::*;

    /// Two ways, one of which is better.
    pub(in super::super) fn example() -> Report {
        let mut report = Report::default();
        report.missing.push(("Consul".to_owned(), "no package".to_owned()));
        report.versions.insert(System::Zoolet, "0.1.0".to_owned());
        for (way, factor) in [("zoolet-mutex", 1.0), ("redis", 4.0)] {
            for round in 0..3 {
                for case in CASES {
                    let mut values = vec![
                        ("p50_us", 1_000.0 / factor),
                        ("p99_us", 3_000.0 / factor),
                        ("cpu_us", 200.0 / factor),
                        ("memory_mib", 40.0 / factor),
                    ];
                    if !case.hands_over {
                        values.push(("per_second", 500.0 * factor));
                    }
                    report.figures.push(Figure { way, case: case.name, round, values });
                }
                let add = |question, verdict: &str, number| Observation {
                    way,
                    question,
                    verdict: verdict.to_owned(),
                    number,
                    evidence: String::new(),
                };
                report.observations.push(add(Question::Crash, "after", Some(4.0 + factor / 10.0)));
            }
        }
        report
    }

    #[test]
    fn what_was_not_seen_or_is_broken_is_a_problem() {
        let mut report = example();
        let mutex = WAYS.iter().find(|way| way.name == "zoolet-mutex").unwrap();
        let see = |question: Question, verdict: &str| Observation {
            way: "zoolet-mutex",
            question,
            verdict: verdict.to_owned(),
            number: None,
            evidence: "seen".to_owned(),
        };
        assert_eq!(report.broken(mutex), Vec::<String>::new());
        report.observations.push(see(Question::Token, "yes"));
        report.observations.push(see(Question::Stale, "2 / 2 / 2"));
        assert_eq!(report.broken(mutex), Vec::<String>::new());
        report.observations.push(see(Question::Stale, "2 / 2 / 1"));
        report.observations.push(see(Question::Restart, "**held twice**, after"));
        report.observations.push(see(Question::ExclusivePaused, NOT_EXCLUSIVE));
        assert_eq!(report.broken(mutex).len(), 2);
        report.observations.push(see(Question::ExclusiveCut, NOT_EXCLUSIVE));
        assert_eq!(report.broken(mutex).len(), 3);
        report.observations.push(see(Question::Restart, NOT_GRANTED_AGAIN));
        assert_eq!(report.stuck(mutex).len(), 1);
        report.figures[0].values.push((SAMPLES, 0.0));
        assert_eq!(report.idle(mutex).len(), 1);
        let groups = super::super::way::groups();
        let options =
            Options { systems: vec![System::Zoolet], ..Options::from_environment().unwrap() };
        let problems = report.problems(&groups, &options);
        assert!(problems.iter().any(|it| it == "zoolet-mutex: nothing was seen of `pause`"));
        assert!(problems.iter().any(|it| it == "etcd-mutex: no figures of `alone`"));
    }

    #[test]
    fn the_file_system_is_that_of_the_innermost_mount() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\nx /tm xfs rw 0 0\n";
        assert_eq!(file_system(Path::new("/tmp/x"), mounts), "tmpfs");
        assert_eq!(file_system(Path::new("/var"), mounts), "ext4");
    }

    #[test]
    fn the_json_has_every_single_measurement() {
        let report = example();
        let json = write(&report);
        assert_eq!(json["figures"].as_array().unwrap().len(), 3 * 2 * CASES.len());
        assert_eq!(json["figures"][0]["values"]["per_second"], 500.0);
        assert_eq!(json["observations"][0]["question"], "crash");
        assert_eq!(json["versions"]["zoolet"], "0.1.0");
    }
}
