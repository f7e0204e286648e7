//! One run: an ensemble, its load and its faults.

use std::path::Path;
use std::time::Duration;

use tokio::runtime::Runtime;
use zoolet_client::{ClientOptions, ConfigChange, Version};
use zoolet_replica::ServerId;
use zoolet_sim::SimTime;
use zoolet_sim::checks::{self, Counts};
use zoolet_sim::history::{ClientNumber, History, Recorder};
use zoolet_sim::load::{ClientMachine, Recorded, SUPER_CREDENTIALS, SUPER_DIGEST};

use super::clients::{self, Clients};
use super::machine::{Libraries, Machine};
use super::machines::Machines;
use super::nemesis::Nemesis;
use super::{ChaosError, Kind, Options, clock, draw, interrupt, said, seen};
use crate::{four_letter, wait};

/// How long servers and clients have to themselves at the begin.
const SETTLE: Duration = Duration::from_secs(2);
/// How long the load goes on when all faults have ended.
const HEAL: Duration = Duration::from_secs(15);
/// How long clients may take to end then: a few of the longest session timeouts.
const FINISH_MAX: Duration = Duration::from_mins(1);
/// How long the servers may take to come to the same place in the log without any load.
const CONVERGE_MAX: Duration = Duration::from_secs(15);

/// How long it may take then until all servers are members, if the load has changed that.
const GATHER_MAX: Duration = Duration::from_secs(30);

/// What came out of a run.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) servers: u8,
    pub(super) clients: u32,
    pub(super) history: History,
    /// What was done to the servers, in order.
    pub(super) done: Vec<String>,
    /// How many faults have begun, by their kind.
    pub(super) faults: Vec<(Kind, u64)>,
    pub(super) counts: Counts,
    /// What is wrong.
    pub(super) violations: Vec<String>,
}

/// What the checks have to know of all runs.
fn check_options(servers: u8) -> checks::Options {
    checks::Options {
        clock_fast_permille: 100,
        clock_slow_permille: 100,
        converges_within: HEAL,
        // A busy machine has a client's timer wait for a processor.
        loss_slack: Duration::from_millis(300),
        members: Some((1..=servers).map(ServerId).collect()),
        super_digest: Some(SUPER_DIGEST.to_owned()),
        ..checks::Options::default()
    }
}

/// Carries a run out in a directory of its own.
pub(super) fn run(
    options: &Options,
    home: &Path,
    runtime: &Runtime,
) -> Result<Outcome, ChaosError> {
    clock::begin();
    let seed = options.seed;
    let servers = draw::servers(options);
    let kinds = draw::kinds(options);
    let mut machines = Machines::new(home, servers, &draw::settings(seed), Libraries::of(&kinds)?)?;
    machines.found()?;
    let load = clients::load(seed, machines.lines(), kinds.contains(&Kind::Wipe));
    let (clients, has_reconfig) = (load.clients(), load.reconfig.is_some());
    let plan = draw::plan(options, clients);
    let recorder = Recorder::real(clock::now);
    let mut nemesis = Nemesis::new(plan);
    let mut running = Clients::start(runtime, (seed, load), machines.addresses(), &recorder);
    let begun = clock::now() + SETTLE;
    pass(SETTLE, || Ok(()))?;
    pass(options.faults, || nemesis.work(clock::now() - begun, &mut machines, &mut running))?;
    nemesis.heal(clock::now() - begun, &mut machines, &mut running)?;
    let healed_at = clock::now();
    pass(HEAL, || nemesis.work(clock::now() - begun, &mut machines, &mut running))?;
    let mut violations = Vec::new();
    if !running.finish(FINISH_MAX) {
        violations.push(format!("clients: some have not ended after {FINISH_MAX:?}"));
    }
    violations.extend(running.panics().iter().cloned());
    if has_reconfig {
        let operator =
            clients::machine((ClientNumber(clients), 0), machines.addresses(), &recorder);
        violations.extend(runtime.block_on(gather(&machines, &operator)));
    }
    violations.extend(differing(&machines)?);
    let ended_at = clock::now();
    nemesis.note_ends(ended_at - begun, &mut machines)?;
    for machine in &mut machines.all {
        machine.kill()?;
    }
    let mut history = recorder.take();
    (history.healed_at, history.ended_at) = (healed_at, ended_at);
    history.strikes.clone_from(&nemesis.strikes);
    history.troubles.clone_from(&nemesis.ends);
    for machine in &machines.all {
        history.troubles.extend(said::troubles(ServerId(machine.id), &machine.log()));
        let (files, lives) = machine.seen();
        history.servers.insert(ServerId(machine.id), seen::read(files, lives)?);
    }
    let report = checks::all(&history, &check_options(servers));
    violations.extend(report.violations.iter().map(ToString::to_string));
    Ok(Outcome {
        servers,
        clients,
        history,
        done: nemesis.done,
        faults: nemesis.counts.into_iter().collect(),
        counts: report.counts,
        violations,
    })
}

