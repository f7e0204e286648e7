//! The tables of the results.

use std::fmt::Write;

use super::goals;
use super::model;
use super::results::{Facts, Figure, LOAD_FIGURES, Results, SYSTEMS, name};
use super::rows::{GROUPS, Group, Row};
use super::statistics::{Summary, percentile, sorted};
use crate::builder::Kind;

/// Where the plots are, from the page.
pub(super) const PLOTS: &str = "performance";

/// Returns the section of `performance.md`.
pub(super) fn section(results: &Results) -> String {
    let mut text = facts(results);
    text.push_str(&goals(results));
    for group in GROUPS {
        let rows = results.rows(group);
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n### {}\n", group.title());
        match group {
            Group::Loads => text.push_str(&loads(results, &rows)),
            Group::Failovers => text.push_str(&failovers(results, &rows)),
            Group::Locks
            | Group::HandOver
            | Group::Million
            | Group::Clients
            | Group::Connections
            | Group::Znodes
            | Group::Up
            | Group::Holds
            | Group::Busy
            | Group::Build
            | Group::Disk => text.push_str(&cases(results, &rows)),
        }
    }
    text.push_str(&model::section(results).unwrap_or_default());
    text
}

/// Returns a line for each run, with what is from it.
fn facts(results: &Results) -> String {
    let mut text = String::new();
    for run in &results.runs {
        let Facts { machine, apache_version, zoolet_version, rounds, seconds } = &run.facts;
        let groups = run.groups().into_iter().map(Group::title).collect::<Vec<_>>().join("; ");
        let _ = writeln!(
            text,
            "- zoolet {zoolet_version} and Apache ZooKeeper {apache_version} on {} cores with \
             {:.1} GiB of memory, Linux {}; {rounds} rounds of {seconds} s: {groups}.",
            machine.cores,
            f64::from(u32::try_from(machine.memory_mib).unwrap_or(u32::MAX)) / 1024.0,
            machine.kernel,
        );
    }
    text.push_str(
        "\nEach figure is the median of all rounds, with minimum and maximum in brackets.\n\
         Every single measurement is in [performance.json](performance.json).\n",
    );
    text
}

fn goals(results: &Results) -> String {
    let judged = goals::judge(results);
    if judged.is_empty() {
        return String::new();
    }
    let met = judged.iter().filter(|it| it.is_met).count();
    let mut text = format!(
        "\n### Goals\n\n{met} of {} are met.\n\n| what | figure | goal | zoolet | met |\n\
         |---|---|---|---|---|\n",
        judged.len(),
    );
    for it in judged {
        let unit = if it.is_ratio { "×" } else { "" };
        let is_met = if it.is_met { "yes" } else { "**no**" };
        let (what, measured) = (it.row.title(), number(it.measured));
        let _ = writeln!(
            text,
            "| {what} | {} | {} | {measured}{unit} | {is_met} |",
            it.figure, it.goal
        );
    }
    text
}

fn loads(results: &Results, rows: &[Row]) -> String {
    let mut text = format!(
        "![Operations per second]({PLOTS}/throughput.svg)\n\n![Latency]({PLOTS}/latency.svg)\n\n",
    );
    text.push_str(&table(results, rows, &LOAD_FIGURES));
    text.push_str(&errors(results, rows));
    text
}

/// Returns a table for each run of rows with the same figures.
fn cases(results: &Results, rows: &[Row]) -> String {
    let tables = rows.chunk_by(|one, next| figures(*one) == figures(*next)).map(|rows| {
        let figures = rows.first().map(|row| figures(*row)).unwrap_or_default();
        table(results, rows, figures)
    });
    tables.collect::<Vec<_>>().join("\n")
}

const fn figures(row: Row) -> &'static [Figure] {
    match row {
        Row::Case(case) => case.figures,
        Row::Load(_) => &LOAD_FIGURES,
        Row::Fault(_) => &[Figure::Milliseconds],
    }
}

/// Returns a table with a line of each row for each system, and one of their ratios.
fn table(results: &Results, rows: &[Row], figures: &[Figure]) -> String {
    let titles: Vec<&str> = figures.iter().map(|figure| figure.title()).collect();
    let mut text = format!(
        "| what | system | {} |\n|---|---|{}\n",
        titles.join(" | "),
        "---|".repeat(figures.len())
    );
    for row in rows {
        let title = row.title();
        for system in SYSTEMS {
            let cells = figures.iter().map(|figure| {
                results.summary(*row, system, *figure).map_or_else(String::new, |it| spread(&it))
            });
            line(&mut text, &title, name(system), &cells.collect::<Vec<_>>());
        }
        let ratios = figures.iter().map(|it| ratio(results, *row, *it).unwrap_or_default());
        line(&mut text, &title, "**zoolet / Apache**", &ratios.collect::<Vec<_>>());
    }
    text
}

/// Writes a line of a table, if there is anything in it.
fn line(text: &mut String, title: &str, system: &str, cells: &[String]) {
    if cells.iter().any(|cell| !cell.is_empty()) {
        let _ = writeln!(text, "| {title} | {system} | {} |", cells.join(" | "));
    }
}

