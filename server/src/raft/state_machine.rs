//! The replicated state, as openraft wants it: entries go to the [`Machine`] in log order,
//! snapshots to files.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::{Stream, TryStreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder, Snapshot};
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::codec;
use super::machine::{Chunks, Machine, Staged, StateSnapshot};
use super::proposer::Proposer;
use super::types::{LogId, Member, SnapshotMeta, StoredMembership, TypeConfig, log_id, term_of};
use crate::process::drop_elsewhere;
use crate::storage::{SnapshotName, SnapshotReader, SnapshotStore, SnapshotWriter, StorageError};

/// The most entries that are applied under one lock, so that clients get their turn in between.
const ENTRIES_PER_LOCK: usize = 64;

pub(super) type FileSnapshot = Snapshot<
    openraft::type_config::alias::CommittedLeaderIdOf<TypeConfig>,
    u64,
    Member,
    SnapshotReader,
>;

/// The snapshots of this server, and the one that counts.
#[derive(Clone, Debug)]
pub(super) struct Snapshots {
    store: SnapshotStore,
    retain: usize,
    current: Arc<Mutex<Option<SnapshotReader>>>,
    /// The founding of this server's ensemble.
    founding: Arc<AtomicU64>,
    /// The state of a snapshot that was received and read, until it is installed.
    staged: Arc<Mutex<Option<(SnapshotName, Staged)>>>,
}

impl Snapshots {
    pub(super) fn new(
        store: SnapshotStore,
        retain: usize,
        current: Option<SnapshotReader>,
        founding: Arc<AtomicU64>,
    ) -> Self {
        let (current, staged) = (Arc::new(Mutex::new(current)), Arc::default());
        Self { store, retain, current, founding, staged }
    }

    /// Ends a snapshot that was received. It gets its name only if its state can be read: from then
    /// on the next start would rely on it.
    pub(super) fn receive(
        &self,
        writer: SnapshotWriter,
        digest: u64,
        stage: impl FnOnce(Chunks) -> io::Result<Staged>,
    ) -> io::Result<(SnapshotReader, StagedPlace)> {
        let sealed = writer.seal(digest)?;
        let staged = stage(Box::new(sealed.read()?))?;
        let name = sealed.publish()?.name;
        let before = self.lock_staged().replace((name, staged));
        drop(before);
        let place = StagedPlace { snapshots: self.clone(), name };
        Ok((self.store.read(name)?, place))
    }

    fn lock_staged(&self) -> MutexGuard<'_, Option<(SnapshotName, Staged)>> {
        self.staged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_staged(&self, name: SnapshotName) -> Option<Staged> {
        let staged = self.lock_staged().take();
        staged.filter(|(of, _)| *of == name).map(|(_, staged)| staged)
    }

    pub(super) fn store(&self) -> &SnapshotStore {
        &self.store
    }

    /// The newest snapshot that is known to be whole, at its beginning.
    pub(super) fn current(&self) -> Option<SnapshotReader> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The log index of the oldest snapshot that is kept: the log behind it is kept as well.
    pub(super) fn oldest_index(&self) -> io::Result<Option<u64>> {
        let current = self.current().map(|current| current.name());
        let oldest = self.store.list()?.last().map(|oldest| oldest.name);
        Ok(current.zip(oldest).map(|(current, oldest)| oldest.index.min(current.index)))
    }

