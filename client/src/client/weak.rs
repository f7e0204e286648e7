//! A handle that does not keep its session open.

use std::sync::{Arc, Weak};

use tokio::sync::watch;

use super::{Client, Handle};
use crate::SessionState;
use crate::chroot::Chroot;

/// What becomes a [`Client`] again as long as another handle of its session exists.
#[derive(Clone, Debug)]
pub(crate) struct WeakClient {
    handle: Weak<Handle>,
    state: watch::Receiver<SessionState>,
    chroot: Chroot,
}

impl WeakClient {
    /// Returns a handle of the session; `None` when the last one was dropped, which closes it.
    pub(crate) fn upgrade(&self) -> Option<Client> {
        let handle = self.handle.upgrade()?;
        Some(Client { handle, state: self.state.clone(), chroot: self.chroot.clone() })
    }
}

impl Client {
    /// Returns a handle that does not keep the session open.
    pub(crate) fn downgrade(&self) -> WeakClient {
        WeakClient {
            handle: Arc::downgrade(&self.handle),
            state: self.state.clone(),
            chroot: self.chroot.clone(),
        }
    }
}
