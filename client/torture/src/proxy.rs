//! A proxy between a client and its servers that loses what it is asked to lose.
//!
//! It counts the requests of all its connections. A fault strikes one of them: either its reply is
//! lost, after the server has carried it out, or the request itself; both ends of the connection
//! are cut then, as a network does it. Session requests (connect, ping, auth, setWatches) are not
//! counted.

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use zoolet_jute::{OpCode, Xid};

use crate::observed_traffic::{Commits, ObservedTraffic};
use crate::sequence_offset::{Renumbering, SequenceOffset};

/// What is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The reply of a request that was carried out.
    Reply,
    /// The reply of a delete that was carried out. Other requests are not counted.
    DeleteReply,
    /// The same of a transaction.
    TransactionReply,
    /// The request, before a server has seen it.
    Request,
    /// The request, and all connections: new ones are refused, as after [`Proxy::cut`].
    Servers,
}

/// The plan that all connections share.
#[derive(Debug, Default)]
struct Plan {
    /// How many requests have passed since the plan was made.
    seen: usize,
    /// The fault, and how many requests pass before the one that it strikes.
    fault: Option<(Fault, usize)>,
    /// Whether the fault has struck.
    struck: bool,
}

#[derive(Debug)]
struct Shared {
    targets: Vec<String>,
    next: AtomicUsize,
    /// How many watch events have passed.
    events: AtomicUsize,
    traffic: Mutex<ObservedTraffic>,
    plan: Mutex<Plan>,
    /// How many replies were lost, and how many requests.
    lost: (AtomicUsize, AtomicUsize),
    /// How many replies of deletes and of transactions were lost because they were those.
    lost_chosen: (AtomicUsize, AtomicUsize),
    outages: Mutex<Outages>,
    passage: watch::Sender<Passage>,
    /// How many requests and replies have come while nothing passed.
    held: AtomicUsize,
    offset: SequenceOffset,
}

impl Shared {
    fn traffic(&self) -> MutexGuard<'_, ObservedTraffic> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outages(&self) -> MutexGuard<'_, Outages> {
        self.outages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When no client was connected.
#[derive(Debug, Default)]
struct Outages {
    /// How many connections have a session.
    connected: usize,
    over: Vec<(Instant, Instant)>,
    since: Option<Instant>,
}

/// A connection with a session.
struct Connected<'a>(&'a Shared);

impl<'a> Connected<'a> {
    fn new(shared: &'a Shared) -> Self {
        let mut outages = shared.outages();
        outages.connected += 1;
        if let Some(since) = outages.since.take() {
            outages.over.push((since, Instant::now()));
        }
        Self(shared)
    }
}

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        let mut outages = self.0.outages();
        outages.connected -= 1;
        if outages.connected == 0 {
            outages.since = Some(Instant::now());
        }
    }
}

/// What the proxy does with what it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passage {
    /// Everything passes.
    Open,
    /// Connections stay, and nothing passes.
    Silent,
    /// Connections are cut, and new ones refused.
    Cut,
}

