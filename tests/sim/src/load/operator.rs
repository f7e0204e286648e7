//! An operator, who deletes znodes of locks by hand: of waiters, of holders, of leaders.

use std::time::Duration;

use zoolet_jute::{Reply, Request};

use super::session::Outcome;
use super::worker::{Worker, read, versioned};

/// The directory of the locks that have one each.
const LOCKS: &str = "/locks";
/// The longest wait between two deletes.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// The directories of a semaphore.
const OF_SEMAPHORE: [&str; 2] = ["leases", "locks"];
/// How deep the znodes of contenders are at most: those of a semaphore.
const DEPTH_MAX: usize = 3;

/// Deletes one now and then, until it is to stop.
pub(super) async fn delete_places(worker: &mut Worker) {
    while !worker.is_stopped() {
        let pause = worker.chance.up_to(PAUSE_MAX);
        worker.rest(pause).await;
        if let Some(path) = find(worker).await {
            // Its owner may have been faster.
            worker.call(Request::Delete(versioned(path, -1))).await;
        }
        worker.drop_events();
    }
}

/// A znode in the queue of a lock. Most contenders have theirs right below it.
async fn find(worker: &mut Worker) -> Option<String> {
    let mut path = LOCKS.to_owned();
    for depth in 1..=DEPTH_MAX {
        let children = worker.call(Request::GetChildren(read(path.clone(), false))).await;
        let Outcome::Done(_, Reply::Children(names)) = children else { return None };
        let Some(name) = worker.chance.pick(&names) else {
            let is_place = !OF_SEMAPHORE.iter().any(|name| path.ends_with(name));
            return (depth > 2 && is_place).then_some(path);
        };
        path = format!("{path}/{name}");
    }
    Some(path)
}
