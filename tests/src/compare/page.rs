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
use super::store::SYSTEMS;
use super::way::{WAYS, Way, shown};
use super::worse::worse;
use super::{LEASE, POLL, clients};
use crate::bench::statistics::Summary;
use crate::bench::svg::short;

const TEXT: &str = include_str!("page.md");
const PAGE: &str = "lock-comparison.md";
const DATA: &str = "lock-comparison.json";
/// Where the plots are, from the page.
const PLOTS: &str = "lock-comparison";

/// Writes the page, the data and the plots.
pub(super) fn write(directory: &Path, report: &Report) -> Result<(), CompareError> {
    let plots = directory.join(PLOTS);
    fs::create_dir_all(&plots).map_err(CompareError::file(&plots))?;
    for entry in fs::read_dir(&plots).map_err(CompareError::file(&plots))?.flatten() {
        // That of an earlier run may have no successor.
        if entry.path().extension().is_some_and(|it| it == "svg") {
            fs::remove_file(entry.path()).map_err(CompareError::file(&entry.path()))?;
        }
    }
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
    let exclusion = [Question::ExclusivePaused, Question::ExclusiveCut, Question::ExclusiveKilled];
    let parts: [(&str, String); 14] = [
        ("short", warning(report).to_owned()),
        ("exclusion", behavior(report, &exclusion)),
        ("failed", failed(report)),
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
    let text = parts.iter().fold(TEXT.to_owned(), |text, (name, part)| {
        text.replace(&format!("{{{{{name}}}}}"), part.trim_end())
    });
    let made: Vec<&str> = plots::all(report).into_iter().map(|(name, _)| name).collect();
    let is_kept = |line: &&str| match line.split_once(&format!("({PLOTS}/")) {
        Some((_, name)) => made.contains(&name.trim_end_matches(')')),
        None => true,
    };
    text.lines().filter(is_kept).fold(String::new(), |text, line| {
        // What was left out leaves one empty line, not two.
        if line.is_empty() && text.ends_with("\n\n") { text } else { text + line + "\n" }
    })
}

fn facts(report: &Report) -> String {
    let facts = &report.facts;
    let gib = f64::from(u32::try_from(facts.memory_mib).unwrap_or(u32::MAX)) / 1024.0;
    format!(
        "{} cores, {gib:.1} GiB of memory, Linux {}, data on {}; a {} build of zoolet; {} of each figure, \
         each of {} ms, and {} of each fault; leases and sessions of {} s, and {} ms in the mean \
         between two tries of what polls.\n\
         The behavior of {} stores is watched side by side; for figures one store runs at a time, and \
         each round has the opposite order of the one before.\n\
         {}",
        facts.cores,
        facts.kernel,
        facts.file_system,
        data::BUILD,
        rounds(facts.rounds),
        facts.window_ms,
        rounds(facts.faults),
        LEASE.as_secs(),
        POLL.as_millis(),
        facts.lanes,
        clients::clients(),
    )
}

fn rounds(count: usize) -> String {
    if count == 1 { "one round".to_owned() } else { format!("{count} rounds") }
}

/// What a page of a short form begins with.
fn warning(report: &Report) -> &'static str {
    if report.facts.is_short {
        "**A short run, to see that everything works: its times mean nothing.**\n"
    } else {
        ""
    }
}

fn failed(report: &Report) -> String {
    let control = if report.no_lock_is_found() {
        "A lock that excludes no contender was found to be none, in every round."
    } else {
        "**A lock that excludes no contender was not found to be none.**"
    };
    let mut text = format!("{control}\n\n");
    for failure in &report.failures {
        let _ = writeln!(text, "- {}", failure.lines().next().unwrap_or_default());
    }
    if report.failures.is_empty() {
        text.push_str("Failed in this run: nothing.\n");
    } else {
        text.insert_str(control.len() + 2, "Failed in this run:\n\n");
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
    for way in &WAYS {
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
            _ => "99th percentile, in ms, where a round has at least 100 times",
        };
        let has_values =
            |case: &&Case| shown().any(|way| report.summary(way.name, case.name, name).is_some());
        let cases: Vec<&Case> = cases.iter().filter(has_values).collect();
        if cases.is_empty() {
            continue;
        }
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
        assert!(first.starts_with("**Where zoolet is worse**"), "{first}");
        let line =
            "- acquire and release of one client, median: 1 ms; Redis, `SET NX PX` 0.25 ms.\n";
        assert!(page.contains(line), "{page}");
        assert!(!page.contains("{{"), "{page}");
        assert!(page.contains("Consul: no package."), "{page}");
    }

    #[test]
    fn what_was_not_measured_has_no_column_and_no_plot() {
        let mut report = example();
        report.figures.retain(|figure| figure.case != "hand-over:100");
        report.failures.push("redis, alone: it has ended\nwith this".to_owned());
        let page = page(&report);
        assert!(page.contains("hand-over, 1 waiter") && page.contains("hand-over.svg"));
        assert!(!page.contains("hand-over, 100 waiters") && !page.contains("hand-over-100.svg"));
        assert!(page.contains("Failed in this run:\n\n- redis, alone: it has ended\n"), "{page}");
        assert!(!page.contains("\n\n\n"), "{page}");
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
