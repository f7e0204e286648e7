//! One run: a world, its load and its faults, all drawn from a seed.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::watch;
use zoolet_replica::ServerId;
use zoolet_server::embed::config::ServerConfig;

use crate::SimTime;
use crate::chance::Chance;
use crate::checks;
use crate::faults::{self, Frame, Kind, Nemesis, Planned};
use crate::history::{ClientNumber, History, Trouble};
use crate::load::{self, ClientMachine, Load, ReconfigPlan, Role, SUPER_CREDENTIALS, SUPER_DIGEST};
use crate::network::{COPY_LATE_MS_MAX, Figures};
use crate::swarm::Size;
use crate::trace::{self, Mark};
use crate::world::{World, client_machine, configs, member};
use crate::{floods, held_up};

/// How long servers and clients have to themselves at the begin.
const SETTLE: Duration = Duration::from_secs(3);
/// How late servers are started at first that are long behind the first one.
const LATE_START_MS: u64 = 12_000;
/// For how long there are faults, in seconds.
const FAULTS_S: u64 = 45;
/// How long the world has to come together when all faults have ended.
const HEAL: Duration = Duration::from_secs(20);
/// How long clients have to end then.
const FINISH: Duration = Duration::from_secs(30);
/// How long behind the end of the last client servers may have something for one: until they notice
/// that a connection has ended.
const NOTICED_WITHIN: Duration = Duration::from_secs(5);
/// How long clients have to walk over the tree then.
const WALK: Duration = Duration::from_secs(20);

/// How far clocks may be wrong, in thousandths, for all promises to hold.
pub(crate) const CLOCK_PERMILLE: u32 = 100;
/// And how far they are off beyond that in some runs, if they are slow, and if they are fast.
pub(crate) const SLOW_SKEW_PERMILLE: u32 = 500;
const FAST_SKEW_PERMILLE: u32 = 2 * SLOW_SKEW_PERMILLE;

/// What a run is made of; the rest is drawn from the seed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The seed.
    pub seed: u64,
    /// How many servers, instead of a drawn number.
    pub servers: Option<u8>,
    /// How many clients.
    pub clients: Option<u8>,
    /// What the clients do, in turn.
    pub roles: Option<Vec<Role>>,
    /// How long there are faults, in seconds; 45 by default.
    pub secs: Option<u64>,
    /// The kinds of faults.
    pub kinds: Option<Vec<Kind>>,
    /// The faults of the plan that are left out, by their numbers.
    pub without: Vec<usize>,
    /// The clients that do nothing, by their numbers: the others and the plan stay as they are.
    pub idle: Vec<u8>,
    /// When all faults are ended, in simulated milliseconds: the plan stays as it is until then.
    pub heal_at_ms: Option<u64>,
}

/// What came out of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What happened.
    pub history: History,
    /// The faults, when they began.
    pub plan: Vec<Planned>,
    /// How many faults have begun, by their kind.
    pub faults: BTreeMap<Kind, u64>,
    /// What the network has done.
    pub network: Figures,
    /// The servers that ended by themselves, and why.
    pub failures: Vec<(SimTime, ServerId, String)>,
    /// How many servers there were.
    pub servers: u8,
    /// How many clients.
    pub clients: u8,
    /// How long it was in simulated time.
    pub simulated: Duration,
    /// The hash of the trace, and its lines.
    pub trace: (u64, u64),
    /// What servers have logged, and what was done to them.
    pub marks: Vec<Mark>,
}

/// How the servers of a run are set up.
fn draw_config(seed: u64) -> impl Fn(&mut ServerConfig) {
    let mut chance = Chance::of(seed, "config");
    let commands = chance.one_of(&[20, 50, 100, 1000]).copied().unwrap_or(100);
    let segment_bytes = chance.one_of(&[64 << 10, 256 << 10, 1 << 20]).copied().unwrap_or(1 << 20);
    let entry_commands_max = chance.one_of(&[1, 4, 256]).copied().unwrap_or(256);
    let tick_ms = chance.one_of(&[500, 1000, 2000]).copied().unwrap_or(1000);
    let retain = chance.one_of(&[1, 3]).copied().unwrap_or(3);
    let requests_max = draw_requests_max(seed);
    let quotas = Chance::of(seed, "quotas").permille(500);
    move |config| {
        if let Some((of_connection, of_all)) = requests_max {
            config.limits.connection_requests_max = of_connection;
            config.limits.requests_max = of_all;
        }
        config.snapshot.commands = commands;
        config.snapshot.log_percent = 0;
        config.snapshot.retain = retain;
        config.log.segment_bytes = segment_bytes;
        config.log.entry_commands_max = entry_commands_max;
        config.ensemble.tick_time_ms = tick_ms;
        config.ensemble.reconfig_enabled = true;
        config.session.timeout_ms_min = 2 * tick_ms;
        config.session.timeout_ms_max = 20 * tick_ms;
        config.auth.super_digest = Some(SUPER_DIGEST.to_owned());
        config.limits.connections_per_address_max = 0;
        config.znodes.ttl_enabled = true;
        config.znodes.quota_enforced = quotas;
        config.znodes.reap_interval_ms = 2000;
    }
}

