//! The course of a run.

use std::future::pending;
use std::time::Duration;

use crate::fixture::Fixture;
use crate::plan::{Frame, Plan};
use crate::pool::ContenderPool;
use crate::report::Report;
use crate::run_history::RunHistory;
use crate::sequence_offset::is_behind_the_last;
use crate::servers::Servers;
use crate::settings::{Settings, TortureError};

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
    let settings = &Settings { servers: settings.addresses()?, ..settings.clone() };
    let fixture = Fixture::set(settings).await?;
    let frame = frame(settings, servers.as_deref(), fixture.session_timeout);
    let plan = Plan::new(settings.seed, &frame);
    let early_grants_are_counted = settings.early_grants_are_counted && plan.pauses_servers();
    let mut history = RunHistory { early_grants_are_counted, ..RunHistory::default() };
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
    history: &mut RunHistory,
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
