//! The Witness seam: what a simulation sees of a server beside what goes through the other seams, and
//! its hand on the log's writer.

use std::fmt::Debug;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use zoolet_jute::Zxid;
use zoolet_storage::{LogPosition, Wal};

/// Looks on. All calls come from the server's own thread, and must not block.
pub trait Witness: Debug + Send + Sync + 'static {
    /// The log is open. From now on it is written by calls of [`Wal::write_waiting`] alone.
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
pub struct Watched(Option<Arc<dyn Witness>>);

impl Watched {
    /// A server that this witness looks at.
    #[cfg(feature = "internals")]
    pub fn by(witness: Arc<dyn Witness>) -> Self {
        Self(Some(witness))
    }

    /// The witness, if there is one.
    pub(crate) fn witness(&self) -> Option<&Arc<dyn Witness>> {
        self.0.as_ref()
    }
}
