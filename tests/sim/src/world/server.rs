//! A simulated server: the real one, on a machine with a disk.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use zoolet_jute::Zxid;
use zoolet_replica::{Role, ServerId};
use zoolet_server::embed::config::ServerConfig;
use zoolet_server::internals::{Node, Seams, Watched, Witness, work_here};
use zoolet_storage::{Image, LogPosition, MemoryDisk, Survival, Wal};

use super::clock::MachineClock;
use super::gauges::Gauges;
use super::machine::Machine;
use super::pace::WorkPace;
use crate::SimTime;
use crate::chance::{Chance, SimEntropy};
use crate::history::Recorder;
use crate::network::{MachineId, Network};
use crate::trace;

/// How a server stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It opens its directory.
    #[default]
    Starts,
    /// It has started, and has this part in the ensemble.
    Runs(Role),
    /// It has ended in good order.
    Ended,
    /// It has ended by itself, or does not start.
    Failed(String),
}

/// How a disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskConditions {
    /// How long a sync takes, in microseconds, at least and at most.
    pub sync_us: (u64, u64),
    /// What it has room for, in bytes; `None` without a bound.
    pub capacity_bytes: Option<u64>,
}

impl DiskConditions {
    /// A disk that is fast and empty.
    pub const GOOD: Self = Self { sync_us: (100, 1500), capacity_bytes: None };
}

/// Where in its work a server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// In this change of its disk, counted from 1: a write is done halfway.
    Change(u64),
    /// In place of this piece that it sends, counted from 1.
    Piece(u64),
}

/// A server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) id: ServerId,
    pub(crate) machine: Machine,
    config: ServerConfig,
    disk: MemoryDisk,
    conditions: DiskConditions,
    /// The disk does nothing until then.
    stalled_until: SimTime,
    /// The log's writer, and when the sync that is under way is done.
    log: Arc<LogPlace>,
    sync_done: Option<SimTime>,
    /// How long work beside that takes; none in a step, which has it.
    pace: Option<WorkPace>,
    state: Arc<Mutex<State>>,
    stop: watch::Sender<bool>,
    /// How often it was started.
    pub(crate) starts: u64,
    network: Network,
    /// What of its disk survives when its power fails in the midst of its work; `None` if it ends as
    /// `kill -9` does it.
    survival: Option<Survival>,
    chance: Chance,
    /// Whose lines these are in the trace.
    name: String,
}

#[derive(Debug, Default)]
struct State {
    standing: Standing,
    role: Option<watch::Receiver<Role>>,
}

/// Where the log of the present life is.
#[derive(Debug, Default)]
struct LogPlace(Mutex<Weak<Wal>>);

impl LogPlace {
    fn get(&self) -> Option<Arc<Wal>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }

    fn set(&self, log: Weak<Wal>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = log;
    }
}

impl Server {
    pub(crate) fn new(
        config: ServerConfig,
        network: &Network,
        (chance, of_pace): (Chance, Chance),
    ) -> Self {
        Self {
            name: format!("server {}", config.server_id),
            id: config.server_id,
            machine: Machine::new(),
            config,
            disk: MemoryDisk::with_faults(),
            conditions: DiskConditions::GOOD,
            stalled_until: SimTime::default(),
            log: Arc::default(),
            sync_done: None,
            pace: Some(WorkPace::new(of_pace)),
            state: Arc::default(),
            stop: watch::Sender::new(false),
            starts: 0,
            network: network.clone(),
            survival: None,
            chance,
        }
    }

    /// Whose lines these are in the trace.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its number among the machines of the network.
    pub(crate) fn machine_id(&self) -> MachineId {
        MachineId(self.id.0)
    }

    /// How it stands.
    pub(crate) fn standing(&self) -> Standing {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match (&state.standing, &state.role) {
            (Standing::Runs(_), Some(role)) => Standing::Runs(*role.borrow()),
            (standing, _) => standing.clone(),
        }
    }

