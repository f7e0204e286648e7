//! The last look at the servers, for the pages that show it.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::ensemble::Address;

/// How long servers are looked at after the last page has asked.
const LOOKED_AT: Duration = Duration::from_secs(10);

/// The last look, as JSON, and those who want the next.
#[derive(Debug)]
pub(crate) struct Shown {
    latest: watch::Sender<Bytes>,
    wanted: watch::Sender<Option<Instant>>,
    /// The servers of the last look, the named ones first.
    addresses: watch::Sender<Vec<Address>>,
}

impl Default for Shown {
    fn default() -> Self {
        let (latest, wanted) = (watch::Sender::new(Bytes::new()), watch::Sender::new(None));
        Self { latest, wanted, addresses: watch::Sender::new(Vec::new()) }
    }
}

impl Shown {
    pub(crate) fn publish(&self, look: Bytes) {
        self.latest.send_replace(look);
    }

    pub(crate) fn set_addresses(&self, addresses: Vec<Address>) {
        self.addresses.send_replace(addresses);
    }

    /// Returns when a page has last asked, and changes of that.
    pub(crate) fn wanted(&self) -> watch::Receiver<Option<Instant>> {
        self.wanted.subscribe()
    }

    /// Returns the looks from now on; the first one is empty until there was one.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Bytes> {
        self.want();
        self.latest.subscribe()
    }

    /// Notes that a page shows the servers.
    pub(crate) fn want(&self) {
        self.wanted.send_replace(Some(Instant::now()));
    }

    /// Returns the last look; waits for one if there is none that is new enough.
    pub(crate) async fn now(&self) -> Bytes {
        let is_wanted = self.is_wanted();
        let mut latest = self.subscribe();
        if is_wanted && !latest.borrow().is_empty() {
            return latest.borrow().clone();
        }
        // The sender lives as long as this.
        let _ = latest.changed().await;
        latest.borrow().clone()
    }

    /// Returns all servers of the ensemble, as far as they are known.
    pub(crate) async fn addresses(&self) -> Vec<Address> {
        if self.addresses.borrow().is_empty() || !self.is_wanted() {
            self.now().await;
        }
        self.want();
        self.addresses.borrow().clone()
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.borrow().is_some_and(|at| at.elapsed() < LOOKED_AT)
    }
}
