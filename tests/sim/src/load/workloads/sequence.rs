//! Numbers that the servers give: none twice, and later ones greater.

use std::collections::VecDeque;

use zoolet_jute::{CreateMode, Reply, Request};

use crate::load::session::Outcome;
use crate::load::worker::{Worker, open_create, versioned};

/// The parent of the numbers.
pub const SEQUENCE_ROOT: &str = "/sequence";

/// How many znodes one client leaves.
const KEPT_MAX: usize = 8;

/// Draws numbers.
pub(in crate::load) async fn sequence(worker: &mut Worker) {
    let (mut is_ready, mut last) = (false, None);
    let mut kept = VecDeque::new();
    while !worker.is_stopped() {
        if !is_ready {
            is_ready = worker.ensure(&[SEQUENCE_ROOT]).await;
        }
        let mode = if worker.chance.one_in(2) {
            CreateMode::PersistentSequential
        } else {
            CreateMode::EphemeralSequential
        };
        let data = Some(worker.data.small());
        let body = open_create(format!("{SEQUENCE_ROOT}/id-"), data, mode);
        let pending = worker.session.send(Request::Create(body));
        worker.disturb();
        if let Outcome::Done(_, Reply::Path(path)) = worker.finish(pending).await {
            let number = path.rsplit('-').next().and_then(|digits| digits.parse::<i64>().ok());
            if number <= last {
                worker.complain(format!("{path} was created behind number {last:?}"));
            }
            last = number;
            kept.push_back(path);
        }
        if kept.len() > KEPT_MAX
            && let Some(path) = kept.pop_front()
        {
            worker.call(Request::Delete(versioned(path, -1))).await;
        }
        worker.drop_events();
        worker.think().await;
    }
}
