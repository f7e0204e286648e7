//! Where a client port listens, and how it moves while it is open.

use std::fmt;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tracing::{error, info, warn};

use super::options::PortOptions;
use crate::transport::{BoxFuture, Listener, Net, Stream};

/// The pause before an address that is unavailable is tried again.
const RETRY_PAUSE_MIN: Duration = Duration::from_secs(1);
const RETRY_PAUSE_MAX: Duration = Duration::from_mins(1);

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

    /// Listens at another address, whose socket was opened or could not be, and no longer where it
    /// was. If that fails, it goes on where it was.
    ///
    /// Its own socket may be what is at the address: 0.0.0.0 and 127.0.0.1 have the ports in common.
    /// Then it is closed for a moment.
    pub(super) async fn move_to(&mut self, address: &str, opened: ListenResult) -> io::Result<()> {
        let mut opened = opened;
        let is_taken = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
        if opened.as_ref().is_err_and(is_taken) && port_of(address) == port_of(&self.address) {
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
                    match self.net.listen(&self.address, self.backlog).await {
                        Ok(listener) => self.listener = Some(listener),
                        Err(error) => error!(
                            address = self.address, %error,
                            "the client port was closed to move it, and cannot be opened again: \
                             the next move tries it again"
                        ),
                    }
                }
                Err(error)
            }
        }
    }
}

fn port_of(address: &str) -> Option<&str> {
    address.rsplit_once(':').map(|(_, port)| port)
}

/// A socket that was to be opened.
pub(super) type ListenResult = io::Result<Box<dyn Listener>>;

/// When to move, and where to. It opens the sockets, because the lookup of a name may take long:
/// clients are accepted at the old address meanwhile.
pub(super) struct Mover {
    wanted: watch::Receiver<String>,
    net: Arc<dyn Net>,
    backlog: u32,
    /// Where the port listens; empty if it does not.
    address: String,
    /// The socket that is being opened, and where.
    opening: Option<(String, BoxFuture<'static, ListenResult>)>,
    /// When an address that is unavailable is tried again.
    retry_at: Option<Instant>,
    /// The pause before that; it doubles from failure to failure.
    retry_pause: Duration,
    /// The one that was reported.
    reported: Option<String>,
}

impl fmt::Debug for Mover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mover").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Mover {
    pub(super) fn new(listener: &MovableListener, wanted: watch::Receiver<String>) -> Self {
        Self {
            wanted,
            net: Arc::clone(&listener.net),
            backlog: listener.backlog,
            address: listener.address.clone(),
            opening: None,
            retry_at: None,
            retry_pause: RETRY_PAUSE_MIN,
            reported: None,
        }
    }

    /// Waits until the port is to move, and the socket was opened or could not be. It may be dropped
    /// and called again at any time.
    pub(super) async fn next(&mut self) -> (String, ListenResult) {
        loop {
            let retry_at = self.retry_at;
            let retry = async {
                match retry_at {
                    Some(at) => sleep_until(at).await,
                    None => pending().await,
                }
            };
            let opening = &mut self.opening;
            let opened = async {
                match opening {
                    Some((_, socket)) => socket.await,
                    None => pending().await,
                }
            };
            tokio::select! {
                opened = opened => {
                    let address = self.opening.take().map(|(address, _)| address);
                    return (address.unwrap_or_default(), opened);
                }
                // The port outlives what moves it.
                Ok(()) = self.wanted.changed() => self.retry_pause = RETRY_PAUSE_MIN,
                () = retry => {}
            }
            self.begin();
        }
    }

    /// Begins to open the socket of the wanted address, unless the port is there.
    fn begin(&mut self) {
        let address = self.wanted.borrow_and_update().clone();
        (self.opening, self.retry_at) = (None, None);
        if address != self.address {
            let (net, backlog, wanted) = (Arc::clone(&self.net), self.backlog, address.clone());
            let socket = Box::pin(async move { net.listen(&wanted, backlog).await });
            self.opening = Some((address, socket));
        }
    }

