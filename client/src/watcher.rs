//! Watches as values.

use tokio::sync::{mpsc, oneshot};
use zoolet_jute::{EventType, WatcherEvent, WatcherType, Zxid};

use crate::session::task::Call;
use crate::{Error, ErrorKind};

/// What a watch saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedEvent {
    /// What happened.
    pub event_type: EventType,
    /// The znode it happened to.
    pub path: String,
    /// The transaction that did it; [`Zxid::NONE`] when it was found after a reconnect, and from
    /// servers before 3.9.
    pub zxid: Zxid,
}

impl WatchedEvent {
    pub(crate) fn new(event: &WatcherEvent, zxid: Zxid) -> Self {
        Self { event_type: event.event_type, path: event.path.clone(), zxid }
    }
}

/// What a dropped watcher tells its session's task: that nobody waits any more.
#[derive(Debug)]
pub(crate) struct Forgetting {
    pub(crate) calls: mpsc::WeakSender<Call>,
    pub(crate) kind: WatcherType,
    pub(crate) path: String,
}

impl Forgetting {
    fn tell(&mut self) {
        // Without a client there is no session. When the task is too busy to be told, the watch
        // stays with the server until it fires or the connection ends.
        if let Some(calls) = self.calls.upgrade() {
            let path = std::mem::take(&mut self.path);
            let _ = calls.try_send(Call::Forget(self.kind, path));
        }
    }
}

/// A watch that fires once. Dropping it removes it, from the server too unless another watcher of
/// this client waits for the same.
#[derive(Debug)]
pub struct OneshotWatcher {
    receiver: oneshot::Receiver<WatchedEvent>,
    forgetting: Forgetting,
}

impl OneshotWatcher {
    pub(crate) fn new(receiver: oneshot::Receiver<WatchedEvent>, forgetting: Forgetting) -> Self {
        Self { receiver, forgetting }
    }

    /// Waits until the watch fires; an error tells that the session has ended before.
    pub async fn changed(mut self) -> Result<WatchedEvent, Error> {
        (&mut self.receiver).await.map_err(|_| ErrorKind::SessionExpired.into())
    }
}

impl Drop for OneshotWatcher {
    fn drop(&mut self) {
        let waits = !self.receiver.is_terminated() && self.receiver.is_empty();
        self.receiver.close();
        if waits {
            self.forgetting.tell();
        }
    }
}

/// A watch that stays until it is dropped, which removes it, from the server too unless another
/// watcher of this client watches the same.
#[derive(Debug)]
pub struct PersistentWatcher {
    receiver: mpsc::Receiver<WatchedEvent>,
    forgetting: Forgetting,
}

impl PersistentWatcher {
    pub(crate) fn new(receiver: mpsc::Receiver<WatchedEvent>, forgetting: Forgetting) -> Self {
        Self { receiver, forgetting }
    }

    /// Waits for the next event; an error tells that the session has ended, or that the watcher
    /// was too slow and has missed events.
    pub async fn changed(&mut self) -> Result<WatchedEvent, Error> {
        self.receiver.recv().await.ok_or_else(|| ErrorKind::SessionExpired.into())
    }
}

impl Drop for PersistentWatcher {
    fn drop(&mut self) {
        self.receiver.close();
        self.forgetting.tell();
    }
}
