//! The clients of a run: the simulator's load over TCP.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use zoolet_client::TcpConnector;
use zoolet_replica::ServerId;
use zoolet_sim::Chance;
use zoolet_sim::history::{ClientNumber, Recorder, What};
use zoolet_sim::load::{ClientMachine, Load, ReconfigPlan, SUPER_CREDENTIALS};

use crate::wait;

/// How long a client's task may take to end when it is aborted.
const ABORT_MAX: Duration = Duration::from_secs(5);

/// The load of a seed. In some runs one client more changes the ensemble; where servers lose their
/// directories it removes none, so that those are always fewer than a majority.
pub(super) fn load(seed: u64, lines: Vec<(ServerId, String)>, has_wipes: bool) -> Load {
    let load = Load::draw(seed).with_recipes(seed).with_operator(seed);
    let mut chance = Chance::of(seed, "chaos reconfig");
    if !chance.permille(300) {
        return load;
    }
    load.with_reconfig(ReconfigPlan {
        voters_min: if has_wipes { lines.len() } else { lines.len() / 2 + 1 },
        lines,
        digest: Some(SUPER_CREDENTIALS.to_owned()),
        pause: Duration::from_millis(chance.between(2000, 10_000)),
    })
}

/// A machine whose connections are real.
pub(super) fn machine(
    (client, seed): (ClientNumber, u64),
    servers: Vec<(ServerId, String)>,
    recorder: &Recorder,
) -> ClientMachine {
    let connector = Arc::new(TcpConnector);
    ClientMachine { client, connector, servers, recorder: recorder.clone(), seed }
}

/// The clients, which run on a runtime of their own.
#[derive(Debug)]
pub(super) struct Clients<'a> {
    runtime: &'a Runtime,
    seed: u64,
    load: Load,
    servers: Vec<(ServerId, String)>,
    recorder: Recorder,
    stop: watch::Sender<bool>,
    tasks: BTreeMap<u32, JoinHandle<()>>,
    lives: BTreeMap<u32, u64>,
    panics: Vec<String>,
}

impl<'a> Clients<'a> {
    /// Starts all clients.
    pub(super) fn start(
        runtime: &'a Runtime,
        (seed, load): (u64, Load),
        servers: Vec<(ServerId, String)>,
        recorder: &Recorder,
    ) -> Self {
        let mut clients = Self {
            runtime,
            seed,
            load,
            servers,
            recorder: recorder.clone(),
            stop: watch::Sender::new(false),
            tasks: BTreeMap::new(),
            lives: BTreeMap::new(),
            panics: Vec::new(),
        };
        for client in 0..clients.load.clients() {
            clients.begin(client);
        }
        clients
    }

    fn begin(&mut self, client: u32) {
        let life = *self.lives.entry(client).and_modify(|life| *life += 1).or_default();
        let seed = Chance::of(self.seed, &format!("chaos client {client} life {life}")).number();
        let client_and_seed = (ClientNumber(client), seed);
        let machine = machine(client_and_seed, self.servers.clone(), &self.recorder);
        let work = self.load.clone().run(machine, self.stop.subscribe());
        self.tasks.insert(client, self.runtime.spawn(Box::pin(work)));
    }

    /// Ends the program of a client wherever it is.
    pub(super) fn kill(&mut self, client: u32) {
        let Some(task) = self.tasks.remove(&client) else { return };
        task.abort();
        wait::until(ABORT_MAX, || task.is_finished().then_some(()));
        self.take_panic(client, task);
    }

    /// Starts the program of a client anew.
    pub(super) fn restart(&mut self, client: u32) {
        self.kill(client);
        self.recorder.note(What::ClientDied { client: ClientNumber(client) });
        self.begin(client);
    }

    /// Asks all clients to end. Returns whether they have, in time.
    pub(super) fn finish(&mut self, limit: Duration) -> bool {
        self.stop.send_replace(true);
        let tasks = &self.tasks;
        let ended =
            wait::until(limit, || tasks.values().all(JoinHandle::is_finished).then_some(()));
        for client in self.tasks.keys().copied().collect::<Vec<_>>() {
            self.kill(client);
        }
        ended.is_some()
    }

    fn take_panic(&mut self, client: u32, task: JoinHandle<()>) {
        if let Err(error) = self.runtime.block_on(task)
            && error.is_panic()
        {
            self.panics.push(format!("client {client} has panicked: {error}"));
        }
    }

    /// What has panicked.
    pub(super) fn panics(&self) -> &[String] {
        &self.panics
    }
}

impl Drop for Clients<'_> {
    fn drop(&mut self) {
        for task in self.tasks.values() {
            task.abort();
        }
    }
}
