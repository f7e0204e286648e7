//! The tables of a run.

use std::fmt::Write;

use super::loads::Load;
use super::results::{FAULTS, FIGURES, Fault, Figure, Results, SYSTEMS, name};
use super::statistics::{Summary, percentile, sorted};
use crate::builder::Kind;

/// Where the plots are, from the page.
pub(super) const PLOTS: &str = "performance";

/// Returns the section of `performance.md`.
pub(super) fn section(results: &Results) -> String {
    let mut text = facts(results);
    if !results.loads.is_empty() {
        text.push_str(&loads(results));
    }
    if !results.failovers.is_empty() {
        text.push_str(&failovers(results));
    }
    text
}

fn facts(results: &Results) -> String {
    let machine = &results.machine;
    format!(
        "zoolet {} and Apache ZooKeeper {} on {} cores with {:.1} GiB of memory, Linux {}.\n\
         Every single measurement is in [performance.json](performance.json).\n",
        results.zoolet_version,
        results.apache_version,
        machine.cores,
        f64::from(u32::try_from(machine.memory_mib).unwrap_or(u32::MAX)) / 1024.0,
        machine.kernel,
    )
}

fn loads(results: &Results) -> String {
    let Results { rounds, seconds, warm_up_seconds, .. } = results;
    let mut text = format!(
        "\n### Loads\n\n\
         Rounds: {rounds}, of {seconds} s for each load and system, after {warm_up_seconds} s of \
         warming up.\nEach figure is the median, with minimum and maximum in brackets.\n\n\
         ![Operations per second]({PLOTS}/throughput.svg)\n\n\
         ![Latency]({PLOTS}/latency.svg)\n\n| load | system |"
    );
    for figure in FIGURES {
        let _ = write!(text, " {} |", figure.title());
    }
    let _ = writeln!(text, "\n|---|---|{}", "---|".repeat(FIGURES.len()));
    for load in &results.loads {
        for system in SYSTEMS {
            let cells = FIGURES.map(|figure| {
                let summary = results.summary(load, system, figure);
                summary.map_or_else(String::new, |summary| spread(&summary))
            });
            let _ =
                writeln!(text, "| {} | {} | {} |", load.title(), name(system), cells.join(" | "));
        }
        let ratios = FIGURES.map(|figure| ratio(results, load, figure).unwrap_or_default());
        let _ =
            writeln!(text, "| {} | **zoolet / Apache** | {} |", load.title(), ratios.join(" | "));
    }
    text.push_str(&errors(results));
    text
}

/// Returns a line about replies with errors.
fn errors(results: &Results) -> String {
    let mut found = Vec::new();
    for load in &results.loads {
        for system in SYSTEMS {
            let errors = results.errors(load, system);
            if errors > 0.0 {
                found.push(format!("{errors:.0} ({}, {})", name(system), load.title()));
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

fn ratio(results: &Results, load: &Load, figure: Figure) -> Option<String> {
    let theirs = results.summary(load, Kind::Apache, figure)?.median;
    let ours = results.summary(load, Kind::Zoolet, figure)?.median;
    (theirs > 0.0).then(|| format!("**{}×**", number(ours / theirs)))
}

/// Three digits or more: small numbers have decimals, greater ones none.
fn number(value: f64) -> String {
    let decimals = match value {
        value if value < 0.0995 => 3,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

fn failovers(results: &Results) -> String {
    let mut text = format!(
        "\n### Failover\n\n![Time without acknowledged writes]({PLOTS}/failover.svg)\n\n\
         | fault | system | runs | p50 ms | p99 ms | max ms | all runs, ms |\n\
         |---|---|---|---|---|---|---|\n"
    );
    for fault in FAULTS {
        for system in SYSTEMS {
            let _ = writeln!(text, "{}", failover(results, fault, system));
        }
    }
    text
}

fn failover(results: &Results, fault: Fault, system: Kind) -> String {
    let times = results.times(fault, system);
    let at = |percent| percentile(&times, percent).unwrap_or_default();
    let all: Vec<String> = sorted(&times).iter().map(|time| format!("{time:.0}")).collect();
    format!(
        "| {} | {} | {} | {:.0} | {:.0} | {:.0} | {} |",
        fault.title(),
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
    use super::super::results::tests::example;
    use super::*;

    #[test]
    fn a_load_has_a_row_of_each_system_and_one_of_ratios() {
        let text = section(&example());
        for row in [
            "| load | system | ops/s | p50 µs | p99 µs | CPU µs/op | switches/op | RSS MB |",
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
        let row = "| SIGTERM, longest gap | zoolet | 2 | 200 | 300 | 300 | 200 300 |";
        assert!(text.lines().any(|line| line == row), "{text}");
    }

    #[test]
    fn small_numbers_have_decimals() {
        let shown = [0.0, 0.0042, 0.251, 9.999, 12.34, 99.96, 735_846.4].map(number);
        assert_eq!(shown, ["0.000", "0.004", "0.25", "10.0", "12.3", "100", "735846"]);
    }

    #[test]
    fn errors_are_named_with_their_load() {
        let mut results = example();
        results.measurements[4].figures.errors = 3.0;
        let text = section(&results);
        let line = "Replies with errors: 3 (zoolet, 3 servers, set 16×8).";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn what_was_not_measured_has_no_part() {
        let mut results = example();
        results.failovers.clear();
        assert!(!section(&results).contains("Failover"));
        results.loads.clear();
        assert!(!section(&results).contains("### Loads"));
    }
}
