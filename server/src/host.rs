//! The host: the lock around the replica, and where its outputs go.

use std::fmt::Debug;

use zoolet_jute::SessionId;

use crate::replica::Command;

/// Where a replica's wishes go.
///
/// All calls happen under the host's lock and in the order of the outputs, so an implementation
/// only puts what it is given into a queue and returns.
pub trait Proposals: Debug + Send + Sync + 'static {
    /// Puts a command into the log. Its number is one more than the last one's.
    fn propose(&self, command: Command);

    /// Finds out up to where the log is committed now, sees to it that everything up to there is
    /// applied here, and then says [`crate::replica::Input::Synced`].
    fn sync(&self, number: u64);

    /// Tells the leader that these sessions' clients were heard of.
    fn touch(&self, sessions: Vec<SessionId>);
}