/// In some runs so few requests of a connection, and of all, that they have to wait for each other.
fn draw_requests_max(seed: u64) -> Option<(usize, usize)> {
    let mut chance = Chance::of(seed, "limits");
    let is_narrow = chance.permille(250);
    let of_connection = chance.one_of(&[1, 3, 10]).copied()?;
    let of_all = chance.one_of(&[3, 10, 30]).copied()?;
    is_narrow.then_some((of_connection, of_all))
}

/// One in ten seeds has a server alone, the others three mostly, or five, or seven.
fn draw_servers(seed: u64, chance: &mut Chance) -> u8 {
    let drawn = chance.between(0, 89);
    match drawn {
        _ if seed.is_multiple_of(10) => 1,
        0..60 => 3,
        60..85 => 5,
        _ => 7,
    }
}

/// When the servers are started at first: at once, or one behind the other; in a few runs all but the
/// first one long behind it, so that it waits without a majority.
fn first_starts(seed: u64, servers: u8) -> Vec<(ServerId, SimTime)> {
    let mut chance = Chance::of(seed, "first starts");
    let last_ms = if chance.permille(300) { chance.between(100, 10_000) } else { 0 };
    let is_alone = Chance::of(seed, "late starts").permille(50);
    let at = |server| {
        let late_ms = if is_alone && server > 1 { LATE_START_MS } else { 0 };
        (ServerId(server), SimTime::from_ms(late_ms + chance.between(0, last_ms)))
    };
    (1..=servers).map(at).collect()
}

/// What clients do. In some runs one of them changes the ensemble, which keeps enough voters for the
/// disks of the plan to be fewer than a majority of them.
fn load(options: &Options, servers: u8, disks: u8) -> Load {
    let seed = options.seed;
    let load = Load::draw(seed);
    if let Some(roles) = &options.roles {
        let drawn = u8::try_from(load.clients()).unwrap_or(u8::MAX);
        return load.with_roles(roles, options.clients.unwrap_or(drawn));
    }
    let mut chance = Chance::of(seed, "reconfig");
    if servers < 3 || !chance.permille(250) {
        return load.with_recipes(seed).with_operator(seed).with_storm(seed);
    }
    let line = |id: ServerId| (id, format!("server.{id}={}", member(id)));
    let plan = ReconfigPlan {
        lines: (1..=servers).map(ServerId).map(line).collect(),
        digest: Some(SUPER_CREDENTIALS.to_owned()),
        voters_min: usize::from((servers / 2 + 1).max(2 * disks + 1).min(servers)),
        pause: Duration::from_millis(chance.between(2000, 15_000)),
    };
    load.with_reconfig(plan).with_recipes(seed).with_operator(seed).with_storm(seed)
}

/// How many machines there are, and when there are faults.
fn frame(options: &Options) -> Frame {
    let mut chance = Chance::of(options.seed, "run");
    let servers = draw_servers(options.seed, &mut chance);
    let from = SimTime::default() + SETTLE;
    let servers = options.servers.unwrap_or(servers);
    let clients = u8::try_from(load(options, servers, 0).clients()).unwrap_or(u8::MAX);
    Frame {
        servers,
        clients: options.clients.unwrap_or(clients),
        from,
        until: from + Duration::from_secs(options.secs.unwrap_or(FAULTS_S)),
    }
}

/// The faults of a run.
pub fn plan(options: &Options) -> Vec<Planned> {
    let mut plan = faults::draw(options.seed, frame(options), options.kinds.as_deref());
    plan.retain(|planned| !options.without.contains(&planned.number));
    plan
}

