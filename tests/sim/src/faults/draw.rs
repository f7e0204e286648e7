//! The plan of a run's faults.

use std::time::Duration;

use zoolet_replica::ServerId;
use zoolet_server::internals::Lane;
use zoolet_storage::{Fault as DiskFault, Survival};

use super::{Fault, Files, Kind, Lost, Planned, Whom};
use crate::SimTime;
use crate::chance::Chance;
use crate::network::{Conditions, LaneFault, MachineId};
use crate::run::{CLOCK_PERMILLE, SLOW_SKEW_PERMILLE};
use crate::world::{Point, TRUE_RATE, client_machine};

const DAY_MS: u64 = 86_400_000;
/// In how many seeds of a thousand some lanes fail.
const LANES_PERMILLE: u64 = 150;

/// The name of a shape of partition, and which links are cut in it, from and to.
type Shape = (&'static str, Box<dyn Fn(MachineId, MachineId) -> bool>);

/// What a plan is made for.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// How many servers there are.
    pub servers: u8,
    /// How many clients.
    pub clients: u8,
    /// When the first fault may begin.
    pub from: SimTime,
    /// When all have ended.
    pub until: SimTime,
}

/// Draws the plan of a seed. With `kinds`, these instead of drawn ones.
pub fn draw(seed: u64, frame: Frame, kinds: Option<&[Kind]>) -> Vec<Planned> {
    let mut chance = Chance::of(seed, "faults");
    let mut drawn = draw_kinds(&mut chance, frame);
    // By a chance of their own: the plans of the other seeds stay as they were.
    if frame.servers > 1 && Chance::of(seed, "lanes").permille(LANES_PERMILLE) {
        drawn.push(Kind::Lanes);
    }
    let wanted = kinds;
    let kinds = kinds.map_or(drawn, <[Kind]>::to_vec);
    let mut drawer =
        Drawer { chance, frame, disks_left: u64::from(frame.servers.saturating_sub(1) / 2) };
    let mut plan = Vec::new();
    for kind in kinds {
        // From one every half a second to one in twelve seconds.
        let gap_ms = drawer.chance.between(500, 12_000);
        let mut at = frame.from + Duration::from_millis(drawer.chance.between(0, gap_ms));
        while at < frame.until {
            if let Some(fault) = drawer.fault(kind) {
                let left = frame.until - at;
                let span = drawer.span(kind).min(left);
                plan.push(Planned { number: 0, at, span, fault, wait: None });
            }
            at = at + Duration::from_millis(drawer.chance.between(gap_ms / 2, gap_ms * 3 / 2));
        }
    }
    plan.extend(drawer.waiting(wanted));
    plan.sort_by_key(|planned| planned.at);
    for (number, planned) in plan.iter_mut().enumerate() {
        planned.number = number;
    }
    plan
}

fn draw_kinds(chance: &mut Chance, frame: Frame) -> Vec<Kind> {
    let wanted = chance.between(2, 6);
    let mut kinds: Vec<Kind> = Kind::ALL.to_vec();
    kinds.retain(|kind| *kind != Kind::Lanes);
    if frame.servers == 1 {
        // There are no others.
        kinds.retain(|kind| {
            !matches!(
                kind,
                Kind::Cut
                    | Kind::CutLeader
                    | Kind::DiskLoss
                    | Kind::BitRot
                    | Kind::LostFile
                    | Kind::WrongDisk
            )
        });
    }
    let mut drawn = Vec::new();
    while (drawn.len() as u64) < wanted && !kinds.is_empty() {
        let last = kinds.len() as u64 - 1;
        let at = usize::try_from(chance.between(0, last)).unwrap_or(0);
        drawn.push(kinds.swap_remove(at));
    }
    drawn
}

pub(super) struct Drawer {
    pub(super) chance: Chance,
    pub(super) frame: Frame,
    /// How many disks may be lost or damaged in the run: fewer than a majority, since what was
    /// acknowledged may be on a majority alone.
    disks_left: u64,
}

impl Drawer {
    fn servers(&self) -> Vec<ServerId> {
        (1..=self.frame.servers).map(ServerId).collect()
    }

    fn server(&mut self) -> ServerId {
        ServerId(u8::try_from(self.chance.between(1, u64::from(self.frame.servers))).unwrap_or(1))
    }

    fn whom(&mut self) -> Whom {
        if self.chance.permille(500) { Whom::Leader } else { Whom::Server(self.server()) }
    }

