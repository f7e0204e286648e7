//! The replicated state, as openraft wants it: entries go to the [`Machine`] in log order,
//! snapshots to files.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::{Stream, TryStreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder, Snapshot};
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use zoolet_storage::{SnapshotName, SnapshotReader, SnapshotStore, SnapshotWriter, StorageError};

use super::codec;
use super::divergence::{Divergence, SPARSE_STEP};
use super::machine::{Chunks, Machine, Staged, StateSnapshot};
use super::proposer::Proposer;
use super::types::{LogId, Member, SnapshotMeta, StoredMembership, TypeConfig, log_id, term_of};
use crate::process::drop_elsewhere;

/// The most entries that are handed over at once. Clients have their turn in between.
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
    /// One that was written, until openraft takes it over.
    written: Arc<Mutex<Option<FileSnapshot>>>,
    /// The one that counts, if it could not be read or was not understood.
    damaged: Arc<Mutex<Option<SnapshotName>>>,
}

impl Snapshots {
    /// Keeps a snapshot that is written, for openraft's next build.
    pub(super) fn keep_written(&self, snapshot: FileSnapshot) {
        *self.written.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot);
    }

    pub(super) fn new(
        store: SnapshotStore,
        retain: usize,
        current: Option<SnapshotReader>,
        founding: Arc<AtomicU64>,
    ) -> Self {
        let current = Arc::new(Mutex::new(current));
        let (staged, written, damaged) = Default::default();
        Self { store, retain, current, founding, staged, written, damaged }
    }

    /// Ends a snapshot that was received. It gets its name only if its state can be read: from then
    /// on the next start would rely on it.
    pub(super) fn receive(
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

    /// Notes that a snapshot cannot be used: it is replaced soon.
    pub(super) fn is_damaged(&self, name: SnapshotName, error: &dyn std::error::Error) {
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
    pub(super) fn needs_new(&self) -> bool {
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
        *self.damaged.lock().unwrap_or_else(PoisonError::into_inner) = None;
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

/// Why a snapshot that was received cannot be used.
#[derive(Debug, Error)]
pub(super) enum ReceiveError {
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
    divergence: Arc<Divergence>,
    /// The digest of the machine's state.
    digest: u64,
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
        let divergence = Arc::new(Divergence::new(machine.digest_version()));
        let digest = machine.digest();
        divergence.restart(meta.last_log_id.as_ref(), digest);
        let progress = Arc::default();
        Ok(Self { machine, proposer, snapshots, membership, applied, progress, divergence, digest })
    }

    pub(super) fn divergence(&self) -> Arc<Divergence> {
        Arc::clone(&self.divergence)
    }

    pub(super) fn applied(&self) -> watch::Receiver<Option<LogId>> {
        self.applied.subscribe()
    }

    pub(super) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    pub(super) fn capture(&self) -> Captured {
        let last_log_id = *self.applied.borrow();
        let meta = SnapshotMeta { last_log_id, last_membership: self.membership.clone() };
        Captured { meta, state: self.machine.snapshot() }
    }

    fn builder(&self) -> SnapshotBuilder {
        SnapshotBuilder::Captured(self.snapshots.clone(), Some(Box::new(self.capture())))
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
            self.digest = self.machine.digest();
            let commands = self.proposer.applied(&heads, admitted);
            let bytes: usize = heads.iter().map(Bytes::len).sum();
            self.progress.commands.fetch_add(commands, Ordering::Relaxed);
            self.progress.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        if let Some(last) = &last {
            self.divergence.note(last, self.digest);
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
            // All servers note their state after the same ones of these entries.
            let is_noted = item.0.log_id.index.is_multiple_of(SPARSE_STEP);
            items.push(item);
            if items.len() == ENTRIES_PER_LOCK || is_noted {
                self.apply_some(std::mem::take(&mut items));
            }
        }
        if !items.is_empty() {
            self.apply_some(items);
        }
        Ok(())
    }

    async fn try_create_snapshot_builder(&mut self, force: bool) -> Option<SnapshotBuilder> {
        let mut written = self.snapshots.written.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(snapshot) = written.take() {
            return Some(SnapshotBuilder::Written(Some(Box::new(snapshot))));
        }
        drop(written);
        force.then(|| self.builder())
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        self.builder()
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
        self.digest = self.machine.digest();
        self.divergence.restart(meta.last_log_id.as_ref(), self.digest);
        self.applied.send_replace(meta.last_log_id);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<FileSnapshot>> {
        let Some(current) = self.snapshots.current() else { return Ok(None) };
        Ok(Some(Snapshot { meta: meta_of(&current)?, snapshot: current }))
    }
}

/// The state at a place of the log, to be written while commands go on being applied.
#[derive(Debug)]
pub(super) struct Captured {
    meta: SnapshotMeta,
    state: StateSnapshot,
}

impl Captured {
    pub(super) async fn write(self, snapshots: &Snapshots) -> io::Result<FileSnapshot> {
        let (snapshots, meta) = (snapshots.clone(), self.meta.clone());
        let writing = spawn_blocking(move || snapshots.write(&meta, self.state));
        let reader = writing.await.map_err(io::Error::other)??;
        Ok(Snapshot { meta: self.meta, snapshot: reader })
    }
}

/// What gives openraft a snapshot.
#[derive(Debug)]
pub(super) enum SnapshotBuilder {
    /// One that is there; taken by the first build.
    Written(Option<Box<FileSnapshot>>),
    /// One that is to be written; taken by the first build.
    Captured(Snapshots, Option<Box<Captured>>),
}

impl RaftSnapshotBuilder<TypeConfig> for SnapshotBuilder {
    type SnapshotData = SnapshotReader;

    async fn build_snapshot(&mut self) -> io::Result<FileSnapshot> {
        match self {
            Self::Written(snapshot) => snapshot.take().map(|snapshot| *snapshot),
            Self::Captured(snapshots, captured) => match captured.take() {
                Some(captured) => Some(captured.write(snapshots).await?),
                None => None,
            },
        }
        .ok_or_else(|| io::Error::other("built already"))
    }
}

pub(super) fn meta_of(reader: &SnapshotReader) -> io::Result<SnapshotMeta> {
    codec::Reader(reader.meta().clone()).snapshot_meta().map(|(_, meta)| meta)
}

/// Returns the founding that a snapshot is of; zero if it does not say.
pub(super) fn founding_of(reader: &SnapshotReader) -> io::Result<u64> {
    codec::Reader(reader.meta().clone()).snapshot_meta().map(|(founding, _)| founding)
}