/// What a run could be made smaller by.
pub fn size(options: &Options) -> Size {
    let Frame { clients, from, until, .. } = frame(options);
    let faults = plan(options).into_iter().map(|planned| planned.number).collect();
    Size { faults, clients, from_ms: from.ms(), until_ms: until.ms() }
}

/// What the checks have to know of a run. Clocks that are further off than zoolet
/// tolerates loosen promises about times, and no others.
pub fn check_options(options: &Options) -> checks::Options {
    let mut config = ServerConfig::default();
    draw_config(options.seed)(&mut config);
    let plan = plan(options);
    let has = |kind| plan.iter().any(|planned| planned.fault.kind() == kind);
    let is_skewed = has(Kind::ClockSkew);
    let (fast_permille, slow_permille) = if is_skewed {
        (FAST_SKEW_PERMILLE, SLOW_SKEW_PERMILLE)
    } else {
        (CLOCK_PERMILLE, CLOCK_PERMILLE)
    };
    let longest = |ms: u64| Duration::from_millis(ms * 1000 / (1000 - u64::from(slow_permille)));
    let ensemble = &config.ensemble;
    let silence_ms = u64::from(ensemble.election_timeout_ms_min + ensemble.election_timeout_ms_max);
    // Beside it a tick of its clock, and what is under way.
    let alone_ms = silence_ms + config.sync_limit_ms() + u64::from(ensemble.tick_time_ms) + 1000;
    let defaults = checks::Options::default();
    let connects_twice = has(Kind::ConnectTwice);
    // A copy is a sign of life of its session, whether or not it comes into the log.
    let copy_ms = if connects_twice { COPY_LATE_MS_MAX } else { 0 };
    let expires_ms = u64::try_from(defaults.expires_under_leader_within.as_millis()).unwrap_or(0);
    checks::Options {
        expires_under_leader_within: if is_skewed {
            longest(expires_ms + copy_ms)
        } else {
            Duration::from_millis(expires_ms + copy_ms)
        },
        serves_alone_within: longest(alone_ms),
        clock_fast_permille: fast_permille,
        clock_slow_permille: slow_permille,
        // A client reports the loss behind 4/5 of the timeout, and a leader whose clock is twice as fast
        // ends the session behind half of it (docs/locks.md).
        loss_slack: if is_skewed {
            Duration::from_millis(u64::from(config.session.timeout_ms_max) * 3 / 10)
        } else {
            Duration::ZERO
        },
        connects_twice,
        super_digest: Some(SUPER_DIGEST.to_owned()),
        address_of: Some(|client| client_machine(u8::try_from(client.0).unwrap_or(0)).ip().into()),
        ..defaults
    }
}

/// Carries a run out.
pub fn run(options: &Options) -> Outcome {
    let seed = options.seed;
    let Frame { servers, clients, until, .. } = frame(options);
    let until = options.heal_at_ms.map_or(until, |ms| until.min(SimTime::from_ms(ms)));
    let mut world = World::new(seed, configs(servers, draw_config(seed)));
    let plan = plan(options);
    let disks = plan.iter().filter(|planned| planned.fault.kind().may_cost_disk()).count();
    let disks = u8::try_from(disks).unwrap_or(u8::MAX / 4);
    let mut nemesis = Nemesis::new(plan);
    trace::of("run");
    trace::line(format_args!("seed {seed}: {servers} servers, {clients} clients"));
    for (server, at) in first_starts(seed, servers) {
        nemesis.start_at(server, at);
    }
    nemesis.work(&mut world);
    let (stop, stopped) = watch::channel(false);
    let load = load(options, servers, disks);
    let mut lives = BTreeMap::new();
    for client in (0..clients).filter(|client| !options.idle.contains(client)) {
        start_client(&mut world, (seed, &load), (client, 0), &stopped);
        lives.insert(client, 0_u64);
    }
    while world.now() < until {
        world.step();
        nemesis.work(&mut world);
        restart_clients(&mut world, &mut nemesis, (seed, &load), (&mut lives, &stopped));
    }
    nemesis.heal(&mut world);
    restart_clients(&mut world, &mut nemesis, (seed, &load), (&mut lives, &stopped));
    let healed_at = world.now();
    let ended_at = finish(&mut world, &mut nemesis, healed_at, &stop);
    let quiet = ended_at.map(|ended_at| (ended_at + NOTICED_WITHIN, world.now()));
    walk(&mut world, &mut nemesis, (seed, clients));
    let mut history = world.recorder.take();
    history.quiet = quiet.filter(|(from, to)| from < to);
    history.healed_at = healed_at;
    history.ended_at = world.now();
    let marks = trace::take_marks();
    history.troubles = troubles(&marks, &nemesis.failures, healed_at);
    history.strikes.clone_from(&nemesis.strikes);
    history.losses.clone_from(&nemesis.losses.all);
    Outcome {
        history,
        plan: nemesis.begun.clone(),
        faults: nemesis.counts.clone(),
        network: world.network.figures(),
        failures: nemesis.failures.clone(),
        servers,
        clients,
        simulated: world.now() - SimTime::default(),
        trace: trace::summary(),
        marks,
    }
}

