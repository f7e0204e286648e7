//! What a test of a program can do to a running server: cut it off, and end sessions.

use std::sync::Arc;

use zoolet_jute::SessionId;

use super::Seams;
use crate::host::Host;
use crate::partition::{Partition, PartitionedNet};
use crate::transport::Net;

/// Changes a running server for a test. Clones change the same server.
#[derive(Clone, Debug)]
pub(crate) struct Controls {
    pub(super) host: Arc<Host>,
    pub(super) partitions: Partitions,
}

/// What a server can be cut off from.
#[derive(Clone, Debug, Default)]
pub(super) struct Partitions {
    peers: Arc<Partition>,
    clients: Arc<Partition>,
}

impl Partitions {
    /// The network between the servers.
    pub(super) fn peer_net(&self, seams: &Seams) -> Arc<dyn Net> {
        Arc::new(PartitionedNet::new(Arc::clone(&seams.net), Arc::clone(&self.peers)))
    }

    /// The network of the clients.
    pub(super) fn client_net(&self, seams: &Seams) -> Arc<dyn Net> {
        Arc::new(PartitionedNet::new(Arc::clone(&seams.net), Arc::clone(&self.clients)))
    }
}

impl Controls {
    /// Cuts the server off from the other servers.
    pub(crate) fn cut_peers(&self) {
        self.partitions.peers.cut();
    }

    /// Cuts the server off from its clients.
    pub(crate) fn cut_clients(&self) {
        self.partitions.clients.cut();
    }

    /// Ends all cuts.
    pub(crate) fn heal(&self) {
        self.partitions.peers.heal();
        self.partitions.clients.heal();
    }

    /// Ends a session as if its timeout were over. False if this server does not lead, or has no such
    /// session.
    pub(crate) fn expire(&self, session: SessionId) -> bool {
        self.host.expire(session)
    }
}
