//! The snapshots of this server: which one counts, states on their way to a file, and states that
//! were received and wait for their install.

use std::fmt::{self, Debug};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use thiserror::Error;
use tokio::time::Instant;
use zoolet_storage::{
    LogIndex, SnapshotName, SnapshotReader, SnapshotStore, SnapshotWriter, StorageError,
};

use crate::histogram::{Distribution, SharedHistogram};
use crate::process::drop_elsewhere;

/// The pieces of a snapshot, as they come from a file.
pub(crate) type Chunks = Box<dyn Iterator<Item = Result<Bytes, StorageError>> + Send>;

/// A state that was read and found whole. Installing it replaces the machine's.
pub(crate) struct Staged(Box<dyn FnOnce() + Send>);

impl Staged {
    /// A state that `install` puts in place.
    pub(crate) fn new(install: impl FnOnce() + Send + 'static) -> Self {
        Self(Box::new(install))
    }

    /// Puts the state in place.
    pub(crate) fn install(self) {
        (self.0)();
    }
}

impl Debug for Staged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Staged").finish_non_exhaustive()
    }
}

/// A state that no longer changes.
pub(crate) struct StateSnapshot {
    /// The last transaction in it.
    pub zxid: u64,
    /// Its digest, which goes into the snapshot's footer.
    pub digest: u64,
    /// Its bytes.
    pub chunks: Box<dyn Iterator<Item = Bytes> + Send + Sync>,
}

impl Debug for StateSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateSnapshot").field("zxid", &self.zxid).finish_non_exhaustive()
    }
}

/// The snapshots of this server, and the one that counts.
#[derive(Clone, Debug)]
pub(crate) struct Snapshots {
    store: SnapshotStore,
    retain: usize,
    current: Arc<Mutex<Option<SnapshotReader>>>,
    /// The founding of this server's ensemble.
    founding: Arc<AtomicU64>,
    /// The state of a snapshot that was received and read, until it is installed.
    staged: Arc<Mutex<Option<(SnapshotName, Staged)>>>,
    /// The one that counts, if it could not be read or was not understood.
    damaged: Arc<Mutex<Option<SnapshotName>>>,
    /// How long writing the state took, in milliseconds.
    write_ms: Arc<SharedHistogram>,
    /// How many other servers were sent one.
    sent: Arc<AtomicU64>,
}

impl Snapshots {
    pub(crate) fn new(
        store: SnapshotStore,
        retain: usize,
        current: Option<SnapshotReader>,
        founding: Arc<AtomicU64>,
    ) -> Self {
        let current = Arc::new(Mutex::new(current));
        let (staged, damaged, write_ms, sent) = Default::default();
        Self { store, retain, current, founding, staged, damaged, write_ms, sent }
    }

    /// Ends a snapshot that was received. It gets its name only if its state can be read: from then
    /// on the next start would rely on it.
    pub(crate) fn receive(
        &self,
        writer: SnapshotWriter,
        digest: u64,
        stage: impl FnOnce(Chunks) -> io::Result<Staged>,
    ) -> Result<(SnapshotReader, StagedPlace), ReceiveError> {
        let sealed = writer.seal(digest)?;
        let staged = stage(Box::new(sealed.read()?)).map_err(|error| {
            let is_content = error.kind() == io::ErrorKind::InvalidData;
            if is_content { ReceiveError::Content(error) } else { ReceiveError::Own(error) }
        })?;
        let name = sealed.publish()?.name;
        let before = self.lock_staged().replace((name, staged));
        drop(before);
        let place = StagedPlace { snapshots: self.clone(), name };
        Ok((self.store.read(name)?, place))
    }

    fn lock_staged(&self) -> MutexGuard<'_, Option<(SnapshotName, Staged)>> {
        self.staged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take_staged(&self, name: SnapshotName) -> Option<Staged> {
        let staged = self.lock_staged().take_if(|(of, _)| *of == name);
        staged.map(|(_, staged)| staged)
    }

    pub(crate) fn store(&self) -> &SnapshotStore {
        &self.store
    }

    /// The newest snapshot that is known to be whole, at its beginning.
    pub(crate) fn current(&self) -> Option<SnapshotReader> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The log index of the oldest snapshot that is kept: the log behind it is kept as well.
    pub(crate) fn oldest_index(&self) -> io::Result<Option<LogIndex>> {
        let current = self.current().map(|current| current.name());
        let oldest = self.store.list()?.last().map(|oldest| oldest.name);
        Ok(current.zip(oldest).map(|(current, oldest)| oldest.index.min(current.index)))
    }

    /// Notes that a snapshot cannot be used: it is replaced soon.
    pub(crate) fn is_damaged(&self, name: SnapshotName, error: &dyn std::error::Error) {
        let mut damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
        if damaged.replace(name) != Some(name) {
            let path = self.store.path(name);
            tracing::error!(
                path = %path.display(),
                %error,
                "a snapshot cannot be sent: it is damaged; a new one is taken"
            );
        }
    }

