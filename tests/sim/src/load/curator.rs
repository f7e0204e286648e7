//! A contender that keeps to Curator's form by itself, over a raw session: a protected ephemeral
//! sequential znode, a look at the children, a watch on the one before.

use std::convert::Infallible;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use zoolet_jute::{CreateMode, ErrorCode, Reply, Request, SessionId, Stat};

use super::contender::{Contender, draw_hold};
use super::locks::{LockPlan, Recipe};
use super::session::{Outcome, SessionStatus};
use super::worker::{Worker, open_create, read, versioned};
use crate::history::LockStep;
use crate::load::ClientMachine;

/// How long a wait for the znode in front lasts before the queue is looked at again. An event that is
/// missed would otherwise go unnoticed; with it, it is a late grant.
const LOOK_AGAIN: u32 = 4;

/// Contends for the locks of [`Recipe::Mutex`] until it is to stop.
pub(super) async fn contend_raw(
    machine: &ClientMachine,
    worker: &mut Worker,
    plan: &LockPlan,
    stop: &watch::Receiver<bool>,
) {
    while !worker.is_stopped() {
        let number = worker.chance.between(0..=plan.locks.saturating_sub(1));
        let plan = LockPlan { timeout: worker.timeout(), ..plan.clone() };
        let contender = plan.contender(machine, Recipe::Mutex.path(number), stop);
        attempt(worker, &contender).await;
        worker.think().await;
    }
}

/// A place in the queue.
#[derive(Clone, Debug)]
struct Place {
    path: String,
    token: i64,
    session: SessionId,
}

async fn attempt(worker: &mut Worker, contender: &Contender) {
    if !ensure_containers(worker, &contender.lock).await {
        return;
    }
    contender.waits("curator");
    let timeout = worker.timeout();
    let limit = timeout * 2 + worker.chance.up_to(timeout * 6);
    let give_up_at = Instant::now() + limit;
    let uuid = draw_uuid(worker);
    let place = enter(worker, &contender.lock, &uuid).await;
    let is_mine = match &place {
        Some(place) => wait_turn(worker, &contender.lock, place, give_up_at).await,
        None => false,
    };
    match place {
        Some(place) if is_mine => hold(worker, contender, &place).await,
        Some(place) => {
            contender.note(LockStep::GaveUp);
            leave(worker, &place.path).await;
        }
        None => {
            contender.note(LockStep::GaveUp);
            remove_protected(worker, &contender.lock, &uuid).await;
        }
    }
}

async fn ensure_containers(worker: &Worker, lock: &str) -> bool {
    let parents = lock.char_indices().skip(1).filter(|(_, letter)| *letter == '/');
    let mut paths: Vec<&str> = parents.filter_map(|(at, _)| lock.get(..at)).collect();
    paths.push(lock);
    for path in paths {
        let body = open_create(path, None, CreateMode::Container);
        match worker.call(Request::CreateContainer(body)).await {
            Outcome::Done(..) | Outcome::Refused(ErrorCode::NodeExists) => {}
            Outcome::Refused(_) | Outcome::Unknown => return false,
        }
    }
    true
}

fn draw_uuid(worker: &mut Worker) -> String {
    let (high, low) = (worker.chance.number(), worker.chance.number());
    let number = format!("{high:016x}{low:016x}");
    let part = |from: usize, to: usize| number.get(from..to).unwrap_or_default().to_owned();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

/// Creates the znode. One whose create was not answered is looked for by its protected name, and
/// created again if it is not there.
async fn enter(worker: &Worker, lock: &str, uuid: &str) -> Option<Place> {
    while !worker.is_stopped() {
        let path = format!("{lock}/_c_{uuid}-lock-");
        let body = open_create(path, None, CreateMode::EphemeralSequential);
        match worker.call(Request::Create2(body)).await {
            Outcome::Done(_, Reply::PathStat(path, stat)) => return Some(Place::new(path, &stat)),
            Outcome::Done(..) | Outcome::Refused(_) => return None,
            Outcome::Unknown => {}
        }
        let path = match find_protected(worker, lock, uuid).await {
            Found::At(path) => path,
            Found::Nowhere => continue,
            Found::Unknown => return None,
        };
        let Outcome::Done(_, Reply::Stat(stat)) =
            worker.call(Request::Exists(read(path.clone(), false))).await
        else {
            return None;
        };
        // One of a session that has ended meanwhile is about to go.
        if stat.ephemeral_owner == worker.session.status().session {
            return Some(Place::new(path, &stat));
        }
        leave(worker, &path).await;
        return None;
    }
    None
}

impl Place {
    fn new(path: String, stat: &Stat) -> Self {
        Self { path, token: stat.czxid.0, session: stat.ephemeral_owner }
    }
}

/// What a look for a protected name comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    At(String),
    Nowhere,
    Unknown,
}

