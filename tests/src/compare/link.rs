//! The way from a lock program to one server, which can be broken: whatever the protocol, bytes
//! stop, or the connection is refused.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

const BUFFER_BYTES: usize = 16 * 1024;

/// What passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passage {
    Open,
    /// Connections stay, and nothing passes, as behind a network that loses every packet.
    Silent,
    /// Connections are closed, and new ones too.
    Refused,
}

/// A proxy in front of one server; it ends when it is dropped.
#[derive(Debug)]
pub(super) struct Link {
    address: SocketAddr,
    target: Arc<Mutex<SocketAddr>>,
    passage: watch::Sender<Passage>,
    acceptor: JoinHandle<()>,
}

impl Link {
    pub(super) fn start(runtime: &Handle, target: SocketAddr) -> io::Result<Self> {
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr()?;
        let passage = watch::channel(Passage::Open).0;
        let target = Arc::new(Mutex::new(target));
        let acceptor = runtime.spawn(accept(listener, Arc::clone(&target), passage.subscribe()));
        Ok(Self { address, target, passage, acceptor })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn silence(&self) {
        self.passage.send_replace(Passage::Silent);
    }

    pub(super) fn refuse(&self) {
        self.passage.send_replace(Passage::Refused);
    }

    pub(super) fn heal(&self) {
        self.passage.send_replace(Passage::Open);
    }

    /// Has new connections go to another server, as when an address moves.
    pub(super) fn retarget(&self, target: SocketAddr) {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.refuse();
        self.acceptor.abort();
    }
}

async fn accept(
    listener: TcpListener,
    target: Arc<Mutex<SocketAddr>>,
    passage: watch::Receiver<Passage>,
) {
    while let Ok((client, _)) = listener.accept().await {
        let target = *target.lock().unwrap_or_else(PoisonError::into_inner);
        if *passage.borrow() != Passage::Refused {
            tokio::spawn(carry(client, target, passage.clone()));
        }
    }
}

/// Carries one connection until either end closes it, or it is refused.
async fn carry(client: TcpStream, target: SocketAddr, mut passage: watch::Receiver<Passage>) {
    let Ok(server) = TcpStream::connect(target).await else { return };
    // A small delay more does no harm here.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        _ = pump(from_client, to_server, passage.clone()) => {}
        _ = pump(from_server, to_client, passage.clone()) => {}
        _ = passage.wait_for(|passage| *passage == Passage::Refused) => {}
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut passage: watch::Receiver<Passage>,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let count = from.read(&mut buffer).await?;
        // The end of a connection is lost like its bytes.
        let open = passage.wait_for(|passage| *passage != Passage::Silent).await;
        open.map_err(|_| io::ErrorKind::NotConnected)?;
        let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else {
            return Ok(());
        };
        to.write_all(bytes).await?;
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream as Blocking;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// A server that sends back what it receives.
    fn echo() -> SocketAddr {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                thread::spawn(move || {
                    let mut reader = stream.try_clone().unwrap();
                    let _ = io::copy(&mut reader, &mut stream);
                });
            }
        });
        address
    }

    #[test]
    fn a_silent_link_keeps_what_it_is_sent_and_a_refusing_one_closes() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let link = Link::start(runtime.handle(), echo()).unwrap();
        let mut client = Blocking::connect(link.address()).unwrap();
        client.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let mut byte = [0];
        client.write_all(b"a").unwrap();
        client.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"a");
        link.silence();
        client.write_all(b"b").unwrap();
        assert!(client.read_exact(&mut byte).is_err());
        link.heal();
        client.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"b");
        link.refuse();
        assert_eq!(client.read(&mut byte).unwrap_or(0), 0);
        let mut refused = Blocking::connect(link.address()).unwrap();
        assert_eq!(refused.read(&mut byte).unwrap_or(0), 0);
    }
}