    /// Whether the snapshot that counts is damaged.
    pub(crate) fn needs_new(&self) -> bool {
        let damaged = *self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
        damaged.is_some() && damaged == self.current().map(|current| current.name())
    }

    fn adopt(&self, reader: SnapshotReader) -> Result<(), StorageError> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_none_or(|current| current.name() <= reader.name()) {
            *current = Some(reader);
        }
        drop(current);
        self.store.retain(self.retain).map(drop)
    }

    /// Returns how long writing the state took, in milliseconds.
    pub(crate) fn write_ms(&self) -> Distribution {
        self.write_ms.distribution()
    }

    /// Notes that another server has taken a snapshot.
    pub(crate) fn note_sent(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many snapshots other servers have taken from this one.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Returns the founding of this server's ensemble; zero for none yet.
    pub(crate) fn founding(&self) -> u64 {
        self.founding.load(Ordering::Acquire)
    }

    /// Writes a state at a place of the log, which counts from then on. Blocks.
    pub(crate) fn write(
        &self,
        (term, index): (u64, LogIndex),
        meta: &Bytes,
        state: StateSnapshot,
    ) -> io::Result<SnapshotReader> {
        let begun = Instant::now();
        let name = SnapshotName { term, index, zxid: state.zxid };
        let mut writer = self.store.create(name, meta)?;
        for chunk in state.chunks {
            writer.write(&chunk)?;
        }
        writer.finish(state.digest)?;
        let reader = self.store.read(name)?;
        self.adopt(reader.clone())?;
        *self.damaged.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.write_ms.record(u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX));
        Ok(reader)
    }

    /// Takes over a snapshot that may still be in another place.
    pub(crate) fn import(&self, reader: SnapshotReader) -> io::Result<SnapshotReader> {
        let name = reader.name();
        if self.store.list()?.iter().any(|info| info.name == name) {
            self.adopt(reader.clone())?;
            return Ok(reader);
        }
        let mut writer = self.store.create(name, reader.meta())?;
        let mut source = reader;
        for chunk in source.by_ref() {
            writer.write(&chunk?)?;
        }
        writer.finish(source.summary().ok_or(StorageError::Closed)?.digest)?;
        let reader = self.store.read(name)?;
        self.adopt(reader.clone())?;
        Ok(reader)
    }
}

/// Why a snapshot that was received cannot be used.
#[derive(Debug, Error)]
pub(crate) enum ReceiveError {
    /// What was received is not a whole state: the leader's snapshot is damaged.
    #[error("its content is damaged: {0}")]
    Content(io::Error),
    /// This server cannot keep or read it: its disk is full, mostly. The leader's snapshot may be
    /// as good as any.
    #[error(transparent)]
    Own(io::Error),
}

impl From<StorageError> for ReceiveError {
    fn from(error: StorageError) -> Self {
        Self::Own(error.into())
    }
}

/// The place of a state that waits to be installed. Dropped without that, whatever the reason, it
/// frees the state: a whole tree is not kept for an install that was refused.
#[derive(Debug)]
pub(crate) struct StagedPlace {
    snapshots: Snapshots,
    name: SnapshotName,
}

impl Drop for StagedPlace {
    fn drop(&mut self) {
        let staged = self.snapshots.lock_staged().take_if(|(name, _)| *name == self.name);
        // Freeing millions of znodes takes seconds.
        if let Some(staged) = staged {
            drop_elsewhere(staged);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use tokio::time::{sleep, timeout};
    use zoolet_storage::MemoryDisk;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// A leader of the past sends a snapshot. The state is read and checked before openraft is asked,
    /// and openraft refuses it: the whole tree stayed in memory until the next snapshot came.
    #[tokio::test]
    async fn a_received_state_that_is_not_installed_is_freed() {
        let store =
            SnapshotStore::open(Arc::new(MemoryDisk::new()), Path::new("snapshots")).unwrap();
        let snapshots = Snapshots::new(store.clone(), 3, None, Arc::default());
        let name = SnapshotName { term: 1, index: LogIndex(7), zxid: 7 };
        let mut writer = store.create(name, &Bytes::from_static(b"meta")).unwrap();
        writer.write(b"state").unwrap();
        let state = Arc::new(());
        let held = Arc::clone(&state);
        let stage = |_| Ok(Staged::new(move || drop(held)));
        let (_reader, place) = snapshots.receive(writer, 0, stage).unwrap();
        assert_eq!(Arc::strong_count(&state), 2, "it waits for its install");
        drop(place);
        let freed = async {
            while Arc::strong_count(&state) > 1 {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, freed).await.expect("it is freed");
    }
}