    /// Changes how it is started from now on.
    pub(crate) fn configure(&mut self, change: impl FnOnce(&mut ServerConfig)) {
        change(&mut self.config);
    }

    pub(crate) fn disk(&self) -> &MemoryDisk {
        &self.disk
    }

    pub(crate) fn set_disk(&mut self, conditions: DiskConditions) {
        self.conditions = conditions;
        self.disk.set_capacity(conditions.capacity_bytes);
    }

    /// The disk does nothing for a while.
    pub(crate) fn stall(&mut self, until: SimTime) {
        self.stalled_until = self.stalled_until.max(until);
    }

    /// Starts it.
    pub(crate) fn start(&mut self, recorder: &Recorder) {
        self.starts += 1;
        self.network.power_on(self.machine_id());
        self.network.set_power(self.machine_id(), Some(self.disk.power()));
        self.state = Arc::default();
        self.log = Arc::default();
        self.sync_done = None;
        self.stop = watch::Sender::new(false);
        let entropy = SimEntropy::new(Chance::of(self.chance.number(), "server"));
        let witness = ServerWitness {
            server: self.id,
            recorder: recorder.clone(),
            log: Arc::clone(&self.log),
        };
        let (disk, net) = (self.disk.clone(), self.network.of(self.machine_id()));
        let seams = |clock: MachineClock| Seams {
            disk: Arc::new(disk),
            clock: Arc::new(clock),
            entropy: Arc::new(entropy),
            net: Arc::new(net),
            watched: Watched::by(Arc::new(witness)),
        };
        let (config, state) = (self.config.clone(), Arc::clone(&self.state));
        let gauges = Gauges::new(self.id, recorder.clone(), config.limits.clone());
        let stop = self.stop.subscribe();
        self.machine.start(|clock| live(config, seams(clock), (state, gauges), stop));
    }

    /// Asks it to end in good order.
    pub(crate) fn shut_down(&self) {
        self.stop.send_replace(true);
    }

    /// Ends it as `kill -9` does: what it has written stays.
    pub(crate) fn kill(&mut self) {
        let mut image = self.disk.image();
        image.settle();
        self.end_on(image);
    }

    /// Ends it as a loss of power does.
    pub(crate) fn cut_power(&mut self, survival: Survival) {
        self.network.power_off(self.machine_id());
        let image = self.disk.image().after_power_cut(survival);
        self.end_on(image);
    }

    /// It ends in the midst of its work, and what survives is what is on its disk then.
    pub(crate) fn end_at(&mut self, point: Point, survival: Option<Survival>) {
        self.survival = survival;
        match point {
            Point::Change(number) => self.disk.switch_off_at(number),
            Point::Piece(number) => self.network.fail_piece(self.machine_id(), Some(number)),
        }
    }

    /// Takes `end_at` back.
    pub(crate) fn stay_on(&self) {
        self.disk.stay_on();
        self.network.fail_piece(self.machine_id(), None);
    }

    /// Ends it if it has come to the point of `end_at`. Returns whether it has.
    pub(crate) fn end_if_due(&mut self) -> bool {
        if !self.machine.runs() || !self.disk.power().is_off() {
            return false;
        }
        match self.survival.take() {
            Some(survival) => self.cut_power(survival),
            None => self.kill(),
        }
        true
    }

    /// Gives it a new disk with nothing on it. It must not run.
    pub(crate) fn wipe(&mut self) {
        self.replace_disk(MemoryDisk::with_faults());
    }

    /// Whether its directory is one of a server.
    pub(crate) fn has_directory(&self) -> bool {
        self.disk.image().contents(&self.config.data_dir.join("identity")).is_ok()
    }

    /// Gives it another disk. It must not run.
    pub(crate) fn exchange_disk(&mut self, image: Image) {
        self.replace_disk(MemoryDisk::from_image(image));
    }

