//! The replicated state, as openraft wants it: entries go to the [`Applier`] in log order,
//! snapshots to files.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{Stream, TryStreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::type_config::alias;
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder, Snapshot};
use zoolet_storage::{LogIndex, SnapshotReader, panicked};

use super::codec::{self, meta_of};
use super::types::{
    LogId, SnapshotMeta, StoredMembership, TypeConfig, log_id, position_of, term_of,
};
use crate::consensus::{Applier, MemberNode};
use crate::fatal::{Fatal, caught};
use crate::node_id::NodeId;
use crate::process::{blocking, giving_way};
use crate::snapshots::{Snapshots, StateSnapshot};

/// The most entries that are handed over at once.
const ENTRIES_PER_LOCK: usize = 64;

pub(super) type FileSnapshot =
    Snapshot<alias::CommittedLeaderIdOf<TypeConfig>, NodeId, MemberNode, SnapshotReader>;

/// A snapshot that is written, until openraft takes it over. Clones are the same place.
#[derive(Clone, Debug, Default)]
pub(super) struct WrittenSnapshot(Arc<Mutex<Option<FileSnapshot>>>);

impl WrittenSnapshot {
    /// Keeps it for openraft's next build.
    pub(super) fn keep(&self, snapshot: FileSnapshot) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot);
    }

    fn take(&self) -> Option<FileSnapshot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[derive(Debug)]
pub(super) struct StateMachine {
    applier: Arc<dyn Applier>,
    snapshots: Snapshots,
    written: WrittenSnapshot,
    last_applied: Option<LogId>,
    membership: StoredMembership,
    fatal: Fatal,
}

impl StateMachine {
    /// A machine that holds the state of `snapshots`' current one.
    pub(super) fn new(
        applier: Arc<dyn Applier>,
        snapshots: Snapshots,
        written: WrittenSnapshot,
        fatal: Fatal,
    ) -> io::Result<Self> {
        let meta = snapshots.current().map(|current| meta_of(&current)).transpose()?;
        let SnapshotMeta { last_log_id, last_membership } = meta.unwrap_or_default();
        let (last_applied, membership) = (last_log_id, last_membership);
        Ok(Self { applier, snapshots, written, last_applied, membership, fatal })
    }

    pub(super) fn capture(&self) -> Captured {
        let (mut last_log_id, last_membership) = (self.last_applied, self.membership.clone());
        if let Some(last) =
            last_log_id.as_mut().filter(|_| planted!("snapshot-claims-an-entry-more"))
        {
            last.index += 1;
        }
        let meta = SnapshotMeta { last_log_id, last_membership };
        Captured { meta, state: self.applier.capture() }
    }

    fn builder(&self) -> SnapshotBuilder {
        SnapshotBuilder::Captured(self.snapshots.clone(), Some(Box::new(self.capture())))
    }

    /// openraft does not report a panic here: it notices that the task is gone when it next has
    /// something for it.
    async fn apply_reporting(&mut self, items: Vec<EntryResponder<TypeConfig>>) -> io::Result<()> {
        let fatal = self.fatal.clone();
        let applied = caught(self.apply_some(items)).await;
        applied.map_err(|panic| {
            fatal.report(panicked("state machine", &panic));
            io::Error::other(panic)
        })
    }

    async fn apply_some(&mut self, items: Vec<EntryResponder<TypeConfig>>) {
        let mut batches = Vec::with_capacity(items.len());
        let mut responders = Vec::new();
        let mut last = None;
        for (entry, responder) in items {
            last = Some(entry.log_id);
            match entry.payload {
                EntryPayload::Blank => {}
                EntryPayload::Normal(body) => batches.push((position_of(&entry.log_id), body.0)),
                EntryPayload::Membership(membership) => {
                    if !planted!("membership-not-applied") {
                        self.membership = StoredMembership::new(last, membership);
                    }
                }
            }
            responders.extend(responder);
        }
        let Some(last) = last else { return };
        self.last_applied = Some(last);
        self.applier.apply(batches, position_of(&last)).await;
        for responder in responders {
            responder.send(());
        }
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = SnapshotReader;
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        Ok((self.last_applied, self.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + OptionalSend,
    {
        let mut items = Vec::new();
        while let Some(item) = entries.try_next().await? {
            let is_checkpoint = self.applier.is_checkpoint(LogIndex(item.0.log_id.index));
            items.push(item);
            if items.len() == ENTRIES_PER_LOCK || is_checkpoint {
                self.apply_reporting(std::mem::take(&mut items)).await?;
            }
        }
        self.apply_reporting(items).await
    }

    async fn try_create_snapshot_builder(&mut self, force: bool) -> Option<SnapshotBuilder> {
        if let Some(snapshot) = self.written.take() {
            return Some(SnapshotBuilder::Written(Some(Box::new(snapshot))));
        }
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
        let (applier, snapshots) = (Arc::clone(&self.applier), self.snapshots.clone());
        let installing = blocking(move || {
            let staged = match snapshots.take_staged(snapshot.name()) {
                Some(staged) => staged,
                None => applier.stage(Box::new(snapshot.clone()))?,
            };
            snapshots.import(snapshot)?;
            if !planted!("received-snapshot-not-installed") {
                staged.install();
            }
            Ok::<(), io::Error>(())
        });
        installing.await??;
        self.membership = meta.last_membership.clone();
        self.last_applied = meta.last_log_id;
        self.applier.replaced(meta.last_log_id.as_ref().map(position_of));
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<FileSnapshot>> {
        let Some(current) = self.snapshots.current() else { return Ok(None) };
        Ok(Some(Snapshot { meta: meta_of(&current)?, snapshot: current }))
    }
}

/// The state at a place of the log, to be written while entries go on being applied.
#[derive(Debug)]
pub(super) struct Captured {
    meta: SnapshotMeta,
    state: StateSnapshot,
}

impl Captured {
    pub(super) async fn write(self, snapshots: &Snapshots) -> io::Result<FileSnapshot> {
        let (snapshots, meta) = (snapshots.clone(), self.meta.clone());
        let writing = blocking(move || {
            let position = meta.last_log_id.unwrap_or_else(|| log_id(0, 0));
            let at = (term_of(&position), LogIndex(position.index));
            let head = codec::encode_snapshot_meta(snapshots.founding(), &meta);
            giving_way("snapshot-writer", move || snapshots.write(at, &head, self.state))?
        });
        let reader = writing.await??;
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
