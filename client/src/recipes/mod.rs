//! Locks, elections and the other recipes, in the form in which Curator writes them: a holder here
//! and one of Curator exclude each other on the same path. `docs/locks.md` says which clients
//! exclude which.
//!
//! | for | recipe |
//! |---|---|
//! | one holder at a time | [`Mutex`]; [`SimpleLock`], which is not fair; [`MultiLock`] for several at once |
//! | readers or one writer | [`ReadWriteLock`] |
//! | a number of holders | [`Semaphore`], [`SemaphoreMutex`] |
//! | one leader | [`LeaderLatch`] as a state, [`LeaderSelector`] as work that is done while it leads |
//! | waiting for a sign, or for each other | [`Barrier`], [`DoubleBarrier`] |
//! | numbers | [`Counter`], [`SharedCount`] |
//! | items that are taken once | [`Queue`] |
//! | a part of the tree in memory | [`Cache`] |
//! | a znode that comes back, a group | [`PersistentNode`], [`GroupMember`] |
//!
//! Every recipe is safe to cancel: who drops a future leaves nothing behind but containers, and the
//! `ready` of a [`DoubleBarrier`] whose members were all dropped. A connection that breaks is waited
//! out; a znode whose create was not answered is found by its protected name. An error that
//! [ends the session](crate::Error::ends_session) ends what the session holds.

mod barrier;
mod cache;
mod counter;
mod group_member;
mod guard;
mod leader_latch;
mod leader_selector;
mod local_address;
mod multi_lock;
mod mutex;
mod name;
mod options;
mod persistent_node;
mod queue;
mod queue_format;
mod queue_node;
mod queue_takes;
mod queue_wait;
mod read_write_lock;
mod remains;
mod retry;
mod semaphore;
mod sentry;
mod session;
mod simple_lock;
mod wait_meter;
mod write_marker;

pub use barrier::{Barrier, DoubleBarrier, Entered};
pub use cache::{Cache, CacheChange, CachedNode};
pub use counter::{Counter, SharedCount, Versioned};
pub use group_member::GroupMember;
pub use guard::{FencingToken, LockGuard, Loss};
pub use leader_latch::{LeaderLatch, LeadershipState, Participant, Suspension};
pub use leader_selector::{LeaderSelector, Term};
pub use multi_lock::{Acquiring, Lockable, MultiGuard, MultiLock, ReadLock, WriteLock};
pub use mutex::Mutex;
pub use options::LockOptions;
pub use persistent_node::PersistentNode;
pub use queue::Queue;
pub use queue_format::QueueFormat;
pub use read_write_lock::{ReadWriteLock, WriteGuard};
pub use semaphore::{Semaphore, SemaphoreMutex};
pub use simple_lock::SimpleLock;
