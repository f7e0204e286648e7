//! A copy of a part of the tree, kept by a recursive watch, in clients that also change it.
//!
//! An event precedes every reply that shows its change (protocol §8.5). So a znode that a reply shows
//! changed, and of which no event has come since it was read last, is an event that was missed.

use std::collections::BTreeMap;

use zoolet_jute::{AddWatchMode, AddWatchRequest, ErrorCode, Reply, Request, Zxid};

use crate::load::session::{Outcome, SessionEvent};
use crate::load::worker::{Worker, persistent, read, sync, versioned, write};

/// The root of what is mirrored.
pub const MIRROR_ROOT: &str = "/mirror";

/// The znodes below it.
const NODES: [&str; 6] =
    ["/mirror/a", "/mirror/b", "/mirror/a/1", "/mirror/a/2", "/mirror/b/1", "/mirror/c"];

/// When each znode was written last, or `None` if it was not there. What an event has made old is
/// taken out.
type Copied = BTreeMap<&'static str, Option<Zxid>>;

/// The copy, and whether it is kept.
#[derive(Debug, Default)]
struct Mirror {
    copied: Copied,
    is_watching: bool,
    /// The znode that is being read, until an event says that the reply may be old already.
    reading: Option<&'static str>,
}

/// Keeps the copy, compares it with what it reads, and changes the tree.
pub(in crate::load) async fn mirror(worker: &mut Worker) {
    let mut mirror = Mirror::default();
    while !worker.is_stopped() {
        mirror.take_events(worker);
        if !mirror.is_watching {
            mirror.begin(worker).await;
        }
        if worker.chance.one_in(2) {
            change(worker).await;
        } else {
            if worker.chance.one_in(3) {
                worker.call(sync(MIRROR_ROOT)).await;
            }
            mirror.compare(worker).await;
        }
        worker.think().await;
    }
}

impl Mirror {
    /// Takes out what events have made old. Returns whether the connection is the same as before.
    fn take_events(&mut self, worker: &mut Worker) -> bool {
        let mut is_same = true;
        while let Some(event) = worker.next_event() {
            match event {
                SessionEvent::Watch(event) => {
                    self.copied.remove(event.path.as_str());
                    self.reading = self.reading.filter(|path| *path != event.path);
                }
                // Events of a lasting watch that are missed meanwhile do not come later.
                SessionEvent::Disconnected => {
                    self.copied.clear();
                    is_same = false;
                }
                SessionEvent::Connected { keeps_watches, .. } => {
                    self.copied.clear();
                    self.is_watching &= keeps_watches;
                    is_same = false;
                }
            }
        }
        is_same
    }

    async fn begin(&mut self, worker: &mut Worker) {
        if !worker.ensure(&[MIRROR_ROOT]).await {
            return;
        }
        self.take_events(worker);
        self.copied.clear();
        let mode = AddWatchMode::PersistentRecursive;
        let body = AddWatchRequest { path: MIRROR_ROOT.to_owned(), mode };
        let outcome = worker.call(Request::AddWatch(body)).await;
        // A watch of a connection that was replaced meanwhile went with it.
        let is_same = self.take_events(worker);
        self.is_watching = is_same && matches!(outcome, Outcome::Done(..));
    }

    async fn compare(&mut self, worker: &mut Worker) {
        let path = worker.chance.pick(&NODES).copied().unwrap_or(MIRROR_ROOT);
        self.take_events(worker);
        self.reading = Some(path);
        let seen = match worker.call(Request::Exists(read(path, false))).await {
            Outcome::Done(_, Reply::Stat(stat)) => Some(stat.mzxid),
            Outcome::Refused(ErrorCode::NoNode) => None,
            Outcome::Done(..) | Outcome::Refused(_) | Outcome::Unknown => return,
        };
        // A reply of a connection that was replaced meanwhile says nothing of what the watch shows.
        if !self.take_events(worker) || !self.is_watching {
            return;
        }
        if let Some(known) = self.copied.get(path)
            && *known != seen
        {
            worker.complain(format!("{path} went from {known:?} to {seen:?} without an event"));
        }
        // Events that came behind the reply have been taken as well.
        if self.reading.take().is_some() {
            self.copied.insert(path, seen);
        }
    }
}

async fn change(worker: &mut Worker) {
    let path = worker.chance.pick(&NODES).copied().unwrap_or(MIRROR_ROOT);
    let request = match worker.chance.between(0..=2) {
        0 => Request::Create(persistent(path, Some(worker.data.small()))),
        1 => Request::SetData(write(path, worker.data.small(), -1)),
        _ => Request::Delete(versioned(path, -1)),
    };
    let pending = worker.session.send(request);
    worker.disturb();
    worker.finish(pending).await;
}
