//! The plots: throughput and latency of each load, and the times of each fault.

use super::results::{Figure, Results, SYSTEMS, name};
use super::rows::Group;
use super::statistics::Summary;
use super::svg::{Anchor, Drawing, LogAxis, class, short};
use crate::builder::Kind;

const WIDTH: f64 = 800.0;
/// Where the axis begins, behind the names of the rows.
const LEFT: f64 = 220.0;
/// Where it ends, with room for a number behind the longest bar.
const RIGHT: f64 = 700.0;
/// Where the first row begins, below the title and the legend.
const TOP: f64 = 60.0;
const BAR: f64 = 13.0;
/// A row has a bar of each system, and a gap.
const ROW: f64 = 36.0;
/// Below the last row, for the numbers of the axis.
const BOTTOM: f64 = 30.0;

/// Draws the operations per second: the medians as bars, the spreads as lines on them.
pub(super) fn throughput(results: &Results) -> String {
    let figure = Figure::OperationsPerSecond;
    let title = "Operations per second (median; line: minimum to maximum; more is better)";
    let mut plot = Plot::new(title, results, &[figure]);
    for (top, system, summaries) in bars(results, &[figure]) {
        if let [Some(summary)] = summaries.as_slice() {
            let middle = top + BAR / 2.0;
            plot.bar(summary.median, top, class(system));
            let (min, max) = (plot.axis.x(summary.min), plot.axis.x(summary.max));
            plot.drawing.line((min, middle), (max, middle), "spread");
            plot.label(summary.median.max(summary.max), top, &short(summary.median));
        }
    }
    plot.drawing.finish()
}

/// Draws the latencies: to p50 in full color, to p99 in pale.
pub(super) fn latency(results: &Results) -> String {
    let figures = [Figure::P50, Figure::P99];
    let title = "Latency in µs (full color: to p50; pale: to p99; less is better)";
    let mut plot = Plot::new(title, results, &figures);
    for (top, system, summaries) in bars(results, &figures) {
        if let [Some(p50), Some(p99)] = summaries.as_slice() {
            plot.bar(p99.median, top, &format!("{} pale", class(system)));
            plot.bar(p50.median, top, class(system));
            let text = format!("{} / {}", short(p50.median), short(p99.median));
            plot.label(p99.median, top, &text);
        }
    }
    plot.drawing.finish()
}

/// Draws each run of each fault as a dot, and the median as a line.
pub(super) fn failover(results: &Results) -> String {
    let strip = 26.0;
    let rows = results.rows(Group::Failovers);
    let height = TOP + count(rows.len() * SYSTEMS.len()) * strip + count(rows.len()) * 10.0;
    let title = "Leader lost: ms without an acknowledged write (line: median; less is better)";
    let mut drawing = Drawing::new(title, WIDTH, height + BOTTOM);
    legend(&mut drawing);
    let figure = Figure::Milliseconds;
    let times = rows.iter().flat_map(|row| {
        SYSTEMS.into_iter().flat_map(|system| results.values(*row, system, figure))
    });
    let axis = LogAxis::over(times, LEFT, RIGHT);
    axis.draw(&mut drawing, TOP, height);
    let mut top = TOP;
    for row in rows {
        drawing.text(LEFT - 10.0, top + strip, Anchor::End, "row", &row.title());
        for system in SYSTEMS {
            let middle = top + strip / 2.0 + 4.0;
            let times = results.values(row, system, figure);
            dots(&mut drawing, axis, middle, &times, class(system));
            top += strip;
        }
        top += 10.0;
    }
    drawing.finish()
}

fn dots(drawing: &mut Drawing, axis: LogAxis, middle: f64, times: &[f64], class: &str) {
    for time in times {
        drawing.dot(axis.x(*time), middle, &format!("{class} run"));
    }
    if let Some(summary) = Summary::of(times) {
        let x = axis.x(summary.median);
        drawing.line((x, middle - 9.0), (x, middle + 9.0), "middle");
        let right = axis.x(summary.max) + 8.0;
        drawing.text(right, middle + 4.0, Anchor::Start, "value", &short(summary.median));
    }
}

/// Bars of both systems for each load.
struct Plot {
    drawing: Drawing,
    axis: LogAxis,
}

