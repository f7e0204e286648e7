//! How the figures look.

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::Mix;
use crate::args::Bench;
use crate::error::CtlError;
use crate::output;

/// The end of the first bucket of a histogram.
const BUCKET_US_MIN: u64 = 16;

/// What the buckets of a histogram look like, from none to the fullest.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// One mix on one ensemble.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) mix: Mix,
    pub(crate) servers: String,
    pub(crate) seconds: f64,
    /// In microseconds.
    pub(crate) latencies: Histogram<u64>,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
    /// How many cores the servers on this machine have used; `None` if there are none.
    pub(crate) server_cores: Option<f64>,
}

impl Measured {
    #[allow(clippy::cast_precision_loss, reason = "a rate needs no more than 52 bits")]
    fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.seconds
    }

    /// The upper ends, in milliseconds, of buckets that double, and how many latencies are in each;
    /// from the first that has one to the last.
    #[allow(clippy::cast_precision_loss, reason = "a latency needs no more than 52 bits")]
    fn histogram(&self) -> Vec<(f64, u64)> {
        let buckets = self.latencies.iter_log(BUCKET_US_MIN, 2.0);
        let buckets = buckets.map(|bucket| {
            let end_us = bucket.value_iterated_to().saturating_add(1);
            (end_us as f64 / 1000.0, bucket.count_since_last_iteration())
        });
        buckets.skip_while(|(_, count)| *count == 0).collect()
    }

    #[allow(clippy::cast_precision_loss, reason = "a latency needs no more than 52 bits")]
    fn quantile_ms(&self, quantile: f64) -> f64 {
        self.latencies.value_at_quantile(quantile) as f64 / 1000.0
    }
}

/// What was asked for, and the head of the table.
pub(crate) fn headline<'a>(
    arguments: &Bench,
    servers: impl Iterator<Item = &'a str>,
) -> Result<(), CtlError> {
    let names: Vec<String> =
        servers.zip('A'..).map(|(servers, name)| format!("{name} {servers}")).collect();
    output::line(&format!(
        "{}; {} connections, {} operations under way on each, {} bytes, {:?} a mix",
        names.join(", "),
        arguments.connections,
        arguments.depth,
        arguments.size,
        arguments.duration
    ))?;
    output::line(&format!(
        "{:<10}{:>12}{:>10}{:>10}{:>10}{:>10}{:>10}{:>8}{:>8}",
        "", "ops/s", "mean ms", "p50", "p99", "p99.9", "max", "cores", "errors"
    ))
}

/// The lines of one mix, and how the first ensemble compares with the second.
pub(crate) fn lines(measured: &[Measured]) -> Result<(), CtlError> {
    for (one, name) in measured.iter().zip('A'..) {
        let mix = one.mix.to_string();
        let name = if measured.len() > 1 { format!("{mix} {name}") } else { mix };
        let cores = one.server_cores.map_or("-".to_owned(), |cores| format!("{cores:.2}"));
        output::line(&format!(
            "{name:<10}{:>12.0}{:>10.2}{:>10.2}{:>10.2}{:>10.2}{:>10.2}{cores:>8}{:>8}",
            one.per_second(),
            one.latencies.mean() / 1000.0,
            one.quantile_ms(0.5),
            one.quantile_ms(0.99),
            one.quantile_ms(0.999),
            one.quantile_ms(1.0),
            one.errors,
        ))?;
        let histogram = one.histogram();
        if let (Some(first), Some(last)) = (histogram.first(), histogram.last()) {
            output::line(&format!(
                "{:<10}{:>9.2} ms |{}| {:.2} ms",
                "",
                first.0 / 2.0,
                bars(&histogram),
                last.0
            ))?;
        }
        if let Some(error) = &one.first_error {
            output::note(&format!("{name}: {} operations failed, the first: {error}", one.errors));
        }
    }
    if let [one, other] = measured
        && let Some((rate, p99)) = ratio(one, other)
    {
        output::line(&format!("{:<10}{rate:>11.2}x{:>29.2}x", "A / B", p99))?;
    }
    Ok(())
}

/// A picture of a histogram, a character a bucket. One that is not empty is seen.
fn bars(histogram: &[(f64, u64)]) -> String {
    let fullest = histogram.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    let bar = |count: u64| {
        let height = count.saturating_mul(8).div_ceil(fullest);
        usize::try_from(height).ok().and_then(|height| BARS.get(height)).copied().unwrap_or('█')
    };
    histogram.iter().map(|(_, count)| bar(*count)).collect()
}

/// The rate and the 99th percentile of one, in those of the other.
fn ratio(one: &Measured, other: &Measured) -> Option<(f64, f64)> {
    let rate = one.per_second() / other.per_second();
    let p99 = one.quantile_ms(0.99) / other.quantile_ms(0.99);
    (rate.is_finite() && p99.is_finite()).then_some((rate, p99))
}

/// All figures for a program.
pub(crate) fn json(arguments: &Bench, results: &[Vec<Measured>]) -> Value {
    let mixes = results.iter().map(|measured| {
        let ratio = match measured.as_slice() {
            [one, other] => ratio(one, other),
            _ => None,
        };
        json!({
            "mix": measured.first().map(|one| one.mix.to_string()),
            "results": measured.iter().map(result_json).collect::<Value>(),
            "ratio": ratio.map(|(rate, p99)| json!({ "ops_per_second": rate, "p99": p99 })),
        })
    });
    json!({
        "connections": arguments.connections,
        "depth": arguments.depth,
        "size": arguments.size,
        "keys": arguments.keys,
        "mixes": mixes.collect::<Value>(),
    })
}

fn result_json(measured: &Measured) -> Value {
    json!({
        "servers": measured.servers,
        "seconds": measured.seconds,
        "operations": measured.latencies.len(),
        "ops_per_second": measured.per_second(),
        "latency_ms": {
            "mean": measured.latencies.mean() / 1000.0,
            "p50": measured.quantile_ms(0.5),
            "p90": measured.quantile_ms(0.9),
            "p99": measured.quantile_ms(0.99),
            "p999": measured.quantile_ms(0.999),
            "max": measured.quantile_ms(1.0),
        },
        "histogram": measured
            .histogram()
            .into_iter()
            .map(|(below_ms, count)| json!({ "below_ms": below_ms, "count": count }))
            .collect::<Value>(),
        "server_cores": measured.server_cores,
        "errors": measured.errors,
        "first_error": measured.first_error,
    })
}
