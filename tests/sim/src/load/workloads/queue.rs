//! A queue: each item is put once and taken once.

use zoolet_jute::{CreateMode, Reply, Request};

use crate::load::session::Outcome;
use crate::load::worker::{Worker, open_create, read, versioned};

/// The parent of the items.
pub const QUEUE_ROOT: &str = "/queue";

/// The most items that producers leave in the queue.
const ITEMS_MAX: usize = 30;

/// Puts items and takes them: who deletes an item has it.
pub(in crate::load) async fn queue(worker: &mut Worker) {
    let mut is_ready = false;
    while !worker.is_stopped() {
        if !is_ready {
            is_ready = worker.ensure(&[QUEUE_ROOT]).await;
        }
        let items = match worker.call(Request::GetChildren(read(QUEUE_ROOT, true))).await {
            Outcome::Done(_, Reply::Children(mut items)) => {
                items.sort();
                Some(items)
            }
            Outcome::Done(..) | Outcome::Refused(_) | Outcome::Unknown => None,
        };
        let count = items.as_ref().map_or(0, Vec::len);
        let puts = count < ITEMS_MAX && worker.chance.one_in(2);
        match items.and_then(|items| items.into_iter().next()) {
            _ if puts => put(worker).await,
            Some(item) => take(worker, &item).await,
            None => {
                let wait = worker.timeout() / 4;
                worker.wait_event(wait).await;
            }
        }
        worker.drop_events();
        worker.think().await;
    }
}

async fn put(worker: &mut Worker) {
    let data = Some(worker.data.small());
    let path = format!("{QUEUE_ROOT}/item-");
    let body = open_create(path, data, CreateMode::PersistentSequential);
    let pending = worker.session.send(Request::Create(body));
    worker.disturb();
    worker.finish(pending).await;
}

async fn take(worker: &mut Worker, item: &str) {
    let path = format!("{QUEUE_ROOT}/{item}");
    worker.call(Request::GetData(read(path.clone(), false))).await;
    let pending = worker.session.send(Request::Delete(versioned(path, 0)));
    worker.disturb();
    worker.finish(pending).await;
}
