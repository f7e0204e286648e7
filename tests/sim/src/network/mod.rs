//! The simulated network: connections as TCP gives them, over links that are slow, lossy or cut.
//!
//! A link is one direction between two machines. What is lost on it comes later, as TCP sends it
//! again, and so does what is sent to a machine without power; what is sent while a link is cut comes
//! when it is mended. So a connection never loses or changes the order of its own bytes, and two
//! connections overtake each other.

mod lanes;
mod link;
mod pipe;
mod seam;
mod stream;

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use zoolet_storage::Power;

pub(crate) use self::lanes::LaneFault;
pub use self::link::Conditions;
use self::link::Link;
use self::pipe::{Pipe, PipeId};
pub(crate) use self::seam::MachineNet;
use self::stream::SimStream;
use crate::SimTime;
use crate::chance::Chance;

/// How long a machine waits for the answer to a call before it calls again.
const CALL_AGAIN: Duration = Duration::from_secs(1);
/// How late the copy of a connect that arrives twice is at most, in milliseconds.
pub(crate) const COPY_LATE_MS_MAX: u64 = 5000;
/// How often it calls again.
const CALLS_MAX: u32 = 6;

/// A machine of the network, by its number: servers from 1, clients from 101.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MachineId(pub u8);

impl MachineId {
    /// Its address.
    pub const fn ip(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, self.0)
    }
}

/// The network. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Network {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    now: SimTime,
    chance: Chance,
    machines: BTreeMap<MachineId, Presence>,
    listeners: BTreeMap<SocketAddr, Listening>,
    pipes: BTreeMap<PipeId, Pipe>,
    calls: BTreeMap<u64, Call>,
    links: BTreeMap<(MachineId, MachineId), Link>,
    /// What is under way, by its arrival.
    arrivals: BTreeMap<(SimTime, u64), Arrival>,
    last_number: u64,
    /// Of the tasks that have something to do.
    wakers: Vec<Waker>,
    figures: Figures,
}

/// What the network has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Connections that were made.
    pub connections: u64,
    /// Pieces that were carried.
    pub pieces: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Pieces that were lost at first.
    pub lost: u64,
    /// Connections that were reset by a fault.
    pub resets: u64,
    /// Connects that arrived twice.
    pub twice: u64,
    /// Connections that a listener had of a caller that no longer wanted them.
    pub unwanted: u64,
}

/// Whether a machine has power, and how often it had none.
#[derive(Clone, Debug, Default)]
struct Presence {
    is_up: bool,
    lives: u64,
    last_port: u16,
    /// Sends nothing once this has failed.
    power: Option<Power>,
    /// How many pieces it sends before that.
    pieces_left: Option<u64>,
}

impl Presence {
    /// Whether a piece gets out.
    fn sends(&mut self) -> bool {
        if let Some(left) = &mut self.pieces_left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.pieces_left = None;
                self.power.iter().for_each(Power::switch_off);
            }
        }
        !self.power.as_ref().is_some_and(Power::is_off)
    }
}

#[derive(Debug)]
struct Listening {
    machine: MachineId,
    queue: VecDeque<(SimStream, SocketAddr)>,
    backlog: usize,
    waker: Option<Waker>,
}

#[derive(Debug)]
struct Call {
    from: MachineId,
    outcome: Option<std::io::Result<SimStream>>,
    waker: Option<Waker>,
}

/// What arrives at a machine.
#[derive(Debug)]
enum Arrival {
    /// A call: who calls, with which number and from which address, whom, for which time.
    Call {
        call: u64,
        from: (MachineId, SocketAddr),
        to: SocketAddr,
        times: u32,
    },
    /// A caller's end of a connection: its own pipe and the one to read.
    Answer {
        call: u64,
        ends: (PipeId, PipeId),
    },
    Refusal {
        call: u64,
    },
    /// The caller's machine has to call again without an answer.
    CallAgain {
        call: u64,
        from: (MachineId, SocketAddr),
        to: SocketAddr,
        times: u32,
    },
    /// Bytes of a pipe.
    Bytes(PipeId, bytes::Bytes),
    /// Nothing follows in a pipe.
    End(PipeId),
    /// The connection is broken, for the reader of this pipe.
    Reset(PipeId),
    /// The writer's machine has to send again what met a machine without power.
    RetransmitTimer(PipeId),
    /// What was sent again.
    Retransmission(PipeId),
}

