//! The blocks in sled, by the number of their first entry.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, thread};

use thiserror::Error;
use tracing::warn;

use crate::block::{BlockError, Head};
use crate::panics;

/// What sled keeps in memory of its files.
const CACHE_BYTES: u64 = 4 << 20;

/// How often, and after which pause, a directory is tried again that is open elsewhere.
const LOCK_ATTEMPTS: usize = 300;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// The name under which a damaged directory is kept, beside its own.
const ASIDE: &str = "history.damaged";

/// What cannot be read or written.
#[derive(Debug, Error)]
pub(crate) enum StoreError {
    #[error(transparent)]
    Sled(#[from] sled::Error),
    #[error(transparent)]
    Block(#[from] BlockError),
    #[error("cannot write in {}: {source}", directory.display())]
    Prepare { directory: PathBuf, source: io::Error },
    #[error("cannot move {} aside: {source}", directory.display())]
    MoveAside { directory: PathBuf, source: io::Error },
}

/// Open files of a history. Clones are of the same ones.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    directory: PathBuf,
    db: sled::Db,
}

impl Store {
    /// Opens a directory. One that is damaged is moved aside, and begun anew.
    pub(crate) fn open(directory: &Path) -> Result<Self, StoreError> {
        if panics::is_marked(directory) {
            return Self::begin_anew(
                directory,
                &"it could not be read, or has made the server panic",
            );
        }
        let prepared = panics::begin_opening(directory);
        let failed_often = prepared
            .map_err(|source| StoreError::Prepare { directory: directory.to_owned(), source })?;
        if failed_often {
            return Self::begin_anew(directory, &"each attempt to open it has ended the server");
        }
        let opened = Self::open_unlocked(directory);
        panics::end_opening(directory);
        match opened {
            Ok(store) => Ok(store),
            Err(error) if is_damage(&error) => Self::begin_anew(directory, &error),
            Err(error) => Err(error),
        }
    }

    /// Opens a directory; waits while another instance has it open, which may be one of the same
    /// server that has not ended yet.
    fn open_unlocked(directory: &Path) -> Result<Self, StoreError> {
        for _ in 0..LOCK_ATTEMPTS {
            match Self::open_as_it_is(directory) {
                Err(error) if is_locked(&error) => thread::park_timeout(LOCK_PAUSE),
                opened => return opened,
            }
        }
        Self::open_as_it_is(directory)
    }

    fn open_as_it_is(directory: &Path) -> Result<Self, StoreError> {
        panics::watch(directory);
        let config = sled::Config::new()
            .path(directory)
            .cache_capacity(CACHE_BYTES)
            // What a crash takes is in the log of the server, which is applied again.
            .flush_every_ms(None)
            .mode(sled::Mode::LowSpace);
        let store = Self { directory: directory.to_owned(), db: config.open()? };
        for bytes in [store.db.first()?, store.db.last()?].into_iter().flatten() {
            Head::read(&bytes.1)?;
        }
        Ok(store)
    }

    fn begin_anew(directory: &Path, why: &dyn std::fmt::Display) -> Result<Self, StoreError> {
        panics::forget(directory);
        let aside = directory.with_file_name(ASIDE);
        let failed = |source| StoreError::MoveAside { directory: directory.to_owned(), source };
        match fs::remove_dir_all(&aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        fs::rename(directory, &aside).map_err(failed)?;
        let (directory_name, aside) = (directory.display(), aside.display());
        warn!(directory = %directory_name, %why, %aside, "the history is damaged: it was moved aside, and begins anew");
        Self::open_as_it_is(directory)
    }

    /// The head of the last block.
    pub(crate) fn last(&self) -> Result<Option<Head>, StoreError> {
        let last = self.db.last()?;
        last.map(|(_, bytes)| Ok(Head::read(&bytes)?.0)).transpose()
    }

    /// The head of the first block.
    pub(crate) fn first(&self) -> Result<Option<Head>, StoreError> {
        let first = self.db.first()?;
        first.map(|(_, bytes)| Ok(Head::read(&bytes)?.0)).transpose()
    }

    /// Writes a block, in the place of an earlier one with the same first entry.
    pub(crate) fn put(&self, first: u64, block: &[u8]) -> Result<(), StoreError> {
        self.db.insert(first.to_be_bytes(), block)?;
        Ok(())
    }

    /// Removes the first block.
    pub(crate) fn remove_first(&self) -> Result<(), StoreError> {
        self.db.pop_min()?;
        Ok(())
    }

    /// The bytes of the files.
    pub(crate) fn file_bytes(&self) -> Result<u64, StoreError> {
        Ok(self.db.size_on_disk()?)
    }

    /// The blocks that begin before an entry, the latest first.
    pub(crate) fn backward(
        &self,
        before: u64,
    ) -> impl Iterator<Item = Result<sled::IVec, StoreError>> {
        let blocks = self.db.range(..before.to_be_bytes()).rev();
        blocks.map(|block| Ok(block?.1))
    }

    /// The blocks from the one on that has this entry, in order, as far as they begin before another
    /// entry.
    pub(crate) fn forward(
        &self,
        from: u64,
        before: u64,
    ) -> Result<impl Iterator<Item = Result<sled::IVec, StoreError>>, StoreError> {
        let (from, before) = (from.min(before).to_be_bytes(), before.to_be_bytes());
        let start = self.db.range(..=from).next_back().transpose()?.map(|(first, _)| first);
        let start = start.unwrap_or_default().min(sled::IVec::from(&before));
        Ok(self.db.range(start..sled::IVec::from(&before)).map(|block| Ok(block?.1)))
    }

    /// Hands everything to the system's cache, and closes the files.
    pub(crate) fn close(self) -> Result<(), StoreError> {
        self.db.flush()?;
        panics::forget(&self.directory);
        Ok(())
    }
}

/// Whether another instance has the files open.
fn is_locked(error: &StoreError) -> bool {
    let StoreError::Sled(sled::Error::Io(error)) = error else { return false };
    error.kind() == io::ErrorKind::WouldBlock || error.to_string().contains("acquire lock")
}

/// Whether the files are to blame, and not the disk or the one who runs the server.
pub(crate) fn is_damage(error: &StoreError) -> bool {
    match error {
        StoreError::Block(_) => true,
        StoreError::MoveAside { .. } | StoreError::Prepare { .. } => false,
        StoreError::Sled(error) => match error {
            sled::Error::Corruption { .. }
            | sled::Error::Unsupported(_)
            | sled::Error::CollectionNotFound(_)
            | sled::Error::ReportableBug(_) => true,
            sled::Error::Io(error) => matches!(
                error.kind(),
                io::ErrorKind::InvalidData
                    | io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::InvalidInput
            ),
        },
    }
}
