//! Watches as values.

use tokio::sync::{mpsc, oneshot};
use zoolet_jute::{EventType, WatcherEvent, Zxid};

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

/// A watch that fires once.
#[derive(Debug)]
pub struct OneshotWatcher {
    receiver: oneshot::Receiver<WatchedEvent>,
}

impl OneshotWatcher {
    pub(crate) fn new(receiver: oneshot::Receiver<WatchedEvent>) -> Self {
        Self { receiver }
    }

    /// Waits until the watch fires; an error tells that the session has ended before.
    pub async fn changed(self) -> Result<WatchedEvent, Error> {
        self.receiver.await.map_err(|_| ErrorKind::SessionExpired.into())
    }
}

/// A watch that stays. Dropping it stops the delivery here; the registration on the server goes
/// with the session.
#[derive(Debug)]
pub struct PersistentWatcher {
    receiver: mpsc::Receiver<WatchedEvent>,
}

impl PersistentWatcher {
    pub(crate) fn new(receiver: mpsc::Receiver<WatchedEvent>) -> Self {
        Self { receiver }
    }

    /// Waits for the next event; an error tells that the session has ended, or that the watcher
    /// was too slow and has missed events.
    pub async fn changed(&mut self) -> Result<WatchedEvent, Error> {
        self.receiver.recv().await.ok_or_else(|| ErrorKind::SessionExpired.into())
    }
}