    /// Changes what is on its disk. It must not run.
    pub(crate) fn damage<T>(&mut self, change: impl FnOnce(&mut Image) -> T) -> T {
        let mut image = self.disk.image();
        let result = change(&mut image);
        self.exchange_disk(image);
        result
    }

    fn end_on(&mut self, image: Image) {
        // What still runs while it is dropped writes nothing any more; the system of its machine
        // closes its connections.
        self.network.set_power(self.machine_id(), None);
        self.disk.switch_off();
        self.machine.end();
        self.log = Arc::default();
        self.sync_done = None;
        self.replace_disk(MemoryDisk::from_image(image));
    }

    fn replace_disk(&mut self, disk: MemoryDisk) {
        self.disk = disk;
        self.disk.set_capacity(self.conditions.capacity_bytes);
    }

    /// Writes what waits for the log's writer, once the disk is done with it.
    pub(crate) fn work_disk(&mut self, now: SimTime) {
        if self.machine.is_stopped() {
            return;
        }
        let Some(log) = self.log.get() else { return };
        if !log.is_waited_for() {
            return;
        }
        let done = *self
            .sync_done
            .get_or_insert_with(|| now + self.chance.span_us(self.conditions.sync_us));
        if now >= done && now >= self.stalled_until {
            self.sync_done = None;
            log.write_waiting();
        }
    }

    /// Gives it some true time.
    pub(crate) fn step(&mut self, span: Duration, now: SimTime) {
        let is_slow = self.conditions.sync_us != DiskConditions::GOOD.sync_us;
        let most_us = if is_slow { self.conditions.sync_us.1 } else { 0 };
        if let Some(pace) = &mut self.pace {
            pace.set(most_us, self.machine.by_its_clocks(self.stalled_until - now));
        }
        WorkPace::step(&mut self.pace, || self.machine.step(span));
    }

    /// Gives it some turns of its tasks, behind which it ends.
    pub(crate) fn step_some(&mut self, turns: u64) {
        WorkPace::step(&mut self.pace, || self.machine.step_some(turns));
    }
}

async fn live(
    config: ServerConfig,
    seams: Seams,
    (state, gauges): (Arc<Mutex<State>>, Gauges),
    mut stop: watch::Receiver<bool>,
) {
    work_here(WorkPace::takes);
    let set = |standing: Standing, role: Option<watch::Receiver<Role>>| {
        *state.lock().unwrap_or_else(PoisonError::into_inner) = State { standing, role };
    };
    let node = match Node::start(config, seams).await {
        Ok(node) => node,
        Err(error) => return set(Standing::Failed(error.to_string()), None),
    };
    set(Standing::Runs(Role::Looking), Some(node.role()));
    let why = tokio::select! {
        biased;
        why = node.fatal() => Some(why),
        _ = stop.wait_for(|stop| *stop) => None,
        never = gauges.read_on(node.reports()) => match never {},
    };
    if let Some(why) = why {
        drop(node);
        set(Standing::Failed(why), None);
    } else {
        node.shutdown().await;
        set(Standing::Ended, None);
    }
}

/// Notes what a server does, and where its log is.
#[derive(Debug)]
struct ServerWitness {
    server: ServerId,
    recorder: Recorder,
    log: Arc<LogPlace>,
}

impl Witness for ServerWitness {
    fn log_opened(&self, log: Weak<Wal>) {
        self.log.set(log);
    }

    fn applied(&self, position: LogPosition, batch: &Bytes) {
        self.recorder.applied(self.server, position.index.0, position.term, batch.clone());
    }

    fn reached(&self, position: LogPosition, zxid: Zxid, digest: u64) {
        self.recorder.digest(self.server, position.index.0, zxid, digest);
    }

    fn restored(&self, zxid: Zxid, _: u64) {
        self.recorder.restored(self.server, zxid);
        let zxid = zxid.0;
        trace::line(format_args!("a snapshot of another server is installed: zxid {zxid:#x}"));
    }
}
