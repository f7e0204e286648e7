//! The hand that carries a plan out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use zoolet_replica::ServerId;

use super::exchange::Exchanges;
use super::losses::Losses;
use super::rot::has_files;
use super::strike::{begin_at, connect_once, find, lane_links, mend_lanes};
use super::voters::Voters;
use super::{
    DAMAGED, Event, Fault, Kind, LOG_MISSING, Lost, Planned, SNAPSHOT_MISSING, Wait, Whom,
};
use crate::SimTime;
use crate::history::{ClientNumber, Strike, What};
use crate::network::{Conditions, MachineId};
use crate::trace;
use crate::world::{DiskConditions, Server, Standing, TRUE_RATE, World};

/// How long it takes until somebody starts a server again that has ended by itself.
const RESTART_AFTER: Duration = Duration::from_secs(1);
/// For how long a server may come to the point at which it ends.
const END_WITHIN: Duration = Duration::from_secs(10);

/// What has to be done at a time.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Begin(Planned),
    /// A fault waits for its event from now on.
    Wait(Planned, Wait),
    Start(ServerId),
    StayOn(ServerId),
    FastCpu(ServerId),
    GoOn(ServerId),
    Mend(Vec<(MachineId, MachineId)>),
    Conditions(Vec<(MachineId, MachineId)>),
    Lanes(Vec<(MachineId, MachineId)>),
    ConnectOnce(Vec<(MachineId, MachineId)>),
    Disk(ServerId),
    Rate(ServerId),
    Jump(ServerId, i64),
    GoOnClient(u8),
    StartClient(u8),
    OwnDisk(ServerId),
}

/// Carries out a plan.
#[derive(Debug)]
pub(crate) struct Nemesis {
    due: BTreeMap<(SimTime, u64), Act>,
    last_number: u64,
    /// How many faults have begun, by their kind.
    pub(crate) counts: BTreeMap<Kind, u64>,
    /// The faults that have begun, at their true times.
    pub(crate) begun: Vec<Planned>,
    /// The faults that wait for an event.
    waiting: Vec<(Planned, Wait)>,
    /// The servers that run.
    running: BTreeSet<ServerId>,
    /// How many marks were looked at.
    marks: usize,
    /// How many cuts each link is under.
    cuts: BTreeMap<(MachineId, MachineId), u64>,
    /// Clients that are to be started anew.
    pub(crate) clients_to_start: Vec<u8>,
    /// The servers that were started again because they had ended by themselves.
    pub(crate) failures: Vec<(SimTime, ServerId, String)>,
    /// The faults that make a server complain.
    pub(crate) strikes: Vec<Strike>,
    /// The losses of files.
    pub(crate) losses: Losses,
    voters: Voters,
    /// Those whose disks were damaged: they are given empty ones if they do not start.
    damaged: Vec<ServerId>,
    exchanges: Exchanges,
    /// Those that end in the midst of their work, and for how long.
    ending: BTreeMap<ServerId, Duration>,
}

impl Nemesis {
    pub(crate) fn new(plan: Vec<Planned>) -> Self {
        let mut nemesis = Self {
            due: BTreeMap::new(),
            last_number: 0,
            counts: BTreeMap::new(),
            begun: Vec::new(),
            waiting: Vec::new(),
            running: BTreeSet::new(),
            marks: 0,
            cuts: BTreeMap::new(),
            clients_to_start: Vec::new(),
            failures: Vec::new(),
            strikes: Vec::new(),
            losses: Losses::default(),
            voters: Voters::default(),
            damaged: Vec::new(),
            exchanges: Exchanges::default(),
            ending: BTreeMap::new(),
        };
        for planned in plan {
            let at = planned.at;
            nemesis.at(
                at,
                match planned.wait {
                    None => Act::Begin(planned),
                    Some(wait) => Act::Wait(planned, wait),
                },
            );
        }
        nemesis
    }

    /// Has a server started at a time.
    pub(crate) fn start_at(&mut self, server: ServerId, at: SimTime) {
        self.at(at, Act::Start(server));
    }

    fn at(&mut self, at: SimTime, act: Act) {
        self.last_number += 1;
        self.due.insert((at, self.last_number), act);
    }

    /// Does what is due, and has servers that have ended by themselves started again.
    pub(crate) fn work(&mut self, world: &mut World) {
        self.act_due(world);
        self.end_those_due(world);
        self.look_after(world);
        self.look_at_events(world);
        // What begins just behind an event does so before the world goes on.
        self.act_due(world);
    }

