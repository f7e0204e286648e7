//! The experiments, group by group.

use std::collections::VecDeque;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;

use super::data::Report;
use super::error::CompareError;
use super::observation::{Observations, Question};
use super::stage::Stage;
use super::store::{StoreOptions, System};
use super::way::Group;
use super::{LEASE, Options, Programs, servers, torture, waiting};
use crate::tools::announce;
use crate::wrong_clock;

type Experiment = fn(&mut Stage<'_>, &Options) -> Result<(), CompareError>;

/// Those on one start of a store, in their order.
const EXPERIMENTS: [(&str, Experiment); 5] = [
    ("faults of the holder", |stage, options| torture::torture(stage, options.faults)),
    ("waiting", |stage, options| waiting::waiting(stage, window(options), options.faults)),
    ("reentry", |stage, _| waiting::again(stage)),
    ("restart", |stage, _| servers::restart(stage)),
    ("loss of a server", |stage, _| servers::loss(stage)),
];

/// How long the requests of waiters are counted: in each third of a lease every session sends a
/// ping, so that as many of them are in each window.
fn window(options: &Options) -> Duration {
    if options.is_short { LEASE / 3 } else { LEASE }
}

/// Watches all groups, several at a time.
pub(super) fn watch(
    options: &Options,
    groups: &[Group],
    programs: &Programs,
    runtime: &Handle,
    report: &mut Report,
) {
    let queue: Mutex<VecDeque<&Group>> = Mutex::new(groups.iter().collect());
    let found = Mutex::new((Observations::default(), Vec::new()));
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    thread::scope(|scope| {
        for _ in 0..options.lanes {
            scope.spawn(|| {
                while let Some(group) = next() {
                    let Some(command) = programs.get(&group.client) else { continue };
                    let (seen, failed) = watch_group(options, group, command, runtime);
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    found.0.0.extend(seen.0);
                    found.1.extend(failed);
                    announce(&format!("compare locks: watched {}", name(group)));
                }
            });
        }
    });
    let (seen, failed) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.observations.extend(seen.0);
    report.failures.extend(failed);
}

pub(super) fn name(group: &Group) -> String {
    format!("{} with {:?}", group.system, group.client)
}

/// Returns what was seen, and what has failed.
fn watch_group(
    options: &Options,
    group: &Group,
    command: &Command,
    runtime: &Handle,
) -> (Observations, Vec<String>) {
    let mut seen = Observations::default();
    let mut failed = Vec::new();
    let mut note = |what: &str, result: Result<(), CompareError>| {
        if let Err(error) = result {
            let text = format!("{}, {what}: {error}", name(group));
            announce(&format!("compare locks: {text}"));
            failed.push(text);
        }
    };
    match group.system.start(&StoreOptions::default()) {
        Err(error) => note("start", Err(error)),
        Ok(mut store) => {
            for (what, experiment) in EXPERIMENTS {
                let store = store.as_mut();
                let mut stage = Stage { group, store, command, runtime, seen: &mut seen };
                note(what, experiment(&mut stage, options));
            }
        }
    }
    note("clock", clock(group, command, runtime, &mut seen));
    let fails_over = [System::Redis, System::RedisSynced].contains(&group.system);
    if fails_over {
        note("failover", servers::failover(group, command, runtime, &mut seen));
    } else {
        let why = match group.system {
            System::MariaDb | System::Postgres => "not tried: the harness has no replica of it",
            System::Zoolet
            | System::ZooKeeper
            | System::Etcd
            | System::Redis
            | System::RedisSynced
            | System::Redlock => "has no such replica",
        };
        for way in &group.ways {
            seen.add(way.name, Question::Failover, why, None, "");
        }
    }
    (seen, failed)
}

fn clock(
    group: &Group,
    command: &Command,
    runtime: &Handle,
    seen: &mut Observations,
) -> Result<(), CompareError> {
    if group.system == System::Etcd {
        for way in &group.ways {
            let why =
                "its program takes no replaced clock: it asks the kernel without the C library";
            seen.add(way.name, Question::Clock, "not run", None, why);
        }
        return Ok(());
    }
    let options = StoreOptions { clock: Some(wrong_clock::library()?) };
    let mut store = group.system.start(&options)?;
    let store = store.as_mut();
    servers::clock(&mut Stage { group, store, command, runtime, seen })
}