/// A running proxy; dropping it cuts its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a port of the system's choice and hands each connection to the next of the
    /// servers of a connect string.
    pub async fn start(connect_string: &str) -> io::Result<Self> {
        Self::start_with(connect_string, SequenceOffset::default()).await
    }

    /// The same, and clients see other sequence numbers than the servers'.
    pub async fn start_with(connect_string: &str, offset: SequenceOffset) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            targets: connect_string.split(',').map(str::to_owned).collect(),
            next: AtomicUsize::new(0),
            events: AtomicUsize::new(0),
            traffic: Mutex::default(),
            plan: Mutex::default(),
            lost: Default::default(),
            lost_chosen: Default::default(),
            outages: Mutex::default(),
            passage: watch::channel(Passage::Open).0,
            held: AtomicUsize::new(0),
            offset,
        });
        let acceptor = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, acceptor })
    }

    /// Where clients connect to.
    pub fn connect_string(&self) -> String {
        self.address.to_string()
    }

    /// Makes a fault strike the request behind the next `after` ones. Counting starts anew.
    pub fn strike(&self, fault: Fault, after: usize) {
        *self.plan() = Plan { seen: 0, fault: Some((fault, after)), struck: false };
    }

    /// Calls the fault off; returns whether it has happened.
    pub fn calm(&self) -> bool {
        let mut plan = self.plan();
        plan.fault = None;
        plan.struck
    }

    /// How many replies were lost so far, and how many requests.
    pub fn lost(&self) -> (usize, usize) {
        let (replies, requests) = &self.shared.lost;
        (replies.load(Ordering::Relaxed), requests.load(Ordering::Relaxed))
    }

    /// How many replies of deletes and of transactions were lost because they were those.
    pub(crate) fn lost_chosen(&self) -> (usize, usize) {
        let (deletes, transactions) = &self.shared.lost_chosen;
        (deletes.load(Ordering::Relaxed), transactions.load(Ordering::Relaxed))
    }

    /// How often the clients have written or created this znode in a transaction that the servers
    /// carried out, whether the reply was lost or not.
    pub(crate) fn commits(&self, path: &str) -> usize {
        self.shared.traffic().commits(path)
    }

    /// From when to when no client was connected to a server.
    pub(crate) fn outages(&self) -> Vec<(Instant, Instant)> {
        let outages = self.shared.outages();
        let now = outages.since.map(|since| (since, Instant::now()));
        outages.over.iter().copied().chain(now).collect()
    }

    /// The znodes whose creation the clients have asked for, sequential ones without their numbers.
    pub fn made(&self) -> BTreeSet<String> {
        self.shared.traffic().made().clone()
    }

    /// How many watch events have passed to the clients.
    pub fn events(&self) -> usize {
        self.shared.events.load(Ordering::Relaxed)
    }

    /// The znodes whose deletion a watch reported to the clients while they waited for it.
    pub fn deleted(&self) -> BTreeSet<String> {
        self.shared.traffic().deleted().clone()
    }

    /// Cuts every connection and refuses new ones until [`Proxy::heal`].
    pub fn cut(&self) {
        self.shared.passage.send_replace(Passage::Cut);
    }

    /// Passes nothing on until [`Proxy::heal`]; connections stay open, as behind a network that
    /// loses every packet.
    pub fn silence(&self) {
        self.shared.passage.send_replace(Passage::Silent);
    }

    /// How many requests and replies it has held so far because nothing passed. Their clients wait.
    pub fn held(&self) -> usize {
        self.shared.held.load(Ordering::Relaxed)
    }

    /// Passes everything on again.
    pub fn heal(&self) {
        self.shared.passage.send_replace(Passage::Open);
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.shared.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
        self.acceptor.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        if *shared.passage.borrow() != Passage::Cut {
            tokio::spawn(carry(client, Arc::clone(&shared)));
        }
    }
}

/// Carries one connection until either end closes it, or a fault or a cut ends it.
async fn carry(client: TcpStream, shared: Arc<Shared>) {
    let index = shared.next.fetch_add(1, Ordering::Relaxed) % shared.targets.len().max(1);
    let Some(target) = shared.targets.get(index) else { return };
    let Ok(server) = TcpStream::connect(target).await else { return };
    // A small delay more does no harm here.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let way = |from, to| Way { from, to, buffer: BytesMut::new(), shared: &shared };
    let connection = Connection {
        doomed: Mutex::default(),
        numbers: Renumbering::new(shared.offset),
        asked: Commits::default(),
    };
    let mut passage = shared.passage.subscribe();
    tokio::select! {
        _ = requests(way(from_client, to_server), &connection) => {}
        _ = replies(way(from_server, to_client), &connection) => {}
        _ = passage.wait_for(|passage| *passage == Passage::Cut) => {}
    }
}

/// What one connection keeps.
#[derive(Debug)]
struct Connection {
    /// The xid whose reply it has to lose.
    doomed: Mutex<Option<i32>>,
    numbers: Renumbering,
    asked: Commits,
}

impl Connection {
    fn doomed(&self) -> MutexGuard<'_, Option<i32>> {
        self.doomed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One direction of a connection.
#[derive(Debug)]
struct Way<'a> {
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    /// What was read behind the last frame.
    buffer: BytesMut,
    shared: &'a Shared,
}