    fn client(&mut self) -> u8 {
        let last = u64::from(self.frame.clients.saturating_sub(1));
        u8::try_from(self.chance.between(0, last)).unwrap_or(0)
    }

    /// The turns of a server's tasks before it ends: none is between two steps.
    fn turns(&mut self) -> u64 {
        if self.chance.permille(300) { 0 } else { self.chance.between(1, 40) }
    }

    /// A place in a server's work.
    pub(super) fn point(&mut self, max: u64) -> Point {
        let number = self.chance.between(1, max);
        if self.chance.permille(600) { Point::Change(number) } else { Point::Piece(number) }
    }

    fn survival(&mut self) -> Survival {
        let seed = self.chance.number();
        match self.chance.between(0, 3) {
            0 => Survival::Nothing,
            1 => Survival::Everything,
            2 => Survival::Some { seed },
            _ => Survival::Torn { seed },
        }
    }

    fn survival_or_none(&mut self) -> Option<Survival> {
        if self.chance.permille(500) { Some(self.survival()) } else { None }
    }

    /// How long a fault of a kind lasts.
    pub(super) fn span(&mut self, kind: Kind) -> Duration {
        let (min, max) = match kind {
            Kind::Kill | Kind::EndAt | Kind::Power | Kind::Restart | Kind::KillClient => (0, 6000),
            Kind::Reset | Kind::DiskError | Kind::ReadError => (0, 0),
            Kind::Stall => (50, 3000),
            Kind::Stop | Kind::StopClient => (50, 15_000),
            Kind::BitRot | Kind::LostFile | Kind::DiskLoss | Kind::Level => (10, 3000),
            Kind::WrongDisk => (10, 6000),
            Kind::ClockJump | Kind::ClockRate | Kind::ClockSkew => (1000, 30_000),
            // Seldom for longer than a server serves without its ensemble.
            Kind::Cut | Kind::CutLeader if self.chance.permille(200) => (50, 25_000),
            Kind::Lanes if self.chance.permille(500) => (10_000, 40_000),
            Kind::Cut
            | Kind::CutLeader
            | Kind::Lanes
            | Kind::CutClient
            | Kind::Links
            | Kind::ConnectTwice
            | Kind::SlowCpu
            | Kind::SlowDisk
            | Kind::Full => (50, 10_000),
        };
        Duration::from_millis(self.chance.between(min, max))
    }

    pub(super) fn fault(&mut self, kind: Kind) -> Option<Fault> {
        Some(match kind {
            Kind::Kill => Fault::Kill { server: self.whom(), turns: self.turns() },
            Kind::EndAt => Fault::EndAt {
                server: self.whom(),
                point: self.point(300),
                survival: self.survival_or_none(),
            },
            Kind::Power => self.power_cut(),
            Kind::Restart => Fault::Restart { server: self.whom() },
            Kind::Stop => Fault::Stop { server: self.whom() },
            Kind::SlowCpu => {
                Fault::SlowCpu { server: self.whom(), every: self.chance.between(2, 60) }
            }
            Kind::Cut => self.cut(),
            Kind::CutLeader => {
                let (out, into) = (self.chance.permille(700), self.chance.permille(700));
                Fault::CutLeader { out: out || !into, into }
            }
            Kind::Links => {
                let (links, conditions) = (self.some_links(), self.conditions());
                Fault::Links { links, conditions }
            }
            Kind::Lanes => self.lanes(),
            Kind::Reset => self.reset(),
            Kind::ConnectTwice => {
                let links = self.some_ways_to_servers();
                Fault::ConnectTwice { links, permille: self.chance.between(200, 1000) }
            }
            Kind::SlowDisk => {
                let min = self.chance.between(2000, 100_000);
                let sync_us = (min, min * self.chance.between(1, 10));
                Fault::SlowDisk { server: self.whom(), sync_us }
            }
            Kind::Stall => Fault::Stall { server: self.whom() },
            Kind::Full => Fault::Full { server: self.server() },
            Kind::DiskError => {
                let all = [DiskFault::Io, DiskFault::Full, DiskFault::Short];
                let fault = self.chance.one_of(&all).copied().unwrap_or(DiskFault::Io);
                let server = self.server();
                Fault::DiskError { server, change: self.chance.between(1, 60), fault }
            }
            Kind::BitRot => self.bit_rot()?,
            Kind::LostFile => self.lost_file()?,
            Kind::DiskLoss => Fault::DiskLoss { server: self.disk_to_lose()? },
            Kind::ClockRate => {
                let off = self.chance.between(0, CLOCK_PERMILLE.into());
                self.clock_rate(off, true)
            }
            Kind::ClockSkew => {
                let off = self.chance.between(CLOCK_PERMILLE.into(), SLOW_SKEW_PERMILLE.into());
                self.clock_rate(off, false)
            }
            Kind::ClockJump => self.clock_jump(),
            Kind::StopClient => Fault::StopClient { client: self.client() },
            Kind::KillClient => Fault::KillClient { client: self.client() },
            Kind::CutClient => self.cut_client(),
            Kind::Level => Fault::Level {
                server: self.server(),
                level: u32::try_from(self.chance.between(0, 3)).unwrap_or(0),
            },
            Kind::ReadError => {
                Fault::ReadError { server: self.whom(), read: self.chance.between(1, 12) }
            }
            Kind::WrongDisk => self.wrong_disk()?,
        })
    }

