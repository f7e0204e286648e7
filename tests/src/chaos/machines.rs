//! The machines of a run and the network between them.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use zoolet_replica::ServerId;

use super::machine::Machine;
use super::{ChaosError, interrupt};
use crate::faults::netns::Network;
use crate::{four_letter, wait};

const CLIENT_PORT: u16 = 2181;
/// How long a new ensemble may take until all serve.
const SERVING_MAX: Duration = Duration::from_mins(1);

/// All machines.
#[derive(Debug)]
pub(super) struct Machines {
    // Before the network: what runs on it ends first.
    pub(super) all: Vec<Machine>,
    pub(super) network: Network,
}

impl Machines {
    /// Machines with servers that do not run yet.
    pub(super) fn new(home: &Path, servers: u8, settings: &str) -> Result<Self, ChaosError> {
        let network = Network::new(servers.into())?;
        let places = 0..usize::from(servers);
        let all: Result<Vec<Machine>, ChaosError> =
            places.map(|place| Machine::new(home, place)).collect();
        let machines = Self { all: all?, network };
        let mut members = String::new();
        for (_, line) in machines.lines() {
            let _ = writeln!(members, "{line}");
        }
        for machine in &machines.all {
            machine.configure(settings, &members)?;
        }
        Ok(machines)
    }

    /// The lines of the servers in a `zoo.cfg`.
    pub(super) fn lines(&self) -> Vec<(ServerId, String)> {
        let line = |(place, machine): (usize, &Machine)| {
            let (id, address) = (machine.id, self.network.address(place));
            let line =
                format!("server.{id}={address}:2888:3888:participant;{address}:{CLIENT_PORT}");
            (ServerId(id), line)
        };
        self.all.iter().enumerate().map(line).collect()
    }

    fn address(&self, place: usize) -> SocketAddr {
        SocketAddr::from((IpAddr::from(self.network.address(place)), CLIENT_PORT))
    }

    /// The servers, and where clients reach them.
    pub(super) fn addresses(&self) -> Vec<(ServerId, String)> {
        let all = self.all.iter().enumerate();
        all.map(|(place, machine)| (ServerId(machine.id), self.address(place).to_string()))
            .collect()
    }

    /// The other places.
    pub(super) fn others(&self, place: usize) -> Vec<usize> {
        (0..self.all.len()).filter(|other| *other != place).collect()
    }

    /// Starts a server, unless it runs.
    pub(super) fn start(&mut self, place: usize) -> Result<(), ChaosError> {
        let network = &self.network;
        self.all.get_mut(place).map_or(Ok(()), |machine| machine.start(network))
    }

    /// Starts all servers and waits until they serve.
    pub(super) fn found(&mut self) -> Result<(), ChaosError> {
        for place in 0..self.all.len() {
            self.start(place)?;
        }
        for (place, machine) in self.all.iter().enumerate() {
            let address = self.address(place);
            let serves = wait::until(SERVING_MAX, || {
                interrupt::check().map(|()| four_letter::mode(address)).transpose()
            });
            serves.transpose()?.ok_or_else(|| ChaosError::NotServing {
                server: machine.id,
                seconds: SERVING_MAX.as_secs(),
                said: machine.said(),
            })?;
        }
        Ok(())
    }

    /// The server that leads, if one says so at once; the servers are asked side by side.
    pub(super) fn leader(&self) -> Option<usize> {
        let asked: Vec<_> = (0..self.all.len())
            .map(|place| {
                let address = self.address(place);
                std::thread::spawn(move || four_letter::mode(address))
            })
            .collect();
        let modes: Vec<Option<String>> =
            asked.into_iter().map(|answer| answer.join().ok().flatten()).collect();
        modes.iter().position(|mode| mode.as_deref() == Some("leader"))
    }
}