    fn adopt(&self, reader: SnapshotReader) -> Result<(), StorageError> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_none_or(|current| current.name() < reader.name()) {
            *current = Some(reader);
        }
        drop(current);
        self.store.retain(self.retain).map(drop)
    }

    fn write(&self, meta: &SnapshotMeta, state: StateSnapshot) -> io::Result<SnapshotReader> {
        let position = meta.last_log_id.unwrap_or_else(|| log_id(0, 0));
        let (term, index) = (term_of(&position), position.index);
        let name = SnapshotName { term, index, zxid: state.zxid };
        let founding = self.founding.load(Ordering::Acquire);
        let mut writer = self.store.create(name, &codec::encode_snapshot_meta(founding, meta))?;
        for chunk in state.chunks {
            writer.write(&chunk)?;
        }
        writer.finish(state.digest)?;
        let reader = self.store.read(name)?;
        self.adopt(reader.clone())?;
        Ok(reader)
    }

    /// Takes over a snapshot that may still be in another place.
    fn import(&self, reader: SnapshotReader) -> io::Result<SnapshotReader> {
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

/// The place of a state that waits to be installed. Dropped without that, whatever the reason, it
/// frees the state: a whole tree is not kept for an install that was refused.
#[derive(Debug)]
pub(super) struct StagedPlace {
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

#[derive(Debug)]
pub(super) struct StateMachine {
    machine: Arc<dyn Machine>,
    proposer: Arc<Proposer>,
    snapshots: Snapshots,
    membership: StoredMembership,
    /// The last entry that was applied, for those who wait for it.
    applied: watch::Sender<Option<LogId>>,
    progress: Arc<Progress>,
}

/// What was applied since the start.
#[derive(Debug, Default)]
pub(super) struct Progress {
    commands: AtomicU64,
    /// The bytes of their batches, as they are in the log.
    bytes: AtomicU64,
}

impl Progress {
    pub(super) fn commands(&self) -> u64 {
        self.commands.load(Ordering::Relaxed)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl StateMachine {
    /// A machine that holds the state of `snapshots`' current one.
    pub(super) fn new(
        machine: Arc<dyn Machine>,
        proposer: Arc<Proposer>,
        snapshots: Snapshots,
    ) -> io::Result<Self> {
        let meta = snapshots.current().map(|current| meta_of(&current)).transpose()?;
        let meta = meta.unwrap_or_default();
        let applied = watch::Sender::new(meta.last_log_id);
        let membership = meta.last_membership;
        Ok(Self { machine, proposer, snapshots, membership, applied, progress: Arc::default() })
    }

    pub(super) fn applied(&self) -> watch::Receiver<Option<LogId>> {
        self.applied.subscribe()
    }

    pub(super) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    fn apply_some(&mut self, items: Vec<EntryResponder<TypeConfig>>) {
        let mut batches = Vec::with_capacity(items.len());
        let mut heads = Vec::with_capacity(items.len());
        let mut responders = Vec::new();
        let mut last = None;
        for (entry, responder) in items {
            last = Some(entry.log_id);
            match entry.payload {
                EntryPayload::Blank => {}
                EntryPayload::Normal(body) => {
                    heads.push(body.0.clone());
                    batches.push((term_of(&entry.log_id), body.0));
                }
                EntryPayload::Membership(membership) => {
                    if !planted!("membership-not-applied") {
                        self.membership = StoredMembership::new(last, membership);
                    }
                }
            }
            responders.extend(responder);
        }
        if !batches.is_empty() {
            let admitted = self.machine.commit_many(batches);
            let commands = self.proposer.applied(&heads, admitted);
            let bytes: usize = heads.iter().map(Bytes::len).sum();
            self.progress.commands.fetch_add(commands, Ordering::Relaxed);
            self.progress.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        self.applied.send_replace(last);
        for responder in responders {
            responder.send(());
        }
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = SnapshotReader;
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        Ok((*self.applied.borrow(), self.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + OptionalSend,
    {
        let mut items = Vec::new();
        while let Some(item) = entries.try_next().await? {
            items.push(item);
            if items.len() == ENTRIES_PER_LOCK {
                self.apply_some(std::mem::take(&mut items));
            }
        }
        if !items.is_empty() {
            self.apply_some(items);
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        let last_log_id = *self.applied.borrow();
        let meta = SnapshotMeta { last_log_id, last_membership: self.membership.clone() };
        let state = Some(self.machine.snapshot());
        SnapshotBuilder { snapshots: self.snapshots.clone(), meta, state }
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: SnapshotReader,
    ) -> io::Result<()> {
        let (machine, snapshots) = (Arc::clone(&self.machine), self.snapshots.clone());
        let installing = spawn_blocking(move || {
            let staged = match snapshots.take_staged(snapshot.name()) {
                Some(staged) => staged,
                None => machine.stage(Box::new(snapshot.clone()))?,
            };
            snapshots.import(snapshot)?;
            if !planted!("received-snapshot-not-installed") {
                staged.install();
            }
            Ok::<(), io::Error>(())
        });
        installing.await.map_err(io::Error::other)??;
        self.proposer.state_replaced(self.machine.admitted());
        self.membership = meta.last_membership.clone();
        self.applied.send_replace(meta.last_log_id);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<FileSnapshot>> {
        let Some(current) = self.snapshots.current() else { return Ok(None) };
        Ok(Some(Snapshot { meta: meta_of(&current)?, snapshot: current }))
    }
}

/// Writes one snapshot while commands go on being applied.
#[derive(Debug)]
pub(super) struct SnapshotBuilder {
    snapshots: Snapshots,
    meta: SnapshotMeta,
    /// Taken by the first build.
    state: Option<StateSnapshot>,
}

impl RaftSnapshotBuilder<TypeConfig> for SnapshotBuilder {
    type SnapshotData = SnapshotReader;

    async fn build_snapshot(&mut self) -> io::Result<FileSnapshot> {
        let state = self.state.take().ok_or_else(|| io::Error::other("built already"))?;
        let (snapshots, meta) = (self.snapshots.clone(), self.meta.clone());
        let writing = spawn_blocking(move || snapshots.write(&meta, state));
        let reader = writing.await.map_err(io::Error::other)??;
        Ok(Snapshot { meta: self.meta.clone(), snapshot: reader })
    }
}

pub(super) fn meta_of(reader: &SnapshotReader) -> io::Result<SnapshotMeta> {
    codec::Reader(reader.meta().clone()).snapshot_meta().map(|(_, meta)| meta)
}

/// Returns the founding that a snapshot is of; zero if it does not say.
pub(super) fn founding_of(reader: &SnapshotReader) -> io::Result<u64> {
    codec::Reader(reader.meta().clone()).snapshot_meta().map(|(founding, _)| founding)
}
