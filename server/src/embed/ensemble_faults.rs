//! What a test can do to the network and the sessions of an embedded ensemble.

use super::ensemble::Ensemble;
use super::error::EmbedError;
use super::thread::Standing;

impl Ensemble {
    /// Cuts a running server off from the other servers: nothing arrives and nothing leaves, and no
    /// connection breaks, as behind a router that drops packets. Its clients still reach it. Without a
    /// majority it stops serving them after a while. The cut ends with [`Ensemble::heal`], or when the
    /// server ends.
    pub fn cut(&mut self, server: usize) -> Result<(), EmbedError> {
        self.controls(server)?.cut_peers();
        Ok(())
    }

    /// Cuts a running server off from its clients, in the same way.
    pub fn cut_clients(&mut self, server: usize) -> Result<(), EmbedError> {
        self.controls(server)?.cut_clients();
        Ok(())
    }

    /// Ends the cuts of a running server. Connections that neither side has given up go on.
    pub fn heal(&mut self, server: usize) -> Result<(), EmbedError> {
        self.controls(server)?.heal();
        Ok(())
    }

    /// Ends a session as if its timeout were over, though its client is alive. Returns when the leader
    /// has decided it; the client learns of it a moment later. False if no server leads, or the
    /// session does not exist.
    pub fn expire_session(&self, session: i64) -> bool {
        self.leader().is_some_and(|leader| self.expire_by(leader, session))
    }

    fn controls(&mut self, index: usize) -> Result<crate::node::Controls, EmbedError> {
        let server = self.expect(index, &[Standing::Running])?;
        let is = Standing::Stopped.name();
        server.controls().ok_or(EmbedError::WrongState { server: index, is })
    }
}
