//! The simulated world: machines that run servers and clients, the network between them, and time,
//! which goes on in steps.
//!
//! Each machine has a runtime of its own, whose time stands still but for the steps that the world
//! gives it. In a step a machine does all that is to be done in that time; then what it has sent is on
//! its way, and the next machine has its step. So a run has one thread and one order.

mod clock;
mod gauges;
mod machine;
mod pace;
mod server;

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use zoolet_replica::{Role, ServerId};
use zoolet_server::embed::config::{HostPort, Member, MemberRole, ServerConfig};

use self::machine::Machine;
pub(crate) use self::machine::TRUE_RATE;
pub(crate) use self::server::Server;
pub use self::server::{DiskConditions, Point, Standing};
use crate::SimTime;
use crate::chance::Chance;
use crate::history::Recorder;
use crate::network::{MachineId, MachineNet, Network};
use crate::trace;

/// The length of a step.
const STEP: Duration = Duration::from_millis(1);
/// The ports of a server.
const CLIENT_PORT: u16 = 2181;
const PEER_PORT: u16 = 2888;
const ELECTION_PORT: u16 = 3888;
/// The number of the first client's machine.
const FIRST_CLIENT: u8 = 101;

/// A world.
#[derive(Debug)]
pub struct World {
    now: SimTime,
    pub(crate) network: Network,
    pub(crate) recorder: Recorder,
    pub(crate) servers: BTreeMap<ServerId, Server>,
    clients: BTreeMap<MachineId, Machine>,
    steps: u64,
}

/// The line of a server in the list of members.
pub(crate) fn member(id: ServerId) -> Member {
    let host = MachineId(id.0).ip().to_string();
    Member {
        peer: HostPort::new(host.clone(), PEER_PORT),
        election_port: ELECTION_PORT,
        client: Some(HostPort::new(host, CLIENT_PORT)),
        role: MemberRole::Participant,
    }
}

/// The configuration of each server of a new ensemble.
pub(crate) fn configs(servers: u8, change: impl Fn(&mut ServerConfig)) -> Vec<ServerConfig> {
    let members: BTreeMap<ServerId, Member> =
        (1..=servers).map(|id| (ServerId(id), member(ServerId(id)))).collect();
    let configs = members.keys().map(|id| {
        let mut config = ServerConfig {
            server_id: *id,
            members: members.clone(),
            standalone: false,
            data_dir: "data".into(),
            data_log_dir: "data".into(),
            client_bind: HostPort::new(MachineId(id.0).ip().to_string(), CLIENT_PORT),
            peer_bind: Some(HostPort::new(MachineId(id.0).ip().to_string(), PEER_PORT)),
            ..ServerConfig::default()
        };
        change(&mut config);
        config
    });
    configs.collect()
}

impl World {
    /// A world with these servers, which do not run yet.
    pub fn new(seed: u64, configs: Vec<ServerConfig>) -> Self {
        let network = Network::new(Chance::of(seed, "network"));
        let server = |config: ServerConfig| {
            let chance = Chance::of(seed, &format!("server {}", config.server_id));
            let pace = Chance::of(seed, &format!("work of server {}", config.server_id));
            (config.server_id, Server::new(config, &network, (chance, pace)))
        };
        let servers = configs.into_iter().map(server).collect();
        Self {
            now: SimTime::default(),
            network,
            recorder: Recorder::default(),
            servers,
            clients: BTreeMap::new(),
            steps: 0,
        }
    }

    /// The true time.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// How many steps were taken.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The addresses of the servers for clients.
    pub fn addresses(&self) -> Vec<(ServerId, String)> {
        let address = |id: &ServerId| (*id, format!("{}:{CLIENT_PORT}", MachineId(id.0).ip()));
        self.servers.keys().map(address).collect()
    }

    /// Starts a server.
    pub fn start(&mut self, server: ServerId) {
        if let Some(server) = self.servers.get_mut(&server) {
            server.start(&self.recorder);
        }
    }

    /// The server that leads; of several that say so, the first.
    pub fn leader(&self) -> Option<ServerId> {
        let leads = |server: &&Server| server.standing() == Standing::Runs(Role::Leader);
        self.servers.values().find(leads).map(|server| server.id)
    }

    /// How a server stands.
    pub fn standing(&self, server: ServerId) -> Standing {
        self.servers.get(&server).map_or(Standing::Ended, Server::standing)
    }

    /// Starts a program on the machine of a client, from 0. It is given its network.
    pub(crate) fn start_client<F>(&mut self, client: u8, program: impl FnOnce(MachineNet) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let id = client_machine(client);
        self.network.power_on(id);
        let net = self.network.of(id);
        self.clients.entry(id).or_insert_with(Machine::new).start(|_| program(net));
    }

    /// Ends the program of a client wherever it stands.
    pub(crate) fn end_client(&mut self, client: u8) {
        if let Some(machine) = self.client(client) {
            machine.end();
        }
    }

    /// The machine of a client.
    pub(crate) fn client(&mut self, client: u8) -> Option<&mut Machine> {
        self.clients.get_mut(&client_machine(client))
    }

    /// Whether the programs of all clients have come to their ends.
    pub(crate) fn clients_are_done(&self) -> bool {
        self.clients.values().all(Machine::is_done)
    }

    /// Takes a step.
    pub fn step(&mut self) {
        self.now = self.now + STEP;
        self.steps += 1;
        self.recorder.set_now(self.now);
        trace::at(self.now);
        trace::of("network");
        self.network.advance(self.now);
        for server in self.servers.values_mut() {
            trace::of(server.name());
            server.work_disk(self.now);
            server.step(STEP, self.now);
            server.work_disk(self.now);
        }
        trace::of(trace::CLIENTS);
        for client in self.clients.values_mut() {
            client.step(STEP);
        }
    }

    /// Steps until a time.
    pub fn run_until(&mut self, until: SimTime) {
        while self.now < until {
            self.step();
        }
    }
}

/// The machine of a client.
pub(crate) fn client_machine(client: u8) -> MachineId {
    MachineId(FIRST_CLIENT.saturating_add(client))
}

#[cfg(test)]
mod tests;
