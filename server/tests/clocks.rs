//! Servers whose wall clocks differ, or were set back.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zoolet_client::{Acl, Client, ClientOptions, CreateMode};
use zoolet_server::clock::{Clock, Now, RealClock};
use zoolet_server::config::{LoopbackPorts, ServerConfig};
use zoolet_server::node::{Node, Seams};
use zoolet_server::replica::Role;
use zoolet_server::storage::{Disk, MemoryDisk};
use zoolet_server::transport::ReservedPort;

/// Longer than anything here may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);
const HOUR_MS: i64 = 3_600_000;
const HALF_AN_HOUR: Duration = Duration::from_mins(30);

/// The machine's clock, with a wall clock that is ahead by so many milliseconds.
#[derive(Debug, Default)]
struct SkewedClock {
    real: RealClock,
    ahead_ms: AtomicI64,
}

impl SkewedClock {
    fn set(&self, ahead_ms: i64) {
        self.ahead_ms.store(ahead_ms, Ordering::SeqCst);
    }
}

impl Clock for SkewedClock {
    fn now(&self) -> Now {
        let now = self.real.now();
        Now { wall_ms: now.wall_ms + self.ahead_ms.load(Ordering::SeqCst), ..now }
    }
}

struct Server {
    config: ServerConfig,
    clock: Arc<SkewedClock>,
    disk: MemoryDisk,
    node: Option<Node>,
}

struct Ensemble {
    servers: Vec<Server>,
    _ports: Vec<ReservedPort>,
}

impl Ensemble {
    async fn start(count: usize, ahead_ms: i64) -> Self {
        let ports: Vec<_> =
            (0..2 * count).map(|_| ReservedPort::take("127.0.0.1", 0).unwrap()).collect();
        let pair = |at: usize| LoopbackPorts {
            client: ports[2 * at].port(),
            peer: ports[2 * at + 1].port(),
        };
        let pairs: Vec<_> = (0..count).map(pair).collect();
        let mut configs = ServerConfig::loopback_ensemble(&pairs, "/clocks".as_ref()).unwrap();
        for config in &mut configs {
            config.znodes.ttl_enabled = true;
            config.znodes.reap_interval_ms = 50;
            config.ensemble.tick_time_ms = 200;
            config.session.timeout_ms_min = 400;
        }
        let server = |config| {
            let clock = Arc::new(SkewedClock::default());
            clock.set(ahead_ms);
            Server { config, clock, disk: MemoryDisk::default(), node: None }
        };
        let servers = configs.into_iter().map(server).collect();
        let mut ensemble = Self { servers, _ports: ports };
        for at in 0..count {
            ensemble.launch(at).await;
        }
        ensemble.leader().await;
        ensemble
    }

    async fn launch(&mut self, at: usize) {
        let server = &mut self.servers[at];
        let disk: Arc<dyn Disk> = Arc::new(server.disk.clone());
        let clock = Arc::clone(&server.clock) as Arc<dyn Clock>;
        let seams = Seams { disk, clock, ..Seams::real() };
        server.node = Some(Node::start(server.config.clone(), seams).await.unwrap());
    }

    async fn stop(&mut self, at: usize) {
        self.servers[at].node.take().unwrap().shutdown().await;
    }

