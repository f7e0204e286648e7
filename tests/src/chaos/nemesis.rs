//! The hand that carries a plan out.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use rustix::process::Signal;
use zoolet_replica::ServerId;
use zoolet_sim::SimTime;
use zoolet_sim::faults::Kind as SimKind;
use zoolet_sim::history::{Strike, Trouble};

use super::clients::Clients;
use super::fault::{Fault, Link, Planned, Whom, links_of, links_to_clients};
use super::machines::Machines;
use super::{ChaosError, Kind, clock, said};

/// How long it takes until a server that has ended by itself is started again.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// What has to be done at a time.
#[derive(Clone, Debug)]
enum Act {
    Begin(Planned),
    Start(usize),
    GoOn(usize),
    Mend(Vec<Link>),
    RestartClient(u32),
    FastDisk(usize),
    Room(usize),
    Jump(usize, i64),
    RightRate(usize),
    LoseNone(Vec<Link>, u64),
    EndDelay(u16),
}

/// Carries out a plan.
#[derive(Debug)]
pub(super) struct Nemesis {
    due: BTreeMap<(Duration, u64), Act>,
    last_number: u64,
    /// How many faults have begun, by their kind.
    pub(super) counts: BTreeMap<Kind, u64>,
    /// What was done, for a person who reads it.
    pub(super) done: Vec<String>,
    /// The servers that have ended by themselves.
    pub(super) ends: Vec<Trouble>,
    /// The times in which disks have had no room.
    pub(super) strikes: Vec<Strike>,
}

impl Nemesis {
    pub(super) fn new(plan: Vec<Planned>) -> Self {
        let mut nemesis = Self {
            due: BTreeMap::new(),
            last_number: 0,
            counts: BTreeMap::new(),
            done: Vec::new(),
            ends: Vec::new(),
            strikes: Vec::new(),
        };
        for planned in plan {
            nemesis.at(planned.at, Act::Begin(planned));
        }
        nemesis
    }

    fn at(&mut self, at: Duration, act: Act) {
        self.last_number += 1;
        self.due.insert((at, self.last_number), act);
    }

    /// Does what is due, and has servers that have ended by themselves started again.
    pub(super) fn work(
        &mut self,
        now: Duration,
        machines: &mut Machines,
        clients: &mut Clients<'_>,
    ) -> Result<(), ChaosError> {
        while let Some(entry) = self.due.first_entry()
            && entry.key().0 <= now
        {
            let act = entry.remove();
            self.act(act, now, (machines, clients))?;
        }
        for place in self.note_ends(now, machines)? {
            self.at(now + RESTART_AFTER, Act::Start(place));
        }
        Ok(())
    }

    /// Notes which servers have ended, and returns their places.
    pub(super) fn note_ends(
        &mut self,
        now: Duration,
        machines: &mut Machines,
    ) -> Result<Vec<usize>, ChaosError> {
        let mut places = Vec::new();
        for (place, machine) in machines.all.iter_mut().enumerate() {
            let Some(status) = machine.has_ended()? else { continue };
            places.push(place);
            let (server, why) = (machine.id, said::last_error(&machine.log()).unwrap_or_default());
            self.done.push(format!("{now:?} server {server} has ended, {status}: {why}"));
            // SIGTERM ends a program that has just begun without its doing.
            let was_asked = status.success() || status.signal() == Some(Signal::TERM.as_raw());
            if !was_asked {
                let text = format!("it has ended by itself, {status}: {why}");
                let server = Some(ServerId(server));
                self.ends.push(Trouble { at: clock::now(), server, text });
            }
        }
        Ok(places)
    }

    /// Ends all faults that are under way.
    pub(super) fn heal(
        &mut self,
        now: Duration,
        machines: &mut Machines,
        clients: &mut Clients<'_>,
    ) -> Result<(), ChaosError> {
        while let Some(entry) = self.due.first_entry() {
            let act = entry.remove();
            if !matches!(act, Act::Begin(_)) {
                self.act(act, now, (machines, clients))?;
            }
        }
        Ok(())
    }