    /// A server whose disk may be lost.
    fn disk_to_lose(&mut self) -> Option<ServerId> {
        self.disks_left = self.disks_left.checked_sub(1)?;
        Some(self.server())
    }

    fn bit_rot(&mut self) -> Option<Fault> {
        let server = Whom::Server(self.disk_to_lose()?);
        let all = [Files::Any, Files::Log, Files::NewestSnapshot];
        let files = self.chance.one_of(&all).copied().unwrap_or(Files::Any);
        Some(Fault::BitRot { server, files, place: self.chance.number() })
    }

    fn lost_file(&mut self) -> Option<Fault> {
        let server = Whom::Server(self.disk_to_lose()?);
        let is_cut = self.chance.permille(500);
        let lost = match self.chance.between(0, 5) {
            0..2 => Lost::Snapshot { cut_at: is_cut.then(|| self.chance.number()) },
            // A segment that is cut has the wrong length, so zeros are harder to notice.
            2..4 => Lost::LogEnd {
                sectors: self.chance.between(1, 8),
                is_cut: is_cut && self.chance.permille(500),
            },
            4 => Lost::Segments,
            _ => Lost::AllButIdentity,
        };
        Some(Fault::LostFile { server, lost })
    }

    /// The directory of any other server.
    fn wrong_disk(&mut self) -> Option<Fault> {
        let server = self.server();
        let others = self.servers().into_iter().filter(|other| *other != server);
        let of = self.chance.one_of(&others.collect::<Vec<_>>()).copied()?;
        Some(Fault::WrongDisk { server, of })
    }

    /// A clock that is off by this number of thousandths.
    fn clock_rate(&mut self, off_permille: u64, is_tolerated: bool) -> Fault {
        let is_fast = self.chance.permille(500);
        // Half as fast at least, and twice as fast at most.
        let times = if is_fast && !is_tolerated { 2 } else { 1 };
        let off = TRUE_RATE / 1000 * off_permille * times;
        let rate = if is_fast { TRUE_RATE + off } else { TRUE_RATE - off };
        Fault::ClockRate { server: self.server(), rate, is_tolerated }
    }

    fn power_cut(&mut self) -> Fault {
        let all = self.servers();
        let servers = match self.chance.between(0, 2) {
            0 => vec![self.server()],
            1 => self.chance.some_of(&all),
            _ => all,
        };
        Fault::PowerCut { servers, survival: self.survival(), turns: self.turns() }
    }

    /// Faults of a path whose MTU is not reported, or of a crowded one.
    fn lanes(&mut self) -> Fault {
        let is_of_one = self.chance.permille(500);
        let lane = self.chance.one_of(&Lane::ALL).map(|lane| *lane as u8).filter(|_| is_of_one);
        let is_hole = self.chance.permille(600);
        let piece_bytes = usize::try_from(self.chance.between(300, 1400)).unwrap_or(700);
        let fault = LaneFault {
            lane,
            // Heartbeats and handshakes are shorter.
            piece_bytes_max: if is_hole { piece_bytes } else { 0 },
            bytes_per_ms: if is_hole { 0 } else { self.chance.between(1, 50) },
        };
        let server = if self.chance.permille(700) { Whom::Leader } else { self.whom() };
        let most = u64::from(self.frame.servers.saturating_sub(1)).max(1);
        let others = u8::try_from(self.chance.between(1, most)).unwrap_or(1);
        Fault::Lanes { server, into: self.chance.permille(250), others, fault }
    }

    fn reset(&mut self) -> Fault {
        let one = MachineId(self.server().0);
        let other = if self.chance.permille(500) && self.frame.servers > 1 {
            MachineId(self.server().0)
        } else {
            client_machine(self.client())
        };
        Fault::Reset { one, other, permille: self.chance.between(200, 1000) }
    }

