//! The page: the text of `page.md` with what a run has found.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::data::{self, Report};
use super::error::CompareError;
use super::figures::{CASES, CPU_US, Case, ERRORS, MEMORY_MIB, P50_US, P99_US, PER_SECOND};
use super::observation::Question;
use super::plots;
use super::store::{SYSTEMS, System};
use super::way::{Way, shown};
use super::{LEASE, POLL};
use crate::bench::statistics::Summary;
use crate::bench::svg::short;

const TEXT: &str = include_str!("page.md");
const PAGE: &str = "lock-comparison.md";
const DATA: &str = "lock-comparison.json";
/// Where the plots are, from the page.
const PLOTS: &str = "lock-comparison";

/// The way that others are held against.
const OURS: &str = "zoolet-mutex";

/// Writes the page, the data and the plots.
pub(super) fn write(directory: &Path, report: &Report) -> Result<(), CompareError> {
    let plots = directory.join(PLOTS);
    fs::create_dir_all(&plots).map_err(CompareError::file(&plots))?;
    for (name, text) in plots::all(report) {
        replace(&plots.join(name), &text)?;
    }
    replace(&directory.join(DATA), &format!("{:#}\n", data::write(report)))?;
    replace(&directory.join(PAGE), &page(report))
}

/// Writes a whole file under another name first.
fn replace(path: &Path, text: &str) -> Result<(), CompareError> {
    let new = path.with_added_extension("new");
    fs::write(&new, text).map_err(CompareError::file(&new))?;
    fs::rename(&new, path).map_err(CompareError::file(path))
}

fn page(report: &Report) -> String {
    let holder = [
        Question::Pause,
        Question::Cut,
        Question::Crash,
        Question::LostPaused,
        Question::LostCut,
        Question::Token,
        Question::Stale,
    ];
    let waiting = [Question::Order, Question::Waiting, Question::Again, Question::Remains];
    let servers = [Question::Restart, Question::Loss, Question::Failover, Question::Clock];
    let parts: [(&str, String); 11] = [
        ("worse", worse(report)),
        ("facts", facts(report)),
        ("stores", stores(report)),
        ("missing", missing(report)),
        ("holder", behavior(report, &holder)),
        ("waiting", behavior(report, &waiting)),
        ("servers", behavior(report, &servers)),
        ("cycles", figures(report, false, &[PER_SECOND, P50_US, P99_US])),
        ("hand-overs", figures(report, true, &[P50_US, P99_US])),
        ("costs", costs(report)),
        ("errors", errors(report)),
    ];
    parts.iter().fold(TEXT.to_owned(), |text, (name, part)| {
        text.replace(&format!("{{{{{name}}}}}"), part.trim_end())
    })
}

/// Where other ways do better than zoolet, by their medians.
fn worse(report: &Report) -> String {
    let subjects: [(&str, &str, &str, bool); 6] = [
        ("cycles of one client per second", "alone", PER_SECOND, true),
        ("cycles of 64 clients with a lock each per second", "many:64", PER_SECOND, true),
        ("cycles of 64 clients of one lock per second", "one:64", PER_SECOND, true),
        ("the median hand-over to one waiter in µs", "hand-over:1", P50_US, false),
        ("CPU of the servers for each cycle of one client in µs", "alone", CPU_US, false),
        ("memory of the servers with 8 clients in MiB", "many:8", MEMORY_MIB, false),
    ];
    let mut sentences = Vec::new();
    for (what, case, name, more_is_better) in subjects {
        let Some(ours) = report.summary(OURS, case, name).map(|it| it.median) else { continue };
        // The best way of each store.
        let mut better: BTreeMap<System, (f64, &str)> = BTreeMap::new();
        for way in shown().filter(|way| way.system != System::Zoolet) {
            let Some(theirs) = report.summary(way.name, case, name) else { continue };
            let ratio = if more_is_better { theirs.median / ours } else { ours / theirs.median };
            let best = better.get(&way.system).map_or(1.1, |(best, _)| *best);
            if ratio > best && ratio.is_finite() {
                better.insert(way.system, (ratio, way.title));
            }
        }
        let mut better: Vec<(f64, &str)> = better.into_values().collect();
        better.sort_by(|one, other| other.0.total_cmp(&one.0));
        if better.is_empty() {
            continue;
        }
        let listed = better.iter().map(|(ratio, title)| format!("{title} {ratio:.1}×"));
        let ours = short(ours);
        sentences.push(format!("{what} ({ours}): {}", listed.collect::<Vec<_>>().join(", ")));
    }
    let crash = |way: &str| Summary::of(&report.numbers(way, Question::Crash)).map(|it| it.median);
    if let Some(ours) = crash(OURS) {
        let at_once = shown().filter(|way| crash(way.name).is_some_and(|it| it < ours / 2.0));
        let at_once: Vec<&str> = at_once.map(|way| way.title).collect();
        if !at_once.is_empty() {
            sentences.push(format!(
                "a lock whose holder is killed goes on after {ours:.1} s, when the session has timed \
                 out; sooner with {}",
                at_once.join(", ")
            ));
        }
    }
    if sentences.is_empty() {
        return "In this run no other way did better in any figure.".to_owned();
    }
    format!(
        "**Where zoolet is worse**, by medians, with zoolet's own in brackets and the best way of each \
         other store: {}.",
        sentences.join(";\n")
    )
}

