//! Loopback that can be cut, slowed down, and made to refuse or to lose long packets.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use super::ensemble::PATIENCE;
use crate::transport::{BoxFuture, Listener, Net, RealNet, Stream};

/// Which servers (by their places) cannot talk to which.
#[derive(Clone, Debug, Default)]
pub(super) struct Cut {
    pairs: Arc<Mutex<BTreeSet<(usize, usize)>>>,
    /// The connections that there are.
    open: Arc<Mutex<Vec<(usize, usize)>>>,
    /// How many bytes a second go from one server to another on each connection; zero for any.
    slow: Arc<Mutex<BTreeMap<(usize, usize), u64>>>,
    /// The longest packets that go from one server to another. A longer one blocks its connection.
    packet_bytes_max: Arc<Mutex<BTreeMap<(usize, usize), usize>>>,
    /// The servers whose ports refuse all connections, as a firewall in front of them does.
    refusing: Arc<Mutex<BTreeSet<usize>>>,
}

impl Cut {
    /// Cuts a server off from all others. Its connections are gone when this returns.
    pub(super) async fn isolate(&self, at: usize, servers: usize) {
        for other in (0..servers).filter(|other| *other != at) {
            self.pairs.lock().unwrap().extend([(at, other), (other, at)]);
        }
        self.none_open(|(from, to)| *from == at || *to == at).await;
    }

    /// Keeps a server from connecting to another. The connections that it has made there are gone
    /// when this returns.
    pub(super) async fn one_way(&self, from: usize, to: usize) {
        self.pairs.lock().unwrap().insert((from, to));
        self.none_open(|pair| *pair == (from, to)).await;
    }

    async fn none_open(&self, is_cut: impl Fn(&(usize, usize)) -> bool) {
        while self.open.lock().unwrap().iter().any(&is_cut) {
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Makes the connections that a server opens to another from now on slow.
    pub(super) fn slow_down(&self, from: usize, to: usize, bytes_per_second: u64) {
        self.slow.lock().unwrap().insert((from, to), bytes_per_second);
    }

    /// Loses the writes of a server to another that are longer than a limit, as a path does whose MTU is
    /// not reported.
    pub(super) fn lose_longer(&self, from: usize, to: usize, packet_bytes_max: usize) {
        self.packet_bytes_max.lock().unwrap().insert((from, to), packet_bytes_max);
    }

    fn loses(&self, from: usize, to: usize, bytes: usize) -> bool {
        self.packet_bytes_max.lock().unwrap().get(&(from, to)).is_some_and(|max| bytes > *max)
    }

    /// Breaks all connections of a server, whose port refuses new ones from now on.
    pub(super) async fn refuse(&self, at: usize, servers: usize) {
        self.refusing.lock().unwrap().insert(at);
        self.isolate(at, servers).await;
    }

    fn rate(&self, from: usize, to: usize) -> Option<u64> {
        self.slow.lock().unwrap().get(&(from, to)).copied()
    }

    pub(super) fn heal(&self) {
        self.pairs.lock().unwrap().clear();
        self.packet_bytes_max.lock().unwrap().clear();
        self.refusing.lock().unwrap().clear();
    }

    fn is_cut(&self, from: usize, to: usize) -> bool {
        self.pairs.lock().unwrap().contains(&(from, to))
    }
}

/// Loopback, where connections between servers that are cut from each other break.
#[derive(Debug)]
pub(super) struct CutNet {
    pub(super) server: usize,
    pub(super) members: Vec<String>,
    pub(super) cut: Cut,
}

impl Net for CutNet {
    fn listen<'a>(
        &'a self,
        address: &'a str,
        backlog: u32,
    ) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let until = Instant::now() + PATIENCE;
            loop {
                match RealNet.listen(address, backlog).await {
                    Err(_) if Instant::now() < until => sleep(Duration::from_millis(10)).await,
                    listening => return listening,
                }
            }
        })
    }

    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            let target = self.members.iter().position(|member| member == address).unwrap();
            let (from, cut) = (self.server, self.cut.clone());
            if cut.refusing.lock().unwrap().contains(&target) {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            if cut.is_cut(from, target) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let address: SocketAddr = address.parse().unwrap();
            let outer = TcpStream::connect(address).await?;
            outer.set_nodelay(true)?;
            let room = if cut.rate(from, target).is_some() { 4096 } else { 1 << 20 };
            let (near, far) = tokio::io::duplex(room);
            cut.open.lock().unwrap().push((from, target));
            tokio::spawn(async move {
                let watch = async {
                    while !cut.is_cut(from, target) {
                        sleep(Duration::from_millis(2)).await;
                    }
                };
                let copying = carry(far, outer, (from, target), &cut);
                tokio::select! {
                    _ = copying => {}
                    () = watch => {}
                }
                let mut open = cut.open.lock().unwrap();
                let at = open.iter().position(|pair| *pair == (from, target)).unwrap();
                open.swap_remove(at);
            });
            Ok(Box::new(near) as Box<dyn Stream>)
        })
    }
}

/// Carries bytes to the called server as the network does, and its answers at once.
async fn carry(
    caller: DuplexStream,
    called: TcpStream,
    (from, to): (usize, usize),
    cut: &Cut,
) -> io::Result<()> {
    let rate = cut.rate(from, to);
    let (mut from_caller, mut to_caller) = tokio::io::split(caller);
    let (mut from_called, mut to_called) = called.into_split();
    let calls = async {
        let mut buffer = vec![0; if rate.is_some() { 2048 } else { 64 << 10 }];
        loop {
            let count = from_caller.read(&mut buffer).await?;
            if count == 0 {
                return Ok(());
            }
            if cut.loses(from, to, count) {
                std::future::pending::<()>().await;
            }
            to_called.write_all(&buffer[..count]).await?;
            if let Some(rate) = rate {
                sleep(Duration::from_micros(count as u64 * 1_000_000 / rate)).await;
            }
        }
    };
    let answers = async { tokio::io::copy(&mut from_called, &mut to_caller).await.map(drop) };
    tokio::select! {
        ended = calls => ended,
        ended = answers => ended,
    }
}
