//! The identity of this server's data directory at run time: its id, and the founding of the
//! ensemble that it belongs to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use zoolet_storage::{Identity, StorageError};

use super::blocking::blocking;
use super::directories::Directories;
use crate::node_id::NodeId;

/// The identity of this server's directory. Clones are the same directory.
#[derive(Clone, Debug)]
pub(super) struct DirectoryIdentity {
    shared: Arc<SharedIdentity>,
}

#[derive(Debug)]
struct SharedIdentity {
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
        Self {
            shared: Arc::new(SharedIdentity {
                identity: Mutex::new(identity),
                founding,
                directories,
            }),
        }
    }

    /// Returns this server's id in the log's membership.
    pub(super) fn node(&self) -> NodeId {
        let identity = self.shared.identity.lock().unwrap_or_else(PoisonError::into_inner);
        NodeId::new(identity.server_id, identity.directory_id)
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

impl SharedIdentity {
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
