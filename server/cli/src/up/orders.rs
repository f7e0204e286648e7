//! Carries out the orders of `zoolet ctl` on the servers.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::info;

use super::child::Child;
use super::plan::Plan;
use super::{READY_POLL, is_majority, look_at};
use crate::cli::CtlOrder;
use crate::supervised::{NOT_LEADER, Order, SessionNumber};

/// How long a started server may take to serve, and a leader to be found.
const READY_LIMIT: Duration = Duration::from_secs(30);

/// Does what an order says, and returns the answer.
pub(super) async fn carry_out(
    plan: &Plan,
    children: &mut [Child],
    order: CtlOrder,
) -> Result<Value, String> {
    info!(?order, "zoolet ctl");
    match order {
        CtlOrder::Status => {
            join_all(children.iter_mut().filter(|it| can_answer(it)).map(Child::ask_mode)).await;
            return Ok(plan.state(children));
        }
        CtlOrder::Expire { session } => expire(children, session).await?,
        CtlOrder::Start { server } => start(plan, children, server).await?,
        CtlOrder::Stop { server } => running(children, server)?.stop_for_good("zoolet ctl").await,
        CtlOrder::Kill { server } => running(children, server)?.kill_for_good().await,
        CtlOrder::Pause { server } => set_paused(running(children, server)?, true)?,
        CtlOrder::Resume { server } => set_paused(running(children, server)?, false)?,
        CtlOrder::Cut { server, clients } => {
            let server = able(children, server)?;
            server.order(Order::CutPeers).await?;
            if clients {
                server.order(Order::CutClients).await?;
            }
        }
        CtlOrder::Heal { server } => able(children, server)?.order(Order::Heal).await?,
    }
    Ok(json!({}))
}

fn set_paused(server: &mut Child, is_paused: bool) -> Result<(), String> {
    server.set_paused(is_paused).map_err(|error| format!("server {}: {error}", server.server.id))
}

/// Starts a server that is down. It is waited for if it can have a leader.
async fn start(plan: &Plan, children: &mut [Child], id: u8) -> Result<(), String> {
    let server = find(children, id)?;
    if server.end().is_none() {
        return Err(format!("server {id} is running"));
    }
    server.restart(plan).map_err(|error| error.to_string())?;
    let deadline = Instant::now() + READY_LIMIT;
    let serves = async {
        while is_majority(children, |child| child.end().is_none() && !child.is_paused()) {
            look_at(children, true).await;
            if find(children, id)?.mode().is_some() {
                break;
            }
            if let Some(why) = find(children, id)?.end() {
                return Err(format!("server {id} has ended: {why}"));
            }
            sleep(READY_POLL).await;
        }
        Ok(())
    };
    let late = |_| Err(format!("server {id} does not serve within {} s", READY_LIMIT.as_secs()));
    timeout_at(deadline, serves).await.unwrap_or_else(late)
}

/// Has the leader end a session, as soon as there is one that has it.
async fn expire(children: &mut [Child], session: SessionNumber) -> Result<(), String> {
    let deadline = Instant::now() + READY_LIMIT;
    loop {
        let mut why = "no server leads".to_owned();
        for child in children.iter_mut().filter(|child| can_answer(child)) {
            child.ask_mode().await;
            if !matches!(child.mode(), Some("leader" | "standalone")) {
                continue;
            }
            match child.order(Order::Expire(session)).await {
                Ok(()) => return Ok(()),
                // A leader that is cut off may not know yet that it leads no longer.
                Err(_) if child.is_cut() => {}
                // It may have led when it was last asked, and be too busy to answer now.
                Err(said) if said == NOT_LEADER => {}
                Err(said) => {
                    return Err(format!(
                        "server {}, the leader: {said} ({session})",
                        child.server.id
                    ));
                }
            }
        }
        if Instant::now() > deadline {
            why.push_str(" within 30 s");
            return Err(why);
        }
        sleep(READY_POLL).await;
    }
}

fn find(children: &mut [Child], id: u8) -> Result<&mut Child, String> {
    let known: Vec<String> = children.iter().map(|child| child.server.id.to_string()).collect();
    let found = children.iter_mut().find(|child| child.server.id == id);
    found.ok_or_else(|| format!("unknown server {id}: the servers are {}", known.join(", ")))
}

/// Finds a server that runs, paused or not.
fn running(children: &mut [Child], id: u8) -> Result<&mut Child, String> {
    let server = find(children, id)?;
    match server.end() {
        None => Ok(server),
        Some(why) => Err(format!("server {id} is not running: {why}")),
    }
}

/// Finds a server that runs and can do something.
fn able(children: &mut [Child], id: u8) -> Result<&mut Child, String> {
    let server = running(children, id)?;
    if server.is_paused() { Err(format!("server {id} is paused")) } else { Ok(server) }
}

fn can_answer(child: &Child) -> bool {
    child.end().is_none() && !child.is_paused()
}
