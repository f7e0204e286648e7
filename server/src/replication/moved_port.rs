//! The second peer port of a server that a change of the ensemble has moved.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::sleep;

use crate::consensus::Membership;
use crate::node_id::NodeId;
use crate::peer::{PeerPort, PeerPortOptions, Service};
use crate::transport::Net;

/// The pause before a port that can't be opened is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Listens where a change of the ensemble has put this server, and goes on listening where it was:
/// the others may not know of the change yet, or may have been restarted since.
#[derive(Debug)]
pub(super) struct MovedPort {
    pub node: NodeId,
    pub net: Arc<dyn Net>,
    /// Those of the port that is open since the start.
    pub options: PeerPortOptions,
    pub service: Arc<dyn Service>,
    /// By their ports. `None` is one that cannot be opened, which is reported once.
    pub opened: Mutex<BTreeMap<String, Option<PeerPort>>>,
}

impl MovedPort {
    /// Returns the port and address that are to be opened.
    pub(super) fn wanted(&self, membership: &Membership) -> Option<(String, String)> {
        let (port, address) = self.moved_to(membership)?;
        let is_missing = self.lock().get(&port).is_none_or(Option::is_none);
        is_missing.then_some((port, address))
    }

    /// Opens a port that is wanted. If it can't be opened there is a pause before another attempt.
    pub(super) async fn open(&self, (port, address): (String, String)) {
        let options = PeerPortOptions { address: address.clone(), ..self.options.clone() };
        let service = Arc::clone(&self.service);
        match PeerPort::listen(&*self.net, options, service).await {
            Ok(listening) => {
                tracing::info!(%address, "listening at the new peer address too");
                self.lock().insert(port, Some(listening));
            }
            Err(error) => {
                if self.lock().insert(port, None).is_none() {
                    tracing::warn!(%address, %error, "cannot listen at the new address of the peer port");
                }
                sleep(RETRY_PAUSE).await;
            }
        }
    }

    /// The port and address where the others look for this server, if it is another port than
    /// that of its start.
    fn moved_to(&self, membership: &Membership) -> Option<(String, String)> {
        // Before the first change the configuration files say where everyone is.
        let member = membership.node(self.node).filter(|known| !known.line.is_empty())?;
        let (_, port) = member.address.rsplit_once(':')?;
        let (host, first_port) = self.options.address.rsplit_once(':')?;
        let is_wildcard = ["0.0.0.0", "[::]"].contains(&host);
        let address = if is_wildcard { format!("{host}:{port}") } else { member.address.clone() };
        (port != first_port).then(|| (port.to_owned(), address))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Option<PeerPort>>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
