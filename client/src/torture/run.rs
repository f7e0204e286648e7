//! The course of a run.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::contender;
use super::history::History;
use super::plan::{Fault, Frame, HolderFault, Plan};
use super::proxy::{self, Proxy};
use super::recipe::{Lock, Recipe};
use super::recorder::Recorder;
use super::report::Report;
use super::scene::{Body, Phase, Sabotage, Scene};
use super::servers::{ServerFault, Servers, addresses, rotated};
use super::shift::Shift;
use super::tree;
use super::upset::Upset;
use super::witness::Witnesses;
use crate::recipes::{Counter, Queue};
use crate::{Client, ClientOptions, CreateMode, Error, ErrorCode, ErrorKind};

/// How long contenders that were told to end may take.
const END_MAX: Duration = Duration::from_mins(1);
/// How long what is left behind may take to go.
const LEFT_MAX: Duration = Duration::from_secs(20);
/// How long a run that was stopped may take to delete its znodes.
const CLEAR_MAX: Duration = Duration::from_secs(10);
/// How long it waits before another attempt.
const CLEAR_AGAIN: Duration = Duration::from_millis(100);
/// How many messages of contenders wait.
const DONE_MAX: usize = 1024;

/// What to do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The connect string.
    pub servers: String,
    /// The recipes.
    pub recipes: Vec<Recipe>,
    /// How many contend, each with a session of its own.
    pub contenders: usize,
    /// How many locks of each recipe there are.
    pub locks: usize,
    /// How long the faults go on.
    pub duration: Duration,
    /// How long everybody may take to get a last turn, once the faults are over.
    pub last_turn_max: Duration,
    /// What decides the schedule.
    pub seed: u64,
    /// The session timeout to ask for; the servers may grant another.
    pub session_timeout: Duration,
    /// Whether contenders are paused, cut off and killed, and replies lost.
    pub client_faults: bool,
    /// What is done to servers, as far as it can be.
    pub server_faults: Vec<ServerFault>,
    /// A lock that is broken on purpose.
    pub sabotage: Option<Sabotage>,
}

impl Settings {
    /// Every recipe and every fault for 20 s, by five contenders.
    pub fn new(servers: &str, seed: u64) -> Self {
        Self {
            servers: servers.to_owned(),
            recipes: Recipe::ALL.to_vec(),
            contenders: 5,
            locks: 1,
            duration: Duration::from_secs(20),
            last_turn_max: Duration::from_mins(1),
            seed,
            session_timeout: Duration::from_secs(2),
            client_faults: true,
            server_faults: vec![
                ServerFault::Kill,
                ServerFault::Pause,
                ServerFault::Isolate,
                ServerFault::SlowDisk,
            ],
            sabotage: None,
        }
    }
}

