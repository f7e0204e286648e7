//! A drawing as SVG, readable in light and dark, and its logarithmic axis.

use std::fmt::Write;

use crate::builder::Kind;

/// The colors: background, text and grid of the page's scheme, and one for each system.
const STYLE: &str = "\
.page { fill: #ffffff } text { fill: #24292f } .quiet { fill: #57606a } \
.grid { stroke: #d0d7de } .spread { stroke: #24292f } \
.apache { fill: #bc4c00 } .zoolet { fill: #0969da } .pale { fill-opacity: 0.35 } .run { fill-opacity: 0.6 } \
.middle { stroke: #24292f; stroke-width: 2 } \
@media (prefers-color-scheme: dark) { \
.page { fill: #0d1117 } text { fill: #e6edf3 } .quiet { fill: #9198a1 } \
.grid { stroke: #3d444d } .spread, .middle { stroke: #e6edf3 } \
.apache { fill: #f0883e } .zoolet { fill: #4493f8 } }";

/// Where a text is anchored at its position.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing that grows; lengths are in pixels.
#[derive(Debug)]
pub(crate) struct Drawing {
    title: String,
    width: f64,
    height: f64,
    body: String,
}

impl Drawing {
    pub(crate) fn new(title: &str, width: f64, height: f64) -> Self {
        let mut drawing = Self { title: title.to_owned(), width, height, body: String::new() };
        drawing.text(width / 2.0, 22.0, Anchor::Middle, "title", title);
        drawing
    }

    pub(crate) fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        let _ = writeln!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{text}</text>"
        );
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let _ = writeln!(
            self.body,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" class=\"{class}\"/>",
            from.0, from.1, to.0, to.1
        );
    }

    /// Draws a bar from `left` to `right` below `top`.
    pub(crate) fn bar(&mut self, left: f64, right: f64, top: f64, height: f64, class: &str) {
        let width = (right - left).max(0.0);
        let _ = writeln!(
            self.body,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             class=\"{class}\"/>"
        );
    }

    pub(crate) fn dot(&mut self, x: f64, y: f64, class: &str) {
        let _ =
            writeln!(self.body, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" class=\"{class}\"/>");
    }

    /// Returns the document.
    pub(crate) fn finish(self) -> String {
        let Self { title, width, height, body } = self;
        let title = escaped(&title);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" \
             font-family=\"sans-serif\" font-size=\"12\">\n<title>{title}</title>\n\
             <style>{STYLE} .title {{ font-size: 15px; font-weight: bold }}</style>\n\
             <rect class=\"page\" width=\"100%\" height=\"100%\"/>\n{body}</svg>\n"
        )
    }
}

/// Returns the class of a system's marks.
pub(crate) fn class(system: Kind) -> &'static str {
    match system {
        Kind::Apache => "apache",
        Kind::Zoolet => "zoolet",
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A horizontal axis whose steps are powers of ten.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogAxis {
    left: f64,
    right: f64,
    /// The exponents of its ends.
    low: i32,
    high: i32,
}

impl LogAxis {
    /// Returns the axis from `left` to `right` that has room for all positive values.
    pub(crate) fn over(values: impl Iterator<Item = f64>, left: f64, right: f64) -> Self {
        let logs: Vec<f64> = values.filter(|value| *value > 0.0).map(f64::log10).collect();
        let low = logs.iter().copied().fold(f64::INFINITY, f64::min);
        let high = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if logs.is_empty() {
            return Self { left, right, low: 0, high: 1 };
        }
        #[allow(clippy::cast_possible_truncation, reason = "exponents of measured values")]
        let (low, high) = (low.floor() as i32, high.ceil() as i32);
        Self { left, right, low, high: high.max(low + 1) }
    }

    /// Returns the position of a value, which is at the left end if it is not positive.
    pub(crate) fn x(&self, value: f64) -> f64 {
        let low = f64::from(self.low);
        let share = (value.max(f64::MIN_POSITIVE).log10() - low) / (f64::from(self.high) - low);
        self.left + share.clamp(0.0, 1.0) * (self.right - self.left)
    }

    /// Draws the powers of ten as lines from `top` to `bottom`, with their numbers below.
    pub(crate) fn draw(&self, drawing: &mut Drawing, top: f64, bottom: f64) {
        for exponent in self.low..=self.high {
            let value = 10_f64.powi(exponent);
            let x = self.x(value);
            drawing.line((x, top), (x, bottom), "grid");
            drawing.text(x, bottom + 16.0, Anchor::Middle, "quiet", &short(value));
        }
    }
}

/// Returns a number with three digits or less and a letter for thousands.
pub(crate) fn short(value: f64) -> String {
    let (value, letter) = match value {
        value if value >= 999_500.0 => (value / 1_000_000.0, " M"),
        value if value >= 999.5 => (value / 1_000.0, " k"),
        value => (value, ""),
    };
    let decimals = if value >= 99.5 || (value.fract() == 0.0) {
        0
    } else if value >= 9.95 {
        1
    } else {
        2
    };
    format!("{value:.decimals$}{letter}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let shown = [0.5, 1.0, 8.126, 74.36, 999.7, 1_000.0, 74_476.0, 735_846.0, 1e6].map(short);
        let expected = ["0.50", "1", "8.13", "74.4", "1.00 k", "1 k", "74.5 k", "736 k", "1 M"];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_logarithmic_axis_gives_each_power_of_ten_the_same_room() {
        let axis = LogAxis::over([20.0, 0.0, 9_000.0].into_iter(), 100.0, 400.0);
        assert_eq!((axis.low, axis.high), (1, 4));
        for (value, expected) in [(10.0, 100.0), (100.0, 200.0), (10_000.0, 400.0), (0.0, 100.0)] {
            assert!((axis.x(value) - expected).abs() < 1e-9, "{value}");
        }
        let empty = LogAxis::over(std::iter::empty(), 0.0, 1.0);
        assert_eq!((empty.low, empty.high), (0, 1));
        let single = LogAxis::over(std::iter::once(100.0), 0.0, 1.0);
        assert_eq!((single.low, single.high), (2, 3));
    }

    #[test]
    fn a_text_is_escaped() {
        let mut drawing = Drawing::new("a < b", 100.0, 50.0);
        drawing.text(1.0, 2.0, Anchor::Start, "quiet", "R&D");
        let svg = drawing.finish();
        assert!(svg.contains("<title>a &lt; b</title>") && svg.contains(">R&amp;D</text>"));
        assert!(svg.contains("prefers-color-scheme: dark"));
    }
}