fn facts(report: &Report) -> String {
    let facts = &report.facts;
    let gib = f64::from(u32::try_from(facts.memory_mib).unwrap_or(u32::MAX)) / 1024.0;
    let mut text = format!(
        "{} cores, {gib:.1} GiB of memory, Linux {}; {} rounds of each figure of {} ms, {} of each \
         fault; leases and sessions of {} s, and {} ms between two tries of what polls.",
        facts.cores,
        facts.kernel,
        facts.rounds,
        facts.window_ms,
        facts.faults,
        LEASE.as_secs(),
        POLL.as_millis(),
    );
    if facts.is_short {
        text.push_str("\n**A short form: its times are not to be read as results.**");
    }
    text
}

fn stores(report: &Report) -> String {
    let mut text = String::from("| store | version | set up as |\n|---|---|---|\n");
    for system in SYSTEMS {
        let version = report.versions.get(&system).map_or("not run", String::as_str);
        let _ = writeln!(text, "| {system} | {version} | {} |", system.configuration());
    }
    text
}

fn missing(report: &Report) -> String {
    report.missing.iter().fold(String::new(), |mut text, (what, why)| {
        let _ = writeln!(text, "- {what}: {why}.");
        text
    })
}

/// A table of what was seen, with a line for each way.
fn behavior(report: &Report, questions: &[Question]) -> String {
    let titles: Vec<&str> = questions.iter().map(|it| it.title()).collect();
    let mut text = head("way", &titles);
    for way in shown() {
        let cells = questions.iter().map(|question| cell(report, way, *question));
        line(&mut text, way, &cells.collect::<Vec<_>>());
    }
    text
}

/// The verdicts of all rounds, with the median and the spread of their numbers.
fn cell(report: &Report, way: &Way, question: Question) -> String {
    let mut verdicts: BTreeMap<&str, (usize, Vec<f64>)> = BTreeMap::new();
    for seen in report.seen(way.name, question) {
        let entry = verdicts.entry(&seen.verdict).or_default();
        entry.0 += 1;
        entry.1.extend(seen.number);
    }
    let several = verdicts.len() > 1 && question != Question::Failover;
    let unit = if question == Question::Waiting { "" } else { " s" };
    let texts = verdicts.into_iter().map(|(verdict, (count, numbers))| {
        let number = Summary::of(&numbers).map_or_else(String::new, |it| {
            let separator = if question == Question::Waiting { ": " } else { " " };
            format!("{separator}{}{unit}", spread(&it, |value| format!("{value:.1}")))
        });
        let times = if several { format!(" ({count}×)") } else { String::new() };
        format!("{verdict}{number}{times}")
    });
    texts.collect::<Vec<_>>().join("; ")
}

