//! The course of a run.

use std::future::pending;
use std::time::Duration;

use thiserror::Error;
use zoolet_client::Error;

use crate::context::PlantedBug;
use crate::fixture::Fixture;
use crate::history::History;
use crate::plan::{Frame, Plan};
use crate::pool::ContenderPool;
use crate::recipe::Recipe;
use crate::report::Report;
use crate::sequence_offset::is_behind_the_last;
use crate::servers::{ServerFault, Servers, addresses};

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
    /// How long the contenders may take to get their last turns, once the faults are over.
    pub last_turn_max: Duration,
    /// What decides the schedule.
    pub seed: u64,
    /// The session timeout to ask for; the servers may grant another.
    pub session_timeout: Duration,
    /// Whether contenders are paused, cut off and killed, and replies lost.
    pub client_faults: bool,
    /// What is done to servers, as far as it can be.
    pub server_faults: Vec<ServerFault>,
    /// Whether a grant that comes before the former holder's client would have reported the loss
    /// is only counted, while servers stand still or are cut off: of Apache `ZooKeeper`, whose
    /// followers answer pings by themselves.
    pub early_grants_are_counted: bool,
    /// A lock that is broken on purpose.
    pub planted_bug: Option<PlantedBug>,
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
            early_grants_are_counted: false,
            planted_bug: None,
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
    let fixture = Fixture::set(settings).await?;
    let frame = frame(settings, servers.as_deref(), fixture.session_timeout);
    let plan = Plan::new(settings.seed, &frame);
    let early_grants_are_counted = settings.early_grants_are_counted && plan.servers_stand_still();
    let mut history = History { early_grants_are_counted, ..History::default() };
    let performed = tokio::select! {
        performed = perform(settings, &plan, servers, &fixture, &mut history) => performed,
        () = stop => Err(TortureError::Stopped),
    };
    // The servers are there until the end: their owner may end them when they are dropped.
    let (pool, _servers) = match performed {
        Ok(performed) => performed,
        Err(error) => {
            fixture.clear().await;
            return Err(error);
        }
    };
    let session_timeout = fixture.session_timeout;
    fixture.strike(pool, &mut history).await;
    if history.claims.iter().any(|claim| is_behind_the_last(&claim.path)) {
        history.struck.insert("numbers near 2³¹", 1);
    }
    history.renumber(plan.offset);
    Ok(Report::new(settings, session_timeout, &history))
}

/// From the first contender to the last turn of the last one.
async fn perform(
    settings: &Settings,
    plan: &Plan,
    servers: Option<Box<dyn Servers>>,
    fixture: &Fixture,
    history: &mut History,
) -> Result<(ContenderPool, Option<Box<dyn Servers>>), TortureError> {
    let mut pool = ContenderPool::gather(settings, plan.offset, fixture).await?;
    let servers = pool.play(plan, servers, settings.duration, fixture).await;
    pool.close(fixture, history).await;
    Ok((pool, servers))
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
