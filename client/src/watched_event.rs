//! The event of a watch.

use zoolet_jute::{EventType, WatcherEvent, Zxid};

/// What a watch saw.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
