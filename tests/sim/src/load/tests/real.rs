//! Loads on servers of zoolet in this process, by real sockets and in real time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zoolet_client::TcpConnector;
use zoolet_jute::{ErrorCode, MultiResult, OpCode, Reply, Request, SessionId};
use zoolet_replica::ServerId;
use zoolet_server::embed::Ensemble;

use super::check_sane;
use crate::history::{ClientNumber, History, LockStep, RecipeStep, Record, Recorder, What};
use crate::load::locks::Recipe;
use crate::load::operations::Mix;
use crate::load::structures::Structure;
use crate::load::{ClientMachine, Load, ReconfigPlan, Role, SUPER_CREDENTIALS, SUPER_DIGEST};

/// Three servers, and the lines of their list of members.
async fn ensemble() -> (Ensemble, Vec<(ServerId, String)>) {
    let lines = Arc::new(Mutex::new(String::new()));
    let filled = Arc::clone(&lines);
    let builder = Ensemble::builder().servers(3).configure(move |config| {
        config.ensemble.tick_time_ms = 200;
        config.ensemble.reconfig_enabled = true;
        config.session.timeout_ms_min = 400;
        config.session.timeout_ms_max = 10_000;
        config.limits.connections_per_address_max = 0;
        config.znodes.ttl_enabled = true;
        config.znodes.reap_interval_ms = 500;
        config.auth.super_digest = Some(SUPER_DIGEST.to_owned());
        *filled.lock().unwrap() = config.members_text();
    });
    let ensemble = builder.start().await.unwrap();
    let lines = lines.lock().unwrap().clone();
    let lines = lines.lines().zip(1..).map(|(line, number)| (ServerId(number), line.to_owned()));
    (ensemble, lines.collect())
}

/// Runs a load for a while, and returns what has happened once it has ended.
async fn run(load: &Load, ensemble: &Ensemble, span: Duration) -> History {
    run_until(load, ensemble, span, |_| true).await
}

