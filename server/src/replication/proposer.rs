//! What the replica wants of the log: the commands that wait, and what the log has had of them.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;
use zoolet_jute::{Id, ReconfigRequest, SessionId};
use zoolet_replica::state::Admitted;
use zoolet_replica::{Batch, BatchHead, Boot, Command, ServerId};

use super::options::BatchLimits;
use super::proposal_queue::{Queue, Seen, Waiting};
use super::reconfig::Asked;
use crate::histogram::{Distribution, SharedHistogram};
use crate::host::Proposals;

/// Sessions whose clients gave signs of life that are not reported to the leader yet.
const TOUCHED_MAX: usize = 100_000;

/// What the replica wants, and what was seen in the log of it.
#[derive(Debug)]
pub(crate) struct Proposer {
    pub(super) server: ServerId,
    /// The number of this start. It is raised when the state knows of a later one.
    pub(super) boot: AtomicU64,
    queue: Mutex<Queue>,
    /// The bytes of the commands in `queue`, for those who must not wait for the lock.
    pub(super) queued_bytes: AtomicUsize,
    seen: Mutex<Seen>,
    /// New commands, or something new in `seen`.
    pub(super) wake: Notify,
    wake_sync: Notify,
    wake_touch: Notify,
    wake_reconfig: Notify,
    /// The commands in each batch.
    batches: SharedHistogram,
}

impl Proposer {
    pub(crate) fn new(server: ServerId, boot: Boot) -> Self {
        let [wake, wake_sync, wake_touch, wake_reconfig] = std::array::from_fn(|_| Notify::new());
        let (queue, queued_bytes, seen) = Default::default();
        Self {
            server,
            boot: AtomicU64::new(boot.0),
            queue,
            queued_bytes,
            seen,
            wake,
            wake_sync,
            wake_touch,
            wake_reconfig,
            batches: SharedHistogram::default(),
        }
    }

    /// The number of the start as which this server goes on.
    pub(crate) fn boot(&self) -> Boot {
        Boot(self.boot.load(Ordering::Relaxed))
    }

    /// Takes note of batches that the log had for the state, and of this server's row of the fence
    /// behind them. Returns the number of their commands.
    pub(super) fn applied(&self, batches: &[Bytes], admitted: Admitted) -> u64 {
        let heads: Vec<_> = batches.iter().filter_map(Batch::head).collect();
        let is_ours = |head: &BatchHead| head.origin.server == self.server;
        if heads.iter().any(is_ours) {
            let ours = heads.iter().copied().filter(is_ours);
            self.lock_seen().apply(ours, admitted);
            self.wake.notify_one();
        }
        heads.iter().map(|head| head.count).sum()
    }

    /// Takes note that a snapshot has replaced the state, and of this server's row of the fence in
    /// it.
    pub(super) fn state_replaced(&self, admitted: Admitted) {
        let mut seen = self.lock_seen();
        (seen.replaced, seen.admitted) = (true, admitted);
        drop(seen);
        self.wake.notify_one();
    }

    /// The number of the last sync that was asked for.
    pub(crate) fn sync_wanted(&self) -> u64 {
        self.lock_queue().sync
    }

    pub(crate) async fn sync_asked(&self) {
        self.wake_sync.notified().await;
    }

    /// Waits for sessions whose clients gave signs of life, and takes them.
    pub(crate) async fn take_touched(&self) -> (u64, Vec<SessionId>) {
        loop {
            let (through, touched) = {
                let mut queue = self.lock_queue();
                (queue.touch, std::mem::take(&mut queue.touched))
            };
            if !touched.is_empty() {
                return (through, touched.into_iter().collect());
            }
            self.wake_touch.notified().await;
        }
    }

    /// Waits for a client that wants the ensemble changed.
    pub(super) async fn take_reconfig(&self) -> Asked {
        loop {
            if let Some(asked) = self.lock_queue().reconfigs.pop_front() {
                return asked;
            }
            self.wake_reconfig.notified().await;
        }
    }

    pub(super) fn take_batch(&self, limits: BatchLimits) -> Vec<Command> {
        let mut queue = self.lock_queue();
        let commands = queue.take_batch(limits);
        self.queued_bytes.store(queue.bytes(), Ordering::Relaxed);
        if !commands.is_empty() {
            self.batches.record(commands.len() as u64);
        }
        commands
    }

    /// Returns how many commands went into each batch.
    pub(super) fn batches(&self) -> Distribution {
        self.batches.distribution()
    }

    pub(super) fn lock_queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock_seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Proposals for Proposer {
    fn queued_bytes(&self) -> usize {
        self.queued_bytes.load(Ordering::Relaxed)
    }

    fn propose(&self, command: Command) {
        let bytes = command.encoded_bytes();
        let mut queue = self.lock_queue();
        queue.last_number = command.number;
        queue.push(Waiting { command, bytes });
        self.queued_bytes.store(queue.bytes(), Ordering::Relaxed);
        drop(queue);
        self.wake.notify_one();
    }

    fn sync(&self, number: u64) {
        self.lock_queue().sync = number;
        self.wake_sync.notify_one();
    }

    fn reconfig(&self, number: u64, request: ReconfigRequest, identities: Arc<[Id]>) {
        self.lock_queue().reconfigs.push_back(Asked { number, request, identities });
        self.wake_reconfig.notify_one();
    }

    fn touch(&self, number: u64, sessions: Vec<SessionId>) {
        let mut queue = self.lock_queue();
        queue.touch = number;
        if queue.touched.len() < TOUCHED_MAX {
            queue.touched.extend(sessions);
        }
        drop(queue);
        self.wake_touch.notify_one();
    }
}
