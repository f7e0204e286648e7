//! A blocking connection that sends what it is given and shows all that comes back, for the oracle.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use zoolet_jute::{
    ConnectRequest, ConnectResponse, Decode, Encode, OpCode, Reply, ReplyHeader, Request,
    SessionId, WatcherEvent, Xid, Zxid, frame,
};

/// How long a server may take to answer anything.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// Replies are not bounded by the servers.
const REPLY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A frame from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// An answer, and the body as the operation that was asked for has it.
    Reply(ReplyHeader, Option<Reply>),
    /// A watch has fired.
    Event(Zxid, WatcherEvent),
    /// The server has closed the connection.
    Closed,
}

/// The handshake of a new session.
pub fn new_session(timeout_ms: i32) -> ConnectRequest {
    ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(0),
        timeout_ms,
        session_id: SessionId::NONE,
        password: Some(Bytes::from_static(&[0; 16])),
        read_only: Some(false),
    }
}

/// One connection with its session.
#[derive(Debug)]
pub struct RawConnection {
    stream: TcpStream,
    incoming: BytesMut,
    asked: VecDeque<OpCode>,
    /// What the server answered to the handshake.
    pub session: ConnectResponse,
}

impl RawConnection {
    /// Opens a new session.
    pub fn open(server: SocketAddr, timeout_ms: i32) -> io::Result<Self> {
        Self::handshake(server, &new_session(timeout_ms))
    }

    /// Says any handshake.
    pub fn handshake(server: SocketAddr, request: &ConnectRequest) -> io::Result<Self> {
        Self::over(TcpStream::connect_timeout(&server, ANSWER_LIMIT)?, request)
    }

    fn over(mut stream: TcpStream, request: &ConnectRequest) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        let mut out = BytesMut::new();
        frame::put(&mut out, |out| request.encode(out));
        stream.write_all(&out)?;
        let mut connection = Self {
            stream,
            incoming: BytesMut::new(),
            asked: VecDeque::new(),
            session: ConnectResponse::expired(None),
        };
        let mut payload =
            connection.frame()?.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        connection.session = ConnectResponse::decode(&mut payload, "connect").map_err(invalid)?;
        Ok(connection)
    }

    /// Opens a new session from this address of the machine. Not to be called by a task of tokio.
    pub fn open_from(source: IpAddr, server: SocketAddr, timeout_ms: i32) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let stream = runtime.block_on(async {
            let socket = tokio::net::TcpSocket::new_v4()?;
            socket.bind(SocketAddr::new(source, 0))?;
            socket.connect(server).await?.into_std()
        })?;
        stream.set_nonblocking(false)?;
        Self::over(stream, &new_session(timeout_ms))
    }

    /// The handshake that resumes this connection's session.
    pub fn resume_request(&self, last_zxid_seen: Zxid) -> ConnectRequest {
        ConnectRequest {
            protocol_version: 0,
            last_zxid_seen,
            timeout_ms: self.session.timeout_ms,
            session_id: self.session.session_id,
            password: self.session.password.clone(),
            read_only: Some(false),
        }
    }

    /// Sends a request.
    pub fn send(&mut self, xid: Xid, request: &Request) -> io::Result<()> {
        let mut out = BytesMut::new();
        frame::put(&mut out, |out| request.encode_with(xid, out));
        self.asked.push_back(request.op_code());
        self.stream.write_all(&out)
    }

    /// Sends any payload as a frame; `op` decides how the reply is read.
    pub fn send_payload(&mut self, payload: &[u8], op: OpCode) -> io::Result<()> {
        let mut out = BytesMut::new();
        frame::put(&mut out, |out| out.extend_from_slice(payload));
        self.asked.push_back(op);
        self.stream.write_all(&out)
    }

    /// Sends bytes as they are, as many as the server takes within `time`.
    pub fn send_bytes(&mut self, bytes: &[u8], time: Duration) -> io::Result<()> {
        self.stream.set_write_timeout(Some(time))?;
        self.stream.write_all(bytes)
    }

    /// Waits until something can be received, and leaves it there.
    pub fn wait_for_bytes(&self) -> io::Result<()> {
        self.stream.peek(&mut [0]).map(|_| ())
    }

    /// Waits for the next frame.
    pub fn receive(&mut self) -> io::Result<Incoming> {
        let Some(mut payload) = self.frame()? else { return Ok(Incoming::Closed) };
        let header = ReplyHeader::decode(&mut payload, "header").map_err(invalid)?;
        if header.xid == Xid::NOTIFICATION {
            let event = WatcherEvent::decode(&mut payload, "event").map_err(invalid)?;
            return Ok(Incoming::Event(header.zxid, event));
        }
        let op = self.asked.pop_front().ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("unasked reply {header:?}"))
        })?;
        let reply = match header.err {
            None => Some(Reply::decode(op, &mut payload).map_err(invalid)?),
            Some(_) => None,
        };
        if !payload.is_empty() {
            let why = format!("{} bytes behind the reply to {op}", payload.len());
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(Incoming::Reply(header, reply))
    }

    /// Sends a request and waits for its reply; the events that come before it are handed back.
    pub fn call(&mut self, xid: Xid, request: &Request) -> io::Result<(Vec<Incoming>, Incoming)> {
        self.send(xid, request)?;
        self.until_reply()
    }

    /// Waits for a reply or the end; the events that come before it are handed back.
    pub fn until_reply(&mut self) -> io::Result<(Vec<Incoming>, Incoming)> {
        let mut events = Vec::new();
        loop {
            match self.receive()? {
                event @ Incoming::Event(..) => events.push(event),
                end @ (Incoming::Reply(..) | Incoming::Closed) => return Ok((events, end)),
            }
        }
    }

    /// The next frame; `None` at the end of the stream.
    fn frame(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if let Some(payload) =
                frame::split(&mut self.incoming, REPLY_BYTES_MAX).map_err(invalid)?
            {
                return Ok(Some(payload));
            }
            let mut chunk = [0; 8 * 1024];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Ok(None),
                Ok(bytes) => self.incoming.extend_from_slice(chunk.get(..bytes).unwrap_or(&[])),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                // A signal ends a read that has a time limit, as that of a child that has died does.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn invalid(error: zoolet_jute::DecodeError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
