//! How a lock writes its znodes.

use zoolet_jute::Acl;

use super::local_address::local_address;

/// The settings of a lock; each method changes one.
///
/// By default a lock writes what Curator's writes: the client's address as data, an open ACL.
#[derive(Clone, Debug)]
pub struct LockOptions {
    data: Option<Vec<u8>>,
    pub(crate) acl: Vec<Acl>,
    pub(crate) revocable: bool,
    pub(crate) bilingual: bool,
}

impl Default for LockOptions {
    fn default() -> Self {
        Self { data: None, acl: Acl::open(), revocable: false, bilingual: false }
    }
}

impl LockOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The data of the lock's znodes, which shows people who holds it.
    pub fn data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.data = Some(data.into());
        self
    }

    /// The ACL of the lock's znodes. The containers above them are open to all, as Curator's are.
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.acl = acl;
        self
    }

    /// Allows others to [ask](super::Mutex::request_revocation) for the lock. As Curator does, the
    /// znode is then created without data: a request is written there.
    pub fn revocable(mut self) -> Self {
        self.revocable = true;
        self
    }

    /// Makes a [`Mutex`](super::Mutex) exclude kazoo's default `Lock` too, beside Curator's and
    /// Go's: it is in the queue under a name of each family. It does not make Curator and
    /// kazoo exclude each other.
    pub fn bilingual(mut self) -> Self {
        self.bilingual = true;
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        match &self.data {
            _ if self.revocable => Vec::new(),
            Some(data) => data.clone(),
            None => local_address().into_bytes(),
        }
    }
}
