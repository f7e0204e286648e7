//! What is replicated, as this module sees it.

use std::fmt::Debug;
use std::io;

use bytes::Bytes;
use zoolet_jute::{ErrorCode, Id, SessionId};
use zoolet_replica::state::Admitted;
use zoolet_replica::{FeatureLevel, Levels, Role, Written};

use crate::host::ConfigView;
use crate::snapshots::{Chunks, Staged, StateSnapshot};

/// The replicated state and those who wait for it: the host.
pub trait Machine: Debug + Send + Sync + 'static {
    /// The next batches of the log, each with the term of its leader. Returns how far this server's
    /// commands are admitted then.
    fn commit_many(&self, batches: Vec<(u64, Bytes)>) -> Admitted;

    /// How far this server's commands are admitted by the state.
    fn admitted(&self) -> Admitted;

    /// This server goes on under a number of a start that no earlier one has had. If that is another
    /// number than before, its commands so far are lost. Returns the number of the last of them.
    fn started(&self, boot: u64) -> u64;

    /// The feature levels that are agreed and offered.
    fn levels(&self) -> Levels;

    /// Takes note that all servers of the ensemble have this feature level. Only the leader gets it.
    fn level(&self, level: FeatureLevel);

    /// The wall clock, in milliseconds since 1970.
    fn wall_ms(&self) -> i64;

    /// The digest of the state, which two servers share if their states are the same.
    fn digest(&self) -> u64;

    /// The version of the digest's definition: digests of other versions say nothing about the state.
    fn digest_version(&self) -> u8;

    /// This server's state differs from the majority's: no client may be served from it, not even
    /// with reads.
    fn diverged(&self);

    /// The outcome of the proposals up to this number that are still unanswered is unknown.
    fn lost(&self, through: u64);

    /// Everything that was committed before these syncs were asked for is applied.
    fn synced(&self, through: u64);

    /// These syncs failed.
    fn sync_lost(&self, through: u64);

    /// Clients of other servers gave signs of life. Only the leader gets this. Returns the sessions that
    /// it does not count.
    fn touched(&self, sessions: Vec<SessionId>) -> Vec<SessionId>;

    /// A leader has counted these sessions, which touches up to this number reported.
    fn heard(&self, through: u64, sessions: Vec<SessionId>);

    /// This server no longer belongs to the ensemble.
    fn removed(&self);

    /// A reconfiguration is done, with what it has written if it has removed this server, and
    /// applied here otherwise; or it is refused.
    fn reconfigured(&self, number: u64, result: Result<Option<Written>, ErrorCode>);

    /// The outcome of a reconfiguration is unknown.
    fn reconfig_lost(&self, number: u64);

    /// The members of the ensemble, since it was changed: what a leader writes to
    /// `/zookeeper/config`, at once and in any case if `write`.
    fn members(&self, text: String, write: bool);

    /// What decides whether these identities may change the ensemble.
    fn config_view(&self, identities: &[Id]) -> ConfigView;

    /// The server's part in the ensemble has changed, or the term in which it leads, which is zero
    /// if it does not.
    fn role(&self, role: Role, term: u64);

    /// The state at this moment. It is written later, while commands go on being applied.
    fn snapshot(&self) -> StateSnapshot;

    /// Reads a state, which is checked on the way, and changes nothing yet. An error of the kind
    /// `InvalidData` says that the pieces are not a whole state, any other that they cannot be read
    /// here.
    fn stage(&self, chunks: Chunks) -> io::Result<Staged>;

    /// The last transaction that was applied.
    fn zxid(&self) -> u64;
}
