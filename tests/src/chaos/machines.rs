//! The machines of a run and the network between them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use zoolet_replica::ServerId;

use super::machine::{Libraries, Machine};
use super::{ChaosError, interrupt};
use crate::faults::netns::Network;
use crate::process::ServerProcess;
use crate::{four_letter, slow_link, wait};

const CLIENT_PORT: u16 = 2181;
/// How long a new ensemble may take until all serve.
const SERVING_MAX: Duration = Duration::from_mins(1);

/// All machines.
#[derive(Debug)]
pub(super) struct Machines {
    // Before the network: what runs on it ends first.
    pub(super) all: Vec<Machine>,
    /// The programs that delay what machines receive, by the numbers of their queues.
    delays: BTreeMap<u16, (usize, ServerProcess)>,
    last_queue: u16,
    pub(super) network: Network,
    libraries: Libraries,
}

impl Machines {
    /// Machines with servers that do not run yet.
    pub(super) fn new(
        home: &Path,
        servers: u8,
        settings: &str,
        libraries: Libraries,
    ) -> Result<Self, ChaosError> {
        let network = Network::new(servers.into())?;
        let places = 0..usize::from(servers);
        let all: Result<Vec<Machine>, ChaosError> =
            places.map(|place| Machine::new(home, place)).collect();
        let (all, delays, last_queue) = (all?, BTreeMap::new(), 0);
        let machines = Self { all, delays, last_queue, network, libraries };
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

    /// The machine at a place.
    pub(super) fn at(&mut self, place: usize) -> Result<&mut Machine, ChaosError> {
        self.all.get_mut(place).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound).into())
    }

    /// The other places.
    pub(super) fn others(&self, place: usize) -> Vec<usize> {
        (0..self.all.len()).filter(|other| *other != place).collect()
    }

    /// Starts a server, unless it runs.
    pub(super) fn start(&mut self, place: usize) -> Result<(), ChaosError> {
        let (network, libraries) = (&self.network, &self.libraries);
        self.all.get_mut(place).map_or(Ok(()), |machine| machine.start(network, libraries))
    }

    /// Delays what a machine receives, by a time between two in microseconds. Returns the number to end
    /// it by.
    pub(super) fn delay(&mut self, place: usize, us: (u64, u64)) -> Result<u16, ChaosError> {
        self.last_queue += 1;
        let queue = self.last_queue;
        let mut command = self.network.on(place);
        command.arg(slow_link::program()?);
        command.args([queue.to_string(), us.0.to_string(), us.1.to_string()]);
        let program = ServerProcess::spawn(command.stdout(Stdio::null()))?;
        self.delays.insert(queue, (place, program));
        // As long as no program takes the queue, everything passes.
        self.network.queue(place, queue, true)?;
        Ok(queue)
    }

    /// Ends a delay. What waits is lost.
    pub(super) fn end_delay(&mut self, queue: u16) -> Result<(), ChaosError> {
        let Some((place, mut program)) = self.delays.remove(&queue) else { return Ok(()) };
        self.network.queue(place, queue, false)?;
        Ok(program.kill()?)
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
