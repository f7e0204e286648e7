//! The second peer port of a server that a change of the ensemble has moved.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::handle::ConsensusHandle;
use crate::peer::{PeerPort, PeerPortOptions, Service};
use crate::transport::Net;

/// The pause between two looks at where the others look for this server.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// Listens where a change of the ensemble has put this server, and goes on listening where it was:
/// the others may not know of the change yet, or may have been restarted since.
#[derive(Debug)]
pub(super) struct MovedPort {
    pub handle: ConsensusHandle,
    pub net: Arc<dyn Net>,
    /// Those of the port that is open since the start.
    pub options: PeerPortOptions,
    pub service: Arc<dyn Service>,
}

impl MovedPort {
    pub(super) async fn run(self) {
        // By their ports. `None` is one that cannot be opened, which is reported once.
        let mut opened: BTreeMap<String, Option<PeerPort>> = BTreeMap::new();
        loop {
            if let Some((port, address)) = self.moved_to()
                && opened.get(&port).is_none_or(Option::is_none)
            {
                let options = PeerPortOptions { address: address.clone(), ..self.options.clone() };
                let service = Arc::clone(&self.service);
                match PeerPort::listen(&*self.net, options, service).await {
                    Ok(listening) => {
                        tracing::info!(%address, "listening at the new peer address too");
                        opened.insert(port, Some(listening));
                    }
                    Err(error) if opened.insert(port, None).is_none() => {
                        tracing::warn!(%address, %error, "cannot listen at the new address of the peer port");
                    }
                    Err(_) => {}
                }
            }
            sleep(LOOK_PAUSE).await;
        }
    }

    /// The port and address where the others look for this server, if it is another port than
    /// that of its start.
    fn moved_to(&self) -> Option<(String, String)> {
        let membership = self.handle.view().membership;
        // Before the first change the configuration files say where everyone is.
        let member = membership.node(self.handle.node()).filter(|known| !known.line.is_empty())?;
        let (_, port) = member.address.rsplit_once(':')?;
        let (host, first_port) = self.options.address.rsplit_once(':')?;
        let is_wildcard = ["0.0.0.0", "[::]"].contains(&host);
        let address = if is_wildcard { format!("{host}:{port}") } else { member.address.clone() };
        (port != first_port).then(|| (port.to_owned(), address))
    }
}
