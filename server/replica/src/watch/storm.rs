//! The notifications of a command's changes, in bounded steps: one change may have a hundred thousand
//! watchers, and one command may make a hundred thousand changes.

use std::collections::VecDeque;
use std::sync::Arc;

use zoolet_jute::{Acl, EventType, KeeperState, WatcherEvent, Zxid, perms};

use super::mode::Trigger;
use super::table::parent;
use crate::cost;
use crate::state::{Change, State};
use crate::{ConnectionId, Output, Replica};

/// The work of a notification, in units of about a microsecond: it is put into an outbox that is in
/// no cache, and wakes a task.
const NOTIFICATION_WORK: usize = 4;

/// How many bytes are copied in such a unit.
const COPIED_BYTES: usize = 4 << 10;

/// The changes of a command whose watchers are not notified yet, in order. Watches fire change by
/// change: the second finds those used up that the first has used up.
#[derive(Debug, Default)]
pub(crate) struct Storm {
    fired: VecDeque<Fired>,
    /// The first of them, while its watchers are being notified.
    current: Option<(PathEvent, std::vec::IntoIter<ConnectionId>)>,
}

#[derive(Debug)]
enum Fired {
    Change(Change),
    /// A child of this path came or went.
    Children(PathEvent),
}

/// What happened to a path, and who may know it.
#[derive(Debug)]
struct PathEvent {
    kind: EventType,
    trigger: Trigger,
    path: String,
    acl: Arc<[Acl]>,
}

impl Storm {
    pub(crate) fn push(&mut self, change: Change) {
        self.fired.push_back(Fired::Change(change));
    }

    /// How many changes have watchers that are not notified yet.
    pub(crate) fn len(&self) -> usize {
        self.fired.len() + usize::from(self.current.is_some())
    }

    /// The next event. The one at the parent comes right behind the one at the child.
    fn next_event(&mut self) -> Option<PathEvent> {
        let change = match self.fired.pop_front()? {
            Fired::Children(event) => return Some(event),
            Fired::Change(change) => change,
        };
        let (kind, trigger, path, acl, parent_acl) = match change {
            Change::Created { path, acl, parent_acl, .. } => {
                (EventType::NodeCreated, Trigger::Data, path, acl, Some(parent_acl))
            }
            Change::Deleted { path, acl, parent_acl, .. } => {
                (EventType::NodeDeleted, Trigger::Both, path, acl, Some(parent_acl))
            }
            Change::DataChanged { path, acl, .. } => {
                (EventType::NodeDataChanged, Trigger::Data, path, acl, None)
            }
            Change::AclChanged { .. }
            | Change::SessionOpened(_)
            | Change::SessionResumed { .. }
            | Change::SessionClosed(_) => return self.next_event(),
        };
        let is_quiet = kind == EventType::NodeDeleted && planted!("delete-leaves-the-parent-quiet");
        if let (Some(acl), Some(parent)) = (parent_acl.filter(|_| !is_quiet), parent(&path)) {
            let (kind, trigger) = (EventType::NodeChildrenChanged, Trigger::Child);
            let event = PathEvent { kind, trigger, path: parent.to_owned(), acl };
            self.fired.push_front(Fired::Children(event));
        }
        Some(PathEvent { kind, trigger, path, acl })
    }
}

impl Replica {
    /// Notifies watchers of what a command has changed; false if there is nothing left to do.
    pub(crate) fn notify_some(&mut self, zxid: Zxid, out: &mut Vec<Output>) -> bool {
        let (event, mut targets) = if let Some(current) = self.storm.current.take() {
            current
        } else {
            let Some(event) = self.storm.next_event() else { return false };
            let targets = self.watches.targets(&event.path, event.trigger);
            // Collecting them is a small part of the work.
            self.spend(1 + targets.len() / 256 + cost::units(cost::of_path(&event.path)));
            (event, targets.into_iter())
        };
        let target_work = 1 + cost::units(cost::of_watch(&event.path));
        let skip_acl = self.options.policy.skip_acl;
        // One for all watchers: a path may be as long as a frame.
        let notice = Arc::new(WatcherEvent {
            event_type: event.kind,
            state: KeeperState::SyncConnected,
            path: event.path.clone(),
        });
        while self.budget > 0
            && let Some(connection) = targets.next()
        {
            self.spend(target_work);
            self.watches.consume(connection, &event.path, event.trigger);
            let Some(watching) = self.connections.get(&connection) else { continue };
            // A client that may not read is not notified; a one-shot watch is used up all the same (§8.7).
            let identities = &watching.identities;
            let (may_read, cost) = State::judge(&event.acl, perms::READ, identities, skip_acl);
            self.spend(cost::units(cost));
            if may_read || planted!("events-for-all-to-read") {
                let event_bytes = notice.path.len();
                let event = Arc::clone(&notice);
                out.push(Output::Notify { connection, zxid, event });
                self.spend(NOTIFICATION_WORK + event_bytes / COPIED_BYTES);
            }
        }
        if targets.len() > 0 {
            self.storm.current = Some((event, targets));
        }
        true
    }
}