    fn act_due(&mut self, world: &mut World) {
        let now = world.now();
        while let Some(entry) = self.due.first_entry()
            && entry.key().0 <= now
        {
            let act = entry.remove();
            self.act(act, world);
        }
    }

    /// Has the faults begin that have waited for what has happened.
    fn look_at_events(&mut self, world: &World) {
        let mut events = Vec::new();
        self.marks = trace::look_at_marks(self.marks, |mark| {
            self.voters.look_at(mark);
            events.extend(Event::of(mark));
        });
        for (id, server) in &world.servers {
            let runs = server.machine.runs();
            if runs && self.running.insert(*id) {
                events.push((Event::Starts, *id));
            } else if !runs && self.running.remove(id) {
                events.push((Event::Ends, *id));
            }
        }
        for (event, server) in events {
            let waits = |(_, wait): &(Planned, Wait)| wait.event == event;
            let Some(at) = self.waiting.iter().position(waits) else { continue };
            let (mut planned, wait) = self.waiting.remove(at);
            planned.at = world.now() + wait.behind;
            planned.fault = planned.fault.at(server);
            self.at(planned.at, Act::Begin(planned));
        }
    }

    fn act(&mut self, act: Act, world: &mut World) {
        trace::of("nemesis");
        match act {
            Act::Begin(planned) => self.begin_if_borne(planned, world),
            Act::Wait(planned, wait) => self.waiting.push((planned, wait)),
            Act::FastCpu(server) => {
                trace::line(format_args!("server {server} has all its processor time"));
                if let Some(server) = world.servers.get_mut(&server) {
                    server.machine.set_turn_every(1);
                }
            }
            Act::Start(server) => {
                let runs = world.servers.get(&server).is_none_or(|server| server.machine.runs());
                if !runs {
                    trace::line(format_args!("server {server} starts"));
                    world.start(server);
                }
            }
            Act::StayOn(server) => {
                self.ending.remove(&server);
                world.servers.get(&server).into_iter().for_each(Server::stay_on);
            }
            Act::GoOn(server) => {
                trace::line(format_args!("server {server} goes on"));
                if let Some(server) = world.servers.get_mut(&server) {
                    server.machine.go_on();
                }
            }
            Act::Mend(links) => self.mend(&links, world),
            Act::Conditions(links) => {
                trace::line(format_args!("links are good again: {links:?}"));
                for (from, to) in links {
                    world.network.set_conditions(from, to, Conditions::GOOD);
                }
            }
            Act::Lanes(links) => mend_lanes(&links, world),
            Act::ConnectOnce(links) => connect_once(&links, world),
            Act::Disk(server) => {
                trace::line(format_args!("the disk of server {server} is good again"));
                if let Some(server) = world.servers.get_mut(&server) {
                    server.set_disk(DiskConditions::GOOD);
                }
            }
            Act::Rate(server) => {
                trace::line(format_args!("the clocks of server {server} go right"));
                if let Some(server) = world.servers.get_mut(&server) {
                    server.machine.set_rate(TRUE_RATE);
                }
            }
            Act::Jump(server, by_ms) => {
                trace::line(format_args!("the wall clock of server {server} jumps by {by_ms} ms"));
                if let Some(server) = world.servers.get_mut(&server) {
                    server.machine.jump(by_ms);
                }
            }
            Act::GoOnClient(client) => {
                trace::line(format_args!("client {client} goes on"));
                if let Some(client) = world.client(client) {
                    client.go_on();
                }
            }
            Act::StartClient(client) => self.clients_to_start.push(client),
            Act::OwnDisk(server) => self.exchanges.end(server, world),
        }
    }

    fn begin_if_borne(&mut self, planned: Planned, world: &mut World) {
        if !self.is_borne(&planned.fault, world) {
            trace::line(format_args!("too few have their disks for {planned}"));
        } else if !self.finds_files(&planned.fault, world) {
            trace::line(format_args!("there are no such files for {planned}"));
        } else {
            trace::line(format_args!("{planned}"));
            *self.counts.entry(planned.fault.kind()).or_default() += 1;
            self.begin(&planned, world);
            self.begun.push(planned);
        }
    }

    fn begin(&mut self, planned: &Planned, world: &mut World) {
        let end = world.now() + planned.span;
        if !self.begin_at_links(&planned.fault, end, world) {
            self.begin_at_server(&planned.fault, end, world);
        }
    }