/// Returns a line about replies with errors.
fn errors(results: &Results, rows: &[Row]) -> String {
    let mut found = Vec::new();
    for row in rows {
        for system in SYSTEMS {
            let errors: f64 = results.values(*row, system, Figure::Errors).iter().sum();
            if errors > 0.0 {
                found.push(format!("{errors:.0} ({}, {})", name(system), row.title()));
            }
        }
    }
    let found = if found.is_empty() { "none".to_owned() } else { found.join("; ") };
    format!("\nReplies with errors: {found}.\n")
}

/// `median (minimum–maximum)`, or the one value.
fn spread(summary: &Summary) -> String {
    let Summary { median, min, max } = summary;
    let (shown, min, max) = (number(*median), number(*min), number(*max));
    if min == max { shown } else { format!("{shown} ({min}–{max})") }
}

fn ratio(results: &Results, row: Row, figure: Figure) -> Option<String> {
    let theirs = results.summary(row, Kind::Apache, figure)?.median;
    let ours = results.summary(row, Kind::Zoolet, figure)?.median;
    (theirs > 0.0).then(|| format!("**{}×**", number(ours / theirs)))
}

/// Three digits or more: small numbers have decimals, greater ones none.
pub(super) fn number(value: f64) -> String {
    let decimals = match value {
        value if value < 0.0995 => 3,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

fn failovers(results: &Results, rows: &[Row]) -> String {
    let mut text = format!(
        "![Time without acknowledged writes]({PLOTS}/failover.svg)\n\n\
         | fault | system | runs | p50 ms | p99 ms | max ms | failed requests | all runs, ms |\n\
         |---|---|---|---|---|---|---|---|\n"
    );
    for row in rows {
        for system in SYSTEMS {
            let _ = writeln!(text, "{}", failover(results, *row, system));
        }
    }
    text
}

fn failover(results: &Results, row: Row, system: Kind) -> String {
    let times = results.values(row, system, Figure::Milliseconds);
    let at = |percent| percentile(&times, percent).unwrap_or_default();
    let all: Vec<String> = sorted(&times).iter().map(|time| format!("{time:.0}")).collect();
    // They are counted for a planned end alone: in the others a writer may lose what it has sent.
    let failed = results.values(row, system, Figure::FailedRequests);
    let failed =
        if failed.is_empty() { "–".to_owned() } else { failed.iter().sum::<f64>().to_string() };
    format!(
        "| {} | {} | {} | {:.0} | {:.0} | {:.0} | {failed} | {} |",
        row.title(),
        name(system),
        times.len(),
        at(50),
        at(99),
        at(100),
        all.join(" "),
    )
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::{example, example_of};
    use super::*;

    #[test]
    fn a_load_has_a_row_of_each_system_and_one_of_ratios() {
        let text = section(&example());
        for row in [
            "| what | system | ops/s | p50 µs | p99 µs | CPU µs/op | switches/op | RSS MB |",
            "| 3 servers, set 16×8 | Apache | 11000 (10000–12000) | 5000 | 30000 | 130 | 2.51 | 500 |",
            "| 3 servers, set 16×8 | zoolet | 110000 (100000–120000) | 500 | 3000 | 13.0 | 0.25 | 50.0 |",
            "| 3 servers, set 16×8 | **zoolet / Apache** | **10.0×** | **0.10×** | **0.10×** | \
             **0.10×** | **0.10×** | **0.10×** |",
            "Replies with errors: none.",
        ] {
            assert!(text.lines().any(|line| line == row), "{row}\n{text}");
        }
    }

    #[test]
    fn a_fault_has_a_row_of_each_system_with_all_its_runs() {
        let text = section(&example());
        let row = "| SIGTERM, longest gap | zoolet | 2 | 200 | 300 | 300 | – | 200 300 |";
        assert!(text.lines().any(|line| line == row), "{text}");
    }

    #[test]
    fn a_goal_has_a_row_that_says_whether_it_is_met() {
        let text = section(&example());
        for row in [
            "5 of 7 are met.",
            "| 3 servers, set 16×8 | ops/s | ≥ 8× Apache's | 10.0× | yes |",
            "| SIGTERM, longest gap | ms, greatest | ≤ 50 | 300 | **no** |",
        ] {
            assert!(text.lines().any(|line| line == row), "{row}\n{text}");
        }
    }

    #[test]
    fn small_numbers_have_decimals() {
        let shown = [0.0, 0.0042, 0.251, 9.999, 12.34, 99.96, 735_846.4].map(number);
        assert_eq!(shown, ["0.000", "0.004", "0.25", "10.0", "12.3", "100", "735846"]);
    }

    #[test]
    fn errors_are_named_with_their_load() {
        let mut results = example_of(Group::Loads);
        results.runs[0].measurements[4].figures.0.insert(Figure::Errors, 3.0);
        let text = section(&results);
        let line = "Replies with errors: 3 (zoolet, 3 servers, set 16×8).";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn what_was_not_measured_has_no_part() {
        assert!(!section(&example_of(Group::Loads)).contains("### Failover"));
        assert!(!section(&example_of(Group::Failovers)).contains("### Loads"));
    }
}
