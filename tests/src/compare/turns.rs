//! The figures, in turns: one store runs at a time, and each round has another order.

use std::process::Command;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use super::behavior::name;
use super::data::Report;
use super::error::CompareError;
use super::figures::{self, CASES, Case};
use super::referee::now;
use super::store::{Store, StoreOptions, System};
use super::way::{Group, Way};
use super::{Options, Programs};
use crate::tools::announce;

/// How long servers in Java run before their first figure, in windows of a figure.
const WARM_UP_WINDOWS: u32 = 4;

/// Measures everything that the options ask for.
pub(super) fn measure(
    options: &Options,
    groups: &[Group],
    programs: &Programs,
    runtime: &Handle,
    report: &mut Report,
) {
    let began = now();
    let mut order: Vec<&Group> = groups.iter().collect();
    let all = order.len() * options.rounds;
    for round in 0..options.rounds {
        for (number, group) in order.iter().enumerate() {
            let result = measure_group(options, group, programs, runtime, (round, report));
            if let Err(error) = result {
                report.failures.push(format!("{}, figures: {error}", name(group)));
            }
            announce(&progress(round * order.len() + number + 1, all, began));
        }
        order.reverse();
    }
}

fn measure_group(
    options: &Options,
    group: &Group,
    programs: &Programs,
    runtime: &Handle,
    (round, report): (usize, &mut Report),
) -> Result<(), CompareError> {
    let Some(command) = programs.get(&group.client) else { return Ok(()) };
    let store = group.system.start(&StoreOptions::default())?;
    let version = store.version()?;
    report.versions.insert(group.system, version);
    if let (System::ZooKeeper, Some(way)) = (group.system, group.ways.first()) {
        figures::warm(store.as_ref(), command, runtime, way, options.window * WARM_UP_WINDOWS)?;
    }
    for way in group.ways.iter().filter(|way| !options.is_short || way.is_main) {
        for case in CASES.into_iter().filter(|case| !options.is_short || case.is_main) {
            one(options.window, way, (store.as_ref(), command), runtime, (case, round, report));
        }
    }
    Ok(())
}

fn one(
    window: Duration,
    way: &'static Way,
    (store, command): (&dyn Store, &Command),
    runtime: &Handle,
    (case, round, report): (Case, usize, &mut Report),
) {
    match figures::measure(store, command, runtime, (way, case, round), window) {
        Ok(figure) => report.figures.extend(figure),
        Err(error) => {
            let text = format!("{}, {}: {error}", way.name, case.name);
            announce(&format!("compare locks: {text}"));
            report.failures.push(text);
        }
    }
}

/// How far the run is.
fn progress(done: usize, all: usize, began: Instant) -> String {
    let elapsed = began.elapsed();
    let left = elapsed.mul_f64(fraction(all.saturating_sub(done), done.max(1)));
    format!("compare locks: {done} of {all} turns measured, about {} s left", left.as_secs())
}

#[allow(clippy::cast_precision_loss, reason = "small counts")]
fn fraction(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}
