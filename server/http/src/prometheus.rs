//! Prometheus' text format, version 0.0.4.

use std::fmt::Write;

use hyper::StatusCode;
use zoolet_server::embed::{Metric, MetricKind, MetricValue};

use crate::answer::Answer;

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

const QUANTILES: [&str; 3] = ["0.5", "0.9", "0.99"];

pub(crate) fn answer(metrics: &[Metric]) -> Answer {
    let body = text(metrics);
    Answer { status: StatusCode::OK, content_type: CONTENT_TYPE, body, place: None }
}

fn text(metrics: &[Metric]) -> String {
    let mut out = String::new();
    let mut last = None;
    for metric in metrics {
        // The series of one metric follow each other.
        if last.replace(metric.name) != Some(metric.name) {
            put_head(&mut out, metric).expect("a String takes everything");
        }
        put(&mut out, metric).expect("a String takes everything");
    }
    out
}

fn put_head(out: &mut String, metric: &Metric) -> std::fmt::Result {
    let Metric { name, kind, help, .. } = metric;
    writeln!(out, "# HELP {name} {}", help.replace('\\', "\\\\").replace('\n', "\\n"))?;
    let kind = match kind {
        MetricKind::Gauge => "gauge",
        MetricKind::Counter => "counter",
        MetricKind::Summary => "summary",
        MetricKind::Histogram => "histogram",
        _ => "untyped",
    };
    writeln!(out, "# TYPE {name} {kind}")
}

fn put(out: &mut String, metric: &Metric) -> std::fmt::Result {
    let (name, labels) = (metric.name, labels(metric));
    match &metric.value {
        MetricValue::Integer(value) => writeln!(out, "{name}{labels} {value}"),
        MetricValue::Number(value) => writeln!(out, "{name}{labels} {value}"),
        MetricValue::Summary { count, sum, quantiles } => {
            for (quantile, value) in QUANTILES.iter().zip(quantiles.iter().flatten()) {
                // Without any measurement, Prometheus expects NaN.
                let value = if *count == 0 { f64::NAN } else { *value };
                writeln!(out, "{name}{{quantile=\"{quantile}\"}} {value}")?;
            }
            writeln!(out, "{name}_sum {sum}\n{name}_count {count}")
        }
        MetricValue::Histogram { count, sum, at_most } => {
            for (bound, count) in at_most {
                writeln!(out, "{name}_bucket{{le=\"{bound}\"}} {count}")?;
            }
            writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {count}")?;
            writeln!(out, "{name}_sum {sum}\n{name}_count {count}")
        }
        _ => Ok(()),
    }
}

fn labels(metric: &Metric) -> String {
    let escaped =
        |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let pairs = metric.labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
    let pairs: Vec<String> = pairs.collect();
    if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) }
}
