//! What can go wrong with the disk, one variant per decision the server can take.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use crate::panic::panicked;

/// A failure of the storage. It can be cloned, because many callers get the error of one write.
#[derive(Debug, Clone, Error)]
pub enum StorageError {
    /// A disk call failed. After a failed write or sync the content of the disk is unknown, so
    /// the log that made the call refuses everything from then on.
    #[error("{}", IoMessage { op, path, source })]
    Io { op: &'static str, path: PathBuf, source: Arc<io::Error> },

    /// Bytes that were durable once are not what was written. The server must not start from
    /// them; one that has peers can be rebuilt from those.
    #[error("{} is damaged at byte {offset}: {what}", .file.display())]
    Corrupt { file: PathBuf, offset: u64, what: String },

    /// The log was closed. One that has failed says why it has.
    #[error("the log is closed")]
    Closed,

    /// Another process, or another server in this one, has the directory open.
    #[error("{} is in use by another server", .path.display())]
    Locked { path: PathBuf },

    /// The directory was made by a server with another id.
    #[error("{} belongs to server {found}, but this is server {expected}", .path.display())]
    WrongServer { path: PathBuf, found: u64, expected: u64 },

    /// The directory was made by a server of another ensemble.
    #[error(
        "{} belongs to cluster {found:#018x}, but this server is of cluster {expected:#018x}",
        .path.display()
    )]
    WrongCluster { path: PathBuf, found: u64, expected: u64 },

    /// Two directories of one server do not belong together.
    #[error(
        "{} belongs to the data directory {found:#018x}, but this server's is {expected:#018x}",
        .path.display()
    )]
    WrongDirectory { path: PathBuf, found: u64, expected: u64 },

    /// The directory belongs to another founding of the ensemble.
    #[error(
        "{} belongs to the founding {found:#018x} of the ensemble, not to {expected:#018x}: \
         the ensemble was founded again without this data", .path.display()
    )]
    WrongFounding { path: PathBuf, found: u64, expected: u64 },

    /// The directory was written by an earlier build, whose format this one does not read.
    #[error(
        "{} has format version {found}, which this release does not read: start with an empty \
         directory", .path.display()
    )]
    OlderFormat { path: PathBuf, found: u32 },

    /// The file was written by a later release, whose format this one does not know.
    #[error(
        "{} has format version {found}, this release reads up to {supported}: use a newer release",
        .path.display()
    )]
    NewerFormat { path: PathBuf, found: u32, supported: u32 },

    /// A thread of the log has panicked.
    #[error("{}", panicked(.thread, .panic))]
    Panicked { thread: &'static str, panic: String },

    /// The caller broke the log's order, or asked for more than fits. Nothing was changed.
    #[error("refused: {what}")]
    Refused { what: String },
}

impl StorageError {
    /// Wraps the failure of `op` (an infinitive: "write", "create") on `path`; made for
    /// `map_err`.
    pub fn io(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { op, path, source: Arc::new(source) }
    }

    /// Damage in `file` at `offset` bytes from its start.
    pub fn corrupt(file: &Path, offset: u64, what: impl Into<String>) -> Self {
        Self::Corrupt { file: file.to_path_buf(), offset, what: what.into() }
    }

    pub(crate) fn refused(what: impl Into<String>) -> Self {
        Self::Refused { what: what.into() }
    }

    /// True when the disk, or the quota on it, is full.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_disk_full(source))
    }
}

/// For callers, openraft's traits among them, that speak `io::Error`.
impl From<StorageError> for io::Error {
    fn from(error: StorageError) -> Self {
        let kind = match &error {
            StorageError::Io { source, .. } => source.kind(),
            StorageError::Corrupt { .. }
            | StorageError::NewerFormat { .. }
            | StorageError::OlderFormat { .. } => io::ErrorKind::InvalidData,
            StorageError::Closed => io::ErrorKind::BrokenPipe,
            StorageError::Panicked { .. } => io::ErrorKind::Other,
            StorageError::Locked { .. } => io::ErrorKind::WouldBlock,
            StorageError::WrongServer { .. }
            | StorageError::WrongCluster { .. }
            | StorageError::WrongDirectory { .. }
            | StorageError::WrongFounding { .. }
            | StorageError::Refused { .. } => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

fn is_disk_full(source: &io::Error) -> bool {
    matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

struct IoMessage<'a> {
    op: &'static str,
    path: &'a Path,
    source: &'a io::Error,
}

impl fmt::Display for IoMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_disk_full(self.source) {
            write!(f, "the disk is full: ")?;
        }
        write!(f, "cannot {} {}: {}", self.op, self.path.display(), self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_reads_clearly() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let error = StorageError::io("write", Path::new("data/wal/1.wal"))(full);
        assert!(error.is_disk_full());
        assert!(
            error.to_string().starts_with("the disk is full: cannot write data/wal/1.wal: "),
            "{error}"
        );
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::StorageFull);
    }
}
