//! Connections of which there may be ten thousand, and many requests on a few of them.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::runtime::{self, Runtime};
use tokio::task::JoinSet;
use tokio::time::timeout;
use zoolet_jute::{
    ConnectResponse, Decode, Encode, ErrorCode, ReplyHeader, Request, SessionId, Xid, frame,
};

use crate::raw::new_session;

/// How long a server may take to answer anything.
const ANSWER_MAX: Duration = Duration::from_mins(1);
/// Replies of this bench are short.
const REPLY_BYTES_MAX: usize = 1024 * 1024;
/// What is read at a time. Connections that are idle have no buffer.
const READ_BYTES: usize = 4 * 1024;

/// Returns a runtime on this thread alone, which leaves the other cores to the servers.
pub(super) fn runtime() -> io::Result<Runtime> {
    runtime::Builder::new_current_thread().enable_all().build()
}

/// A connection with its session.
#[derive(Debug)]
pub(super) struct Link {
    stream: TcpStream,
    incoming: BytesMut,
    xid: i32,
}

impl Link {
    /// Opens a new session.
    pub(super) async fn open(server: SocketAddr, session_ms: i32) -> io::Result<Self> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        let mut link = Self { stream, incoming: BytesMut::new(), xid: 0 };
        let mut out = BytesMut::new();
        frame::put(&mut out, |out| new_session(session_ms).encode(out));
        link.stream.write_all(&out).await?;
        let mut payload = timeout(ANSWER_MAX, link.frame()).await??;
        let session = ConnectResponse::decode(&mut payload, "connect").map_err(invalid)?;
        if session.session_id == SessionId::NONE {
            return Err(io::Error::other("the server gives no session"));
        }
        Ok(link)
    }

    /// Sends a request and waits for its reply; events before it are left out.
    pub(super) async fn call(&mut self, request: &Request) -> io::Result<Option<ErrorCode>> {
        let mut out = BytesMut::new();
        self.put(request, &mut out);
        self.stream.write_all(&out).await?;
        self.reply().await
    }

    /// Waits for a watch event, for as long as it takes.
    pub(super) async fn event(&mut self) -> io::Result<()> {
        loop {
            let mut payload = self.frame().await?;
            let header = ReplyHeader::decode(&mut payload, "header").map_err(invalid)?;
            if header.xid == Xid::NOTIFICATION {
                return Ok(());
            }
        }
    }

    fn put(&mut self, request: &Request, out: &mut BytesMut) {
        self.xid += 1;
        let xid = Xid(self.xid);
        frame::put(out, |out| request.encode_with(xid, out));
    }

    async fn reply(&mut self) -> io::Result<Option<ErrorCode>> {
        loop {
            let mut payload = timeout(ANSWER_MAX, self.frame()).await??;
            let header = ReplyHeader::decode(&mut payload, "header").map_err(invalid)?;
            if header.xid != Xid::NOTIFICATION {
                return Ok(header.err);
            }
        }
    }

    async fn frame(&mut self) -> io::Result<Bytes> {
        loop {
            if let Some(payload) =
                frame::split(&mut self.incoming, REPLY_BYTES_MAX).map_err(invalid)?
            {
                if self.incoming.is_empty() {
                    self.incoming = BytesMut::new();
                }
                return Ok(payload);
            }
            self.stream.readable().await?;
            self.incoming.reserve(READ_BYTES);
            match self.stream.try_read_buf(&mut self.incoming) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends requests, a number of them under way at a time, and checks that each succeeds.
    pub(super) async fn send_all(
        &mut self,
        depth: usize,
        requests: Vec<Request>,
    ) -> io::Result<()> {
        let mut requests = requests.into_iter();
        let mut under_way = 0;
        loop {
            let mut out = BytesMut::new();
            while under_way < depth
                && let Some(request) = requests.next()
            {
                self.put(&request, &mut out);
                under_way += 1;
            }
            if under_way == 0 {
                return Ok(());
            }
            self.stream.write_all(&out).await?;
            // All that have come are taken before others are sent.
            loop {
                if let Some(code) = self.reply().await? {
                    return Err(io::Error::other(format!("a request has failed: {code:?}")));
                }
                under_way -= 1;
                if self.incoming.is_empty() || under_way == 0 {
                    break;
                }
            }
        }
    }
}

/// Opens sessions at one server, a few at a time.
pub(super) async fn open_all(
    server: SocketAddr,
    count: usize,
    session_ms: i32,
) -> io::Result<Vec<Link>> {
    const AT_A_TIME: usize = 100;
    let mut links = Vec::with_capacity(count);
    while links.len() < count {
        let mut opening = JoinSet::new();
        for _ in 0..AT_A_TIME.min(count - links.len()) {
            opening.spawn(Link::open(server, session_ms));
        }
        while let Some(opened) = opening.join_next().await {
            links.push(opened??);
        }
    }
    Ok(links)
}

/// Sends `count` requests over some connections with some under way on each, and returns how long
/// they took.
#[allow(clippy::disallowed_methods, reason = "the bench measures real time")]
pub(super) async fn send_all(
    server: SocketAddr,
    (connections, depth): (u32, usize),
    count: u32,
    request: impl Fn(u32) -> Request + Clone + Send + 'static,
) -> io::Result<Duration> {
    // The requests of a connection are made some at a time: all of them take gigabytes.
    const MADE_AT_A_TIME: usize = 4_096;
    let began = Instant::now();
    let mut senders = JoinSet::new();
    for first in 0..connections {
        let request = request.clone();
        senders.spawn(async move {
            let mut link = Link::open(server, super::writer::SESSION_MS).await?;
            let mut numbers = (first..count).step_by(usize::try_from(connections).unwrap_or(1));
            loop {
                let made: Vec<Request> =
                    numbers.by_ref().take(MADE_AT_A_TIME).map(&request).collect();
                if made.is_empty() {
                    return Ok::<(), io::Error>(());
                }
                link.send_all(depth, made).await?;
            }
        });
    }
    while let Some(sent) = senders.join_next().await {
        sent??;
    }
    Ok(began.elapsed())
}

fn invalid(error: zoolet_jute::DecodeError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
