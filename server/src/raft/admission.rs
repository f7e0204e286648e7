//! What a server that starts with an empty disk may do yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// How long a call waits for a server that has just started to know what it is. The answer of one
/// other server mostly tells it; a caller that is refused tries again no sooner than after an
/// election timeout.
const SETTLE_MAX: Duration = Duration::from_millis(200);

/// What a server that starts with an empty disk may do. It may have lost what it once had.
#[derive(Debug)]
pub(super) struct Admission {
    rights: watch::Sender<Rights>,
    /// Who begins anew and has asked what this server knows, and whether it has data itself.
    callers: Mutex<BTreeMap<u64, bool>>,
    /// It knows that its ensemble has data, which it lacks.
    returns: AtomicBool,
}

#[derive(Debug)]
struct Rights {
    /// It knows whether it is new, or has lost what it had.
    settled: bool,
    /// Take entries from all but these, which do not know that it begins anew; `None`: from nobody.
    untold: Option<BTreeSet<u64>>,
    /// Vote, or lead: not before it has again all that it can have acknowledged.
    votes: bool,
}

impl Admission {
    /// `is_empty`: there is no log. `is_rebuilding`: there is one, which an earlier start has not
    /// completed.
    pub(super) fn new(is_empty: bool, is_rebuilding: bool) -> Self {
        let (untold, votes) = ((!is_empty).then(BTreeSet::new), !is_empty && !is_rebuilding);
        let rights = watch::Sender::new(Rights { settled: !is_empty, untold, votes });
        Self { rights, callers: Mutex::default(), returns: AtomicBool::new(is_rebuilding) }
    }

    /// A peer that begins anew and asks what this server knows says whether it has data: an answer
    /// to what this server would ask it.
    pub(super) fn called_by(&self, peer: u64, has_data: bool) {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner).insert(peer, has_data);
    }

    pub(super) fn callers(&self) -> BTreeMap<u64, bool> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Entries are taken from now on, but not from these: one that leads would find that this
    /// server has lost what it had.
    pub(super) fn take_from_all_but(&self, untold: BTreeSet<u64>) {
        self.rights.send_modify(|rights| {
            (rights.settled, rights.untold) = (true, Some(untold));
        });
    }

    /// This server has lost what it had.
    pub(super) fn return_to_data(&self) {
        self.returns.store(true, Ordering::Relaxed);
    }

    /// Whether it has: to whoever asks, it counts as one with data.
    pub(super) fn returns(&self) -> bool {
        self.returns.load(Ordering::Relaxed)
    }

    /// Whether a leader's entries are taken. A server that has just started says so soon.
    pub(super) async fn takes_from(&self, leader: u64) -> bool {
        self.settle().await;
        self.has_told(leader)
    }

    /// The same, as things stand.
    pub(super) fn has_told(&self, leader: u64) -> bool {
        let rights = self.rights.borrow();
        rights.untold.as_ref().is_some_and(|untold| !untold.contains(&leader))
    }

    /// This server has nothing more to get back.
    pub(super) fn complete(&self) {
        self.rights.send_replace(Rights {
            settled: true,
            untold: Some(BTreeSet::new()),
            votes: true,
        });
    }

    /// Whether a vote is given. A server that has just started says so soon.
    pub(super) async fn votes(&self) -> bool {
        self.settle().await;
        self.may_vote()
    }

    /// The same, as things stand.
    pub(super) fn may_vote(&self) -> bool {
        self.rights.borrow().votes
    }

    async fn settle(&self) {
        if self.rights.borrow().settled {
            return;
        }
        let mut rights = self.rights.subscribe();
        // Without an answer in time it stays as it is. The sender is not dropped before `self`.
        let _ = timeout(SETTLE_MAX, rights.wait_for(|rights| rights.settled)).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    /// The leader's call was not answered at all: it waited for 2 s, and so did everybody.
    #[tokio::test]
    async fn a_server_that_does_not_know_what_it_is_says_so_soon() {
        let (soon, admission) = (Duration::from_secs(5), Admission::new(true, false));
        let asked = Instant::now();
        assert!(!admission.takes_from(1).await);
        assert!(!admission.votes().await);
        assert!(asked.elapsed() < soon, "{:?}", asked.elapsed());

        let (takes, ()) = tokio::join!(admission.takes_from(1), async {
            admission.take_from_all_but(BTreeSet::from([2]));
        });
        assert!(takes);
        assert!(!admission.takes_from(2).await);
        assert!(!admission.votes().await);
        admission.complete();
        assert!(admission.takes_from(2).await);
        assert!(admission.votes().await);
    }

    #[tokio::test]
    async fn a_server_that_was_cut_short_in_its_rebuild_takes_entries_and_gives_no_vote() {
        let admission = Admission::new(false, true);
        assert!(admission.takes_from(1).await);
        assert!(!admission.votes().await);
        let whole = Admission::new(false, false);
        assert!(whole.takes_from(1).await && whole.votes().await);
    }
}