/// Spends some time, and does something again and again meanwhile.
fn pass(
    span: Duration,
    mut work: impl FnMut() -> Result<(), ChaosError>,
) -> Result<(), ChaosError> {
    let failed = wait::until(span, || interrupt::check().and_then(|()| work()).err());
    failed.map_or(Ok(()), Err)
}

/// Makes every server a member again: the change that the load asks for at its end may be refused while
/// another one is under way. Returns what is wrong if that is not done in time.
async fn gather(machines: &Machines, operator: &ClientMachine) -> Option<String> {
    let text = |all: Vec<String>| all.join(",");
    let members = text(machines.lines().into_iter().map(|(_, line)| line).collect());
    let servers = text(machines.addresses().into_iter().map(|(_, address)| address).collect());
    let mut last = None;
    let is_done = wait::until_so(GATHER_MAX, async || {
        let attempt = async {
            let options = ClientOptions::new().connect_timeout(CONVERGE_MAX);
            let options = options.connector(Recorded::of(operator));
            let client = options.connect(&servers).await?;
            client.add_auth("digest", SUPER_CREDENTIALS.as_bytes()).await?;
            client.reconfig(ConfigChange::All(&members), Version::Any).await?;
            client.close().await
        };
        last = attempt.await.err();
        last.is_none() || interrupt::is_interrupted()
    });
    let why = "reconfiguration: the servers cannot all be members again";
    (!is_done.await).then(|| format!("{why} after {GATHER_MAX:?}: {last:?}"))
}

/// What is wrong if the servers do not come to the same zxid.
fn differing(machines: &Machines) -> Result<Option<String>, ChaosError> {
    let zxid = |(server, address): &(ServerId, String)| {
        let answer =
            address.parse().ok().and_then(|address| four_letter::ask(address, "srvr").ok());
        let mut lines = answer.iter().flat_map(|answer| answer.lines());
        let zxid = lines.find_map(|line| line.strip_prefix("Zxid: ")).map(str::to_owned);
        (*server, zxid)
    };
    let (mut last, addresses) = (Vec::new(), machines.addresses());
    wait::until(CONVERGE_MAX, || {
        last = addresses.iter().map(zxid).collect();
        (is_one(&last) || interrupt::is_interrupted()).then_some(())
    });
    interrupt::check()?;
    if is_one(&last) {
        return Ok(None);
    }
    let said: Vec<String> = machines.all.iter().map(Machine::said).collect();
    let said = said.join("\n--\n");
    Ok(Some(format!("convergence: {CONVERGE_MAX:?} after the load zxids are {last:?}\n{said}")))
}

fn is_one(zxids: &[(ServerId, Option<String>)]) -> bool {
    let first = zxids.first().and_then(|(_, zxid)| zxid.as_ref());
    first.is_some() && zxids.iter().all(|(_, zxid)| zxid.as_ref() == first)
}

/// How long a run was, by its history.
pub(super) fn length(history: &History) -> Duration {
    history.ended_at - SimTime::default()
}
