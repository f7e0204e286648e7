//! The lock torture of the client, on servers that are killed and stand still.
//!
//! A short run of every recipe, and runs with locks that are broken on purpose, which must fail.
//! `make torture SECS=… SEED=…` makes long ones; see `docs/testing.md`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::env;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use zoolet_tests::builder::ServersBuilder;
use zoolet_tests::faults::netns;
use zoolet_tests::faults::netns_ensemble::NetnsEnsemble;
use zoolet_tests::nemesis::{NetnsNemesis, ProcessNemesis, Summary};
use zoolet_tests::servers::Servers;
use zoolet_tests::slow_disk;
use zoolet_tests::tools::{self, announce};
use zoolet_torture::{PlantedBug, Promise, Recipe, Report, ServerFault, Settings};

/// How long the faults of one seed go on in the long runs.
const SEED_SECONDS: u64 = 25;
/// How long the faults of one seed go on in the runs of a few recipes.
const FEW_SECONDS: u64 = 10;
/// How many ensembles the long runs use side by side.
const LANES: u64 = 3;
/// From this many seconds of faults on, every kind of them has to come up.
const WHOLE_SECONDS: u64 = 600;
/// The kinds that every ensemble of the long runs can suffer.
const FAULT_KINDS: [&str; 22] = [
    "holder paused",
    "holder cut off",
    "holder silenced",
    "holder killed",
    "holder's znode deleted",
    "waiter's znode deleted",
    "paused",
    "cut off",
    "silenced",
    "killed",
    "reply lost",
    "reply of a delete lost",
    "reply of a transaction lost",
    "mirrors cut off",
    "request lost",
    "all sessions expired",
    "directories reaped",
    "numbers near 2³¹",
    "server killed",
    "server paused",
    "disk slow",
    "leader killed at a grant",
];
/// Containers without children go twice a second.
const REAPER_MS: &str = "500";

fn builder() -> ServersBuilder {
    Servers::zoolet().servers(3).property("znode.container.checkIntervalMs", REAPER_MS)
}