impl Network {
    /// A network without machines.
    pub fn new(chance: Chance) -> Self {
        let state = State {
            now: SimTime::default(),
            chance,
            machines: BTreeMap::new(),
            listeners: BTreeMap::new(),
            pipes: BTreeMap::new(),
            calls: BTreeMap::new(),
            links: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            last_number: 0,
            wakers: Vec::new(),
            figures: Figures::default(),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something, and wakes those who have something to do then.
    fn with<T>(&self, what: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = what(&mut state);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        for waker in wakers {
            waker.wake();
        }
        result
    }

    /// A machine gets power.
    pub fn power_on(&self, machine: MachineId) {
        let mut state = self.lock();
        state.machines.entry(machine).or_default().is_up = true;
    }

    /// The machine sends nothing any more once this power fails; `None`: it sends on.
    pub(crate) fn set_power(&self, machine: MachineId, power: Option<Power>) {
        let mut state = self.lock();
        let presence = state.machines.entry(machine).or_default();
        presence.power = power;
        presence.pieces_left = None;
    }

    /// The machine's power fails in place of the `number`-th piece that it sends from now on
    /// (counted from 1); `None`: it does not.
    pub(crate) fn fail_piece(&self, machine: MachineId, number: Option<u64>) {
        self.lock().machines.entry(machine).or_default().pieces_left = number;
    }

    /// A machine loses its power, without a word to the others.
    pub fn power_off(&self, machine: MachineId) {
        let mut state = self.lock();
        let presence = state.machines.entry(machine).or_default();
        presence.is_up = false;
        presence.lives += 1;
        state.listeners.retain(|_, listening| listening.machine != machine);
    }

    /// What a program on a machine sees of the network.
    pub(crate) fn of(&self, machine: MachineId) -> MachineNet {
        MachineNet { machine, network: self.clone() }
    }

    /// Time goes on, and what is due arrives.
    pub fn advance(&self, now: SimTime) {
        self.with(|state| {
            state.now = now;
            while let Some(entry) = state.arrivals.first_entry()
                && entry.key().0 <= now
            {
                let arrival = entry.remove();
                state.arrive(arrival);
            }
        });
    }

    /// When the next thing arrives.
    pub fn next_arrival(&self) -> Option<SimTime> {
        self.lock().arrivals.first_key_value().map(|((at, _), _)| *at)
    }

    /// Changes a link, of one direction.
    pub fn set_conditions(&self, from: MachineId, to: MachineId, conditions: Conditions) {
        self.lock().link(from, to).conditions = conditions;
    }

    /// Has some connects over a link arrive twice, each with this chance in a thousand: the callee has a
    /// second connection then, on which the caller's handshake arrives as well, and nothing behind it.
    pub fn set_twice(&self, from: MachineId, to: MachineId, permille: u64) {
        self.lock().link(from, to).twice_permille = permille;
    }

    /// Cuts a link, of one direction.
    pub fn cut(&self, from: MachineId, to: MachineId) {
        self.lock().link(from, to).is_cut = true;
    }

    /// Mends a link: what was held arrives.
    pub fn mend(&self, from: MachineId, to: MachineId) {
        let mut state = self.lock();
        let link = state.link(from, to);
        link.is_cut = false;
        for arrival in std::mem::take(&mut link.held) {
            state.carry(from, to, arrival);
        }
    }

    /// Breaks some of the connections between two machines, each with this chance in a thousand, for
    /// both ends. Returns how many.
    pub fn reset(&self, one: MachineId, other: MachineId, permille: u64) -> u64 {
        self.with(|state| state.reset(one, other, permille))
    }

    /// What it has done.
    pub fn figures(&self) -> Figures {
        self.lock().figures
    }

    /// How many connections there are, and the bytes that were not read.
    pub fn load(&self) -> (usize, usize) {
        let state = self.lock();
        (state.pipes.len().div_ceil(2), state.pipes.values().map(Pipe::unread).sum())
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn link(&mut self, from: MachineId, to: MachineId) -> &mut Link {
        self.links.entry((from, to)).or_default()
    }

    fn is_up(&self, machine: MachineId) -> bool {
        self.machines.get(&machine).is_some_and(|presence| presence.is_up)
    }

    fn lives(&self, machine: MachineId) -> u64 {
        self.machines.get(&machine).map_or(0, |presence| presence.lives)
    }

    /// A machine sends something, unless its power fails.
    fn send(&mut self, from: MachineId, to: MachineId, arrival: Arrival) {
        if self.machines.get_mut(&from).is_none_or(Presence::sends) {
            self.carry(from, to, arrival);
        }
    }

    /// Puts something on its way, or holds it while the link is cut.
    fn carry(&mut self, from: MachineId, to: MachineId, arrival: Arrival) {
        let now = self.now;
        let link = self.links.entry((from, to)).or_default();
        if link.is_cut {
            link.held.push(arrival);
            return;
        }
        let Some((arrival, slowed)) = self.pass_lanes((from, to), arrival) else { return };
        let link = self.links.entry((from, to)).or_default();
        let bytes = if let Arrival::Bytes(_, bytes) = &arrival { bytes.len() } else { 0 };
        let (span, was_lost) = link.span(now, bytes, &mut self.chance);
        let mut at = now + span + slowed;
        self.figures.pieces += 1;
        self.figures.bytes += bytes as u64;
        self.figures.lost += u64::from(was_lost);
        if let Some(pipe) = arrival.pipe().and_then(|id| self.pipes.get_mut(&id)) {
            at = at.max(pipe.last_arrival);
            pipe.last_arrival = at;
        }
        let number = self.number();
        self.arrivals.insert((at, number), arrival);
    }

    fn arrive(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Call { call, from, to, times } => self.called(call, from, to, times),
            Arrival::CallAgain { call, from, to, times } => {
                if self.calls.get(&call).is_some_and(|call| call.outcome.is_none()) {
                    self.call(call, from, to, times);
                }
            }
            Arrival::Answer { call, ends } => self.answered(call, ends),
            Arrival::Refusal { call } => {
                let refused = std::io::ErrorKind::ConnectionRefused.into();
                self.finish_call(call, Err(refused));
            }
            Arrival::RetransmitTimer(pipe) => self.retransmit(pipe),
            Arrival::Bytes(..)
            | Arrival::End(_)
            | Arrival::Reset(_)
            | Arrival::Retransmission(_) => self.arrive_at_pipe(arrival),
        }
    }

    /// A machine calls an address.
    fn call(&mut self, call: u64, from: (MachineId, SocketAddr), to: SocketAddr, times: u32) {
        let Some(callee) = machine_of(to) else {
            return self.finish_call(call, Err(std::io::ErrorKind::HostUnreachable.into()));
        };
        if times > CALLS_MAX {
            return self.finish_call(call, Err(std::io::ErrorKind::TimedOut.into()));
        }
        let again = Arrival::CallAgain { call, from, to, times: times + 1 };
        let (at, number) = (self.now + CALL_AGAIN * times, self.number());
        self.arrivals.insert((at, number), again);
        self.send(from.0, callee, Arrival::Call { call, from, to, times });
    }

    /// A call arrives. The system of a machine takes it, also while its program stands still.
    fn called(&mut self, call: u64, from: (MachineId, SocketAddr), to: SocketAddr, times: u32) {
        let Some(callee) = machine_of(to).filter(|callee| self.is_up(*callee)) else { return };
        let Some(listening) = self.listeners.get(&to) else {
            return self.send(callee, from.0, Arrival::Refusal { call });
        };
        // The caller calls again.
        if listening.queue.len() >= listening.backlog {
            return;
        }
        // An earlier call of the same number was answered, and the answer is under way.
        let is_known = self.calls.get(&call).is_none_or(|call| call.outcome.is_some());
        if times > 1 && is_known {
            return;
        }
        let caller = from.0;
        let (there, back) = self.accept(from, (callee, to));
        let twice_permille = self.link(caller, callee).twice_permille;
        if twice_permille > 0 && self.chance.permille(twice_permille) {
            self.figures.twice += 1;
            let again = self.accept(from, (callee, to));
            let is_late = self.chance.permille(300);
            let late_ms = if is_late { self.chance.between(1, COPY_LATE_MS_MAX) } else { 0 };
            self.repeat(there, again, self.now + Duration::from_millis(late_ms));
        }
        self.send(callee, caller, Arrival::Answer { call, ends: (there, back) });
    }

    /// A listener has one more connection: the pipe to it, and the one back.
    fn accept(
        &mut self,
        (caller, address): (MachineId, SocketAddr),
        (callee, to): (MachineId, SocketAddr),
    ) -> (PipeId, PipeId) {
        let (there, back) = (PipeId(self.number()), PipeId(self.number()));
        let lives = (self.lives(caller), self.lives(callee));
        self.pipes.insert(there, Pipe::new((caller, lives.0), (callee, lives.1), back));
        self.pipes.insert(back, Pipe::new((callee, lives.1), (caller, lives.0), there));
        self.figures.connections += 1;
        if let Some(listening) = self.listeners.get_mut(&to) {
            let stream = SimStream::unbound((callee, back, there));
            listening.queue.push_back((stream, address));
            self.wakers.extend(listening.waker.take());
        }
        (there, back)
    }

    /// The answer to a call arrives.
    fn answered(&mut self, call: u64, (write, read): (PipeId, PipeId)) {
        let caller = self.pipes.get(&write).map(Pipe::writer);
        if caller.is_some_and(|caller| !self.is_up(caller)) {
            return;
        }
        let waiting = self.calls.get(&call).filter(|call| call.outcome.is_none());
        let Some(machine) = waiting.map(|call| call.from) else {
            // The caller has given up: the other side learns that.
            self.figures.unwanted += 1;
            return self.give_up(write);
        };
        self.finish_call(call, Ok(SimStream::unbound((machine, write, read))));
    }

    fn finish_call(&mut self, call: u64, outcome: std::io::Result<SimStream>) {
        if let Some(call) = self.calls.get_mut(&call) {
            call.outcome = Some(outcome);
            self.wakers.extend(call.waker.take());
        }
    }
}

/// The machine of an address; `None` if there is none.
fn machine_of(address: SocketAddr) -> Option<MachineId> {
    match address {
        SocketAddr::V4(address) => match address.ip().octets() {
            [10, 0, 0, number] => Some(MachineId(number)),
            _ => None,
        },
        SocketAddr::V6(_) => None,
    }
}

#[cfg(test)]
mod tests;
