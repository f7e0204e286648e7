//! The state of a server as a backup: the bytes of a snapshot file (`docs/storage.md`), whose place in
//! the log is left out.

use std::fmt::{self, Debug};

use bytes::Bytes;
use zoolet_replica::state::SnapshotView;
use zoolet_storage::{LogIndex, SnapshotEncoder, SnapshotName};

/// The state at one moment, on its way out: an iterator over the bytes of a snapshot file. As long
/// as it lives, what is changed meanwhile is in memory twice.
pub struct Backup {
    zxid: u64,
    digest: u64,
    /// The header, until it is taken.
    header: Option<Bytes>,
    view: SnapshotView,
    /// What of the last piece has not gone into a chunk.
    piece: Bytes,
    /// Gone behind the end.
    encoder: Option<SnapshotEncoder>,
}

impl Backup {
    /// Begins with a state. Zxids of an ensemble that is restored from it begin above `term`.
    pub(super) fn of(view: SnapshotView, term: u64) -> Self {
        let zxid = view.last_zxid();
        let term = term.max(u64::from(zxid.epoch()));
        let name = SnapshotName { term, index: LogIndex(0), zxid: zxid.0.cast_unsigned() };
        // Without metadata nothing can be too long.
        let begun = SnapshotEncoder::begin(name, &Bytes::new()).ok();
        let (encoder, header) = begun.unzip();
        let (zxid, digest) = (name.zxid, view.digest());
        Self { zxid, digest, header, view, piece: Bytes::new(), encoder }
    }

    /// Returns the last transaction in it.
    pub fn zxid(&self) -> u64 {
        self.zxid
    }
}

impl Iterator for Backup {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if let Some(header) = self.header.take() {
            return Some(header);
        }
        let encoder = self.encoder.as_mut()?;
        loop {
            let mut rest = self.piece.as_ref();
            let chunk = encoder.fill(&mut rest);
            let taken = self.piece.len() - rest.len();
            self.piece = self.piece.split_off(taken);
            if chunk.is_some() {
                return chunk;
            }
            match self.view.next() {
                Some(piece) => self.piece = piece,
                None => break,
            }
        }
        Some(self.encoder.take()?.end(self.digest))
    }
}

impl Debug for Backup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backup").field("zxid", &self.zxid).finish_non_exhaustive()
    }
}