fn settings(servers: &str, seed: u64, seconds: u64) -> Settings {
    Settings { duration: Duration::from_secs(seconds), ..Settings::new(servers, seed) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_recipe_keeps_its_promises_while_servers_are_killed() {
    let servers = ProcessNemesis::new(builder().start().unwrap());
    let seed = number("ZOOLET_TORTURE_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let settings = Settings {
        server_faults: vec![ServerFault::Kill],
        ..settings(&servers.connect_string(), seed, 15)
    };
    let report = zoolet_torture::run(&settings, Some(Box::new(servers))).await.unwrap();
    announce(&format!("torture: {report}"));
    assert_eq!(broken(&report), [], "ZOOLET_TORTURE_SEED={seed} makes the same plan");
    for recipe in Recipe::ALL.into_iter().filter(|recipe| recipe.is_lock()) {
        assert!(report.grants[&recipe] >= settings.contenders, "{recipe}: {:?}", report.grants);
    }
    for recipe in Recipe::ALL.into_iter().filter(|recipe| !recipe.is_lock()) {
        assert!(report.others.contains_key(&recipe), "{recipe}: {:?}", report.others);
    }
    let killed = |kind: &&str| ["server killed", "leader killed at a grant"].contains(kind);
    assert!(report.faults.keys().any(killed), "no server was killed: {:?}", report.faults);
}

/// The same seed, recipes and faults with a lock that ignores the queue, and with a resource that
/// looks at no token: the checks have to find both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_locks_are_found_out() {
    let servers = Servers::zoolet().servers(3).start().unwrap();
    let with = |planted_bug| Settings {
        recipes: vec![Recipe::Mutex],
        locks: 3,
        server_faults: Vec::new(),
        // Who ignores the queue may leave others in it for ever.
        last_turn_max: Duration::from_secs(if planted_bug == Some(PlantedBug::IgnoresQueue) {
            15
        } else {
            60
        }),
        planted_bug,
        ..settings(&servers.connect_string(), 7, 10)
    };
    let (honest, barging, unfenced) = tokio::join!(
        finds(with(None)),
        finds(with(Some(PlantedBug::IgnoresQueue))),
        finds(with(Some(PlantedBug::NoFence))),
    );
    assert_eq!(honest, []);
    assert!(barging.contains(&Promise::InTurn), "{barging:?}");
    assert!(barging.contains(&Promise::OneHolder), "{barging:?}");
    assert!(unfenced.contains(&Promise::NoStaleWrite), "{unfenced:?}");
}

/// The recipes of `ZOOLET_TORTURE_RECIPES` on one server that nothing is done to, seed after seed from
/// `ZOOLET_TORTURE_SEED` on, for `ZOOLET_TORTURE_SECS` seconds or until a promise is broken: finds
/// most mistakes of a recipe in little time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_few_recipes_on_one_server() {
    let Ok(recipes) = env::var("ZOOLET_TORTURE_RECIPES") else { return };
    let recipes = Recipe::parse_list(&recipes).unwrap();
    let seconds = number("ZOOLET_TORTURE_SECS").unwrap_or(FEW_SECONDS);
    let first = number("ZOOLET_TORTURE_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let servers = Servers::zoolet().servers(1).start().unwrap();
    let start = Instant::now();
    for seed in first.. {
        let settings = Settings {
            recipes: recipes.clone(),
            contenders: 4,
            locks: 2,
            last_turn_max: Duration::from_secs(20),
            server_faults: Vec::new(),
            ..settings(&servers.connect_string(), seed, FEW_SECONDS)
        };
        let report = zoolet_torture::run(&settings, None).await.unwrap();
        announce(&format!("torture: {report}"));
        assert_eq!(broken(&report), [], "ZOOLET_TORTURE_SEED={seed} makes the same plan");
        if start.elapsed() + Duration::from_secs(FEW_SECONDS) > Duration::from_secs(seconds) {
            return;
        }
    }
}

async fn finds(settings: Settings) -> Vec<Promise> {
    let report = zoolet_torture::run(&settings, None).await.unwrap();
    let planted_bug = settings.planted_bug;
    announce(&format!("torture ({planted_bug:?}): {report}"));
    broken(&report)
}

/// The promises that were broken. A run as short as these may see no stale write, and so prove too
/// little about the fence: that is asked of the long ones.
fn broken(report: &Report) -> Vec<Promise> {
    let promises = report.verdict.violations.iter().map(|violation| violation.promise);
    promises.filter(|promise| *promise != Promise::Proves).collect()
}

/// `ZOOLET_TORTURE_SECS` seconds of faults, seed after seed, on several ensembles side by side;
/// `ZOOLET_TORTURE_SERVERS=apache` tortures Apache `ZooKeeper`.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn seed_after_seed() {
    let Some(seconds) = number("ZOOLET_TORTURE_SECS") else { return };
    let first = number("ZOOLET_TORTURE_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let lanes = number("ZOOLET_TORTURE_LANES").unwrap_or(LANES);
    let apache = env::var("ZOOLET_TORTURE_SERVERS").is_ok_and(|kind| kind == "apache");
    if let Some(directory) = out() {
        fs::create_dir_all(&directory).unwrap_or_else(|error| {
            panic!("ZOOLET_TORTURE_OUT: {}: {error}", directory.display());
        });
    }
    let in_netns = can_use_netns(apache);
    let start = Instant::now();
    let rounds = seconds.div_ceil(SEED_SECONDS).div_ceil(lanes);
    let wrapper = slow_disk::wrapper().unwrap();
    let mut running = JoinSet::new();
    for lane in 0..lanes {
        let seeds = (0..rounds).map(move |round| first + round * lanes + lane).collect();
        if apache {
            let builder = Servers::apache().servers(3).wrapper(wrapper.clone());
            let reaper = format!("-Dznode.container.checkIntervalMs={REAPER_MS}");
            let servers = tokio::task::block_in_place(|| builder.jvm_option(&reaper).start());
            let servers = ProcessNemesis::with_disks(servers.unwrap());
            running.spawn(one_lane(servers.connect_string(), apache, servers, seeds));
        } else if lane == 0 && in_netns {
            let ensemble = NetnsEnsemble::start(3).unwrap();
            let all = ensemble.until_serving(&[0, 1, 2], Duration::from_mins(1)).await;
            all.unwrap();
            let servers = NetnsNemesis::new(ensemble);
            running.spawn(one_lane(servers.connect_string(), apache, servers, seeds));
        } else {
            let builder = builder().wrapper(wrapper.clone());
            let servers = tokio::task::block_in_place(|| builder.start().unwrap());
            let servers = ProcessNemesis::with_disks(servers);
            running.spawn(one_lane(servers.connect_string(), apache, servers, seeds));
        }
    }
    let mut summary = Summary::default();
    while let Some(reports) = running.join_next().await {
        for report in reports.unwrap() {
            summary.add(&report);
        }
    }
    let (kind, took) = (if apache { "apache" } else { "zoolet" }, start.elapsed().as_secs());
    announce(&format!("torture: {kind}, seeds from {first}, {took} s: {summary}"));
    if let Some(directory) = out() {
        let file = directory.join(format!("torture-{kind}.json"));
        fs::write(file, summary.json().to_string()).unwrap();
    }
    assert!(summary.broken().is_empty(), "{:#?}", summary.broken());
    let kinds = faults_expected(apache, in_netns);
    let whole = (seconds >= WHOLE_SECONDS).then_some(kinds.as_slice());
    assert_eq!(summary.proves_too_little(whole), Vec::<String>::new());
}

/// The kinds of faults that a whole run must have had.
fn faults_expected(apache: bool, in_netns: bool) -> Vec<&'static str> {
    let mut kinds: Vec<&'static str> = FAULT_KINDS.to_vec();
    if !apache && in_netns {
        kinds.push("server cut off");
    }
    kinds
}

/// Whether one of the ensembles stands on machines of a network that is cut. Where foreign suites
/// are required, a machine that cannot do that is an error.
fn can_use_netns(apache: bool) -> bool {
    match netns::missing() {
        _ if apache => false,
        None => true,
        Some(error) => {
            tools::skip_unless_required("torture on a network that is cut:", error).unwrap();
            false
        }
    }
}

/// Some seeds, one after the other, on servers of their own.
async fn one_lane(
    connect_string: String,
    apache: bool,
    servers: impl zoolet_torture::Servers + Clone + 'static,
    seeds: Vec<u64>,
) -> Vec<Report> {
    let mut reports = Vec::new();
    for seed in seeds {
        let mut settings = settings(&connect_string, seed, SEED_SECONDS);
        settings.locks = 2;
        settings.early_grants_are_counted = apache;
        let report = zoolet_torture::run(&settings, Some(Box::new(servers.clone()))).await.unwrap();
        if !report.passed() {
            announce(&format!("torture: {report}"));
        }
        if let Some(directory) = out() {
            let file = directory.join(format!("torture-{seed}.svg"));
            fs::write(file, report.svg()).unwrap();
        }
        reports.push(report);
    }
    reports
}

/// Where reports and pictures go.
fn out() -> Option<PathBuf> {
    env::var_os("ZOOLET_TORTURE_OUT").map(PathBuf::from)
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("invalid number {variable}={text}")))
}
