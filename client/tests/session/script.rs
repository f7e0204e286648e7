//! Servers that do what the test says, at the other end of connections in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::{mpsc, watch};
use zoolet_client::{
    Client, ClientOptions, Connecting, Connector, ErrorCode, Resolving, SessionId, SessionState,
    Zxid,
};
use zoolet_jute::{
    ConnectRequest, ConnectResponse, Decode, Encode, EventType, KeeperState, OpCode, Reply,
    ReplyHeader, Request, RequestHeader, WatcherEvent, Xid, frame,
};

/// What the client in a test calls its servers.
pub(crate) const SERVERS: &str = "one:1,two:2,three:3";

/// The session timeout of the tests.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(6);

/// The session that the scripts grant.
pub(crate) const SESSION: SessionId = SessionId(0x0100_0000_0000_0007);

/// The bytes that a connection holds on their way.
const PIPE_BYTES: usize = 8 * 1024 * 1024;

/// The network between the client and the scripts.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    dialed: mpsc::Sender<Connection>,
    /// No server can be reached.
    pub(crate) down: Arc<AtomicBool>,
    /// How long a connection takes.
    pub(crate) delay_ms: Arc<AtomicU64>,
    /// Addresses from which nothing comes back.
    pub(crate) lost: Arc<Mutex<BTreeSet<String>>>,
    /// The addresses of servers that have others than their names.
    pub(crate) addresses: Arc<Mutex<BTreeMap<String, Vec<String>>>>,
}

impl Connector for Network {
    fn connect<'a>(&'a self, address: &'a str) -> Connecting<'a> {
        Box::pin(async move {
            if self.lost.lock().unwrap().contains(address) {
                std::future::pending::<()>().await;
            }
            if self.down.load(Ordering::Relaxed) {
                return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "nothing listens"));
            }
            let delay = Duration::from_millis(self.delay_ms.load(Ordering::Relaxed));
            tokio::time::sleep(delay).await;
            let (client, server) = duplex(PIPE_BYTES);
            let connection = Connection::new(address, server);
            self.dialed.send(connection).await.map_err(|_| io::ErrorKind::ConnectionRefused)?;
            Ok(Box::new(client) as Box<dyn zoolet_client::Transport>)
        })
    }

    fn resolve<'a>(&'a self, address: &'a str) -> Resolving<'a> {
        let known = self.addresses.lock().unwrap().get(address).cloned();
        Box::pin(async move { Ok(known.unwrap_or_else(|| vec![address.to_owned()])) })
    }
}

/// The scripts' side of the network.
#[derive(Debug)]
pub(crate) struct Servers {
    connections: mpsc::Receiver<Connection>,
    pub(crate) network: Network,
}

impl Servers {
    pub(crate) fn new() -> Self {
        let (dialed, connections) = mpsc::channel(16);
        Self {
            connections,
            network: Network {
                dialed,
                down: Arc::default(),
                delay_ms: Arc::default(),
                lost: Arc::default(),
                addresses: Arc::default(),
            },
        }
    }

    pub(crate) fn options(&self) -> ClientOptions {
        let options = ClientOptions::new().session_timeout(TIMEOUT).seed(7);
        options.connector(self.network.clone())
    }

    /// Breaks the connection, and all servers are gone. Returns the state when the client knows it.
    pub(crate) async fn vanish(
        &self,
        client: &Client,
        connection: Connection,
    ) -> watch::Receiver<SessionState> {
        self.network.down.store(true, Ordering::Relaxed);
        drop(connection);
        let mut state = client.state();
        state.wait_for(|state| *state == SessionState::Disconnected).await.unwrap();
        state
    }

    /// Breaks the connection; the client makes another one.
    pub(crate) async fn replace(&mut self, client: &Client, connection: Connection) -> Connection {
        self.vanish(client, connection).await;
        self.network.down.store(false, Ordering::Relaxed);
        self.serve().await
    }

    /// The next connection that the client makes.
    pub(crate) async fn accept(&mut self) -> Connection {
        self.connections.recv().await.unwrap()
    }

    /// The next connection, with the session granted.
    pub(crate) async fn serve(&mut self) -> Connection {
        let mut connection = self.accept().await;
        connection.hello().await;
        connection.grant().await;
        connection
    }

    /// A client and its first connection.
    pub(crate) async fn start(&mut self, options: ClientOptions) -> (Client, Connection) {
        self.start_on(SERVERS, options).await
    }

    pub(crate) async fn start_on(
        &mut self,
        servers: &str,
        options: ClientOptions,
    ) -> (Client, Connection) {
        let (client, connection) = tokio::join!(options.connect(servers), self.serve());
        (client.unwrap(), connection)
    }

    /// The default client and its first connection.
    pub(crate) async fn client(&mut self) -> (Client, Connection) {
        self.start(self.options()).await
    }
}

