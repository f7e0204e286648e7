//! kill -9 of leaders and followers in turn, under load: every acknowledged write is there, in
//! order, once; the others are there at most once; zxids rise in every session; sessions and their
//! ephemeral znodes survive, and those of dead clients do not; killed servers come back by
//! themselves, and all hold the same in the end.
//!
//! `ZOOLET_KILL_ROUNDS` makes the run longer, `ZOOLET_FAULTS_SEED` repeats one.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep};
use zoolet_client::CreateMode;
use zoolet_jute::{Acl, CreateRequest, Request, Xid};
use zoolet_tests::faults::{Failure, Load, Seed, connect, convergence, promised};
use zoolet_tests::raw::{Incoming, RawConnection};
use zoolet_tests::servers::{LEADER_MAX, Servers};
use zoolet_tests::tools::{self, announce};

const SERVERS: usize = 3;
/// Kills of all ensembles.
const ROUNDS: usize = 50;
const ENSEMBLES: usize = 2;
/// What the generators of victims and moments begin to count at; those of a load count from 1.
const KILLER: u64 = 100;
/// After this many rounds everything acknowledged is looked for, under load.
const ROUNDS_PER_CHECK: usize = 5;
/// The mean pause between two writes of a session: the load leaves the servers time to come back.
const PAUSE: Duration = Duration::from_millis(6);
/// The shortest session timeout of the servers.
const SHORT_SESSION_MS: i32 = 1000;
/// How long a dead client's znode may stay once no server is killed any more.
const EXPIRY_MAX: Duration = Duration::from_secs(15);

/// What the rounds have done.
#[derive(Debug, Default)]
struct Kills {
    leaders: usize,
    followers: usize,
    /// Kills of a leader that stayed down until another server led.
    elections: usize,
    /// The longest time that took.
    election_max: Duration,
    abandoned: usize,
}

/// A client that dies without a word: its session's znode has to go.
fn abandon_session(servers: &Servers, index: usize, number: usize) {
    let address = servers.client_address(index).unwrap();
    let mut connection = RawConnection::open(address, SHORT_SESSION_MS).unwrap();
    let request = Request::Create2(CreateRequest {
        path: format!("/abandoned/{number}"),
        data: None,
        acl: Some(Acl::open()),
        flags: CreateMode::Ephemeral as i32,
    });
    let (_, answer) = connection.call(Xid(1), &request).unwrap();
    assert!(matches!(answer, Incoming::Reply(header, _) if header.err.is_none()), "{answer:?}");
}

/// Kills one server of three and starts it again; every other time it is the leader, and every
/// other leader stays down until the others have elected one.
async fn kill_one(servers: &mut Servers, round: usize, rng: &mut fastrand::Rng, kills: &mut Kills) {
    let leader = block_in_place(|| servers.leader());
    let other = (leader.unwrap_or(0) + rng.usize(1..SERVERS)) % SERVERS;
    let victim = if round.is_multiple_of(2) { leader.unwrap_or(other) } else { other };
    servers.kill(victim).unwrap();
    if leader != Some(victim) {
        kills.followers += 1;
        sleep(Duration::from_millis(rng.u64(0..800))).await;
    } else if kills.leaders.is_multiple_of(2) {
        kills.leaders += 1;
        kills.elections += 1;
        let took = other_leader(servers);
        kills.election_max = kills.election_max.max(took);
    } else {
        kills.leaders += 1;
        // It is back before the others have missed it.
        sleep(Duration::from_millis(rng.u64(0..100))).await;
    }
    block_in_place(|| servers.restart(victim)).unwrap();
    sleep(Duration::from_millis(rng.u64(0..400))).await;
}

/// Waits until one of the running servers leads; returns how long it took.
fn other_leader(servers: &Servers) -> Duration {
    let start = Instant::now();
    block_in_place(|| servers.wait_for_leader(LEADER_MAX)).unwrap();
    start.elapsed()
}

async fn abandoned_are_gone(servers: &str) -> Result<(), Failure> {
    let reader = connect(servers).await?;
    let start = Instant::now();
    loop {
        reader.sync("/").await?;
        let (left, _) = reader.children("/abandoned").await?;
        if left.is_empty() {
            return Ok(());
        }
        promised(start.elapsed() < EXPIRY_MAX, || format!("dead sessions keep {left:?}"))?;
        sleep(Duration::from_millis(100)).await;
    }
}

/// The rounds are shared out between ensembles that stand side by side: most of the time goes by in
/// waiting for elections and starts.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn acknowledged_writes_and_sessions_survive_kills_of_leaders_and_followers() {
    if !crate::is_due("kill9") {
        return;
    }
    let rounds = tools::number("ZOOLET_KILL_ROUNDS", ROUNDS).unwrap();
    let seed = Arc::new(Seed::of("faults", "kill9::"));
    let trials = (0..ENSEMBLES)
        .map(|number| tokio::spawn(kill(rounds.div_ceil(ENSEMBLES), number, Arc::clone(&seed))));
    for ended in join_all(trials.collect::<Vec<_>>()).await {
        ended.unwrap();
    }
}

async fn kill(rounds: usize, number: usize, seed: Arc<Seed>) {
    let mut rng = seed.generator(KILLER + number as u64);
    // Snapshots come often, so that servers start from them and catch up by them.
    let builder = Servers::zoolet().servers(SERVERS).property("snapCount", "1000");
    let mut servers = block_in_place(|| builder.start().unwrap());
    let connect_string = servers.connect_string();
    let admin = connect(&connect_string).await.unwrap();
    admin.create("/abandoned", b"", CreateMode::Persistent).await.unwrap();
    let mut load = Load::start(&connect_string, &seed, PAUSE).await.unwrap();

    let (mut kills, start) = (Kills::default(), Instant::now());
    for round in 0..rounds {
        if round % 5 == 4 {
            let index = rng.usize(..SERVERS);
            block_in_place(|| abandon_session(&servers, index, round));
            kills.abandoned += 1;
        }
        kill_one(&mut servers, round, &mut rng, &mut kills).await;
        load.still_runs().await.unwrap();
        if (round + 1) % ROUNDS_PER_CHECK == 0 {
            load.check_while_running().await.unwrap();
        }
    }
    let total = load.finish().await.unwrap();
    abandoned_are_gone(&connect_string).await.unwrap();
    admin.close().await.unwrap();
    let addresses: Vec<_> = (0..SERVERS).map(|i| servers.client_address(i).unwrap()).collect();
    let agreement = convergence::all(&addresses).await.unwrap();

    announce(&format!(
        "kill9: seed {}, ensemble {number}: {rounds} kills in {} s, {} of leaders, {} elections of \
         at most {} ms; {} acknowledged writes all there, {} in doubt at most once, {} reads; {} \
         dead sessions expired; servers agree on {} znodes, {}",
        seed.number,
        start.elapsed().as_secs(),
        kills.leaders,
        kills.elections,
        kills.election_max.as_millis(),
        total.acknowledged,
        total.in_doubt,
        total.reads,
        kills.abandoned,
        agreement.znodes,
        agreement.state,
    ));
    assert!(kills.leaders * 3 > rounds, "{kills:?}");
    assert!(kills.followers * 3 > rounds, "{kills:?}");
    assert!(kills.elections * 5 > rounds, "{kills:?}");
    assert!(total.acknowledged > rounds * 50, "{total:?}");
    assert!(total.in_doubt > 0 && total.reads > rounds, "{total:?}");
}