/// What should not happen without a reason.
fn troubles(
    marks: &[Mark],
    failures: &[(SimTime, ServerId, String)],
    healed_at: SimTime,
) -> Vec<Trouble> {
    let logged = marks.iter().filter(|mark| mark.is_trouble()).map(|mark| Trouble {
        at: mark.at,
        server: mark.server(),
        text: mark.text.clone(),
    });
    let ended = failures.iter().map(|(at, server, why)| Trouble {
        at: *at,
        server: Some(*server),
        text: format!("it has ended by itself: {why}"),
    });
    let said = floods::find(marks).into_iter().chain(held_up::find(marks, healed_at));
    let mut all: Vec<Trouble> = logged.chain(ended).chain(said).collect();
    all.sort_by_key(|trouble| trouble.at);
    all
}

/// The time in which nothing fails any more: the load goes on, then it ends. Returns when the last
/// client has ended, if all have.
fn finish(
    world: &mut World,
    nemesis: &mut Nemesis,
    healed_at: SimTime,
    stop: &watch::Sender<bool>,
) -> Option<SimTime> {
    trace::of("run");
    trace::line(format_args!("all faults have ended"));
    while world.now() < healed_at + HEAL {
        world.step();
        nemesis.work(world);
    }
    stop.send_replace(true);
    let end = world.now() + FINISH;
    let mut ended_at = None;
    while world.now() < end {
        world.step();
        nemesis.work(world);
        if ended_at.is_none() && world.clients_are_done() {
            ended_at = Some(world.now());
        }
    }
    ended_at
}

/// A client for each server walks over the tree through it.
fn walk(world: &mut World, nemesis: &mut Nemesis, (seed, clients): (u64, u8)) {
    trace::of("run");
    trace::line(format_args!("the tree is walked over through each server"));
    for (server, address) in world.addresses() {
        let client = clients.saturating_add(server.0);
        let recorder = world.recorder.clone();
        let seed = Chance::of(seed, &format!("walk {server}")).number();
        world.start_client(client, move |net| {
            let machine = ClientMachine {
                client: ClientNumber(u32::from(client)),
                connector: std::sync::Arc::new(net),
                servers: vec![(server, address)],
                recorder,
                seed,
            };
            load::walk(machine, server)
        });
    }
    let end = world.now() + WALK;
    world.step();
    while world.now() < end && !world.recorder.is_walked() {
        world.step();
        nemesis.work(world);
    }
}

fn start_client(
    world: &mut World,
    (seed, load): (u64, &Load),
    (client, life): (u8, u64),
    stopped: &watch::Receiver<bool>,
) {
    let servers = world.addresses();
    let recorder = world.recorder.clone();
    let stopped = stopped.clone();
    let number = ClientNumber(u32::from(client));
    let seed_of_life = Chance::of(seed, &format!("client {client} life {life}")).number();
    let load = load.clone();
    world.start_client(client, move |net| {
        let machine = ClientMachine {
            client: number,
            connector: std::sync::Arc::new(net),
            servers,
            recorder,
            seed: seed_of_life,
        };
        load.run(machine, stopped)
    });
}

fn restart_clients(
    world: &mut World,
    nemesis: &mut Nemesis,
    (seed, load): (u64, &Load),
    (lives, stopped): (&mut BTreeMap<u8, u64>, &watch::Receiver<bool>),
) {
    for client in std::mem::take(&mut nemesis.clients_to_start) {
        let Some(life) = lives.get_mut(&client) else { continue };
        // Of two kills at a time the first one's end has begun it anew.
        if world.client(client).is_some_and(|machine| machine.runs()) {
            continue;
        }
        *life += 1;
        let life = *life;
        start_client(world, (seed, load), (client, life), stopped);
    }
}