/// One connection, as a server sees it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) address: String,
    stream: DuplexStream,
    incoming: BytesMut,
}

impl Connection {
    fn new(address: &str, stream: DuplexStream) -> Self {
        Self { address: address.to_owned(), stream, incoming: BytesMut::new() }
    }

    /// The next frame; `None` when the client has hung up.
    async fn frame(&mut self) -> Option<Bytes> {
        loop {
            if let Some(payload) = frame::split(&mut self.incoming, PIPE_BYTES).unwrap() {
                return Some(payload);
            }
            if self.stream.read_buf(&mut self.incoming).await.unwrap() == 0 {
                return None;
            }
        }
    }

    /// The client's handshake.
    pub(crate) async fn hello(&mut self) -> ConnectRequest {
        ConnectRequest::decode(&mut self.frame().await.unwrap(), "connect").unwrap()
    }

    /// Any answer to it.
    pub(crate) async fn welcome(&mut self, session: SessionId, timeout_ms: i32, read_only: bool) {
        let response = ConnectResponse {
            protocol_version: 0,
            timeout_ms,
            session_id: session,
            password: Some(Bytes::from_static(b"sixteen bytes...")),
            read_only: Some(read_only),
        };
        let mut out = BytesMut::new();
        frame::put(&mut out, |out| response.encode(out));
        self.send(&out).await;
    }

    /// The answer to it that grants the session.
    pub(crate) async fn grant(&mut self) {
        self.welcome(SESSION, i32::try_from(TIMEOUT.as_millis()).unwrap(), false).await;
    }

    /// The next request, pings included; `None` when the client has hung up.
    pub(crate) async fn any_request(&mut self) -> Option<(Xid, Request)> {
        let mut payload = self.frame().await?;
        let header = RequestHeader::decode(&mut payload, "header").unwrap();
        let op = OpCode::from_i32(header.op).unwrap();
        Some((header.xid, Request::decode(op, &mut payload).unwrap()))
    }

    /// The next request that is not a ping; pings are answered.
    pub(crate) async fn request(&mut self) -> (Xid, Request) {
        loop {
            match self.any_request().await.unwrap() {
                (Xid::PING, _) => self.pong().await,
                request => return request,
            }
        }
    }

    /// Waits until the client hangs up, and answers nothing meanwhile.
    pub(crate) async fn until_hung_up(&mut self) {
        while self.frame().await.is_some() {}
    }

    pub(crate) async fn pong(&mut self) {
        self.answer(Xid::PING, Ok(Reply::Empty)).await;
    }

    /// Replies to a request as of zxid 1.
    pub(crate) async fn answer(&mut self, xid: Xid, answer: Result<Reply, ErrorCode>) {
        self.answer_at(xid, Zxid(1), answer).await;
    }

    pub(crate) async fn answer_at(
        &mut self,
        xid: Xid,
        zxid: Zxid,
        answer: Result<Reply, ErrorCode>,
    ) {
        let header = ReplyHeader { xid, zxid, err: answer.as_ref().err().copied() };
        let mut out = BytesMut::new();
        frame::put(&mut out, |out| answer.unwrap_or(Reply::Empty).encode_with(header, out));
        self.send(&out).await;
    }

    /// The bytes of a reply as of zxid 1.
    pub(crate) fn frame_of(xid: Xid, reply: &Reply) -> BytesMut {
        let header = ReplyHeader { xid, zxid: Zxid(1), err: None };
        let mut out = BytesMut::new();
        frame::put(&mut out, |out| reply.encode_with(header, out));
        out
    }

    /// Fires a watch.
    pub(crate) async fn event(&mut self, event_type: EventType, path: &str) {
        self.event_at(Zxid(9), event_type, path).await;
    }

    /// Fires a watch by this transaction.
    pub(crate) async fn event_at(&mut self, zxid: Zxid, event_type: EventType, path: &str) {
        let state = KeeperState::SyncConnected;
        let event = WatcherEvent { event_type, state, path: path.to_owned() };
        let header = ReplyHeader { xid: Xid::NOTIFICATION, zxid, err: None };
        let mut out = BytesMut::new();
        frame::put(&mut out, |out| Reply::Event(event).encode_with(header, out));
        self.send(&out).await;
    }

    /// Sends any bytes.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        // The client may have hung up.
        let _ = self.stream.write_all(bytes).await;
    }

    /// Reads a four-letter word.
    pub(crate) async fn word(&mut self) -> [u8; 4] {
        let mut word = [0; 4];
        self.stream.read_exact(&mut word).await.unwrap();
        word
    }

    /// Bytes that have come and were not read, and all that come within a time.
    pub(crate) async fn silent_for(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, self.frame()).await.is_err()
    }
}