/// Why a run could not be made. What a run finds is in its [`Report`].
#[derive(Debug, Error)]
pub enum TortureError {
    /// The servers did not do what a run needs before its first fault.
    #[error("servers: {0}")]
    Client(#[from] Error),
    /// The machine did not.
    #[error("machine: {0}")]
    Io(#[from] std::io::Error),
    /// It was stopped.
    #[error("the run was stopped")]
    Stopped,
    /// The connect string has a root path, and a run looks at the whole tree.
    #[error("the connect string has a root path, {0}: a run needs the whole tree")]
    Chroot(String),
    /// A run needs two contenders, one lock and one recipe at least.
    #[error("a run needs a recipe, a lock and two contenders at least")]
    Nothing,
}

/// Tortures the locks of an ensemble. `servers` can hurt the servers; without it they are left in
/// peace. Wants a runtime with time, IO and threads.
pub async fn run(
    settings: &Settings,
    servers: Option<Box<dyn Servers>>,
) -> Result<Report, TortureError> {
    run_until(settings, servers, pending()).await
}

/// The same, unless it is stopped: then the contenders end, the servers go on, the run's znodes are
/// deleted as far as that can be done soon, and it fails with [`TortureError::Stopped`].
pub async fn run_until(
    settings: &Settings,
    servers: Option<Box<dyn Servers>>,
    stop: impl Future<Output = ()>,
) -> Result<Report, TortureError> {
    if settings.recipes.is_empty() || settings.locks == 0 || settings.contenders < 2 {
        return Err(TortureError::Nothing);
    }
    let settings = &Settings { servers: addresses(settings)?, ..settings.clone() };
    let stage = Stage::set(settings).await?;
    let frame = frame(settings, servers.as_deref(), stage.session_timeout);
    let plan = Plan::new(settings.seed, &frame);
    let mut history =
        History { servers_stood_still: plan.servers_stand_still(), ..History::default() };
    let performed = tokio::select! {
        performed = perform(settings, &plan, servers, &stage, &mut history) => performed,
        () = stop => Err(TortureError::Stopped),
    };
    // The servers are there until the end: whoever made them may end them when they are dropped.
    let (troupe, _servers) = match performed {
        Ok(performed) => performed,
        Err(error) => {
            stage.clear().await;
            return Err(error);
        }
    };
    let session_timeout = stage.session_timeout;
    stage.strike(troupe, &mut history).await;
    history.renumber(plan.shift);
    Ok(Report::new(settings, session_timeout, &plan, &history))
}

/// From the first contender to the last turn of the last one.
async fn perform(
    settings: &Settings,
    plan: &Plan,
    servers: Option<Box<dyn Servers>>,
    stage: &Stage,
    history: &mut History,
) -> Result<(Troupe, Option<Box<dyn Servers>>), TortureError> {
    let mut troupe = Troupe::gather(settings, plan.shift, stage).await?;
    let servers = troupe.play(plan, servers, settings.duration, stage).await;
    troupe.close(stage, history).await;
    Ok((troupe, servers))
}

fn frame(settings: &Settings, servers: Option<&dyn Servers>, session_timeout: Duration) -> Frame {
    let mut server_faults = settings.server_faults.clone();
    server_faults.retain(|fault| servers.is_some_and(|servers| servers.can(*fault)));
    Frame {
        duration: settings.duration,
        contenders: settings.contenders,
        session_timeout,
        servers: servers.map_or(0, Servers::count),
        server_faults,
        client_faults: settings.client_faults,
    }
}

/// What stands before the contenders come.
struct Stage {
    admin: Client,
    root: String,
    ledger: String,
    locks: Vec<Lock>,
    session_timeout: Duration,
    witnesses: Witnesses,
}

impl Stage {
    async fn set(settings: &Settings) -> Result<Self, TortureError> {
        let options = ClientOptions::new().session_timeout(settings.session_timeout);
        let granted = options.connect(&settings.servers).await?;
        let session_timeout = Duration::from_millis(granted.session().timeout_ms);
        let session = granted.session().id.0;
        granted.close().await?;
        let options = ClientOptions::new().session_timeout(Duration::from_secs(30));
        let admin = options.connect(&settings.servers).await?;
        let root = format!("/torture-{:x}-{session:x}", settings.seed);
        let ledger = format!("{root}/ledger");
        for path in [&root, &ledger] {
            create(&admin, path).await?;
        }
        let mut locks = Vec::new();
        for recipe in &settings.recipes {
            create(&admin, &format!("{root}/{recipe}")).await?;
            for number in 0..settings.locks {
                locks.push(Lock::new(*recipe, format!("{root}/{recipe}/{number}")));
            }
        }
        for lock in locks.iter().flat_map(Lock::parts) {
            create(&admin, &ledger_of(&ledger, &lock.path)).await?;
        }
        let mut dirs: Vec<String> =
            locks.iter().flat_map(Lock::parts).map(|lock| lock.dir()).collect();
        dirs.dedup();
        let witnesses = Witnesses::start(&settings.servers, &root, dirs).await?;
        Ok(Self { admin, root, ledger, locks, session_timeout, witnesses })
    }

    /// Deletes what there is, while contenders that end may create some of it again.
    async fn clear(self) {
        let clear = async {
            while let Err(error) = tree::remove(&self.admin, &self.root).await {
                if error.ends_session() {
                    return;
                }
                sleep(CLEAR_AGAIN).await;
            }
            // A session that cannot be closed expires.
            let _ = self.admin.close().await;
        };
        // Servers that are gone for good end no wait.
        let _ = timeout(CLEAR_MAX, clear).await;
    }

    /// Takes everything down, and writes the history.
    async fn strike(self, mut troupe: Troupe, history: &mut History) {
        let gone = tree::ephemerals_gone(&self.admin, &self.root, LEFT_MAX);
        match limited(gone).await {
            Ok(left) => history.leftovers.extend(left),
            Err(error) => history.errors.push(format!("looking for leftovers: {error}")),
        }
        if let Err(error) = limited(self.read_tallies(&troupe.scene)).await {
            history.errors.push(format!("reading queues and counters: {error}"));
        }
        history.log = self.witnesses.finish().await;
        let kept = troupe.scene.recorder.take();
        history.claims = kept.claims;
        history.writes = kept.writes;
        history.guarded = kept.guarded;
        history.passages = kept.passages;
        history.errors.extend(kept.errors);
        history.woken = troupe.bodies.iter().map(|body| body.proxy.deleted()).collect();
        let tallies = std::mem::take(
            &mut *troupe.scene.tallies.lock().unwrap_or_else(PoisonError::into_inner),
        );
        history.tallies = tallies.into_values().collect();
        history.locks = self.locks.iter().flat_map(Lock::parts).collect();
        history.holders_stopped = troupe.scene.holders_stopped.load(Ordering::Relaxed);
        history.marks = std::mem::take(&mut troupe.marks);
        if let Err(error) = limited(tree::remove(&self.admin, &self.root)).await {
            history.errors.push(format!("taking {} away: {error}", self.root));
        }
        // A session that cannot be closed expires.
        let _ = limited(self.admin.close()).await;
    }

    /// What is in the queues and counters in the end.
    async fn read_tallies(&self, scene: &Scene) -> Result<(), Error> {
        for lock in &self.locks {
            if lock.recipe == Recipe::Queue {
                let queue = Queue::new(&self.admin, &lock.path);
                while let Some(item) = queue.try_take().await? {
                    let item = String::from_utf8_lossy(&item).into_owned();
                    scene.tally(&lock.path, |tally| tally.taken.push(item));
                }
            } else if lock.recipe == Recipe::Counter {
                let value = Counter::new(&self.admin, &lock.path).get().await?;
                scene.tally(&lock.path, |tally| tally.taken.push(value.to_string()));
            }
        }
        Ok(())
    }
}

pub(crate) fn ledger_of(ledger: &str, lock: &str) -> String {
    format!("{ledger}/{}", lock.trim_start_matches('/').replace('/', "."))
}

async fn create(client: &Client, path: &str) -> Result<(), Error> {
    match client.create(path, b"", CreateMode::Persistent).await {
        Err(error) if error.code() != Some(ErrorCode::NodeExists) => Err(error),
        _ => Ok(()),
    }
}

/// The contenders.
struct Troupe {
    scene: Arc<Scene>,
    bodies: Vec<Arc<Body>>,
    threads: Vec<JoinHandle<()>>,
    phase: watch::Sender<Phase>,
    lull: watch::Sender<bool>,
    done: mpsc::Receiver<(usize, String)>,
    marks: Vec<(Duration, String)>,
    last_turn_max: Duration,
}

impl Drop for Troupe {
    fn drop(&mut self) {
        self.phase.send_replace(Phase::Over);
        for body in &self.bodies {
            body.strike_anywhere(HolderFault::Die);
        }
    }
}

impl Troupe {
    /// Starts the contenders, and lets them pass the barriers.
    async fn gather(
        settings: &Settings,
        shift: Shift,
        stage: &Stage,
    ) -> Result<Self, TortureError> {
        let (phase, phase_seen) = watch::channel(Phase::Gather);
        let (lull, lull_seen) = watch::channel(false);
        let (done_sender, done) = mpsc::channel(DONE_MAX);
        let scene = Arc::new(Scene {
            seed: settings.seed,
            recorder: Recorder::new(),
            locks: stage.locks.clone(),
            contenders: settings.contenders,
            session_timeout: stage.session_timeout,
            phase: phase_seen,
            lull: lull_seen,
            done: done_sender,
            tallies: Mutex::new(BTreeMap::new()),
            sabotage: settings.sabotage,
            ledger: stage.ledger.clone(),
            holders_stopped: AtomicUsize::new(0),
        });
        let (mut bodies, mut threads) = (Vec::new(), Vec::new());
        for number in 0..settings.contenders {
            let proxy = Proxy::start_with(&rotated(&settings.servers, number), shift).await?;
            if settings.client_faults && stage.locks.iter().any(is_barrier) {
                proxy.strike(proxy::Fault::Reply, number);
            }
            let body = Arc::new(Body::new(number, proxy));
            threads.push(contender::start(Arc::clone(&scene), Arc::clone(&body))?);
            bodies.push(body);
        }
        let (marks, last_turn_max) = (Vec::new(), settings.last_turn_max);
        let mut troupe = Self { scene, bodies, threads, phase, lull, done, marks, last_turn_max };
        let missing = troupe.all_done(&stage.locks, is_barrier).await;
        for stuck in missing {
            troupe.scene.recorder.error(format!("before the first fault: {stuck}"));
        }
        troupe.phase.send_replace(Phase::Run);
        Ok(troupe)
    }

    /// Plays the plan.
    async fn play(
        &mut self,
        plan: &Plan,
        servers: Option<Box<dyn Servers>>,
        duration: Duration,
        stage: &Stage,
    ) -> Option<Box<dyn Servers>> {
        let start = Instant::now();
        let before = Duration::from_micros(self.scene.recorder.now_us());
        let upset = Upset::start(servers, &self.scene);
        for (at, fault) in &plan.steps {
            sleep_until(start + *at).await;
            self.marks.push((before + start.elapsed(), fault.to_string()));
            match fault {
                Fault::Holder(who, what) => self.body(*who, |body| body.strike_holder(*what)),
                Fault::Anywhere(who, what) => self.body(*who, |body| body.strike_anywhere(*what)),
                Fault::LoseReply(who, after) => {
                    self.body(*who, |body| body.proxy.strike(proxy::Fault::Reply, *after));
                }
                Fault::LoseRequest(who, after) => {
                    self.body(*who, |body| body.proxy.strike(proxy::Fault::Request, *after));
                }
                Fault::ExpireAll(long) => {
                    for body in &self.bodies {
                        body.strike_anywhere(HolderFault::Cut(*long));
                    }
                }
                Fault::Reap(long) => self.reap(*long, stage).await,
                Fault::Server(..) | Fault::KillLeaderAtGrant(_) => upset.strike(*fault),
            }
        }
        sleep_until(start + duration).await;
        let (failures, servers) = upset.finish().await;
        for failure in failures {
            self.scene.recorder.error(failure);
        }
        for body in &self.bodies {
            body.calm();
        }
        servers
    }

    fn body(&self, who: usize, strike: impl FnOnce(&Body)) {
        if let Some(body) = self.bodies.get(who) {
            strike(body);
        }
    }

    /// Deletes empty directories, as a reaper of containers does between the create of a directory
    /// and the create below it.
    async fn reap(&self, long: Duration, stage: &Stage) {
        let end = Instant::now() + long;
        self.lull.send_replace(true);
        while Instant::now() < end {
            if Instant::now() + long / 2 > end {
                self.lull.send_replace(false);
            }
            for lock in &stage.locks {
                let parts = if lock.recipe.is_lock() { lock.parts() } else { Vec::new() };
                for part in parts {
                    // A directory in use is not empty, and one that was reaped is not there.
                    let _ = timeout(long, stage.admin.delete(&part.dir(), -1)).await;
                }
            }
            sleep(Duration::from_millis(2)).await;
        }
        self.lull.send_replace(false);
    }

    /// Lets everybody have a last turn, looks for what they leave, and ends them.
    async fn close(&mut self, stage: &Stage, history: &mut History) {
        self.phase.send_replace(Phase::LastTurn);
        let stuck = self.all_done(&stage.locks, |_| true).await;
        let all_there = stuck.is_empty();
        history.stuck = stuck;
        self.phase.send_replace(Phase::Quiet);
        if all_there {
            // The sessions live: what stands there now was left behind by somebody alive.
            match limited(tree::waiters_gone(&stage.admin, &stage.locks, LEFT_MAX)).await {
                Ok(left) => history.leftovers = left,
                Err(error) => history.errors.push(format!("looking for leftovers: {error}")),
            }
        }
        self.phase.send_replace(Phase::Over);
        if !all_there {
            for body in &self.bodies {
                body.strike_anywhere(HolderFault::Die);
            }
        }
        let threads = std::mem::take(&mut self.threads);
        let ended = tokio::task::spawn_blocking(move || {
            threads.into_iter().map(JoinHandle::join).filter(Result::is_err).count()
        });
        match timeout(END_MAX, ended).await {
            Ok(Ok(0)) => {}
            Ok(Ok(count)) => history.errors.push(format!("{count} contenders panicked")),
            Ok(Err(_)) | Err(_) => history.errors.push("the contenders do not end".to_owned()),
        }
    }

    /// Waits until every contender has said of every such lock that it is done; answers who has not.
    async fn all_done(&mut self, locks: &[Lock], wanted: impl Fn(&Lock) -> bool) -> Vec<String> {
        let who = 0..self.scene.contenders;
        let mut missing: Vec<(usize, String)> = who
            .flat_map(|who| locks.iter().filter(|l| wanted(l)).map(move |l| (who, l.path.clone())))
            .collect();
        let end = Instant::now() + self.last_turn_max;
        while !missing.is_empty() {
            tokio::select! {
                done = self.done.recv() => missing.retain(|one| Some(one) != done.as_ref()),
                () = sleep_until(end) => break,
            }
        }
        missing.into_iter().map(|(who, path)| format!("contender {who} waits at {path}")).collect()
    }
}

/// Servers that are gone for good end no wait.
async fn limited<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let limit = LEFT_MAX * 2;
    let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    timeout(limit, call).await.unwrap_or_else(|_| Err(ErrorKind::Timeout(limit_ms).into()))
}

fn is_barrier(lock: &Lock) -> bool {
    lock.recipe == Recipe::DoubleBarrier
}
