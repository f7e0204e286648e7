//! Committed entries on their way to the machine, and those who wait for them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tokio::sync::watch;
use zoolet_storage::{LogIndex, LogPosition};

use super::divergence::{Divergence, SPARSE_STEP};
use super::machine::Machine;
use super::proposer::Proposer;
use crate::consensus::Applier;
use crate::snapshots::{Chunks, Staged, StateSnapshot};
use crate::transport::BoxFuture;

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

/// Applies entries to the machine, and notes what was applied.
#[derive(Debug)]
pub(super) struct MachineApplier {
    machine: Arc<dyn Machine>,
    proposer: Arc<Proposer>,
    /// The last entry that was applied, for those who wait for it.
    applied: watch::Sender<Option<LogPosition>>,
    progress: Arc<Progress>,
    divergence: Arc<Divergence>,
    /// The digest of the machine's state.
    digest: AtomicU64,
}

impl MachineApplier {
    /// Begins behind `last`, up to which the machine holds the state.
    pub(super) fn new(
        machine: Arc<dyn Machine>,
        proposer: Arc<Proposer>,
        last: Option<LogPosition>,
    ) -> Self {
        let divergence = Arc::new(Divergence::new(machine.digest_version()));
        let digest = machine.digest();
        divergence.restart(last, digest);
        let (applied, progress) = (watch::Sender::new(last), Arc::default());
        let digest = AtomicU64::new(digest);
        Self { machine, proposer, applied, progress, divergence, digest }
    }

    pub(super) fn divergence(&self) -> Arc<Divergence> {
        Arc::clone(&self.divergence)
    }

    pub(super) fn applied(&self) -> watch::Receiver<Option<LogPosition>> {
        self.applied.subscribe()
    }

    pub(super) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }
}

impl Applier for MachineApplier {
    fn apply(&self, batches: Vec<(LogPosition, Bytes)>, last: LogPosition) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if !batches.is_empty() {
                let heads: Vec<Bytes> = batches.iter().map(|(_, batch)| batch.clone()).collect();
                let admitted = self.machine.commit_many(batches).await;
                self.digest.store(self.machine.digest(), Ordering::Relaxed);
                let commands = self.proposer.applied(&heads, admitted);
                let bytes: usize = heads.iter().map(Bytes::len).sum();
                self.progress.commands.fetch_add(commands, Ordering::Relaxed);
                self.progress.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            }
            self.divergence.note(last, self.digest.load(Ordering::Relaxed));
            self.applied.send_replace(Some(last));
        })
    }

    fn is_checkpoint(&self, index: LogIndex) -> bool {
        index.0.is_multiple_of(SPARSE_STEP)
    }

    fn capture(&self) -> StateSnapshot {
        self.machine.snapshot()
    }

    fn stage(&self, chunks: Chunks) -> io::Result<Staged> {
        self.machine.stage(chunks)
    }

    fn replaced(&self, last: Option<LogPosition>) {
        self.proposer.state_replaced(self.machine.admitted());
        let digest = self.machine.digest();
        self.digest.store(digest, Ordering::Relaxed);
        self.divergence.restart(last, digest);
        self.applied.send_replace(last);
    }
}
