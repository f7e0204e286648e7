//! The comparison of `docs/lock-comparison.md`: every way in which people lock, on one machine, under
//! the same faults, with one referee outside of all stores.
//!
//! A way (`way`) is a store, a client and a recipe. Its program (`interop/compare`,
//! `examples/compare_client.rs`) runs several contenders, each with a connection of its own, and talks
//! with the referee (`referee`) as the programs of [`crate::contenders`] do:
//!
//! ```text
//! program                          referee
//! READY                         →                    every contender is connected
//!                               ←   ASK <number>     take a turn
//! HELD <number> <token>         →                    it has acquired; a lock without tokens says 0
//!                               ←   AGAIN <number>   acquire once more, as the holder
//! AGAIN <number> granted        →                    and released; or: waits, refused
//!                               ←   OK <number>      go on
//! WRITE <number> <token>        →                    it writes to what the lock guards
//!                               ←   OK <number>
//! FREED <number> true           →                    the release found the lock held; or: false, failed …
//! LOST <number>                 →                    at any time: the client says that it may be lost
//! FAILED <number> <why>         →                    the acquisition has failed, and the turn is over
//!                               ←   RUN <ms> <hold ms>   all take turns by themselves
//! ERRORS <count>                →                    errors of the store while they did, if there were any
//! CYCLES <µs> …                 →                    acquire and release, sorted
//! HANDOVERS <µs> …              →                    from a release to the next holder, sorted
//!                               ←   STOP
//! DONE                          →
//! ```
//!
//! `COMPARE_SERVERS` names the servers, `COMPARE_LEASE_MS` the time after which a silent holder may
//! lose its lock, `COMPARE_POLL_MS` the mean pause between two tries of what cannot wait in its store.
//!
//! The stores (`store`) are started as real processes. Behavior comes from experiments
//! (`torture`, `waiting`, `servers`), each of which notes what it has seen and by what; then the
//! ways are measured in turns (`figures`). All of it becomes a page, data and plots (`page`,
//! `data`, `plots`).

mod behavior;
mod clients;
mod data;
mod error;
mod figures;
mod link;
mod observation;
mod options;
mod page;
mod plots;
mod referee;
mod resource;
mod servers;
mod stage;
mod store;
mod torture;
mod turns;
mod waiting;
mod way;
mod worse;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

pub use error::CompareError;
pub use options::Options;
use tokio::runtime::{Builder, Handle};

use self::data::{Facts, Report};
use self::observation::Observations;
use self::stage::Stage;
use self::store::{StoreOptions, System};
use self::way::{Client, Group, NO_LOCK, WAYS};
use crate::bench::machine::Machine;
use crate::tools::{self, announce};

/// After this time without a sign of life a holder may lose its lock, in every way that has leases.
/// Clients that wait for a core must be able to keep it.
pub(crate) const LEASE: Duration = Duration::from_secs(5);
/// Between two tries of the ways that cannot wait in their store, in the mean.
pub(crate) const POLL: Duration = Duration::from_millis(100);

/// What is unavailable.
const UNAVAILABLE: [(&str, &str); 1] = [(
    "Consul",
    "Debian 12 has no package of its server, and no registry that the project uses has its program",
)];

/// The programs of the ways that can be run here.
type Programs = BTreeMap<Client, Command>;

/// What is not compared, and why.
type Missing = Vec<(String, String)>;

/// Compares all ways, writes the page and returns its directory. Whatever is missing or has failed is
/// an error at the end, when the rest has been written.
pub fn run(options: &Options) -> Result<PathBuf, CompareError> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (groups, programs, missing) = available(options)?;
    let mut report = Report {
        facts: Facts::new(
            options,
            Machine::read().map_err(|error| CompareError::Option(error.to_string()))?,
        ),
        missing,
        ..Report::default()
    };
    let control = control(options, runtime.handle(), &programs)?;
    report.observations.extend(control.0);
    behavior::watch(options, &groups, &programs, runtime.handle(), &mut report);
    turns::measure(options, &groups, &programs, runtime.handle(), &mut report);
    page::write(&options.out, &report)?;
    let systems: Vec<&str> = groups.iter().map(|group| group.system.title()).collect();
    let missing: Vec<&str> = report.missing.iter().map(|(what, _)| what.as_str()).collect();
    let problems = report.problems(&groups, options);
    announce(&format!(
        "compare locks: {} ways on {} stores; not run: {}; {} problems",
        groups.iter().map(|group| group.ways.len()).sum::<usize>(),
        std::collections::BTreeSet::from_iter(systems).len(),
        missing.join(", "),
        problems.len(),
    ));
    if problems.is_empty() {
        Ok(options.out.clone())
    } else {
        Err(CompareError::Incomplete(problems.join("\n")))
    }
}

/// Finds out which ways can be run here, and names the others.
fn available(options: &Options) -> Result<(Vec<Group>, Programs, Missing), CompareError> {
    let mut missing: Missing =
        UNAVAILABLE.iter().map(|(what, why)| ((*what).to_owned(), (*why).to_owned())).collect();
    let mut programs = Programs::new();
    programs.insert(Client::Own, Client::Own.build()?);
    let mut groups = Vec::new();
    for group in way::groups().into_iter().filter(|group| options.wants(group.system)) {
        let needs = group.system.needs().iter().chain(group.client.needs());
        let absent = needs.filter(|(program, _)| store::find(program).is_none());
        let absent: Vec<String> =
            absent.map(|(program, package)| format!("{program} (package {package})")).collect();
        let absent = (!absent.is_empty())
            .then(|| format!("needs {}, which is not installed", absent.join(", ")));
        if let Some(why) = absent.or_else(|| group.client.too_old()) {
            let what = format!("{} ({:?})", group.system, group.client);
            announce(&format!("SKIPPED: compare locks: {what}: {why}"));
            missing.push((what, why));
            continue;
        }
        if let std::collections::btree_map::Entry::Vacant(entry) = programs.entry(group.client) {
            entry.insert(group.client.build()?);
        }
        groups.push(group);
    }
    Ok((groups, programs, missing))
}

/// Has the same harness see a lock that excludes no contender: it must find that.
fn control(
    options: &Options,
    runtime: &Handle,
    programs: &Programs,
) -> Result<Observations, CompareError> {
    let mut seen = Observations::default();
    let way = WAYS.iter().find(|way| way.name == NO_LOCK);
    let (Some(way), Some(command)) = (way, programs.get(&Client::Own)) else { return Ok(seen) };
    let mut store = System::Zoolet.start(&StoreOptions::default())?;
    let group = Group { system: System::Zoolet, client: Client::Own, ways: vec![way] };
    let store = store.as_mut();
    let mut stage = Stage { group: &group, store, command, runtime, seen: &mut seen };
    torture::torture(&mut stage, options.faults)?;
    Ok(seen)
}

/// Whether what is missing is a failure here.
fn must_be_whole() -> bool {
    tools::foreign_is_required()
}
