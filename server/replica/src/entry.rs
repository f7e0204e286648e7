//! A committed entry as it was decoded, which the host does before it takes its lock: an entry can
//! be megabytes long.

use bytes::Bytes;
use zoolet_jute::DecodeError;

use super::command::{Batch, Op};

/// A decoded entry of the log, or why this release cannot read it.
#[derive(Clone, Debug)]
pub struct DecodedEntry {
    pub(super) batch: Result<Batch, DecodeError>,
    /// The length of its bytes, and the first of them, for the report of an unreadable one.
    pub(super) length: usize,
    pub(super) first_bytes: Option<[u8; 8]>,
}

impl DecodedEntry {
    /// Decodes an entry of the log: a [`Batch`]. Each server does it once for each entry. A leader
    /// has decoded a peer's batch before, to see that it can be read and which level it needs, but
    /// what it applies is what its log has.
    pub fn decode(bytes: Bytes) -> Self {
        let (length, first_bytes) = (bytes.len(), bytes.first_chunk::<8>().copied());
        Self { batch: Batch::decode(bytes), length, first_bytes }
    }

    /// Returns the leader's wall clock when it put the batch into its log, in milliseconds since 1970.
    pub fn stamped_ms(&self) -> Option<i64> {
        self.batch.as_ref().ok().map(|batch| batch.now_ms)
    }

    /// Returns how many sessions are to be resumed by it.
    pub fn resumed(&self) -> usize {
        let commands = self.batch.iter().flat_map(|batch| &batch.commands);
        commands.filter(|command| matches!(command.op, Op::ResumeSession { .. })).count()
    }
}
