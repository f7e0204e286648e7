//! Servers that are started with the directories of others.

use std::collections::BTreeMap;

use zoolet_replica::ServerId;
use zoolet_storage::Image;

use crate::world::{Server, World};

/// The servers that have the directories of others, and their own ones. None of them may start.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    own: BTreeMap<ServerId, Image>,
}

impl Exchanges {
    /// Whether both servers have their own directories, and the other one's is in use.
    pub(super) fn may_begin(&self, server: ServerId, of: ServerId, world: &World) -> bool {
        // An empty one would be the loss of a disk, and a copy that has come round an old one of its own.
        let is_in_use = world.servers.get(&of).is_some_and(Server::has_directory);
        !self.has_begun(server) && !self.has_begun(of) && is_in_use
    }

    /// Starts a server with a copy of the directory of another one.
    pub(super) fn begin(&mut self, server: ServerId, of: ServerId, world: &mut World) {
        let Some(mut theirs) = world.servers.get(&of).map(|it| it.disk().image()) else { return };
        theirs.settle();
        let Some(it) = world.servers.get_mut(&server) else { return };
        it.kill();
        self.own.insert(server, it.disk().image());
        it.exchange_disk(theirs);
        world.start(server);
    }

    /// Whether a server has the directory of another one.
    pub(super) fn has_begun(&self, server: ServerId) -> bool {
        self.own.contains_key(&server)
    }

    /// A server has an empty disk, which it keeps.
    pub(super) fn forget(&mut self, server: ServerId) {
        self.own.remove(&server);
    }

    /// Starts a server with its own directory again.
    pub(super) fn end(&mut self, server: ServerId, world: &mut World) {
        let Some(own) = self.own.remove(&server) else { return };
        if let Some(it) = world.servers.get_mut(&server) {
            it.kill();
            it.exchange_disk(own);
            world.start(server);
        }
    }
}
