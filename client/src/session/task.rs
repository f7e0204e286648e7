//! The one task that owns the connection: it connects, carries bytes, and wakes the core in time.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::debug;
use zoolet_jute::{ConnectRequest, ConnectResponse, Decode, Encode, frame};

use super::SessionState;
use super::calls::{Calls, Ending, Unserved};
use super::core::{Core, End, REPLY_BYTES_MAX};
use super::probe::find_writer;
use super::timeouts::Timeouts;
use crate::hosts::Hosts;
use crate::{Connector, Error, ErrorKind, Transport};

/// The bytes to make room for before each read.
const READ_BYTES: usize = 64 * 1024;

/// One connection, with what has been read of it.
struct Wire {
    reader: ReadHalf<Box<dyn Transport>>,
    writer: WriteHalf<Box<dyn Transport>>,
    incoming: BytesMut,
    /// Whether the transport may hold bytes back.
    flushed: bool,
}

/// A server's answer to the handshake.
struct Reached {
    wire: Wire,
    response: ConnectResponse,
    asked_at: Instant,
}

/// A search for a server that writes.
type Look = Pin<Box<dyn Future<Output = String> + Send>>;

/// The task's state.
#[derive(Debug)]
pub(crate) struct Task {
    route: Route,
    calls: Arc<Calls>,
    core: Core,
    _last_word: LastWord,
}

/// Fails the calls that nobody will carry out: the task goes with the runtime that it runs on.
#[derive(Debug)]
struct LastWord(Arc<Calls>);

impl Drop for LastWord {
    fn drop(&mut self) {
        self.0.stop(&ErrorKind::Closed);
    }
}

impl Task {
    pub(crate) fn new(
        hosts: Hosts,
        connector: Arc<dyn Connector>,
        calls: Arc<Calls>,
        core: Core,
    ) -> Self {
        let route = Route { hosts, connector, rounds: 0, tired: false };
        let last_word = LastWord(Arc::clone(&calls));
        Self { route, calls, core, _last_word: last_word }
    }

    /// Runs until the session is over or nobody wants it any more.
    pub(crate) async fn run(mut self) {
        let over = loop {
            let end = match self.connect().await {
                Ok(wire) => self.serve(wire).await,
                Err(over) => End::Over(over),
            };
            match end {
                End::Over(state) => break state,
                End::Lost(error) => {
                    debug!(session = %self.core.session_id(), %error, "connection lost");
                    self.core.disconnected();
                }
            }
        };
        self.core.over(over);
        self.calls.stop(&over.end());
    }

    /// Waits for a server that serves the session.
    async fn connect(&mut self) -> Result<Wire, SessionState> {
        loop {
            let Reached { wire, response, asked_at } = self.reach().await?;
            match self.core.greet(response, asked_at, Instant::now()) {
                Ok(()) => return Ok(wire),
                Err(End::Over(state)) => return Err(state),
                Err(End::Lost(error)) => debug!(%error, "no session here"),
            }
        }
    }

    /// Waits for a server that answers, and tells when the session may have ended meanwhile.
    async fn reach(&mut self) -> Result<Reached, SessionState> {
        let (request, timeouts) = (self.core.connect_request(), self.core.timeouts());
        let mut reach = pin!(self.route.reach(&request, timeouts));
        loop {
            let lost_at = self.core.lost_at();
            let lost = async {
                match lost_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                reached = &mut reach => return Ok(reached),
                what = self.calls.unserved() => match what {
                    Unserved::Abandoned => return Err(SessionState::Closed),
                    Unserved::Forgotten(watches) => {
                        for (kind, path) in watches {
                            self.core.forget_unserved(kind, &path);
                        }
                    }
                },
                () = lost => self.core.lose(),
            }
        }
    }

    /// Serves one connection until it ends.
    async fn serve(&mut self, mut wire: Wire) -> End {
        let began_at = Instant::now();
        let mut look: Option<Look> = self.core.is_read_only().then(|| {
            let (hosts, connector) = (self.route.hosts.clone(), Arc::clone(&self.route.connector));
            Box::pin(find_writer(hosts, connector)) as Look
        });
        loop {
            if let Err(end) = self.turn(&mut wire, &mut look).await {
                if began_at.elapsed() >= self.core.timeouts().ping() {
                    self.route.refresh();
                }
                return end;
            }
        }
    }

