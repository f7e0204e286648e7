//! An ensemble whose servers can be killed and started again, and whose network can be cut.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use zoolet_jute::{SessionId, Xid};
use zoolet_replica::{Boot, Command, Op, Policy, ProposalNumber, Role, ServerId};
use zoolet_storage::{Identity, MemoryDisk, WalOptions};

use super::cut::{Cut, CutNet};
use super::gate::{Gate, gated};
use super::recorder::{Applied, Recorder};
use crate::config::{Autocreate, StartMode};
use crate::entropy::RealEntropy;
use crate::fatal::Fatal;
use crate::host::Proposals;
use crate::replication::{
    BatchLimits, ConfiguredMember, Proposer, Replication, ReplicationOptions, SnapshotPace, Status,
    Timing, open,
};

/// Longer than anything here may take on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// How long connecting to another server may take.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Ensemble {
    members: Vec<ConfiguredMember>,
    pub(super) disks: Vec<MemoryDisk>,
    gates: Vec<Gate>,
    snapshot_gates: Vec<Gate>,
    pub(super) servers: Vec<Option<Server>>,
    pub(super) cut: Cut,
    pub(super) snapshot_commands: u64,
    pub(super) timing: Timing,
    /// How many states the servers that are started from now on do not take.
    pub(super) refusals: u64,
    /// The version of the digests of those that are started from now on.
    pub(super) digest_version: u8,
    /// Whether those apply nothing until their machine's gate is opened.
    pub(super) is_held: bool,
}

#[derive(Debug)]
pub(super) struct Server {
    pub(super) raft: Replication,
    pub(super) fatal: Fatal,
    pub(super) machine: Arc<Recorder>,
    pub(super) proposer: Arc<Proposer>,
    pub(super) boot: Boot,
    pub(super) proposed: u64,
}

/// A loopback address that no other ensemble has at the same time.
///
/// Outgoing connections come from 127.0.0.1: there one took the port of a server that was down.
fn own_loopback() -> Ipv4Addr {
    static ENSEMBLES: AtomicU32 = AtomicU32::new(0);
    let [.., high, low] = std::process::id().to_be_bytes();
    let [.., number] = (ENSEMBLES.fetch_add(1, Ordering::Relaxed) % 254 + 1).to_be_bytes();
    Ipv4Addr::new(127, high | 0x80, low, number)
}

impl Ensemble {
    /// An ensemble of `voters` and `observers`, not started.
    pub(super) async fn new(voters: usize, observers: usize) -> Self {
        let mut members = Vec::new();
        let mut held = Vec::new();
        let host = own_loopback();
        for number in 1..=voters + observers {
            let listener = tokio::net::TcpListener::bind((host, 0)).await.unwrap();
            let address = listener.local_addr().unwrap().to_string();
            held.push(listener);
            let server = ServerId(u8::try_from(number).unwrap());
            members.push(ConfiguredMember {
                server,
                address,
                is_voter: number <= voters,
                line: String::new(),
            });
        }
        let disks = members.iter().map(|_| MemoryDisk::new()).collect();
        let gates = members.iter().map(|_| Gate::default()).collect();
        let snapshot_gates = members.iter().map(|_| Gate::default()).collect();
        let servers = members.iter().map(|_| None).collect();
        let timing = Timing::from_tick(Duration::from_secs(2));
        let (cut, snapshot_commands) = (Cut::default(), 1_000_000);
        Self {
            members,
            disks,
            gates,
            snapshot_gates,
            servers,
            cut,
            snapshot_commands,
            timing,
            refusals: 0,
            digest_version: 1,
            is_held: false,
        }
    }

    pub(super) async fn started(voters: usize, observers: usize) -> Self {
        let mut ensemble = Self::new(voters, observers).await;
        for at in 0..voters + observers {
            ensemble.start(at).await;
        }
        ensemble.ready().await;
        ensemble
    }

