//! Where a client port listens, and how it moves while it is open.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

use super::port::PortOptions;
use crate::transport::{Listener, Net, Stream};

/// The pause before an address that could not be had is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// A socket that listens, or none between two tries to move it.
#[derive(Debug)]
pub(super) struct MovableListener {
    net: Arc<dyn Net>,
    backlog: u32,
    address: String,
    listener: Option<Box<dyn Listener>>,
    bound: watch::Sender<SocketAddr>,
}

impl MovableListener {
    /// Listens where the options say.
    pub(super) async fn open(net: Arc<dyn Net>, options: &PortOptions) -> io::Result<Self> {
        let (address, backlog) = (options.address.clone(), options.backlog);
        let listener = net.listen(&address, backlog).await?;
        let bound = watch::Sender::new(listener.local_addr()?);
        Ok(Self { net, backlog, address, listener: Some(listener), bound })
    }

    /// Where it listens, as it changes.
    pub(super) fn bound(&self) -> watch::Receiver<SocketAddr> {
        self.bound.subscribe()
    }

    /// Waits for the next connection.
    pub(super) async fn accept(&mut self) -> io::Result<(Box<dyn Stream>, SocketAddr)> {
        match &mut self.listener {
            Some(listener) => listener.accept().await,
            None => pending().await,
        }
    }

    /// Listens at another address, and no longer where it was. If that fails, it goes on where it
    /// was.
    pub(super) async fn move_to(&mut self, address: &str) -> io::Result<()> {
        if self.listener.is_some() && self.address == address {
            return Ok(());
        }
        let mut opened = self.net.listen(address, self.backlog).await;
        let is_taken = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
        if opened.as_ref().is_err_and(is_taken) && port_of(address) == port_of(&self.address) {
            // Its own socket may be what is there: 0.0.0.0 and 127.0.0.1 have the ports in common.
            self.listener = None;
            opened = self.net.listen(address, self.backlog).await;
        }
        let opened = opened.and_then(|listener| Ok((listener.local_addr()?, listener)));
        match opened {
            Ok((bound, listener)) => {
                self.listener = Some(listener);
                address.clone_into(&mut self.address);
                self.bound.send_replace(bound);
                Ok(())
            }
            Err(error) => {
                if self.listener.is_none() {
                    self.listener = self.net.listen(&self.address, self.backlog).await.ok();
                }
                Err(error)
            }
        }
    }
}

fn port_of(address: &str) -> Option<&str> {
    address.rsplit_once(':').map(|(_, port)| port)
}

/// When to move, and where to.
#[derive(Debug)]
pub(super) struct Mover {
    wanted: watch::Receiver<String>,
    /// When an address that could not be had is tried again.
    retry_at: Option<Instant>,
    /// The one that was reported.
    reported: Option<String>,
}

impl Mover {
    pub(super) fn new(wanted: watch::Receiver<String>) -> Self {
        Self { wanted, retry_at: None, reported: None }
    }

    /// Waits until the port is to move.
    pub(super) async fn next(&mut self) -> String {
        let retry_at = self.retry_at;
        let retry = async {
            match retry_at {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        };
        tokio::select! {
            // The port outlives what moves it.
            Ok(()) = self.wanted.changed() => {}
            () = retry => {}
        }
        self.wanted.borrow_and_update().clone()
    }

    /// Notes the outcome, and reports each failure once.
    pub(super) fn note(&mut self, address: &str, moved: io::Result<()>) {
        match moved {
            Ok(()) => {
                info!(%address, "clients are accepted at this address now, and no longer at the old one");
                (self.retry_at, self.reported) = (None, None);
            }
            Err(error) => {
                if self.reported.as_deref() != Some(address) {
                    warn!(
                        %address, %error,
                        "cannot listen where a change has moved the client port: the old address \
                         stays open, and the new one is tried again every second"
                    );
                    self.reported = Some(address.to_owned());
                }
                self.retry_at = Some(Instant::now() + RETRY_PAUSE);
            }
        }
    }
}