/// A table of figures, with columns for each case and name.
fn figures(report: &Report, hands_over: bool, names: &[&str]) -> String {
    let cases: Vec<Case> = CASES.into_iter().filter(|it| it.hands_over == hands_over).collect();
    let mut text = String::new();
    for name in names {
        let unit = match *name {
            PER_SECOND => "Acquire and release, per second",
            P50_US => "Median, in ms",
            _ => "99th percentile, in ms",
        };
        let titles: Vec<&str> = cases.iter().map(|case| case.title).collect();
        let _ = writeln!(text, "\n{unit}:\n\n{}", head("way", &titles).trim_end());
        for way in shown() {
            let cells = cases.iter().map(|case| {
                let show = |value: f64| if *name == PER_SECOND { short(value) } else { ms(value) };
                let summary = report.summary(way.name, case.name, name);
                summary.map_or_else(String::new, |it| spread(&it, show))
            });
            line(&mut text, way, &cells.collect::<Vec<_>>());
        }
    }
    text
}

fn costs(report: &Report) -> String {
    let columns = [
        ("CPU for each cycle of 1 client, in µs", "alone", CPU_US),
        ("of 8 clients of one lock, in µs", "one:8", CPU_US),
        ("of 8 clients with a lock each, in µs", "many:8", CPU_US),
        ("memory of all servers, in MiB", "many:8", MEMORY_MIB),
    ];
    let titles: Vec<&str> = columns.iter().map(|(title, _, _)| *title).collect();
    let mut text = head("way", &titles);
    for way in shown() {
        let cells = columns.iter().map(|(_, case, name)| {
            let summary = report.summary(way.name, case, name);
            summary.map_or_else(String::new, |it| spread(&it, short))
        });
        line(&mut text, way, &cells.collect::<Vec<_>>());
    }
    text
}

/// A line about errors of the stores.
fn errors(report: &Report) -> String {
    let mut found = Vec::new();
    for way in shown() {
        for case in CASES {
            let count: f64 = report.values(way.name, case.name, ERRORS).iter().sum();
            if count > 0.0 {
                found.push(format!("{count:.0} ({}, {})", way.title, case.title));
            }
        }
    }
    let found = if found.is_empty() { "none".to_owned() } else { found.join("; ") };
    format!("Errors of a store, after which its program tried again: {found}.")
}

fn head(first: &str, titles: &[&str]) -> String {
    format!("| {first} | {} |\n|---|{}\n", titles.join(" | "), "---|".repeat(titles.len()))
}

/// Writes a line of a table, if there is anything in it.
fn line(text: &mut String, way: &Way, cells: &[String]) {
    if cells.iter().any(|cell| !cell.is_empty()) {
        let _ = writeln!(text, "| {} | {} |", way.title, cells.join(" | "));
    }
}

/// `median (minimum–maximum)`, or the one value.
fn spread(summary: &Summary, show: impl Fn(f64) -> String) -> String {
    let (median, min, max) = (show(summary.median), show(summary.min), show(summary.max));
    if min == max { median } else { format!("{median} ({min}–{max})") }
}

/// Microseconds in milliseconds.
fn ms(us: f64) -> String {
    short(us / 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::super::data::tests::example;
    use super::*;

    #[test]
    fn the_page_begins_with_where_zoolet_is_worse() {
        let page = page(&example());
        let first = page.split("\n\n").nth(1).unwrap();
        assert!(first.contains("Redis, `SET NX PX` 4.0×"), "{first}");
        assert!(!page.contains("{{"), "{page}");
        assert!(page.contains("Consul: no package."), "{page}");
    }

    #[test]
    fn the_verdicts_of_all_rounds_are_put_together() {
        let mut report = example();
        let way = shown().next().unwrap();
        assert_eq!(cell(&report, way, Question::Crash), "after 4.1 s");
        let mut other = report.observations[0].clone();
        other.number = Some(4.5);
        report.observations.push(other.clone());
        assert_eq!(cell(&report, way, Question::Crash), "after 4.1 (4.1–4.5) s");
        other.verdict = "never".to_owned();
        other.number = None;
        report.observations.push(other);
        assert_eq!(cell(&report, way, Question::Crash), "after 4.1 (4.1–4.5) s (4×); never (1×)");
    }

    #[test]
    fn a_run_writes_the_page_the_data_and_the_plots() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), &example()).unwrap();
        let page = fs::read_to_string(directory.path().join(PAGE)).unwrap();
        for link in page.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.starts_with(PLOTS) {
                assert!(directory.path().join(link).is_file(), "{link}");
            }
        }
    }
}
