//! A storm: many sessions that come at once, watch each other, and go at once.

use std::time::Duration;

use tokio::task::JoinSet;
use zoolet_jute::{CreateMode, Request};

use super::session::{Disturbance, Session, SessionEvents, SessionOptions};
use super::worker::{Worker, open_create, persistent, read};

/// Where their znodes are.
const STORM: &str = "/storm";
/// The longest time for which a storm is there, and for which there is none.
const STAY_MAX: Duration = Duration::from_secs(8);

/// Has storms come and go until it is to stop.
pub(super) async fn come_and_go(worker: &mut Worker, options: &SessionOptions) {
    while !worker.is_stopped() {
        worker.call(Request::Create(persistent(STORM, None))).await;
        let storm = come(worker, options);
        let stay = worker.chance.up_to(STAY_MAX);
        worker.rest(stay).await;
        if worker.chance.one_in(2) {
            // All come back at once.
            for (session, _) in &storm {
                session.disturb(Disturbance::HangUp);
            }
            worker.rest(stay).await;
        }
        go(worker, storm).await;
        let pause = worker.chance.up_to(STAY_MAX);
        worker.rest(pause).await;
        worker.drop_events();
    }
}

/// Each has a znode, and watches those of all and the one of another.
fn come(worker: &mut Worker, options: &SessionOptions) -> Vec<(Session, SessionEvents)> {
    let count = worker.chance.between(10..=60);
    let path = |number: u64| format!("{STORM}/{number}");
    let mut storm = Vec::new();
    for number in 0..count {
        let (session, events) = Session::start(options.clone(), worker.chance.fork());
        let neighbor = worker.chance.between(0..=count - 1);
        let requests = [
            Request::Create(open_create(path(number), None, CreateMode::Ephemeral)),
            Request::GetChildren2(read(STORM, true)),
            Request::Exists(read(path(neighbor), true)),
        ];
        for request in requests {
            // What becomes of it, the history says.
            drop(session.send(request));
        }
        storm.push((session, events));
    }
    storm
}

/// They are closed, or their process ends and leaves them to their timeouts.
async fn go(worker: &mut Worker, storm: Vec<(Session, SessionEvents)>) {
    let (limit, is_closed) = (worker.timeout(), worker.chance.one_in(2));
    let mut going = JoinSet::new();
    for (session, _) in storm {
        going.spawn(async move {
            if is_closed {
                session.close(limit).await;
            } else {
                session.abandon().await;
            }
        });
    }
    going.join_all().await;
}
