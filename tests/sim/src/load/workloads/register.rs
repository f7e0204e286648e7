//! Registers that are read, written and compared and set.

use zoolet_jute::{Reply, Request};

use crate::load::session::Outcome;
use crate::load::worker::{Worker, persistent, read, sync, write};

/// The parent of the registers.
pub const REGISTER_ROOT: &str = "/register";

const REGISTERS: [&str; 3] = ["/register/a", "/register/b", "/register/c"];

/// Reads and writes registers: over the version that was read, over any, or not at all.
pub(in crate::load) async fn register(worker: &mut Worker) {
    let mut is_ready = false;
    while !worker.is_stopped() {
        if !is_ready {
            is_ready = worker.ensure(&[REGISTER_ROOT]).await;
        }
        let path = worker.chance.pick(&REGISTERS).copied().unwrap_or(REGISTER_ROOT);
        if worker.chance.one_in(3) {
            worker.call(sync(path)).await;
        }
        match worker.call(Request::GetData(read(path, false))).await {
            Outcome::Done(_, Reply::Data(_, stat)) => {
                let version = if worker.chance.one_in(6) { -1 } else { stat.version };
                if !worker.chance.one_in(3) {
                    let data = worker.data.small();
                    let pending = worker.session.send(Request::SetData(write(path, data, version)));
                    worker.disturb();
                    worker.finish(pending).await;
                }
            }
            Outcome::Refused(_) => {
                let data = Some(worker.data.small());
                worker.call(Request::Create(persistent(path, data))).await;
            }
            Outcome::Done(..) | Outcome::Unknown => {}
        }
        worker.drop_events();
        worker.think().await;
    }
}
