//! The kinds of calls between servers.

/// Defines the kinds with their numbers on the wire.
macro_rules! rpc_kinds {
    ($($(#[$doc:meta])* $kind:ident = $code:literal,)+) => {
        /// What a call between servers asks for; the numbers are those on the wire.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum RpcKind {
            $($(#[$doc])* $kind = $code,)+
        }

        impl RpcKind {
            /// Returns the kind of this number on the wire.
            pub(crate) const fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$kind),)+
                    _ => None,
                }
            }
        }
    };
}

rpc_kinds! {
    /// Entries of the log, from the leader.
    Append = 1,
    /// Asks for a vote.
    Vote = 2,
    /// Asks whether there would be a vote.
    PreVote = 3,
    /// Makes the receiver the next leader.
    TransferLeader = 4,
    /// The first message of a snapshot: its vote, name and header.
    SnapshotBegin = 5,
    /// A piece of the snapshot that was begun.
    SnapshotChunk = 6,
    /// The last message of a snapshot: its digest.
    SnapshotEnd = 7,
    /// Puts a batch of commands into the log of the leader.
    Propose = 8,
    /// Asks the leader up to where the log is committed.
    ReadIndex = 9,
    /// Reports the sessions that have been active to the leader.
    Touch = 10,
    /// Asks which founding and which directory the peer has.
    Status = 11,
    /// Asks the leader for a change of the membership.
    Reconfig = 12,
    /// Reports a membership without the receiver.
    Removed = 13,
    /// Agrees on the founding of a new ensemble.
    Found = 14,
    /// Asks for the state's digests after some entries.
    Digest = 15,
    /// Asks for the feature level that the server offers.
    Level = 20,
}

impl RpcKind {
    /// Returns its number on the wire.
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }
}

/// The answer to the end of a snapshot, in the place of a vote: what was received is damaged. To its begin
/// and its pieces, an empty answer means that they are taken.
pub(crate) const SNAPSHOT_DAMAGED: &[u8] = &[];
/// The answer to any part of a snapshot that the receiver cannot keep now. A leader of an earlier release
/// knows it at the end alone: before that it sends the next piece, which belongs to no snapshot, and the
/// connection ends.
pub(crate) const SNAPSHOT_LATER: &[u8] = &[1];