    fn act(
        &mut self,
        act: Act,
        now: Duration,
        (machines, clients): (&mut Machines, &mut Clients<'_>),
    ) -> Result<(), ChaosError> {
        let note =
            if let Act::Begin(planned) = &act { planned.to_string() } else { format!("{act:?}") };
        self.done.push(format!("{now:?} {note}"));
        match act {
            Act::Begin(planned) => {
                *self.counts.entry(planned.fault.kind()).or_default() += 1;
                self.begin(&planned.fault, now + planned.span, (machines, clients))?;
            }
            Act::Start(place) => machines.start(place)?,
            Act::GoOn(place) => machines.at(place)?.signal("CONT")?,
            Act::Mend(links) => {
                for (from, to) in links {
                    machines.network.mend(from, to)?;
                }
            }
            Act::RestartClient(client) => clients.restart(client),
            Act::FastDisk(place) => machines.at(place)?.slow_disk(None)?,
            Act::Room(place) => {
                machines.at(place)?.clear()?;
                let server = ServerId(machines.at(place)?.id);
                let now = clock::now();
                let of_server = self.strikes.iter_mut().filter(|strike| strike.server == server);
                of_server.for_each(|strike| strike.until = strike.until.min(now));
            }
            Act::Jump(place, by_ms) => machines.at(place)?.jump(by_ms)?,
            Act::RightRate(place) => machines.at(place)?.set_rate(0)?,
            Act::LoseNone(links, permille) => {
                for (from, to) in links {
                    machines.network.lose_none(from, to, permille)?;
                }
            }
            Act::EndDelay(queue) => machines.end_delay(queue)?,
        }
        Ok(())
    }

    fn begin(
        &mut self,
        fault: &Fault,
        end: Duration,
        (machines, clients): (&mut Machines, &mut Clients<'_>),
    ) -> Result<(), ChaosError> {
        match fault {
            Fault::KillAll => {
                for place in 0..machines.all.len() {
                    self.kill(place, end, machines)?;
                }
            }
            Fault::Cut { links, .. } => self.cut(links.clone(), end, machines)?,
            Fault::CutLeader { out, into } => {
                let Some(leader) = machines.leader() else { return Ok(()) };
                let links = links_of(leader, &machines.others(leader), (*out, *into));
                self.cut(links, end, machines)?;
            }
            Fault::CutClients { server, out, into } => {
                self.cut(links_to_clients(*server, (*out, *into)), end, machines)?;
            }
            Fault::KillClient { client } => {
                clients.kill(*client);
                self.at(end, Act::RestartClient(*client));
            }
            Fault::Loss { links, permille } => {
                for (from, to) in links {
                    machines.network.lose_some(*from, *to, *permille)?;
                }
                self.at(end, Act::LoseNone(links.clone(), *permille));
            }
            Fault::Kill { server }
            | Fault::Restart { server }
            | Fault::Stop { server }
            | Fault::SlowDisk { server, .. }
            | Fault::Delay { server, .. } => {
                let Some(place) = find(*server, machines) else { return Ok(()) };
                self.begin_at(place, fault, end, machines)?;
            }
            Fault::Wipe { server }
            | Fault::Full { server }
            | Fault::ClockJump { server, .. }
            | Fault::ClockRate { server, .. } => self.begin_at(*server, fault, end, machines)?,
        }
        Ok(())
    }

    /// Begins a fault of one server.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the others are not faults of one server")]
    fn begin_at(
        &mut self,
        place: usize,
        fault: &Fault,
        end: Duration,
        machines: &mut Machines,
    ) -> Result<(), ChaosError> {
        let ends_by = match fault {
            Fault::Kill { .. } => return self.kill(place, end, machines),
            Fault::Wipe { .. } => {
                self.kill(place, end, machines)?;
                return Ok(machines.at(place)?.wipe()?);
            }
            // One that is stopped takes the signal when it goes on.
            Fault::Restart { .. } => return Ok(machines.at(place)?.signal("TERM")?),
            Fault::Stop { .. } => {
                machines.at(place)?.signal("STOP")?;
                Act::GoOn(place)
            }
            Fault::SlowDisk { each, .. } => {
                machines.at(place)?.slow_disk(Some(*each))?;
                Act::FastDisk(place)
            }
            Fault::Full { .. } => {
                let from = clock::now();
                machines.at(place)?.fill()?;
                let server = ServerId(machines.at(place)?.id);
                // Its end sets it.
                let until = SimTime(u64::MAX);
                self.strikes.push(Strike { kind: SimKind::Full, server, from, until });
                Act::Room(place)
            }
            Fault::ClockJump { by_ms, .. } => {
                machines.at(place)?.jump(*by_ms)?;
                Act::Jump(place, -by_ms)
            }
            Fault::ClockRate { ppm, .. } => {
                machines.at(place)?.set_rate(*ppm)?;
                Act::RightRate(place)
            }
            Fault::Delay { us, .. } => Act::EndDelay(machines.delay(place, *us)?),
            _ => return Ok(()),
        };
        self.at(end, ends_by);
        Ok(())
    }

    fn kill(
        &mut self,
        place: usize,
        end: Duration,
        machines: &mut Machines,
    ) -> Result<(), ChaosError> {
        machines.at(place)?.kill()?;
        self.at(end, Act::Start(place));
        Ok(())
    }

    fn cut(
        &mut self,
        links: Vec<Link>,
        end: Duration,
        machines: &Machines,
    ) -> Result<(), ChaosError> {
        for (from, to) in &links {
            machines.network.cut(*from, *to)?;
        }
        self.at(end, Act::Mend(links));
        Ok(())
    }
}

fn find(whom: Whom, machines: &Machines) -> Option<usize> {
    match whom {
        Whom::Server(place) => Some(place),
        Whom::Leader => machines.leader(),
    }
}
