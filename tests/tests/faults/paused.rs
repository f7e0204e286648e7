//! The leader is stopped and wakes up again, under load: sessions of the other servers, which give
//! signs of life all the time, go on, however long it slept and whatever it had decided
//! (`docs/decisions/0010-who-ends-a-session.md`); everything acknowledged is there.
//!
//! `ZOOLET_FAULTS_SEED` repeats a run.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep};
use zoolet_client::{Client, ClientOptions, CreateMode, SessionId};
use zoolet_tests::faults::{Load, Seed, convergence};
use zoolet_tests::servers::{LEADER_MAX, Servers};
use zoolet_tests::tools::announce;

const SERVERS: usize = 3;
/// The mean pause between two writes of a session.
const PAUSE: Duration = Duration::from_millis(5);
/// How long the leader sleeps: shorter than the sessions, about as long, longer.
const SLEEPS_MS: [u64; 5] = [2_000, 3_500, 4_000, 5_000, 8_000];
/// So often each.
const ROUNDS: usize = 2;
/// What the generators of moments begin to count at; those of a load count from 1.
const SLEEPER: u64 = 100;
/// The session timeout, the shortest that is granted at the servers' default `tickTime` of 2000 ms.
/// At the suites' 500 ms a server ends such a session the sooner once it believes it silent.
const SESSION: Duration = Duration::from_secs(4);
/// Sessions on each of the servers that stay awake.
const SESSIONS: usize = 3;

/// A session that pings, and its ephemeral znode.
struct Awake {
    client: Client,
    session: SessionId,
    path: String,
}

/// Each sleep is that of an ensemble of its own: they stand side by side.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_leader_that_wakes_up_ends_no_session_of_its_followers() {
    if !crate::is_due("paused") {
        return;
    }
    let seed = Arc::new(Seed::of("faults", "paused::"));
    let sleeps = SLEEPS_MS.map(|asleep_ms| tokio::spawn(wakes_up(asleep_ms, Arc::clone(&seed))));
    for ended in join_all(sleeps).await {
        ended.unwrap();
    }
}

async fn wakes_up(asleep_ms: u64, seed: Arc<Seed>) {
    let mut rng = seed.generator(SLEEPER + asleep_ms);
    let servers = block_in_place(|| Servers::zoolet().servers(SERVERS).start().unwrap());
    let mut load = Load::start(&servers.connect_string(), &seed, PAUSE).await.unwrap();
    for round in 0..ROUNDS {
        load.until_acknowledged(load.acknowledged() + 50).await.unwrap();
        let leader = block_in_place(|| servers.wait_for_leader(LEADER_MAX)).unwrap();
        let awake = sessions_beside(&servers, leader, round).await;
        sleep(Duration::from_millis(rng.u64(..1_000))).await;
        servers.signal(leader, "STOP").unwrap();
        sleep(Duration::from_millis(asleep_ms)).await;
        servers.signal(leader, "CONT").unwrap();
        // What it had decided is refused by then, or has done its harm.
        sleep(Duration::from_millis(1_500)).await;
        for Awake { client, session, path } in &awake {
            let owner = owner(client, path).await;
            let what = format!("seed {}, asleep for {asleep_ms} ms", seed.number);
            assert_eq!(owner, Some(*session), "{what}: {path} is gone");
            assert_eq!(client.session().id, *session, "{what}");
        }
        for Awake { client, .. } in awake {
            // As above: a connection may break, and the session goes by itself then.
            let ended = client.close().await.is_err_and(|error| error.ends_session());
            assert!(!ended, "{}: a session has ended", seed.number);
        }
        load.check_while_running().await.unwrap();
    }
    let total = load.finish().await.unwrap();
    let addresses: Vec<_> = (0..SERVERS).map(|i| servers.client_address(i).unwrap()).collect();
    let agreement = convergence::all(&addresses).await.unwrap();
    announce(&format!(
        "paused: seed {}, {ROUNDS} sleeps of leaders for {asleep_ms} ms, {} sessions beside them \
         went on; {} acknowledged writes all there, {} in doubt at most once; servers agree on {} \
         znodes",
        seed.number,
        ROUNDS * SESSIONS * (SERVERS - 1),
        total.acknowledged,
        total.in_doubt,
        agreement.znodes,
    ));
}

/// The session that owns a znode. A connection may break while the servers settle: that does not
/// end a session.
async fn owner(client: &Client, path: &str) -> Option<SessionId> {
    let began = Instant::now();
    loop {
        match client.exists(path).await {
            Ok(stat) => return stat.map(|stat| stat.ephemeral_owner),
            Err(error) => {
                let passes = !error.ends_session() && began.elapsed() < LEADER_MAX;
                assert!(passes, "{path} cannot be read: {error}");
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Sessions on all servers but one.
async fn sessions_beside(servers: &Servers, leader: usize, round: usize) -> Vec<Awake> {
    let mut awake = Vec::new();
    for server in (0..SERVERS).filter(|server| *server != leader) {
        let address = servers.client_address(server).unwrap().to_string();
        for number in 0..SESSIONS {
            let options = ClientOptions::new().session_timeout(SESSION);
            let client = options.connect(&address).await.unwrap();
            let path = format!("/awake-{round}-{server}-{number}");
            client.create(&path, b"", CreateMode::Ephemeral).await.unwrap();
            awake.push(Awake { session: client.session().id, client, path });
        }
    }
    awake
}
