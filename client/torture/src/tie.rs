//! What ties a holder to its locks: what reports their loss, and what guards its writes.

use std::future::pending;

use zoolet_client::recipes::{LeaderLatch, LeadershipState, LockGuard, MultiGuard};
use zoolet_client::{Error, Transaction};

/// The handle of a grant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tie<'a> {
    /// There is none: the lock is broken on purpose.
    None,
    /// One lock.
    Guard(&'a LockGuard),
    /// The leadership.
    Latch(&'a LeaderLatch),
    /// Several locks.
    Several(&'a MultiGuard),
}

impl<'a> Tie<'a> {
    /// Waits until the recipe reports a loss.
    pub(crate) async fn lost(self) {
        match self {
            Self::None => pending().await,
            Self::Guard(guard) => drop(guard.lost().await),
            Self::Latch(latch) => latch.lost().await,
            Self::Several(guards) => drop(guards.lost().await),
        }
    }

    /// Whether it reports losses at all.
    pub(crate) const fn reports(self) -> bool {
        !matches!(self, Self::None)
    }

    /// Whether the handle is still for this znode: a latch may have begun another term.
    pub(crate) fn is_for(self, path: &str) -> bool {
        match self {
            Self::Latch(latch) => matches!(
                &*latch.standing().borrow(),
                LeadershipState::Leading { path: own, .. } if own == path
            ),
            Self::None | Self::Guard(_) | Self::Several(_) => true,
        }
    }

    /// A transaction that commits only while the lock is held.
    pub(crate) fn guarded(self) -> Option<Result<Transaction<'a>, Error>> {
        match self {
            Self::None => None,
            Self::Guard(guard) => Some(Ok(guard.guarded())),
            Self::Latch(latch) => Some(latch.guarded()),
            Self::Several(guards) => Some(guards.guarded()),
        }
    }
}