impl Plot {
    /// Begins a plot with the names of the loads and an axis for the figures.
    fn new(title: &str, results: &Results, figures: &[Figure]) -> Self {
        let rows = results.rows(Group::Loads);
        let height = TOP + count(rows.len()) * ROW;
        let mut drawing = Drawing::new(title, WIDTH, height + BOTTOM);
        legend(&mut drawing);
        let summaries = rows.iter().flat_map(|row| {
            let all =
                SYSTEMS.into_iter().flat_map(|system| figures.iter().map(move |it| (system, *it)));
            all.filter_map(|(system, figure)| results.summary(*row, system, figure))
        });
        // A bar of the least value has a length too: the axis begins below it.
        let values = summaries.flat_map(|summary| [summary.min / 2.0, summary.max]);
        let axis = LogAxis::over(values, LEFT, RIGHT);
        axis.draw(&mut drawing, TOP, height);
        for (number, row) in rows.iter().enumerate() {
            let middle = TOP + count(number) * ROW + BAR + 5.0;
            drawing.text(LEFT - 10.0, middle, Anchor::End, "row", &row.title());
        }
        Self { drawing, axis }
    }

    fn bar(&mut self, value: f64, top: f64, class: &str) {
        self.drawing.bar(LEFT, self.axis.x(value), top, BAR, class);
    }

    /// Writes a text behind a bar that ends at `value`.
    fn label(&mut self, value: f64, top: f64, text: &str) {
        let x = self.axis.x(value) + 6.0;
        self.drawing.text(x, top + BAR - 2.5, Anchor::Start, "value", text);
    }
}

/// Returns the top of each bar, whose it is, and its figures.
fn bars(results: &Results, figures: &[Figure]) -> Vec<(f64, Kind, Vec<Option<Summary>>)> {
    let mut bars = Vec::new();
    for (number, row) in results.rows(Group::Loads).into_iter().enumerate() {
        for (index, system) in SYSTEMS.into_iter().enumerate() {
            let top = TOP + count(number) * ROW + 2.0 + count(index) * (BAR + 2.0);
            let summaries = figures.iter().map(|it| results.summary(row, system, *it));
            bars.push((top, system, summaries.collect()));
        }
    }
    bars
}

fn legend(drawing: &mut Drawing) {
    for (index, system) in SYSTEMS.into_iter().enumerate() {
        let x = LEFT + count(index) * 90.0;
        drawing.bar(x, x + BAR, 36.0, BAR, class(system));
        drawing.text(x + BAR + 6.0, 47.0, Anchor::Start, "row", name(system));
    }
}

/// A small number as a factor of lengths.
fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::MAX, f64::from)
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::example;
    use super::super::rows::{FAULTS, Fault};
    use super::*;

    /// The lengths of all bars of a class.
    fn widths(svg: &str, class: &str) -> Vec<f64> {
        let bars = svg.lines().filter(|line| {
            line.starts_with("<rect x=") && line.ends_with(&format!("class=\"{class}\"/>"))
        });
        let width = |line: &str| line.split("width=\"").nth(1)?.split('"').next()?.parse().ok();
        bars.filter_map(width).collect()
    }

    #[test]
    fn each_load_has_a_pair_of_bars_in_the_ratio_of_the_medians() {
        let svg = throughput(&example());
        assert!(svg.contains(">3 servers, set 16×8<") && svg.contains(">110 k<"));
        // The first bar of each is the legend's. The axis goes from 10^3 to 10^6.
        let (apache, zoolet) = (widths(&svg, "apache"), widths(&svg, "zoolet"));
        assert_eq!((apache.len(), zoolet.len()), (2, 2));
        let decade = (RIGHT - LEFT) / 3.0;
        assert!((zoolet[1] - apache[1] - decade).abs() < 0.2, "{apache:?} {zoolet:?}");
    }

    #[test]
    fn the_bar_of_p99_is_behind_that_of_p50() {
        let svg = latency(&example());
        assert!(svg.contains(">500 / 3 k<"), "{svg}");
        let (full, pale) = (widths(&svg, "zoolet"), widths(&svg, "zoolet pale"));
        assert!(pale[0] > full[1], "{full:?} {pale:?}");
        let at = |class: &str| svg.rfind(&format!("class=\"{class}\"")).unwrap();
        assert!(at("zoolet pale") < at("zoolet"));
    }

    #[test]
    fn each_run_of_a_fault_is_a_dot() {
        let results = example();
        let svg = failover(&results);
        let runs = results.runs[0].measurements.iter();
        let runs = runs.filter(|measurement| measurement.row.group() == Group::Failovers);
        assert_eq!(svg.matches("<circle").count(), runs.count());
        assert_eq!(svg.matches("class=\"middle\"").count(), FAULTS.len() * SYSTEMS.len());
        assert!(FAULTS.into_iter().map(Fault::title).all(|title| svg.contains(title)));
    }
}