async fn find_protected(worker: &Worker, lock: &str, uuid: &str) -> Found {
    match worker.call(Request::GetChildren(read(lock, false))).await {
        Outcome::Done(_, Reply::Children(names)) => {
            let mine = names.into_iter().find(|name| name.contains(uuid));
            mine.map_or(Found::Nowhere, |name| Found::At(format!("{lock}/{name}")))
        }
        Outcome::Refused(ErrorCode::NoNode) => Found::Nowhere,
        Outcome::Done(..) | Outcome::Refused(_) | Outcome::Unknown => Found::Unknown,
    }
}

/// Removes what an attempt may have left that did not find its znode: others would wait for it.
async fn remove_protected(worker: &Worker, lock: &str, uuid: &str) {
    loop {
        match find_protected(worker, lock, uuid).await {
            Found::At(path) => {
                leave(worker, &path).await;
                return;
            }
            Found::Nowhere => return,
            Found::Unknown if worker.is_stopped() => return,
            Found::Unknown => {}
        }
    }
}

/// Deletes a znode. A delete that was not answered is sent again: the znode may be there, and others
/// wait for its end. Returns whether this has deleted it.
async fn leave(worker: &Worker, path: &str) -> bool {
    loop {
        match worker.call(Request::Delete(versioned(path, -1))).await {
            Outcome::Done(..) => return true,
            Outcome::Refused(_) => return false,
            Outcome::Unknown if worker.is_stopped() => return false,
            Outcome::Unknown => {}
        }
    }
}

/// Waits until no znode precedes the own one.
async fn wait_turn(worker: &mut Worker, lock: &str, place: &Place, give_up_at: Instant) -> bool {
    while Instant::now() < give_up_at && !worker.is_stopped() {
        worker.drop_events();
        let list = worker.call(Request::GetChildren(read(lock, false))).await;
        let names = match list {
            Outcome::Done(_, Reply::Children(names)) => names,
            Outcome::Unknown => continue,
            Outcome::Done(..) | Outcome::Refused(_) => return false,
        };
        let before = match before(names, lock, &place.path) {
            Turn::Mine => return is_safe(&worker.session.status(), place.session),
            Turn::Behind(before) => before,
            Turn::Gone => return false,
        };
        let watched = worker.session.send(Request::GetData(read(before, true)));
        worker.disturb();
        let watched = worker.finish(watched).await;
        if matches!(watched, Outcome::Done(..)) {
            let left = give_up_at.saturating_duration_since(Instant::now());
            worker.wait_event(left.min(worker.timeout() * LOOK_AGAIN)).await;
        }
    }
    false
}

/// Where a place is in its queue.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Turn {
    Mine,
    Behind(String),
    Gone,
}

/// The znodes of a queue are in the order of the numbers at their ends.
fn before(names: Vec<String>, lock: &str, mine: &str) -> Turn {
    let number = |name: &str| -> Option<i64> { name.rsplit_once("lock-")?.1.parse().ok() };
    let mut queue: Vec<(i64, String)> =
        names.into_iter().filter_map(|name| Some((number(&name)?, name))).collect();
    queue.sort();
    let mut last = None;
    for (_, name) in queue {
        let path = format!("{lock}/{name}");
        if path == mine {
            return last.map_or(Turn::Mine, Turn::Behind);
        }
        last = Some(path);
    }
    Turn::Gone
}

/// Whether no server can have ended the session yet.
fn is_safe(status: &SessionStatus, session: SessionId) -> bool {
    status.session == session && status.safe_until.is_some_and(|until| Instant::now() < until)
}

async fn hold(worker: &mut Worker, contender: &Contender, place: &Place) {
    contender.granted(place.token, &place.path, place.session);
    let timeout = worker.timeout();
    let span = draw_hold(&mut worker.chance, timeout);
    let lost = lost(worker.session.watch_status(), place.session);
    let was_lost = contender.hold(place.token, span, lost).await;
    let release = async {
        let is_gone: Result<bool, Infallible> = Ok(leave(worker, &place.path).await);
        is_gone
    };
    // A delete that was not answered may have been carried out: then it counts as lost.
    let _ = contender.release(place.token, was_lost, release).await;
}

/// Waits until the session has ended or may have.
async fn lost(mut status: watch::Receiver<SessionStatus>, session: SessionId) {
    loop {
        let now = *status.borrow_and_update();
        if !is_safe(&now, session) {
            return;
        }
        let until = now.safe_until.unwrap_or_else(Instant::now);
        tokio::select! {
            biased;
            changed = status.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = sleep_until(until) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_in_the_order_of_its_numbers_whatever_the_ids() {
        let names = || {
            ["_c_b-lock-0000000002", "_c_c-lock-0000000001", "_c_a-lock-0000000010", "other"]
                .map(str::to_owned)
                .to_vec()
        };
        let turn = |mine: &str| before(names(), "/l", mine);
        assert_eq!(turn("/l/_c_c-lock-0000000001"), Turn::Mine);
        assert_eq!(
            turn("/l/_c_a-lock-0000000010"),
            Turn::Behind("/l/_c_b-lock-0000000002".to_owned())
        );
        assert_eq!(turn("/l/_c_d-lock-0000000003"), Turn::Gone);
    }
}