/// The same until what has happened is enough, which may take a minute on a machine that has other things
/// to do.
async fn run_until(
    load: &Load,
    ensemble: &Ensemble,
    span: Duration,
    is_enough: impl Fn(&[Record]) -> bool,
) -> History {
    let recorder = Recorder::default();
    let (stop_sender, stop) = watch::channel(false);
    let servers: Vec<(ServerId, String)> = (1..)
        .zip(ensemble.connect_string().split(','))
        .map(|(number, address)| (ServerId(number), address.to_owned()))
        .collect();
    let mut clients = JoinSet::new();
    for client in 0..load.clients() {
        let machine = ClientMachine {
            client: ClientNumber(client),
            connector: Arc::new(TcpConnector),
            servers: servers.clone(),
            recorder: recorder.clone(),
            seed: u64::from(client),
        };
        clients.spawn(load.clone().run(machine, stop.clone()));
    }
    sleep(span).await;
    for _ in 0..600 {
        if recorder.is_enough(&is_enough) {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    stop_sender.send_replace(true);
    let ended = timeout(Duration::from_mins(1), clients.join_all()).await;
    assert!(ended.is_ok(), "the load goes on after its stop");
    recorder.take()
}

/// A load of these roles, without long waits.
fn brisk(roles: Vec<Role>) -> Load {
    let mut load = Load::draw(7);
    load.roles = roles;
    load.mix = Mix::even();
    load.timeout_ms = 1_000..=2_000;
    load.think = Duration::from_millis(4);
    load.disturb_one_in = 60;
    load.locks.timeout = Duration::from_millis(1_500);
    load.locks.think = Duration::from_millis(10);
    load.locks.locks = 1;
    load
}

fn operations(history: &History) -> BTreeSet<OpCode> {
    let of = |what: &What| {
        let What::Called { request, .. } = what else { return None };
        Some(request.op_code())
    };
    history.records.iter().filter_map(|record| of(&record.what)).collect()
}

/// How often servers refused what, the parts of multis included.
fn refusals(history: &History) -> BTreeMap<ErrorCode, usize> {
    let mut codes = BTreeMap::new();
    for record in &history.records {
        let What::Returned { result, .. } = &record.what else { continue };
        let of_part = |part: &MultiResult| {
            let MultiResult::Error(code) = part else { return None };
            *code
        };
        let refused = match result {
            Err(code) => vec![*code],
            Ok(Reply::Multi(parts)) => parts.0.iter().filter_map(of_part).collect(),
            Ok(_) => Vec::new(),
        };
        for code in refused {
            *codes.entry(code).or_insert(0) += 1;
        }
    }
    codes
}

/// How connections began.
#[derive(Debug, Default)]
struct Handshakes {
    begun: usize,
    resumed: usize,
    expired: usize,
    /// Those that called before the answer.
    eager: usize,
}

fn handshakes(history: &History) -> Handshakes {
    let (mut all, mut called) = (Handshakes::default(), BTreeSet::new());
    for record in &history.records {
        if let What::Called { connection, .. } = &record.what {
            called.insert(*connection);
        }
        let What::Connected { connection, asked, session, .. } = &record.what else { continue };
        all.eager += usize::from(called.contains(connection));
        match (*asked, *session) {
            (_, SessionId::NONE) => all.expired += 1,
            (SessionId::NONE, _) => all.begun += 1,
            _ => all.resumed += 1,
        }
    }
    all
}

/// Of each client, the steps of its locks.
fn lock_steps(records: &[Record]) -> BTreeMap<ClientNumber, Vec<LockStep>> {
    let mut steps: BTreeMap<ClientNumber, Vec<LockStep>> = BTreeMap::new();
    for record in records {
        if let What::Lock { client, step, .. } = &record.what {
            steps.entry(*client).or_default().push(step.clone());
        }
    }
    steps
}

/// Whether this many calls were made: a slow machine needs more time for them.
fn has_called(records: &[Record], calls: usize) -> bool {
    let is_call = |record: &&Record| matches!(record.what, What::Called { .. });
    records.iter().filter(is_call).count() > calls + calls / 10
}

/// How many steps of a kind were taken on the recipes below a path.
fn steps_at(records: &[Record], below: &str, is: fn(&RecipeStep) -> bool) -> usize {
    let is_one = |what: &What| matches!(what, What::Recipe { path, step, .. } if path.starts_with(below) && is(step));
    records.iter().filter(|record| is_one(&record.what)).count()
}

/// How many clients have held a lock and given it back. Others may have a lock for seconds, one behind
/// another.
fn held_by(records: &[Record]) -> usize {
    let released = |step: &LockStep| matches!(step, LockStep::Released { .. });
    lock_steps(records).values().filter(|steps| steps.iter().any(released)).count()
}

#[tokio::test]
async fn random_operations_of_every_kind_run_and_all_is_noted_in_order() {
    let (ensemble, _) = ensemble().await;
    let is_enough = |records: &[Record]| has_called(records, 3000);
    let load = brisk(vec![Role::Random; 6]);
    let history = run_until(&load, &ensemble, Duration::from_secs(5), is_enough).await;
    let (calls, returns) = check_sane(&history);
    assert!(calls > 3000 && returns > calls * 3 / 4, "{calls} calls, {returns} returns");
    let absent = [
        OpCode::Notification,
        OpCode::Check,
        OpCode::Reconfig,
        OpCode::DeleteContainer,
        OpCode::Sasl,
        OpCode::CreateSession,
        OpCode::Error,
    ];
    let expected: BTreeSet<OpCode> =
        OpCode::ALL.iter().filter(|op| !absent.contains(op)).copied().collect();
    assert_eq!(operations(&history), expected);
    let codes = refusals(&history);
    let common = [
        ErrorCode::NoNode,
        ErrorCode::NodeExists,
        ErrorCode::NotEmpty,
        ErrorCode::BadVersion,
        ErrorCode::NoChildrenForEphemerals,
        ErrorCode::NoAuth,
        ErrorCode::InvalidAcl,
        ErrorCode::BadArguments,
        ErrorCode::NoWatcher,
    ];
    for code in common {
        assert!(codes.contains_key(&code), "no {code} in {codes:?}");
    }
    let is_event = |what: &What| matches!(what, What::Notified { .. });
    let events = history.records.iter().filter(|record| is_event(&record.what)).count();
    assert!(events > 500, "{events} events");
    let Handshakes { begun, resumed, expired, eager } = handshakes(&history);
    assert!(begun >= 6 && resumed > 20 && eager > 5, "{begun}, {resumed}, {expired}, {eager}");
    ensemble.shutdown().await;
}

#[tokio::test]
async fn work_that_means_something_finds_every_promise_kept() {
    let (ensemble, _) = ensemble().await;
    let kinds = [Role::Register, Role::Bank, Role::Sequence, Role::Queue, Role::Mirror];
    let roles = kinds.into_iter().cycle().take(10).collect();
    let is_enough = |records: &[Record]| has_called(records, 2000);
    let history = run_until(&brisk(roles), &ensemble, Duration::from_secs(6), is_enough).await;
    let (calls, returns) = check_sane(&history);
    assert!(calls > 2000 && returns > calls * 3 / 4, "{calls} calls, {returns} returns");
    let is_transfer = |what: &What| matches!(what, What::Called { request: Request::Multi(parts), .. } if parts.0.len() < 4);
    assert!(history.records.iter().any(|record| is_transfer(&record.what)));
    ensemble.shutdown().await;
}

#[tokio::test]
async fn contenders_of_every_recipe_hold_in_turn_and_give_back() {
    let (ensemble, _) = ensemble().await;
    let mut roles = vec![Role::Curator; 2];
    roles.extend(Recipe::ALL.iter().flat_map(|recipe| [Role::Recipe(*recipe); 2]));
    let each_has_held = |records: &[Record]| held_by(records) == roles.len();
    let load = brisk(roles.clone());
    let history = run_until(&load, &ensemble, Duration::from_secs(6), each_has_held).await;
    check_sane(&history);
    let steps = lock_steps(&history.records);
    assert_eq!(steps.len(), roles.len(), "clients without a lock: {steps:?}");
    for (client, steps) in steps {
        let count = |is: fn(&LockStep) -> bool| steps.iter().filter(|step| is(step)).count();
        let waits = count(|step| matches!(step, LockStep::Waits { .. }));
        let granted = count(|step| matches!(step, LockStep::Granted { .. }));
        let gave_up = count(|step| matches!(step, LockStep::GaveUp));
        let given_back = count(|step| matches!(step, LockStep::Released { .. }));
        let lost = count(|step| matches!(step, LockStep::Lost { .. }));
        let refused = count(|step| matches!(step, LockStep::Wrote { accepted: false, .. }));
        assert!(granted > 0, "{client:?}: {steps:?}");
        assert_eq!(waits, granted + gave_up, "{client:?}: {steps:?}");
        assert!(given_back + lost <= granted && given_back > 0, "{client:?}: {steps:?}");
        assert_eq!(refused, 0, "{client:?}: {steps:?}");
    }
    ensemble.shutdown().await;
}

#[tokio::test]
async fn servers_leave_and_join_under_load() {
    let (ensemble, lines) = ensemble().await;
    let plan = ReconfigPlan {
        lines,
        digest: Some(SUPER_CREDENTIALS.to_owned()),
        voters_min: 2,
        pause: Duration::from_millis(300),
    };
    let load = brisk(vec![Role::Bank, Role::Register]).with_reconfig(plan);
    let history = run(&load, &ensemble, Duration::from_secs(6)).await;
    check_sane(&history);
    let mut changes = BTreeSet::new();
    for record in &history.records {
        if let What::Called { call, request: Request::Reconfig(_), .. } = &record.what {
            changes.insert(*call);
        }
    }
    let done = |what: &What| matches!(what, What::Returned { call, result: Ok(_), .. } if changes.contains(call));
    let done = history.records.iter().filter(|record| done(&record.what)).count();
    assert!(done > 2, "{done} of {} changes", changes.len());
    ensemble.shutdown().await;
}

#[tokio::test]
async fn users_of_every_other_recipe_come_to_their_ends() {
    let (ensemble, _) = ensemble().await;
    let structures = Structure::ALL.iter().map(|structure| Role::Structure(*structure));
    let more = Recipe::MORE.iter().map(|recipe| Role::Recipe(*recipe));
    let roles: Vec<Role> = structures.chain(more).flat_map(|role| [role; 2]).collect();
    let load = brisk(roles);
    let queues = [Structure::Queue, Structure::DistributedQueue, Structure::KazooQueue];
    let taken = |records: &[Record], queue: Structure| {
        let took = |step: &RecipeStep| matches!(step, RecipeStep::Took { item: Some(_) });
        steps_at(records, queue.path(), took)
    };
    let is_enough = |records: &[Record]| {
        held_by(records) == 2 * Recipe::MORE.len()
            && queues.iter().all(|queue| taken(records, *queue) > 10)
    };
    let history = run_until(&load, &ensemble, Duration::from_secs(6), is_enough).await;
    let steps_at = |of: &str, is| steps_at(&history.records, of, is);
    let steps = |is: fn(&RecipeStep) -> bool| steps_at("", is);
    for queue in queues {
        let taken = taken(&history.records, queue);
        assert!(taken > 10, "{queue:?}: {taken}");
    }
    for counter in [Structure::Counter, Structure::SharedCount] {
        let added = steps_at(counter.path(), |step| matches!(step, RecipeStep::Added { .. }));
        assert!(added > 10, "{counter:?}: {added}");
    }
    let left = steps(|step| matches!(step, RecipeStep::Left));
    let open = steps(|step| matches!(step, RecipeStep::Awaited { is_open: true }));
    let members = steps(|step| matches!(step, RecipeStep::IsMember { .. }));
    let shown = steps(
        |step| matches!(step, RecipeStep::Shows { znodes } if znodes.contains_key("/recipes/tree")),
    );
    assert!(left > 4, "{left}");
    assert_eq!((shown, members), (2, 2));
    assert!(open > 4, "{open}");
    assert_eq!(held_by(&history.records), 2 * Recipe::MORE.len());
    ensemble.shutdown().await;
}
