//! What is replicated, as this module sees it.

use std::fmt::Debug;
use std::io;

use bytes::Bytes;
use zoolet_jute::{Id, SessionId};
use zoolet_replica::state::Admitted;
use zoolet_replica::{Boot, ConnectionId, Input, Levels, ProposalNumber, Silences};
use zoolet_storage::LogPosition;

use crate::host::ConfigView;
use crate::snapshots::{Chunks, Staged, StateSnapshot};
use crate::transport::BoxFuture;

/// The replicated state and those who wait for it: the host.
pub(crate) trait Machine: Debug + Send + Sync + 'static {
    /// Applies the next batches of the log, each with its place, and yields to other tasks in
    /// between if that takes long. Returns how far this server's commands are admitted then.
    fn commit_many(&self, batches: Vec<(LogPosition, Bytes)>) -> BoxFuture<'_, Admitted>;

    /// How far this server's commands are admitted by the state.
    fn admitted(&self) -> Admitted;

    /// This server goes on under a number of a start that no earlier one has had. If that is another
    /// number than before, its commands so far are lost. Returns the number of the last of them.
    fn started(&self, boot: Boot) -> ProposalNumber;

    /// The feature levels that are agreed and offered.
    fn levels(&self) -> Levels;

    /// The wall clock, in milliseconds since 1970.
    fn wall_ms(&self) -> i64;

    /// The clock by which sessions are judged, in milliseconds.
    fn mono_ms(&self) -> u64;

    /// The digest of the state, which two servers share if their states are the same.
    fn digest(&self) -> u64;

    /// The version of the digest's definition: digests of other versions say nothing about the state.
    fn digest_version(&self) -> u8;

    /// Takes what has happened to the server: proposals, syncs and reconfigurations with an outcome
    /// or without, counted signs of life, its part in the ensemble and its lease, the members and
    /// their level.
    fn input(&self, input: Input);

    /// Takes signs of life of other servers' clients. Only the leader gets this. Returns the
    /// sessions that it does not count.
    fn touched(&self, sessions: Vec<SessionId>) -> Vec<SessionId>;

    /// Returns sessions whose connections have ended; without `all`, only those that were connected to
    /// this server.
    fn ended_connections(&self, after: u64, all: bool) -> Silences<u64>;

    /// Returns connected clients that have been silent for long.
    fn silent_connections(&self, after: ConnectionId) -> Silences<ConnectionId>;

    /// What decides whether these identities may change the ensemble.
    fn config_view(&self, identities: &[Id]) -> ConfigView;

    /// The state at this moment. It is written later, while commands go on being applied.
    fn snapshot(&self) -> StateSnapshot;

    /// Reads a state, which is checked on the way, and changes nothing yet. An error of the kind
    /// `InvalidData` says that the pieces are not a whole state, any other that they cannot be read
    /// here.
    fn stage(&self, chunks: Chunks) -> io::Result<Staged>;

    /// The last transaction that was applied.
    fn zxid(&self) -> u64;
}
