//! A walk over the whole tree through one server, for the end of a run: what it reads is held against
//! the model as all reads are, and that it comes to an end shows that the server serves.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use zoolet_jute::{AuthPacket, ErrorCode, PathRequest, Reply, Request};
use zoolet_replica::ServerId;

use super::chance::Chance;
use super::reconfig::SUPER_CREDENTIALS;
use super::session::{Outcome, Restore, SessionOptions};
use super::worker::{Pace, Worker, persistent, read};
use crate::load::ClientMachine;

/// The timeout of the session.
const TIMEOUT: Duration = Duration::from_secs(8);

/// Walks over the tree as the superuser, writes once, and closes the session. `machine` has this one
/// server. Notes when it has come to the end.
pub async fn walk(machine: ClientMachine, server: ServerId) {
    machine.recorder.walk_begins(server);
    let mut chance = Chance::new(machine.seed, u64::from(machine.client.0));
    let options = SessionOptions {
        client: machine.client,
        connector: machine.connector,
        servers: machine.servers,
        recorder: machine.recorder.clone(),
        timeout: TIMEOUT,
        in_flight_max: 16,
        restore: Restore::Together,
        eager_one_in: 0,
        has_read_only: true,
    };
    let (_not_stopped, stop) = watch::channel(false);
    let pace = Pace { think: Duration::ZERO, disturb_one_in: 0 };
    let worker = Worker::start(options, pace, chance.fork(), stop);
    let packet = AuthPacket {
        auth_type: 0,
        scheme: Some("digest".to_owned()),
        auth: Some(Bytes::from_static(SUPER_CREDENTIALS.as_bytes())),
    };
    worker.call(Request::Auth(packet)).await;
    let mut left = vec!["/".to_owned()];
    let mut znodes = 0;
    while let Some(path) = left.pop() {
        left.extend(look(&worker, &path).await);
        znodes += 1;
    }
    let body = persistent(format!("/walked-{}", machine.client.0), None);
    // A create that was not answered may have been carried out.
    while !matches!(
        worker.call(Request::Create(body.clone())).await,
        Outcome::Done(..) | Outcome::Refused(ErrorCode::NodeExists)
    ) {}
    machine.recorder.walk_ends(server, znodes);
    worker.session.close(TIMEOUT).await;
}

/// Reads all of a znode. Returns the paths of its children.
async fn look(worker: &Worker, path: &str) -> Vec<String> {
    loop {
        let data = worker.session.send(Request::GetData(read(path, false)));
        let acl = worker.session.send(Request::GetAcl(PathRequest { path: path.to_owned() }));
        let children = worker.call(Request::GetChildren2(read(path, false))).await;
        data.await;
        acl.await;
        match children {
            Outcome::Done(_, Reply::ChildrenStat(names, _)) => {
                let parent = path.trim_end_matches('/');
                return names.into_iter().map(|name| format!("{parent}/{name}")).collect();
            }
            // It has gone meanwhile.
            Outcome::Done(..) | Outcome::Refused(_) => return Vec::new(),
            Outcome::Unknown => {}
        }
    }
}