    /// Notes the outcome, and reports each failure once.
    pub(super) fn note(
        &mut self,
        listener: &MovableListener,
        address: &str,
        moved: io::Result<()>,
    ) {
        let is_open = listener.listener.is_some();
        self.address = if is_open { listener.address.clone() } else { String::new() };
        match moved {
            Ok(()) => {
                info!(%address, "clients are accepted at this address now, and no longer at the old one");
                (self.retry_pause, self.reported) = (RETRY_PAUSE_MIN, None);
            }
            Err(error) => {
                if self.reported.as_deref() != Some(address) {
                    warn!(
                        %address, %error, is_open,
                        "cannot listen at the new client address: the old one stays open, and the \
                         new one is tried again, after a minute at most"
                    );
                    self.reported = Some(address.to_owned());
                }
                self.retry_at = Some(Instant::now() + self.retry_pause);
                self.retry_pause = (self.retry_pause * 2).min(RETRY_PAUSE_MAX);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;
    use crate::transport::RealNet;

    /// The lookup of `slow` never ends, and `taken` belongs to another program.
    #[derive(Debug)]
    struct TestNet;

    impl Net for TestNet {
        fn listen<'a>(&'a self, address: &'a str, backlog: u32) -> BoxFuture<'a, ListenResult> {
            match address {
                "slow:1" => Box::pin(pending()),
                "taken:1" => Box::pin(async { Err(io::ErrorKind::AddrInUse.into()) }),
                _ => RealNet.listen(address, backlog),
            }
        }

        fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
            RealNet.connect(address)
        }
    }

    async fn opened() -> (MovableListener, Mover, watch::Sender<String>) {
        let (net, backlog, address): (Arc<dyn Net>, _, _) = (Arc::new(TestNet), 8, "127.0.0.1:0");
        let socket = net.listen(address, backlog).await.unwrap();
        let bound = watch::Sender::new(socket.local_addr().unwrap());
        let (address, listener) = (address.to_owned(), Some(socket));
        let listener = MovableListener { net, backlog, address: address.clone(), listener, bound };
        let (wanted, followed) = watch::channel(address);
        let mover = Mover::new(&listener, followed);
        (listener, mover, wanted)
    }

    /// The port accepted no client while the name of its new address was looked up.
    #[tokio::test]
    async fn clients_are_accepted_while_a_name_is_looked_up() {
        let (mut listener, mut mover, wanted) = opened().await;
        wanted.send_replace("slow:1".to_owned());
        let address = listener.bound().borrow().to_string();
        let client = RealNet.connect(&address);
        let accepted = async {
            tokio::select! {
                accepted = listener.accept() => accepted,
                (address, _) = mover.next() => unreachable!("{address} was looked up"),
            }
        };
        let (client, accepted) = tokio::join!(client, accepted);
        client.unwrap();
        accepted.unwrap();
        // Another change does not wait for the lookup.
        wanted.send_replace("127.0.0.1:00".to_owned());
        let next = timeout(Duration::from_secs(30), mover.next()).await;
        let (address, socket) = next.expect("the lookup is given up");
        listener.move_to(&address, socket).await.unwrap();
        assert_eq!(listener.address, "127.0.0.1:00");
    }

    #[tokio::test]
    async fn an_address_that_is_taken_is_tried_less_and_less_often() {
        let (mut listener, mut mover, wanted) = opened().await;
        wanted.send_replace("taken:1".to_owned());
        let (address, socket) = mover.next().await;
        let mut moved = listener.move_to(&address, socket).await;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            assert_eq!(moved.as_ref().unwrap_err().kind(), io::ErrorKind::AddrInUse);
            pauses.push(mover.retry_pause.as_secs());
            mover.note(&listener, &address, moved);
            assert!(
                listener.listener.is_some() && mover.retry_at.is_some(),
                "it stays, and retries"
            );
            moved = Err(io::ErrorKind::AddrInUse.into());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    }
}
