//! Where other ways do better than zoolet: the first paragraph of the page.

use std::collections::BTreeMap;

use super::data::Report;
use super::figures::{CPU_US, MEMORY_MIB, P50_US, P99_US, PER_SECOND};
use super::observation::Question;
use super::store::System;
use super::way::{Way, shown};
use crate::bench::statistics::Summary;
use crate::bench::svg::short;

/// The way that others are compared with.
const OURS: &str = "zoolet-mutex";
/// What is closer than this is not worse.
const RATIO_MIN: f64 = 1.1;

/// A figure in which one way can be better than another.
struct Subject {
    what: &'static str,
    case: &'static str,
    name: &'static str,
}

const fn subject(what: &'static str, case: &'static str, name: &'static str) -> Subject {
    Subject { what, case, name }
}

const SUBJECTS: [Subject; 14] = [
    subject("acquire and release of one client, median", "alone", P50_US),
    subject("acquire and release of one client, 99th percentile", "alone", P99_US),
    subject("acquire and release of 8 clients of one lock, median", "one:8", P50_US),
    subject("acquire and release of 8 clients of one lock, 99th percentile", "one:8", P99_US),
    subject("8 clients of one lock, together", "one:8", PER_SECOND),
    subject("8 clients with a lock each, together", "many:8", PER_SECOND),
    subject("64 clients with a lock each, together", "many:64", PER_SECOND),
    subject("hand-over to one waiter, median", "hand-over:1", P50_US),
    subject("hand-over to one waiter, 99th percentile", "hand-over:1", P99_US),
    subject("hand-over among 100 waiters, median", "hand-over:100", P50_US),
    subject("hand-over among 100 waiters, 99th percentile", "hand-over:100", P99_US),
    subject("CPU of the servers for a cycle of one client", "alone", CPU_US),
    subject("CPU of the servers for a cycle of 8 clients of one lock", "one:8", CPU_US),
    subject("memory of the servers with 8 clients", "many:8", MEMORY_MIB),
];

impl Subject {
    fn value(&self, report: &Report, way: &str) -> Option<f64> {
        report.summary(way, self.case, self.name).map(|it| it.median)
    }

    fn show(&self, value: f64) -> String {
        match self.name {
            PER_SECOND => format!("{} cycles/s", short(value)),
            MEMORY_MIB => format!("{} MiB", short(value)),
            _ => format!("{} ms", short(value / 1_000.0)),
        }
    }

    /// A line, if another way is better; the best way of each store is named.
    fn line(&self, report: &Report) -> Option<String> {
        let ours = self.value(report, OURS)?;
        let mut better: BTreeMap<System, (f64, f64, &str)> = BTreeMap::new();
        for way in others() {
            let Some(theirs) = self.value(report, way.name) else { continue };
            let more_is_better = self.name == PER_SECOND;
            let ratio = if more_is_better { theirs / ours } else { ours / theirs };
            let best = better.get(&way.system).map_or(RATIO_MIN, |(best, _, _)| *best);
            if ratio > best && ratio.is_finite() {
                better.insert(way.system, (ratio, theirs, way.title));
            }
        }
        let mut better: Vec<(f64, f64, &str)> = better.into_values().collect();
        better.sort_by(|one, other| other.0.total_cmp(&one.0));
        let listed =
            better.iter().map(|(_, value, title)| format!("{title} {}", self.show(*value)));
        let listed = listed.collect::<Vec<_>>().join(", ");
        (!listed.is_empty()).then(|| format!("- {}: {}; {listed}.", self.what, self.show(ours)))
    }
}

/// The ways of other stores; those that compare versions hold no lock.
fn others() -> impl Iterator<Item = &'static Way> {
    shown().filter(|way| way.system != System::Zoolet && way.excludes)
}

/// Where other ways do better than zoolet, with a line for each subject.
pub(super) fn worse(report: &Report) -> String {
    let mut lines: Vec<String> = SUBJECTS.iter().filter_map(|it| it.line(report)).collect();
    lines.extend(killed(report));
    lines.extend(reentrant(report));
    lines.extend(remains(report));
    if lines.is_empty() {
        return "In this run no other way did better in any figure.".to_owned();
    }
    format!(
        "**Where zoolet is worse**, by medians of all rounds: zoolet's `Mutex` comes first, then the \
         best way of each other store that is better.\n\n{}",
        lines.join("\n")
    )
}

fn killed(report: &Report) -> Option<String> {
    let crash = |way: &str| Summary::of(&report.numbers(way, Question::Crash)).map(|it| it.median);
    let ours = crash(OURS)?;
    let sooner = others().filter(|way| crash(way.name).is_some_and(|it| it < ours / 2.0));
    let sooner: Vec<&str> = sooner.map(|way| way.title).collect();
    (!sooner.is_empty()).then(|| {
        let sooner = sooner.join(", ");
        format!(
            "- a lock whose holder is killed is granted after {ours:.1} s, when the session has timed \
             out; sooner: {sooner}."
        )
    })
}

fn reentrant(report: &Report) -> Option<String> {
    let is_so = |way: &str| report.seen(way, Question::Again).any(|it| it.verdict == "yes");
    let known = report.seen(OURS, Question::Again).next().is_some();
    let others: Vec<&str> = others().filter(|way| is_so(way.name)).map(|way| way.title).collect();
    (known && !is_so(OURS) && !others.is_empty()).then(|| {
        let others = others.join(", ");
        format!("- a holder that acquires once more waits for itself; not with {others}.")
    })
}

fn remains(report: &Report) -> Option<String> {
    let leaves = |way: &str| report.seen(way, Question::Remains).any(|it| it.verdict != "nothing");
    let nothing =
        |way: &&Way| report.seen(way.name, Question::Remains).next().is_some() && !leaves(way.name);
    let others: Vec<&str> = others().filter(nothing).map(|way| way.title).collect();
    (leaves(OURS) && !others.is_empty()).then(|| {
        let others = others.join(", ");
        format!("- a killed holder leaves an empty container for a while; nothing with {others}.")
    })
}
