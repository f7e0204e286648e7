//! Connections of zoolet's own client, whose frames are noted as they pass: what it sends and gets is
//! judged like that of the raw sessions.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use zoolet_client::{Connecting, Connector, Resolving, Transport};
use zoolet_jute::{ConnectRequest, Decode as _, OpCode, Request, RequestHeader, frame};
use zoolet_replica::ServerId;

use super::exchange::{Breach, Exchange};
use super::wire::REPLY_BYTES_MAX;
use crate::history::{ClientNumber, Recorder};
use crate::load::ClientMachine;

/// The connector of a machine, which notes what passes.
#[derive(Debug)]
pub struct Recorded {
    connector: Arc<dyn Connector>,
    client: ClientNumber,
    servers: Vec<(ServerId, String)>,
    recorder: Recorder,
}

impl Recorded {
    /// Connects as the machine does.
    pub fn of(machine: &ClientMachine) -> Self {
        Self {
            connector: Arc::clone(&machine.connector),
            client: machine.client,
            servers: machine.servers.clone(),
            recorder: machine.recorder.clone(),
        }
    }
}

impl Connector for Recorded {
    fn connect<'a>(&'a self, address: &'a str) -> Connecting<'a> {
        Box::pin(async move {
            let known = self.servers.iter().find(|(_, known)| known == address);
            let (server, _) = known.ok_or_else(|| io::Error::other("no server is there"))?;
            let transport = self.connector.connect(address).await?;
            let tap = Tap::new(transport, *server, Exchange::new(&self.recorder, self.client));
            Ok(Box::new(tap) as Box<dyn Transport>)
        })
    }

    fn resolve<'a>(&'a self, address: &'a str) -> Resolving<'a> {
        self.connector.resolve(address)
    }
}

/// A connection, and what has passed of the frame that is not whole yet, in each direction.
struct Tap {
    transport: Box<dyn Transport>,
    server: ServerId,
    exchange: Exchange,
    outgoing: BytesMut,
    incoming: BytesMut,
    /// How many bytes are in `outgoing`, or were, that the transport has not taken yet. A call is noted
    /// before its frame is on its way, so that no effect of it is seen before.
    ahead: usize,
    /// The handshake, when it was sent.
    asked: Option<ConnectRequest>,
    /// Whether it was answered.
    is_connected: bool,
    /// It has shown what the protocol rules out, and nothing more of it is noted.
    is_given_up: bool,
}

impl Tap {
    fn new(transport: Box<dyn Transport>, server: ServerId, exchange: Exchange) -> Self {
        Self {
            transport,
            server,
            exchange,
            outgoing: BytesMut::new(),
            incoming: BytesMut::new(),
            ahead: 0,
            asked: None,
            is_connected: false,
            is_given_up: false,
        }
    }

    /// Notes the requests in what is about to be sent.
    fn send(&mut self, bytes: &[u8]) {
        let new = bytes.get(self.ahead..).unwrap_or_default();
        self.ahead += new.len();
        self.outgoing.extend_from_slice(new);
        let sent = self.note(|tap| &mut tap.outgoing, Self::sent);
        self.settle(sent, "our client sent something else than a request");
    }

    fn sent(&mut self, mut payload: Bytes) -> Result<(), Breach> {
        if self.asked.is_none() {
            self.asked = Some(ConnectRequest::decode(&mut payload, "connect")?);
            return Ok(());
        }
        let header = RequestHeader::decode(&mut payload, "header")?;
        let op =
            OpCode::from_i32(header.op).ok_or_else(|| format!("no operation {}", header.op))?;
        let request = Request::decode(op, &mut payload)?;
        if !payload.is_empty() {
            return Err(format!("{} bytes behind the request {op}", payload.len()).into());
        }
        self.exchange.called(header.xid, request, None);
        Ok(())
    }

    /// Notes the replies and events in what has come.
    fn receive(&mut self, bytes: &[u8]) {
        self.incoming.extend_from_slice(bytes);
        let received = self.note(|tap| &mut tap.incoming, Self::received);
        self.settle(received, "a server sent what it was not asked for");
    }

    fn received(&mut self, payload: Bytes) -> Result<(), Breach> {
        if self.is_connected {
            return self.exchange.arrived(payload).map(drop);
        }
        let asked = self.asked.as_ref().ok_or("bytes before the handshake")?;
        self.exchange.connected(self.server, asked, payload)?;
        self.is_connected = true;
        Ok(())
    }

    /// Takes the whole frames of a direction, one after the other.
    fn note(
        &mut self,
        direction: fn(&mut Self) -> &mut BytesMut,
        frame_passes: fn(&mut Self, Bytes) -> Result<(), Breach>,
    ) -> Result<(), Breach> {
        while !self.is_given_up {
            let split = frame::split(direction(self), REPLY_BYTES_MAX);
            match split? {
                Some(payload) => frame_passes(self, payload)?,
                None => break,
            }
        }
        Ok(())
    }

    fn settle(&mut self, noted: Result<(), Breach>, what: &str) {
        if let Err(why) = noted {
            self.is_given_up = true;
            self.exchange.complain(&format!("{what}: {why}").into());
        }
    }
}

impl AsyncRead for Tap {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let tap = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut tap.transport).poll_read(context, buffer))?;
        tap.receive(buffer.filled().get(before..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tap {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let tap = self.get_mut();
        tap.send(bytes);
        let taken = ready!(Pin::new(&mut tap.transport).poll_write(context, bytes))?;
        tap.ahead = tap.ahead.saturating_sub(taken);
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().transport).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().transport).poll_shutdown(context)
    }
}