    /// Faults of links and of clients. False if it is another one.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the others are faults of servers")]
    fn begin_at_links(&mut self, fault: &Fault, end: SimTime, world: &mut World) -> bool {
        match fault {
            Fault::Cut { links, .. } | Fault::CutClient { links, .. } => {
                self.cut(links.clone(), end, world);
            }
            Fault::CutLeader { out, into } => {
                let Some(leader) = world.leader() else { return true };
                let leader = MachineId(leader.0);
                let others = world.servers.keys().map(|id| MachineId(id.0));
                let mut links = Vec::new();
                for other in others.filter(|other| *other != leader) {
                    links.extend(out.then_some((leader, other)));
                    links.extend(into.then_some((other, leader)));
                }
                self.cut(links, end, world);
            }
            Fault::Links { links, conditions } => {
                for (from, to) in links {
                    world.network.set_conditions(*from, *to, *conditions);
                }
                self.at(end, Act::Conditions(links.clone()));
            }
            Fault::Lanes { server, into, others, fault } => {
                let links = lane_links(*server, (*into, *others), world);
                for (from, to) in &links {
                    world.network.set_lane_fault(*from, *to, *fault);
                }
                self.at(end, Act::Lanes(links));
            }
            Fault::ConnectTwice { links, permille } => {
                for (from, to) in links {
                    world.network.set_twice(*from, *to, *permille);
                }
                self.at(end, Act::ConnectOnce(links.clone()));
            }
            Fault::Reset { one, other, permille } => {
                world.network.reset(*one, *other, *permille);
                world.network.reset(*other, *one, *permille);
            }
            Fault::StopClient { client } => {
                if let Some(machine) = world.client(*client) {
                    machine.stop();
                }
                let number = ClientNumber(u32::from(*client));
                world.recorder.stopped(number, world.now(), end);
                self.at(end, Act::GoOnClient(*client));
            }
            Fault::KillClient { client } => {
                world.end_client(*client);
                let client_number = ClientNumber(u32::from(*client));
                world.recorder.note(What::ClientDied { client: client_number });
                self.at(end, Act::StartClient(*client));
            }
            _ => return false,
        }
        true
    }

    /// Whether the ensemble goes on behind a fault that may cost a disk.
    fn is_borne(&self, fault: &Fault, world: &World) -> bool {
        let costs_disk = fault.kind().may_cost_disk();
        let server = fault.whom().filter(|_| costs_disk).and_then(|whom| find(whom, world));
        server.is_none_or(|server| self.voters.can_lose(server, world.servers.len()))
    }

    /// Whether a fault of files finds the server's own ones.
    fn finds_files(&self, fault: &Fault, world: &World) -> bool {
        if let Fault::WrongDisk { server, of } = fault {
            return self.exchanges.may_begin(*server, *of, world);
        }
        if !matches!(fault.kind(), Kind::BitRot | Kind::LostFile) {
            return true;
        }
        let Some(id) = fault.whom().and_then(|whom| find(whom, world)) else { return true };
        let has_files = |server| has_files(server, fault);
        !self.exchanges.has_begun(id) && world.servers.get(&id).is_some_and(has_files)
    }

    /// Faults of servers: of their programs, their disks and their clocks.
    fn begin_at_server(&mut self, fault: &Fault, end: SimTime, world: &mut World) {
        if let Fault::PowerCut { servers, survival, turns } = fault {
            for id in servers {
                if let Some(server) = world.servers.get_mut(id) {
                    server.step_some(*turns);
                    server.cut_power(*survival);
                }
                self.at(end, Act::Start(*id));
            }
            return;
        }
        let Some(id) = fault.whom().and_then(|whom| find(whom, world)) else { return };
        let now = world.now();
        let kind = fault.kind();
        let Some(server) = world.servers.get_mut(&id) else { return };
        if let Fault::LostFile { lost: lost @ Lost::LogEnd { .. }, .. } = fault
            && server.machine.runs()
        {
            server.shut_down();
            self.losses.await_stop(id, *lost);
            return;
        }
        if kind.may_complain() {
            let until = if kind == Kind::EndAt { now + END_WITHIN } else { end };
            self.strikes.push(Strike { kind, server: id, from: now, until });
        }
        if let Fault::EndAt { point, survival, .. } = fault {
            server.end_at(*point, *survival);
            self.ending.insert(id, end - now);
            self.at(now + END_WITHIN, Act::StayOn(id));
            return;
        }
        if let Some(act) = begin_at(server, fault, end) {
            self.at(end, act);
        }
        if let Fault::LostFile { lost, .. } = fault {
            self.losses.strike(server, *lost, now);
        }
        if let Fault::WrongDisk { of, .. } = fault {
            self.exchanges.begin(id, *of, world);
            self.at(end, Act::OwnDisk(id));
        } else if matches!(kind, Kind::BitRot | Kind::LostFile) {
            self.damaged.push(id);
        } else if kind == Kind::DiskLoss {
            self.lose_disk(id);
        }
    }

