//! Whole servers in one process, each with a clock and a disk of its own.

mod clocks;
mod levels;
mod panics;
mod turns;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use tokio::time::sleep;
use zoolet_client::{Client, ClientOptions};
use zoolet_storage::MemoryDisk;

use super::*;
use crate::clock::Now;
use crate::config::{HostPort, LoopbackPorts};
use crate::transport::ReservedPort;

/// Longer than anything here may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// The machine's clock, with a wall clock that is ahead by a number of milliseconds.
#[derive(Debug, Default)]
struct SkewedClock {
    real: RealClock,
    ahead_ms: AtomicI64,
    panics: AtomicBool,
}

impl SkewedClock {
    fn set(&self, ahead_ms: i64) {
        self.ahead_ms.store(ahead_ms, Ordering::SeqCst);
    }
}

impl Clock for SkewedClock {
    fn now(&self) -> Now {
        assert!(!self.panics.load(Ordering::SeqCst), "the test's panic");
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
    /// Servers whose clocks are ahead by so much, after `adapt` had a look at their configurations.
    async fn start(count: usize, ahead_ms: i64, adapt: impl Fn(&mut ServerConfig)) -> Self {
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
            adapt(config);
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
        let address = self.servers[at].node.as_ref().unwrap().client_addrs().borrow().to_string();
        let connecting =
            ClientOptions::new().session_timeout(Duration::from_secs(4)).connect(&address);
        timeout(PATIENCE, connecting).await.expect("the handshake is not answered").unwrap()
    }
}

/// Whether a znode is there, as the leader has it.
async fn exists(client: &Client, path: &str) -> bool {
    let looked = async {
        client.sync("/").await.unwrap();
        client.exists(path).await.unwrap().is_some()
    };
    timeout(PATIENCE, looked).await.unwrap_or_else(|_| panic!("{path} is not looked up"))
}

#[tokio::test]
async fn a_full_disk_is_named_at_a_start() {
    let ports = [LoopbackPorts { client: 1, peer: 2 }];
    let configs = ServerConfig::loopback_ensemble(&ports, "d".as_ref());
    let mut config = configs.unwrap().remove(0);
    config.client_bind = HostPort::new("127.0.0.1", 0);
    let disk = MemoryDisk::with_faults();
    disk.set_capacity(Some(4096));
    let seams = Seams { disk: Arc::new(disk.clone()), ..Seams::real() };
    let error = Node::start(config.clone(), seams.clone()).await.unwrap_err().to_string();
    assert!(error.starts_with("the disk is full: cannot "), "{error}");
    assert!(error.contains("d/1/wal/"), "{error}");
    disk.set_capacity(None);
    Node::start(config, seams).await.unwrap().shutdown().await;
}
