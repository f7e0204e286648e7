//! Locks, elections and the other recipes, in the form in which Curator writes them: a holder here
//! and one of Curator exclude each other on the same path. `docs/locks.md` tells which clients
//! exclude which.
//!
//! Every recipe is safe to cancel: who drops a future leaves nothing behind. A connection that
//! breaks is waited out; a znode whose create was not answered is found by its protected name. An
//! error that [ends the session](crate::Error::ends_session) ends what the session holds.

mod counter;
mod guard;
mod line;
mod local_address;
mod multi_lock;
mod mutex;
mod name;
mod options;
mod place;
mod read_write_lock;
mod retry;
mod semaphore;
mod session;
mod simple_lock;
mod witness;

pub use counter::{Counter, SharedCount, Versioned};
pub use guard::{FencingToken, LockGuard, Loss};
pub use multi_lock::{Acquiring, Lockable, MultiGuard, MultiLock, ReadLock, WriteLock};
pub use mutex::Mutex;
pub use options::LockOptions;
pub use read_write_lock::{ReadWriteLock, WriteGuard};
pub use semaphore::{Semaphore, SemaphoreMutex};
pub use simple_lock::SimpleLock;
