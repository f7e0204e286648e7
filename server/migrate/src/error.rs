//! Why data cannot be read or written.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use zoolet_jute::Zxid;

/// Why data of Apache `ZooKeeper` cannot be read or written. Nothing was changed.
#[derive(Debug, Error)]
pub enum MigrateError {
    /// The system refuses it.
    #[error("cannot {operation} {}: {source}", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// There is nothing to read.
    #[error("{} has no snapshot of Apache ZooKeeper: expected version-2/snapshot.*", .0.display())]
    NoSnapshot(PathBuf),
    /// A file ends too early.
    #[error("{} ends at byte {offset}, inside {field}", path.display())]
    CutOff {
        /// The file.
        path: PathBuf,
        /// Where it ends, in its uncompressed content.
        offset: u64,
        /// What is incomplete.
        field: &'static str,
    },
    /// A file holds what no server writes.
    #[error("{} is damaged at byte {offset}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where, in its uncompressed content.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// Transactions are missing between two that are there.
    #[error(
        "{} goes on with transaction {:#x} at byte {offset}, but the last one before it is {:#x}: \
         the transactions between them are missing", path.display(), found.0, last.0
    )]
    Missing {
        /// The file.
        path: PathBuf,
        /// Where the later transaction is.
        offset: u64,
        /// The transaction before the gap.
        last: Zxid,
        /// The transaction behind it.
        found: Zxid,
    },
    /// The tree is not the one that the server had.
    #[error(
        "{} at byte {offset}: the digest of the tree after transaction {:#x} is {computed:#x}, not \
         {stored:#x}", path.display(), zxid.0
    )]
    Digest {
        /// The file.
        path: PathBuf,
        /// Where the digest is.
        offset: u64,
        /// The transaction after which it was taken.
        zxid: Zxid,
        /// The digest in the file.
        stored: u64,
        /// The digest of the tree.
        computed: u64,
    },
    /// All files are whole, and what they hold is not possible.
    #[error("the data in {} cannot be used: {what}", path.display())]
    Impossible {
        /// The directory.
        path: PathBuf,
        /// What is wrong, with the path of the znode.
        what: String,
    },
    /// There is data already.
    #[error("{} holds files already ({found}): name an empty directory", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
        /// One of the files.
        found: String,
    },
}

impl MigrateError {
    pub(crate) fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { operation, path, source }
    }
}
