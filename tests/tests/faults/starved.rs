//! Servers that are short of processor time keep their leader (`docs/decisions/0031-patience.md`).
//!
//! Processor time is taken away by `SIGSTOP`, which a busy machine can only add to.
//! `ZOOLET_FAULTS_SEED` repeats a run.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep};
use zoolet_client::{ClientOptions, CreateMode};
use zoolet_tests::faults::Seed;
use zoolet_tests::servers::{LEADER_MAX, Servers};
use zoolet_tests::tools::announce;

const SERVERS: usize = 3;
/// How long the servers are starved.
const STARVED: Duration = Duration::from_secs(15);
/// How long they run before that and after it.
const RUN: Duration = Duration::from_secs(2);
/// Of servers that are suspended all together.
const SUSPENDED: Duration = Duration::from_millis(1200);
const AWAKE: Duration = Duration::from_millis(100);
/// Of servers that are suspended at different times.
const SUSPENDED_MS: std::ops::Range<u64> = 300..900;
const AWAKE_MS: std::ops::Range<u64> = 20..80;

/// All servers at once, as in a container with 8 % of a processor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_leads_on_while_all_servers_are_suspended_again_and_again() {
    let ensemble = Ensemble::start().await;
    let begin = Instant::now();
    while begin.elapsed() < STARVED {
        (0..SERVERS).for_each(|server| ensemble.signal(server, "STOP"));
        sleep(SUSPENDED).await;
        (0..SERVERS).for_each(|server| ensemble.signal(server, "CONT"));
        sleep(AWAKE).await;
    }
    ensemble.has_kept_its_leader().await;
}

/// Each server at different times, as on a machine with far more work than processors.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_leads_on_while_each_server_is_scheduled_late() {
    let ensemble = Ensemble::start().await;
    let starve = |server| {
        let (ensemble, mut rng) = (&ensemble, ensemble.seed.generator(server));
        let server = usize::try_from(server).unwrap();
        async move {
            let begin = Instant::now();
            while begin.elapsed() < STARVED {
                ensemble.signal(server, "STOP");
                sleep(Duration::from_millis(rng.u64(SUSPENDED_MS))).await;
                ensemble.signal(server, "CONT");
                sleep(Duration::from_millis(rng.u64(AWAKE_MS))).await;
            }
        }
    };
    join_all((0..SERVERS as u64).map(starve)).await;
    ensemble.has_kept_its_leader().await;
}

/// Three servers that have a leader.
struct Ensemble {
    seed: Seed,
    servers: Servers,
    epoch: u64,
}

impl Ensemble {
    async fn start() -> Self {
        let seed = Seed::of("faults", "starved::");
        let servers = block_in_place(|| {
            let builder = Servers::zoolet().servers(SERVERS).property("tickTime", "2000");
            let servers = builder.start().unwrap();
            servers.wait_for_leader(LEADER_MAX).unwrap();
            servers
        });
        sleep(RUN).await;
        let epoch = epoch(&servers, "/before").await;
        Self { seed, servers, epoch }
    }

    fn signal(&self, server: usize, name: &str) {
        block_in_place(|| self.servers.signal(server, name)).unwrap();
    }

    async fn has_kept_its_leader(&self) {
        sleep(RUN).await;
        let elections = epoch(&self.servers, "/after").await - self.epoch;
        let (seed, seconds) = (self.seed.number, STARVED.as_secs());
        announce(&format!("starved: seed {seed}, {elections} elections in {seconds} s"));
        assert_eq!(elections, 0, "seed {seed}");
    }
}

/// Writes, and returns the epoch of the write: it rises with each election.
async fn epoch(servers: &Servers, path: &str) -> u64 {
    let client = ClientOptions::new().connect(&servers.connect_string()).await.unwrap();
    client.create(path, b"", CreateMode::Persistent).await.unwrap();
    let stat = client.exists(path).await.unwrap().unwrap();
    client.close().await.unwrap();
    stat.czxid.0.cast_unsigned() >> 32
}
