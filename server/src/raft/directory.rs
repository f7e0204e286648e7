//! The identity of this server's data directory at run time: its id, and the founding of the
//! ensemble that it belongs to.
//!
//! A server's number names its place in the ensemble, and its directory says who sits there: a
//! replaced disk is another member under the same number. So a node of the replicated log is a
//! directory of a server, and openraft's node ids are made of both.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use zoolet_storage::{Identity, StorageError};

use super::blocking::blocking;
use super::directories::Directories;

/// The bits of a node id that are the server's number.
const SERVER_BITS: u32 = 8;

/// Returns openraft's id for a directory of a server. A place whose directory is not known yet has
/// the directory zero.
pub(super) fn node_id(server: u64, directory: u64) -> u64 {
    directory << SERVER_BITS | server
}

/// Returns the number of the server that a node is a directory of.
pub(super) fn server_of(node: u64) -> u64 {
    node & ((1 << SERVER_BITS) - 1)
}

/// Returns the directory that a node is.
pub(super) fn directory_of(node: u64) -> u64 {
    node >> SERVER_BITS
}

/// Makes an id for a new directory of a random number. It is never zero, and fits into a node id.
pub(super) fn new_directory(random: u64) -> u64 {
    (random >> SERVER_BITS).max(1)
}

/// Makes the id of a new founding of a random number. It is never zero.
pub(super) fn new_founding(random: u64) -> u64 {
    random.max(1)
}

/// The identity of this server's directory. Clones are the same directory.
#[derive(Clone, Debug)]
pub(super) struct DirectoryIdentity {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    identity: Mutex<Identity>,
    /// The founding of `identity`, for those who must not wait for the lock.
    founding: Arc<AtomicU64>,
    /// The directories are unlocked when the server ends, even if a task of it is still there.
    directories: Weak<Directories>,
}

impl DirectoryIdentity {
    pub(super) fn new(identity: Identity, directories: &Arc<Directories>) -> Self {
        let founding = Arc::new(AtomicU64::new(identity.founding));
        let directories = Arc::downgrade(directories);
        Self { shared: Arc::new(Shared { identity: Mutex::new(identity), founding, directories }) }
    }

    /// Returns this server's id in the log's membership.
    pub(super) fn node(&self) -> u64 {
        let identity = self.shared.identity.lock().unwrap_or_else(PoisonError::into_inner);
        node_id(identity.server_id, identity.directory_id)
    }

    /// Returns the founding that this server belongs to; zero for none yet.
    pub(super) fn founding(&self) -> u64 {
        self.shared.founding.load(Ordering::Acquire)
    }

    /// Returns the founding for those who follow it.
    pub(super) fn founding_source(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.shared.founding)
    }

    /// Makes this server part of a founding. It is durable when this returns. Fails if the server
    /// belongs to another one.
    pub(super) async fn join(&self, founding: u64) -> Result<(), StorageError> {
        if self.founding() == founding {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        blocking("identity", move || shared.join(founding)).await
    }
}

impl Shared {
    fn join(&self, founding: u64) -> Result<(), StorageError> {
        let mut identity = self.identity.lock().unwrap_or_else(PoisonError::into_inner);
        if identity.founding == founding {
            return Ok(());
        }
        let directories = self.directories.upgrade().ok_or(StorageError::Closed)?;
        if identity.founding != 0 {
            let path = directories.data.path().to_owned();
            let (found, expected) = (identity.founding, founding);
            return Err(StorageError::WrongFounding { path, found, expected });
        }
        let joined = Identity { founding, ..*identity };
        directories.write(joined)?;
        *identity = joined;
        self.founding.store(founding, Ordering::Release);
        tracing::info!(founding = format_args!("{founding:#018x}"), "part of an ensemble now");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_a_directory_of_a_server() {
        for (server, directory) in [(1, 0), (254, 1), (3, (1 << 56) - 1)] {
            let node = node_id(server, directory);
            assert_eq!((server_of(node), directory_of(node)), (server, directory));
        }
        for random in [0, 1, 255, 256, u64::MAX] {
            let directory = new_directory(random);
            assert!(directory > 0 && directory < 1 << 56, "{random}");
            assert!(new_founding(random) > 0, "{random}");
        }
    }
}