    /// Waits until one leads and the others follow it.
    async fn leader(&self) -> usize {
        let found = async {
            loop {
                let running = || {
                    let servers = self.servers.iter().enumerate();
                    servers.filter_map(|(at, server)| server.node.as_ref().map(|node| (at, node)))
                };
                let roles: Vec<_> =
                    running().map(|(at, node)| (at, *node.role().borrow())).collect();
                let leader = roles.iter().find(|(_, role)| *role == Role::Leader);
                if let Some((leader, _)) = leader
                    && roles.iter().all(|(_, role)| *role != Role::Looking)
                {
                    return *leader;
                }
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, found).await.expect("no leader")
    }

    async fn client(&self, at: usize) -> Client {
        let address = self.servers[at].node.as_ref().unwrap().client_addr().to_string();
        let connecting =
            ClientOptions::new().session_timeout(Duration::from_secs(4)).connect(&address);
        timeout(PATIENCE, connecting).await.expect("the handshake is not answered").unwrap()
    }
}

async fn create_ttl(client: &Client, path: &str, ttl: Duration) -> i64 {
    let mode = CreateMode::PersistentWithTtl;
    let created = client.create_with_ttl(path, b"", Acl::open(), mode, ttl);
    timeout(PATIENCE, created).await.expect("a create").unwrap().1.mtime
}

async fn exists(client: &Client, path: &str) -> bool {
    client.sync("/").await.unwrap();
    client.exists(path).await.unwrap().is_some()
}

async fn gone(client: &Client, path: &str) {
    let gone = async {
        while exists(client, path).await {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, gone).await.unwrap_or_else(|_| panic!("{path} is not deleted"));
}

/// A znode to live for 30 minutes, created through a follower whose clock was one hour behind, was
/// deleted after 3 s: the leader's clock judged what the follower's had written. One that was
/// created through a follower an hour ahead lived for an hour longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_to_live_is_judged_by_the_leaders_clock_alone() {
    let ensemble = Ensemble::start(3, 0).await;
    let leader = ensemble.leader().await;
    let follower = (leader + 1) % 3;
    let client = ensemble.client(follower).await;
    for ahead_ms in [-HOUR_MS, HOUR_MS] {
        ensemble.servers[follower].clock.set(ahead_ms);
        let long = format!("/long{ahead_ms}");
        let short = format!("/short{ahead_ms}");
        let written_ms = create_ttl(&client, &long, HALF_AN_HOUR).await;
        let now_ms = ensemble.servers[leader].clock.now().wall_ms;
        assert!((now_ms - written_ms).abs() < HOUR_MS / 2, "written by the follower's clock");
        create_ttl(&client, &short, Duration::from_millis(300)).await;
        gone(&client, &short).await;
        assert!(exists(&client, &long).await, "{long} was deleted early");
    }
}

/// What a leader change with skewed clocks does, as in Apache ZooKeeper: the new leader's clock
/// judges what the old one's has written. An hour ahead, it takes an hour away from the time to
/// live; an hour behind, it adds one, until the clock is set right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_change_moves_times_to_live_by_the_difference_of_the_clocks() {
    for ahead_ms in [-HOUR_MS, HOUR_MS] {
        let mut ensemble = Ensemble::start(3, 0).await;
        let old = ensemble.leader().await;
        let client = ensemble.client(old).await;
        create_ttl(&client, "/minutes", HALF_AN_HOUR).await;
        create_ttl(&client, "/hours", 4 * HALF_AN_HOUR + Duration::from_mins(1)).await;
        create_ttl(&client, "/moment", Duration::from_secs(30)).await;
        for at in (0..3).filter(|at| *at != old) {
            ensemble.servers[at].clock.set(ahead_ms);
        }
        ensemble.stop(old).await;
        let new = ensemble.leader().await;
        let client = ensemble.client(new).await;
        create_ttl(&client, "/short", Duration::from_millis(300)).await;
        gone(&client, "/short").await;
        assert!(exists(&client, "/hours").await);
        if ahead_ms > 0 {
            gone(&client, "/moment").await;
            gone(&client, "/minutes").await;
        } else {
            assert!(exists(&client, "/moment").await && exists(&client, "/minutes").await);
            let later_ms = i64::try_from(HALF_AN_HOUR.as_millis()).unwrap() + 60_000;
            ensemble.servers[new].clock.set(later_ms);
            gone(&client, "/moment").await;
            gone(&client, "/minutes").await;
            assert!(exists(&client, "/hours").await);
        }
    }
}

/// The number of a start came from the clock. With the clock set back and the disk replaced it was
/// lower than the one before: every batch was dropped by the fence, and the server believed them
/// applied. No handshake was answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_serves_after_its_clock_was_set_back_and_its_disk_replaced() {
    let mut ensemble = Ensemble::start(3, HOUR_MS).await;
    let leader = ensemble.leader().await;
    let server = (leader + 1) % 3;
    let before = ensemble.client(server).await;
    before.create("/before", b"", CreateMode::Persistent).await.unwrap();
    ensemble.stop(server).await;
    ensemble.servers[server].disk = MemoryDisk::default();
    ensemble.servers[server].clock.set(0);
    ensemble.launch(server).await;
    ensemble.leader().await;
    let after = ensemble.client(server).await;
    assert!(exists(&after, "/before").await);
    let created = after.create("/after", b"", CreateMode::Persistent);
    timeout(PATIENCE, created).await.expect("a write").unwrap();
}

/// The same on a leader: it ended no session and reaped nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_number_was_set_back_ends_sessions() {
    let mut ensemble = Ensemble::start(1, HOUR_MS).await;
    let before = ensemble.client(0).await;
    before.create("/mine", b"", CreateMode::Ephemeral).await.unwrap();
    create_ttl(&before, "/ttl", Duration::from_millis(100)).await;
    ensemble.stop(0).await;
    drop(before);
    let data = ensemble.servers[0].config.data_dir.clone();
    let boot = Path::new(&data).join("boot");
    ensemble.servers[0].disk.remove(&boot).unwrap();
    ensemble.servers[0].clock.set(-HOUR_MS);
    ensemble.launch(0).await;
    ensemble.leader().await;
    let after = ensemble.client(0).await;
    gone(&after, "/mine").await;
    ensemble.servers[0].clock.set(2 * HOUR_MS);
    gone(&after, "/ttl").await;
}