    /// Waits for the next thing to happen on the connection, and handles it.
    async fn turn(&mut self, wire: &mut Wire, look: &mut Option<Look>) -> Result<(), End> {
        self.take_calls()?;
        let takes_calls = self.core.has_room() && !self.core.is_closing();
        let deadline = self.core.deadline();
        let Wire { reader, writer, incoming, flushed } = wire;
        incoming.reserve(READ_BYTES);
        let outgoing = self.core.outgoing();
        let has_bytes = !outgoing.is_empty();
        tokio::select! {
            read = reader.read_buf(incoming) => {
                if read? == 0 {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                }
                self.core.receive(incoming, Instant::now())
            }
            wrote = push(writer, outgoing), if has_bytes || !*flushed => {
                wrote?;
                *flushed = !has_bytes;
                Ok(())
            }
            () = self.calls.ready(), if takes_calls => Ok(()),
            () = sleep_until(deadline) => self.core.wake(Instant::now()),
            address = found(look) => {
                debug!(address, "a server that writes");
                self.route.hosts.prefer(&address);
                self.route.refresh();
                Err(io::Error::from(io::ErrorKind::ConnectionReset).into())
            }
        }
    }

    /// Sends what was asked for, as far as there is room.
    fn take_calls(&mut self) -> Result<(), End> {
        let ending = self.calls.ending();
        if ending == Some(Ending::Detach) {
            return Err(End::Over(SessionState::Closed));
        }
        for (kind, path) in self.calls.take_forgotten() {
            self.core.forget(kind, path);
        }
        while self.core.has_room() && !self.core.is_closing() {
            match self.calls.take() {
                Some(operation) => self.core.ask(operation),
                None if ending == Some(Ending::Close) => self.core.close(None),
                None => break,
            }
        }
        Ok(())
    }
}

/// Writes some of the bytes, or flushes when there are none.
async fn push(
    writer: &mut WriteHalf<Box<dyn Transport>>,
    outgoing: &mut BytesMut,
) -> io::Result<()> {
    if outgoing.is_empty() {
        return writer.flush().await;
    }
    match writer.write_buf(outgoing).await? {
        0 => Err(io::ErrorKind::WriteZero.into()),
        _ => Ok(()),
    }
}

/// Waits for the end of a search, if there is one.
async fn found(look: &mut Option<Look>) -> String {
    match look {
        Some(look) => look.await,
        None => std::future::pending().await,
    }
}

/// The way to a server: which one comes next, and after which wait.
#[derive(Debug)]
struct Route {
    hosts: Hosts,
    connector: Arc<dyn Connector>,
    /// How many rounds over all servers were fruitless. A connection that ends at once is no fruit.
    rounds: u32,
    /// Whether all servers have been tried since the last wait.
    tired: bool,
}

impl Route {
    /// Tries the servers in turn until one answers, with a growing wait after each round.
    async fn reach(&mut self, request: &ConnectRequest, timeouts: Timeouts) -> Reached {
        loop {
            if self.tired {
                let chance = self.hosts.chance();
                sleep(timeouts.backoff(self.rounds, chance)).await;
                self.rounds = self.rounds.saturating_add(1);
            }
            let (address, round_ends) = self.hosts.next();
            self.tired = round_ends;
            let limit = timeouts.connect(self.hosts.count());
            match timeout(limit, handshake(&*self.connector, &address, request)).await {
                Ok(Ok(reached)) => return reached,
                Ok(Err(error)) => debug!(address, %error, "no session here"),
                Err(_) => debug!(address, limit_ms = limit.as_millis(), "no answer in time"),
            }
        }
    }

    /// Forgets the fruitless rounds.
    fn refresh(&mut self) {
        (self.rounds, self.tired) = (0, false);
    }
}

async fn handshake(
    connector: &dyn Connector,
    address: &str,
    request: &ConnectRequest,
) -> Result<Reached, Error> {
    let (mut reader, mut writer) = split(connector.connect(address).await?);
    let asked_at = Instant::now();
    let mut outgoing = BytesMut::new();
    frame::put(&mut outgoing, |out| request.encode(out));
    writer.write_all_buf(&mut outgoing).await?;
    writer.flush().await?;
    let mut incoming = BytesMut::with_capacity(READ_BYTES);
    let mut payload = loop {
        if let Some(payload) = frame::split(&mut incoming, REPLY_BYTES_MAX)? {
            break payload;
        }
        if reader.read_buf(&mut incoming).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    };
    let response = ConnectResponse::decode(&mut payload, "connect")?;
    let wire = Wire { reader, writer, incoming, flushed: true };
    Ok(Reached { wire, response, asked_at })
}