    fn clock_jump(&mut self) -> Fault {
        let most: u64 = match self.chance.between(0, 3) {
            0 => 5000,
            1 => 3_600_000,
            2 => 400 * DAY_MS,
            // Before 1970, and behind the end of 32 bits of seconds.
            _ => 100 * 365 * DAY_MS,
        };
        let by = i64::try_from(self.chance.between(1, most)).unwrap_or(0);
        let by_ms = if self.chance.permille(500) { by } else { -by };
        Fault::ClockJump { server: self.server(), by_ms }
    }

    fn cut_client(&mut self) -> Fault {
        let client = self.client();
        let machine = client_machine(client);
        let servers = self.servers();
        let cut = if self.chance.permille(500) { self.chance.some_of(&servers) } else { servers };
        let mut links = Vec::new();
        let direction = self.chance.between(0, 2);
        for server in cut.into_iter().map(|server| MachineId(server.0)) {
            if direction != 1 {
                links.push((machine, server));
            }
            if direction != 0 {
                links.push((server, machine));
            }
        }
        Fault::CutClient { client, links }
    }

    fn conditions(&mut self) -> Conditions {
        let mut conditions = Conditions::GOOD;
        if self.chance.permille(600) {
            let min = self.chance.between(1000, 60_000);
            conditions.latency_us = (min, min * self.chance.between(1, 6));
        }
        if self.chance.permille(500) {
            conditions.lost_permille = self.chance.between(10, 400);
        }
        if self.chance.permille(300) {
            conditions.bytes_per_ms = self.chance.between(20, 2000);
        }
        conditions
    }

    /// Some links, between servers and to clients.
    fn some_links(&mut self) -> Vec<(MachineId, MachineId)> {
        let servers = self.servers().into_iter().map(|server| MachineId(server.0));
        let clients = (0..self.frame.clients).map(client_machine);
        let all: Vec<MachineId> = servers.clone().chain(clients).collect();
        let pairs = servers.flat_map(|server| {
            all.iter().filter(move |other| **other != server).map(move |other| (server, *other))
        });
        let both: Vec<_> = pairs.flat_map(|(one, other)| [(one, other), (other, one)]).collect();
        self.chance.some_of(&both)
    }

    /// Some of the ways to servers: from other servers, and from clients.
    fn some_ways_to_servers(&mut self) -> Vec<(MachineId, MachineId)> {
        let servers = self.servers().into_iter().map(|server| MachineId(server.0));
        let callers: Vec<MachineId> =
            servers.clone().chain((0..self.frame.clients).map(client_machine)).collect();
        let ways = servers.flat_map(|server| {
            let others = callers.iter().filter(move |caller| **caller != server);
            others.map(move |caller| (*caller, server))
        });
        let ways: Vec<_> = ways.collect();
        self.chance.some_of(&ways)
    }

    /// One of the shapes of a partition.
    fn cut(&mut self) -> Fault {
        let machines: Vec<MachineId> =
            self.servers().into_iter().map(|server| MachineId(server.0)).collect();
        let one = MachineId(self.server().0);
        let next = MachineId(one.0 % self.frame.servers + 1);
        let half = self.chance.some_of(&machines);
        let shape = self.chance.between(0, 7);
        let (shape, is_cut): Shape = match shape {
            0 => ("one alone", Box::new(move |a, b| a == one || b == one)),
            1 => ("halves", Box::new(move |a, b| half.contains(&a) != half.contains(&b))),
            2 => ("all alone", Box::new(|_, _| true)),
            3 => ("one hears no other", Box::new(move |_, b| b == one)),
            4 => ("one is not heard", Box::new(move |a, _| a == one)),
            5 => ("a pair", Box::new(move |a, b| (a, b) == (one, next) || (b, a) == (one, next))),
            6 => {
                let count = self.frame.servers;
                // Each has its neighbors.
                let is_next = move |a: MachineId, b: MachineId| a.0 % count + 1 == b.0;
                ("ring", Box::new(move |a, b| !is_next(a, b) && !is_next(b, a)))
            }
            _ => {
                // The two sides have one server in common.
                let side = move |at: MachineId| at.0 < one.0;
                ("bridge", Box::new(move |a, b| a != one && b != one && side(a) != side(b)))
            }
        };
        let mut links = Vec::new();
        for from in &machines {
            for to in &machines {
                if from != to && is_cut(*from, *to) {
                    links.push((*from, *to));
                }
            }
        }
        Fault::Cut { shape, links }
    }
}
