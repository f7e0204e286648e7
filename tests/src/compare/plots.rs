//! The plots: cycles, hand-overs, and how long a lock stays with a holder that is gone.

use super::data::Report;
use super::figures::{P50_US, P99_US, PER_SECOND};
use super::observation::Question;
use super::store::System;
use super::way::{Way, shown};
use crate::bench::statistics::Summary;
use crate::bench::svg::{Anchor, Drawing, LogAxis, short};

const WIDTH: f64 = 860.0;
const LEFT: f64 = 330.0;
const RIGHT: f64 = 740.0;
const TOP: f64 = 44.0;
const BAR: f64 = 13.0;
const ROW: f64 = 19.0;
const BOTTOM: f64 = 30.0;

/// Returns the name and the text of each plot that has something.
pub(super) fn all(report: &Report) -> Vec<(&'static str, String)> {
    let cycles = |case| {
        rows(report, |report, way| Some((report.summary(way.name, case, PER_SECOND)?, None)))
    };
    let hand_over = |case| {
        rows(report, |report, way| {
            let p50 = report.summary(way.name, case, P50_US)?;
            Some((p50, report.summary(way.name, case, P99_US)))
        })
    };
    let taken = |question| {
        rows(report, |report, way| {
            let at_least = |value: f64| value.max(0.001);
            let seconds: Vec<f64> =
                report.numbers(way.name, question).into_iter().map(at_least).collect();
            Some((Summary::of(&seconds)?, None))
        })
    };
    let plots = [
        (
            "one-client.svg",
            ("Acquire and release per second, 1 client (line: spread)", cycles("alone")),
        ),
        (
            "one-lock.svg",
            ("Acquire and release per second, 8 clients of one lock", cycles("one:8")),
        ),
        (
            "many-locks.svg",
            ("Acquire and release per second, 8 clients with a lock each", cycles("many:8")),
        ),
        (
            "hand-over.svg",
            (
                "Hand-over to one waiter in µs (full: to p50; pale: to p99)",
                hand_over("hand-over:1"),
            ),
        ),
        (
            "hand-over-100.svg",
            (
                "Hand-over among 100 waiters in µs (full: to p50; pale: to p99)",
                hand_over("hand-over:100"),
            ),
        ),
        (
            "killed.svg",
            ("Holder killed: seconds until the next one has the lock", taken(Question::Crash)),
        ),
    ];
    let plots = plots.into_iter().filter(|(_, (_, rows))| !rows.is_empty());
    plots.map(|(name, (title, rows))| (name, draw(title, &rows))).collect()
}

/// A bar: its way, the value, and a second value that is drawn in pale.
type Row = (&'static Way, Summary, Option<Summary>);

fn rows(
    report: &Report,
    of: impl Fn(&Report, &Way) -> Option<(Summary, Option<Summary>)>,
) -> Vec<Row> {
    shown().filter_map(|way| of(report, way).map(|(one, other)| (way, one, other))).collect()
}

fn draw(title: &str, rows: &[Row]) -> String {
    let height = TOP + count(rows.len()) * ROW;
    let mut drawing = Drawing::new(title, WIDTH, height + BOTTOM);
    // A bar of the least value has a length too: the axis begins below it.
    let values = rows.iter().flat_map(|(_, one, other)| {
        [one.min / 2.0, one.max, other.map_or(one.max, |other| other.median)]
    });
    let axis = LogAxis::over(values, LEFT, RIGHT);
    axis.draw(&mut drawing, TOP, height);
    for (number, (way, one, other)) in rows.iter().enumerate() {
        let top = TOP + count(number) * ROW + 3.0;
        let class = if way.system == System::Zoolet { "zoolet" } else { "apache" };
        let title = way.title.replace('`', "");
        drawing.text(LEFT - 8.0, top + BAR - 2.5, Anchor::End, "row", &title);
        let mut end = one.max;
        let mut text = short(one.median);
        if let Some(other) = other {
            drawing.bar(LEFT, axis.x(other.median), top, BAR, &format!("{class} pale"));
            end = end.max(other.median);
            text = format!("{text} / {}", short(other.median));
        }
        drawing.bar(LEFT, axis.x(one.median), top, BAR, class);
        let middle = top + BAR / 2.0;
        drawing.line((axis.x(one.min), middle), (axis.x(one.max), middle), "spread");
        drawing.text(axis.x(end) + 6.0, top + BAR - 2.5, Anchor::Start, "value", &text);
    }
    drawing.finish()
}

/// A small number as a factor of lengths.
fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::MAX, f64::from)
}

#[cfg(test)]
mod tests {
    use super::super::data::tests::example;
    use super::*;

    #[test]
    fn each_way_that_was_measured_has_a_bar() {
        for (name, svg) in all(&example()) {
            let bars = svg.lines().filter(|line| line.starts_with("<rect x=")).count();
            let expected = if name.starts_with("hand-over") { 4 } else { 2 };
            assert_eq!(bars, expected, "{name}");
            assert!(svg.contains("Redis, SET NX PX"), "{name}");
        }
    }
}