    pub(super) fn options(&self, at: usize) -> ReplicationOptions {
        ReplicationOptions {
            server: self.members[at].server,
            cluster_id: 7,
            cluster_named: true,
            reconfig: false,
            standalone: false,
            voters_min: 2,
            members: self.members.clone(),
            listen: None,
            disk: Arc::new(gated(
                self.disks[at].clone(),
                self.gates[at].clone(),
                self.snapshot_gates[at].clone(),
            )),
            directory: PathBuf::from("data"),
            log_directory: PathBuf::from("data"),
            secret: None,
            tls: crate::peer::PeerTls::default(),
            entry_bytes_max: 1 << 20,
            batches: BatchLimits::default(),
            wal: WalOptions { segment_bytes: 1 << 18, ..WalOptions::default() },
            snapshot_pace: SnapshotPace {
                commands: self.snapshot_commands,
                log_bytes_max: 0,
                log_percent: 0,
            },
            entropy: Arc::new(RealEntropy),
            start_mode: StartMode::default(),
            autocreate: Autocreate::default(),
            connect_timeout: CONNECT_TIMEOUT,
            snapshots_retained: 3,
            timing: self.timing,
        }
    }

    pub(super) async fn start(&mut self, at: usize) {
        self.start_with(at, self.options(at)).await;
    }

    pub(super) async fn start_with(&mut self, at: usize, options: ReplicationOptions) {
        let opened = open(options, 1).unwrap();
        let (boot, proposer) = (opened.boot(), opened.proposer());
        let machine = Recorder::new(opened.snapshot());
        machine.server.store(self.members[at].server.0, Ordering::Relaxed);
        machine.refusals.store(self.refusals, Ordering::Relaxed);
        machine.digest_version.store(self.digest_version, Ordering::Relaxed);
        if self.is_held {
            machine.gate.close();
        }
        let net = CutNet { server: at, members: self.addresses(), cut: self.cut.clone() };
        let fatal = Fatal::default();
        let raft = opened.start(machine.clone(), Arc::new(net), fatal.clone()).await.unwrap();
        self.servers[at] = Some(Server { raft, fatal, machine, proposer, boot, proposed: 0 });
    }

    /// Ends a server as a kill does.
    pub(super) async fn kill(&mut self, at: usize) {
        let mut server = self.servers[at].take().unwrap();
        server.raft.stop().await;
    }

    /// Ends all servers that run.
    pub(super) async fn kill_all(&mut self) {
        for at in 0..self.servers.len() {
            if self.servers[at].is_some() {
                self.kill(at).await;
            }
        }
    }

    /// Replaces the disk of a server that does not run by an empty one.
    pub(super) fn wipe(&mut self, at: usize) {
        self.disks[at] = MemoryDisk::new();
    }

    /// Ends a server and replaces its disk by an empty one; it is not started again.
    pub(super) async fn lose_disk(&mut self, at: usize) {
        self.kill(at).await;
        self.wipe(at);
    }

    /// Has one server propose `count` commands, and waits until it has applied or lost them.
    pub(super) async fn commit(&mut self, at: usize, count: u64) {
        self.server(at).propose(count);
        self.server(at).settled().await;
    }

    pub(super) fn disk(&self, at: usize) -> &MemoryDisk {
        &self.disks[at]
    }

    /// Returns the random id of the founding of a server's ensemble.
    pub(super) fn founding(&self, at: usize) -> u64 {
        Identity::peek(&self.disks[at], "data".as_ref()).unwrap().unwrap().founding
    }

    /// What can hold up the server's log.
    pub(super) fn gate(&self, at: usize) -> &Gate {
        &self.gates[at]
    }

    /// What can hold up the server's snapshots.
    pub(super) fn snapshot_gate(&self, at: usize) -> &Gate {
        &self.snapshot_gates[at]
    }

    /// The address of its peer port.
    pub(super) fn address(&self, at: usize) -> String {
        self.members[at].address.clone()
    }

    pub(super) fn server(&mut self, at: usize) -> &mut Server {
        self.servers[at].as_mut().unwrap()
    }

    pub(super) fn running(&self) -> impl Iterator<Item = (usize, &Server)> {
        let servers = self.servers.iter().enumerate();
        servers.filter_map(|(at, server)| server.as_ref().map(|server| (at, server)))
    }