    /// A server has an empty disk.
    fn lose_disk(&mut self, server: ServerId) {
        self.voters.lose(server);
        self.exchanges.forget(server);
        self.losses.end(server);
    }

    /// Ends the servers that have come to the point at which they end.
    fn end_those_due(&mut self, world: &mut World) {
        let now = world.now();
        for server in world.servers.values_mut() {
            if server.end_if_due() {
                trace::of("nemesis");
                trace::line(format_args!("server {} ends in the midst of its work", server.id));
                let span = self.ending.remove(&server.id).unwrap_or(RESTART_AFTER);
                self.last_number += 1;
                self.due.insert((now + span, self.last_number), Act::Start(server.id));
            }
        }
    }

    fn cut(&mut self, links: Vec<(MachineId, MachineId)>, end: SimTime, world: &World) {
        for (from, to) in &links {
            *self.cuts.entry((*from, *to)).or_default() += 1;
            world.network.cut(*from, *to);
        }
        self.at(end, Act::Mend(links));
    }

    fn mend(&mut self, links: &[(MachineId, MachineId)], world: &World) {
        trace::line(format_args!("links are mended: {links:?}"));
        for (from, to) in links {
            let cuts = self.cuts.entry((*from, *to)).or_default();
            *cuts = cuts.saturating_sub(1);
            if *cuts == 0 {
                world.network.mend(*from, *to);
            }
        }
    }

    /// Does what an operator's tools do: a server that has ended is started again, one that was
    /// damaged and does not start gets an empty disk.
    fn look_after(&mut self, world: &mut World) {
        let now = world.now();
        let mut ended = Vec::new();
        for server in world.servers.values_mut() {
            if !server.machine.runs() {
                continue;
            }
            match server.standing() {
                Standing::Ended => {
                    server.kill();
                    ended.push((server.id, None));
                }
                Standing::Failed(why) => {
                    server.kill();
                    ended.push((server.id, Some(why)));
                }
                Standing::Runs(_) if self.exchanges.has_begun(server.id) => {
                    server.kill();
                    ended.push((server.id, Some("it runs in another one's directory".to_owned())));
                }
                Standing::Runs(_) => self.losses.runs(server.id, now),
                Standing::Starts => {}
            }
        }
        for (id, why) in ended {
            if let Some(why) = why {
                trace::of("nemesis");
                trace::line(format_args!("server {id} has failed: {why}"));
                let texts = [DAMAGED, SNAPSHOT_MISSING, LOG_MISSING];
                let is_said = texts.iter().any(|text| why.contains(text));
                let is_damaged = self.damaged.contains(&id) && is_said;
                if is_damaged && let Some(server) = world.servers.get_mut(&id) {
                    server.wipe();
                    self.lose_disk(id);
                    self.damaged.retain(|damaged| *damaged != id);
                }
                self.failures.push((now, id, why));
            } else if let Some(lost) = self.losses.stopped(id) {
                let fault = Fault::LostFile { server: Whom::Server(id), lost };
                if self.is_borne(&fault, world) && self.finds_files(&fault, world) {
                    self.begin_at_server(&fault, now + RESTART_AFTER, world);
                }
            }
            self.at(now + RESTART_AFTER, Act::Start(id));
        }
    }

    /// Ends all faults that are under way.
    pub(crate) fn heal(&mut self, world: &mut World) {
        while let Some(entry) = self.due.first_entry() {
            let act = entry.remove();
            if !matches!(act, Act::Begin(_)) {
                self.act(act, world);
            }
        }
        self.waiting.clear();
        self.losses.await_no_stop();
        for server in world.servers.values() {
            server.disk().fail_no_more();
        }
    }
}
