//! The Witness seam: what a simulation sees of a server beside what goes through the other seams, and
//! its hand on the log's writer. Tests of real processes look on without that hand.

use std::fmt::Debug;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use zoolet_jute::Zxid;
use zoolet_storage::{LogPosition, Wal};

/// Looks on. All calls come from the server's own thread, and must not block.
pub trait Witness: Debug + Send + Sync + 'static {
    /// The log is open. From now on it is written by calls of [`Wal::write_waiting`] alone. Not called
    /// of one that only looks on.
    fn log_opened(&self, log: Weak<Wal>);

    /// A batch of the log was applied.
    fn applied(&self, position: LogPosition, batch: &Bytes);

    /// The last transaction and the digest of the state behind the entries up to this one.
    fn reached(&self, position: LogPosition, zxid: Zxid, digest: u64);

    /// The state is that of a snapshot now.
    fn restored(&self, zxid: Zxid, digest: u64);
}

/// A server that a witness may look at.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    witness: Option<Arc<dyn Witness>>,
    writes_log: bool,
}

impl Watched {
    /// A server that this witness looks at, and whose log it writes.
    #[cfg(feature = "internals")]
    pub fn by(witness: Arc<dyn Witness>) -> Self {
        Self { witness: Some(witness), writes_log: true }
    }

    /// A server that this witness looks at; its log is written by threads of its own, as without one.
    #[cfg(feature = "internals")]
    pub fn looked_at_by(witness: Arc<dyn Witness>) -> Self {
        Self { witness: Some(witness), writes_log: false }
    }

    /// The witness, if there is one.
    pub(crate) fn witness(&self) -> Option<&Arc<dyn Witness>> {
        self.witness.as_ref()
    }

    /// The witness that writes the log, if there is one.
    pub(crate) fn log_writer(&self) -> Option<&Arc<dyn Witness>> {
        self.witness().filter(|_| self.writes_log)
    }
}
