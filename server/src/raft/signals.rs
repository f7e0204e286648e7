//! What passes between the rest of the server and the messages of the consensus.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use zoolet_storage::LogIndex;

/// How long a proposal takes to be committed, mostly.
const PROPOSAL_TIME: Duration = Duration::from_millis(20);

/// What the messages of consensus say besides.
#[derive(Debug, Default)]
pub(crate) struct PeerSignals {
    /// Whether this server leads and has had no reply of a majority for too long. Appends carry it,
    /// so that followers which still get this leader's appends do not go on serving what a majority
    /// somewhere else may have left behind.
    suspects_quorum: AtomicBool,
    /// Whether this server leads and grants votes to others.
    gives_way: AtomicBool,
    /// Whether this server leads and sends no entries for now, so that another server can be elected.
    holds_entries: AtomicBool,
    /// How often this server has stepped down because a majority took none of its entries.
    step_downs: AtomicU64,
    /// The index of the last membership without this server that others have reported; zero for
    /// none. Answers to vote requests carry it.
    removed_at: AtomicU64,
    /// When other servers have last proposed something to this one, by their numbers: a caller can
    /// name any directory, but only 256 servers.
    proposed_at: Mutex<BTreeMap<u64, Instant>>,
}

impl PeerSignals {
    /// Sets what every append says from now on: whether this leader suspects its quorum.
    pub(crate) fn suspect_quorum(&self, suspects_quorum: bool) {
        self.suspects_quorum.store(suspects_quorum, Ordering::Relaxed);
    }

    pub(super) fn suspects_quorum(&self) -> bool {
        self.suspects_quorum.load(Ordering::Relaxed)
    }

    /// Sets whether this leader makes room for another one.
    pub(crate) fn give_way(&self, gives_way: bool) {
        self.gives_way.store(gives_way, Ordering::Relaxed);
    }

    pub(crate) fn gives_way(&self) -> bool {
        self.gives_way.load(Ordering::Relaxed)
    }

    /// Sets whether this leader sends entries.
    pub(crate) fn hold_entries(&self, holds_entries: bool) {
        self.holds_entries.store(holds_entries, Ordering::Relaxed);
    }

    pub(super) fn holds_entries(&self) -> bool {
        self.holds_entries.load(Ordering::Relaxed)
    }

    /// Counts that this leader steps down because a majority takes none of its entries.
    pub(crate) fn count_step_down(&self) {
        self.step_downs.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how often it has.
    pub(crate) fn step_downs(&self) -> u64 {
        self.step_downs.load(Ordering::Relaxed)
    }

    /// Notes that a server proposes something to this one, so that its clients wait for a commit.
    pub(crate) fn note_proposal(&self, server: u64) {
        self.proposals().insert(server, Instant::now());
    }

    /// Returns whether a server's clients may wait for a commit.
    pub(super) fn has_proposed(&self, server: u64) -> bool {
        let proposed_at = self.proposals().get(&server).copied();
        proposed_at.is_some_and(|at| at.elapsed() < PROPOSAL_TIME)
    }

    fn proposals(&self) -> MutexGuard<'_, BTreeMap<u64, Instant>> {
        self.proposed_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the membership at this index is without this server.
    pub(crate) fn note_removal(&self, index: LogIndex) {
        self.removed_at.fetch_max(index.0, Ordering::Relaxed);
    }

    /// Returns the index of the last membership without this server that others have reported.
    pub(crate) fn removed_at(&self) -> Option<LogIndex> {
        let index = self.removed_at.load(Ordering::Relaxed);
        (index > 0).then_some(LogIndex(index))
    }
}