impl Way<'_> {
    /// Passes the first frame on, which has no xid.
    async fn greet(&mut self) -> io::Result<()> {
        let first = self.frame().await?;
        audible(self.shared, None).await?;
        self.to.write_all(&first).await
    }

    /// The next whole frame, its length in front.
    async fn frame(&mut self) -> io::Result<BytesMut> {
        loop {
            if let Some(mut length) = self.buffer.get(..4) {
                let total = 4 + usize::try_from(length.get_i32()).unwrap_or(0);
                if self.buffer.len() >= total {
                    return Ok(self.buffer.split_to(total));
                }
            }
            if self.from.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

async fn requests(mut way: Way<'_>, connection: &Connection) -> io::Result<()> {
    way.greet().await?;
    let shared = way.shared;
    loop {
        let request = way.frame().await?;
        let number = xid(&request);
        let request = connection.numbers.request(request)?;
        // What is lost was asked for, too: a watch that is to be removed has no waiter.
        let body = body(&request);
        let op = op_of(&body);
        if let Some(xid) = number {
            connection.asked.note(xid, &body);
        }
        shared.traffic().request(body);
        match number {
            Some(xid) if xid > 0 => match struck(shared, op) {
                Some(fault @ (Fault::Request | Fault::Servers)) => {
                    shared.lost.1.fetch_add(1, Ordering::Relaxed);
                    if fault == Fault::Servers {
                        shared.passage.send_replace(Passage::Cut);
                    }
                    return Ok(());
                }
                Some(fault @ (Fault::Reply | Fault::DeleteReply | Fault::TransactionReply)) => {
                    let (deletes, transactions) = &shared.lost_chosen;
                    deletes.fetch_add(usize::from(fault == Fault::DeleteReply), Ordering::Relaxed);
                    let is_transaction = fault == Fault::TransactionReply;
                    transactions.fetch_add(usize::from(is_transaction), Ordering::Relaxed);
                    *connection.doomed() = Some(xid);
                }
                None => {}
            },
            _ => {}
        }
        audible(shared, number).await?;
        way.to.write_all(&request).await?;
    }
}

/// Waits until what has this xid may pass.
async fn audible(shared: &Shared, xid: Option<i32>) -> io::Result<()> {
    let mut passage = shared.passage.subscribe();
    let mut is_to_count = xid.is_some_and(|xid| xid > 0);
    let may_pass = |passage: &Passage| {
        let is_silent = *passage == Passage::Silent;
        if is_silent && std::mem::take(&mut is_to_count) {
            shared.held.fetch_add(1, Ordering::Relaxed);
        }
        !is_silent
    };
    let open = passage.wait_for(may_pass).await;
    open.map(drop).map_err(|_| io::ErrorKind::NotConnected.into())
}

async fn replies(mut way: Way<'_>, connection: &Connection) -> io::Result<()> {
    way.greet().await?;
    let shared = way.shared;
    let _connected = Connected::new(shared);
    loop {
        let reply = way.frame().await?;
        if let Some(xid) = xid(&reply) {
            shared.traffic().committed(connection.asked.committed(xid, || body(&reply)));
        }
        let lost = *connection.doomed();
        if lost.is_some() && xid(&reply) == lost {
            shared.lost.0.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        // Events name znodes as the servers do.
        let event = (xid(&reply) == Some(Xid::NOTIFICATION.0)).then(|| body(&reply));
        let reply = connection.numbers.reply(reply)?;
        audible(shared, xid(&reply)).await?;
        if let Some(event) = event {
            shared.events.fetch_add(1, Ordering::Relaxed);
            shared.traffic().event(event);
        }
        way.to.write_all(&reply).await?;
    }
}

/// Counts a request, and tells whether the fault strikes it.
fn struck(shared: &Shared, op: Option<OpCode>) -> Option<Fault> {
    let mut plan = shared.plan.lock().unwrap_or_else(PoisonError::into_inner);
    let counts = match plan.fault {
        Some((Fault::DeleteReply, _)) => op == Some(OpCode::Delete),
        Some((Fault::TransactionReply, _)) => op == Some(OpCode::Multi),
        Some((Fault::Reply | Fault::Request | Fault::Servers, _)) | None => true,
    };
    if !counts {
        return None;
    }
    let number = plan.seen;
    plan.seen += 1;
    let (fault, after) = plan.fault.filter(|_| !plan.struck)?;
    if number < after {
        return None;
    }
    plan.struck = true;
    Some(fault)
}

/// What stands behind the length.
pub(crate) fn body(frame: &BytesMut) -> Bytes {
    Bytes::copy_from_slice(frame.get(4..).unwrap_or_default())
}

/// What a request asks for.
fn op_of(body: &Bytes) -> Option<OpCode> {
    OpCode::from_i32(body.get(4..8)?.get_i32())
}

/// The number behind the length: the xid of a request and of its reply.
fn xid(frame: &BytesMut) -> Option<i32> {
    frame.get(4..8).map(|mut bytes| bytes.get_i32())
}