    /// Waits until all running servers serve and the configured voters among them vote. Returns the
    /// leader.
    pub(super) async fn ready(&self) -> usize {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let roles: Vec<(usize, Role)> =
                self.running().map(|(at, server)| (at, *server.raft.role().borrow())).collect();
            let leaders: Vec<_> = roles.iter().filter(|(_, role)| *role == Role::Leader).collect();
            if let [(leader, _)] = leaders[..]
                && roles.iter().all(|(_, role)| *role != Role::Looking)
                && self.all_vote(*leader)
            {
                return *leader;
            }
            assert!(Instant::now() < deadline, "not ready: {roles:?}");
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Returns whether the leader has committed a membership in which all running servers vote that are
    /// configured to.
    fn all_vote(&self, leader: usize) -> bool {
        let Some(Some(server)) = self.servers.get(leader) else { return false };
        let view = server.raft.handle.view();
        let [voters] = &view.membership.configs[..] else { return false };
        let mut to_vote = self.running().filter(|(at, _)| self.members[*at].is_voter);
        view.membership.index() <= view.committed
            && to_vote.all(|(_, server)| voters.contains(&server.raft.handle.node()))
    }

    /// Waits until all of the first three servers serve, and counts them.
    pub(super) async fn ready_voters(&self) -> usize {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let serving = self.running().take(3);
            let serving =
                serving.filter(|(_, server)| *server.raft.role().borrow() != Role::Looking);
            let count = serving.count();
            if count == 3 {
                return count;
            }
            assert!(Instant::now() < deadline, "only {count} serve");
            sleep(Duration::from_millis(10)).await;
        }
    }

    fn addresses(&self) -> Vec<String> {
        self.members.iter().map(|member| member.address.clone()).collect()
    }
}

impl Server {
    /// Proposes `count` commands.
    pub(super) fn propose(&mut self, count: u64) {
        for _ in 0..count {
            self.proposed += 1;
            self.proposer.propose(command(self.proposed));
        }
    }

    /// Proposes one command of about `bytes` bytes.
    pub(super) fn propose_long(&mut self, bytes: usize) {
        self.proposed += 1;
        let op = Op::DeleteContainer { path: "p".repeat(bytes) };
        self.proposer.propose(Command { op, ..command(self.proposed) });
    }

    /// Waits until this server has applied all that it has proposed and not lost.
    pub(super) async fn settled(&self) {
        let proposed = self.proposed;
        let server = self.raft.handle.server();
        let settled = self.machine.until(|record, received| {
            let ours = |(origin, _): &&Applied| {
                u64::from(origin.server.0) == server && origin.boot == self.proposer.boot()
            };
            let applied = record.applied.iter().rev().find(ours).map_or(0, |(_, number)| number.0);
            applied.max(received.lost) >= proposed
        });
        timeout(PATIENCE, settled).await.expect("commands are neither applied nor lost");
    }
}

impl Replication {
    pub(super) fn status(&self) -> Status {
        self.status_source().status()
    }

    /// Begins to take a snapshot now.
    pub(super) fn take_snapshot(&self) {
        let handle = self.handle.clone();
        tokio::spawn(async move { handle.take_snapshot().await });
    }
}

impl Timing {
    /// The usual timing for a tick: with 2000 ms an election begins 800 to 1000 ms after a
    /// leader's last word.
    pub(in crate::replication) fn from_tick(tick: Duration) -> Self {
        let election_max = (tick / 4).clamp(Duration::from_millis(300), Duration::from_secs(2));
        Self {
            heartbeat: election_max / 5,
            election_min: election_max * 3 / 5,
            election_max,
            proposal_timeout: election_max * 6,
            sync_limit: tick * 5,
        }
    }
}

pub(super) fn command(number: u64) -> Command {
    Command {
        number: ProposalNumber(number),
        session: SessionId(1),
        attachment: ProposalNumber::NONE,
        cxid: Xid(1),
        policy: Policy::default(),
        identities: Arc::from([]),
        op: Op::DeleteContainer { path: "/container".to_owned() },
    }
}

impl Drop for Ensemble {
    /// A log that is held up could not end.
    fn drop(&mut self) {
        self.gates.iter().chain(&self.snapshot_gates).for_each(Gate::open);
        self.running().for_each(|(_, server)| server.machine.gate.open());
    }
}
