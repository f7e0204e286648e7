//! Server to server: framed bytes over the [`Net`](crate::transport::Net) seam.
//!
//! A server calls another through a [`Link`], and answers calls through its [`PeerPort`]. Calls
//! of one link arrive in the order in which they were made; answers come in any order. Nothing
//! here reads the bodies of calls: `raft` and `replication` give each one an [`RpcKind`] and its body.
//!
//! A connection opens with a handshake in which both sides name the cluster, its founding,
//! themselves with their directories, and the format's version. Who begins with anything else is
//! closed at once and without an answer; who is of another cluster or version, or looks for another
//! server, gets a frame that says so and is closed. With a [`Secret`], both sides prove in the handshake that
//! they know it.

mod frame;
mod handshake;
mod link;
mod links;
mod port;
mod reach;
mod refusals;
mod rpc_kind;
mod secret;
mod tls;

pub use handshake::PeerIdentity;
pub(crate) use handshake::Target;
#[cfg(feature = "internals")]
pub use handshake::opening_of;
pub(crate) use link::{CallError, Link, LinkOptions, Urgency};
pub(crate) use links::{Links, SNAPSHOT_INSTALL_MAX, SNAPSHOT_SILENCE_MAX};
pub use port::{Answer, Call, PeerPort, PeerPortOptions, Service};
pub(crate) use reach::Reach;
pub(crate) use rpc_kind::{RpcKind, SNAPSHOT_DAMAGED, SNAPSHOT_LATER};
pub(crate) use secret::{Secret, SecretError};
pub use tls::PeerTls;

/// What a connection is for. Each lane has a connection of its own, so that what must be quick
/// never waits behind what is large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Heartbeats and votes: small, and late ones cost a leader its term.
    Control = 1,
    /// Log entries.
    Append = 2,
    /// What clients wait for: proposals.
    Request = 3,
    /// Snapshots.
    Snapshot = 4,
    /// What servers ask each other before they belong to one ensemble.
    Question = 5,
    /// Small questions that clients wait for, too: read indexes, touched sessions. Over a slow
    /// link they must not wait behind proposals.
    Query = 6,
}

impl Lane {
    /// All lanes.
    pub const ALL: [Self; 6] =
        [Self::Control, Self::Append, Self::Request, Self::Snapshot, Self::Question, Self::Query];

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|lane| *lane as u8 == byte)
    }
}

/// The longest frames, in bytes: each lane takes what it needs, and no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLimits {
    /// On lanes that carry nothing large.
    pub small: usize,
    /// On lanes that carry entries, proposals and snapshots.
    pub large: usize,
}

impl FrameLimits {
    /// The longest frame of a lane, in bytes.
    pub fn of(self, lane: Lane) -> usize {
        match lane {
            Lane::Control | Lane::Question | Lane::Query => self.small,
            Lane::Append | Lane::Request | Lane::Snapshot => self.large,
        }
    }
}

impl std::fmt::Display for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Control => "control",
            Self::Append => "append",
            Self::Request => "request",
            Self::Snapshot => "snapshot",
            Self::Question => "question",
            Self::Query => "query",
        })
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod unproved_tests;
