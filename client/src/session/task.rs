//! The one task that owns the connection: it connects, carries bytes, and wakes the core in time.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt, WriteHalf};
use tokio::time::{Instant, sleep_until};
use tracing::{Instrument, Span, debug, field, info_span, warn};

use super::SessionState;
use super::calls::{Calls, Ending, Unserved};
use super::core::Core;
use super::end::End;
use super::probe::find_writer;
use super::route::{READ_BYTES, Reached, Route, Wire};
use crate::{ErrorKind, Transport};

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

/// Fails the calls that will not be carried out: the task goes with the runtime that it runs on.
#[derive(Debug)]
struct LastWord(Arc<Calls>);

impl Drop for LastWord {
    fn drop(&mut self) {
        self.0.stop(&ErrorKind::Closed);
    }
}

impl Task {
    pub(crate) fn new(route: Route, calls: Arc<Calls>, core: Core) -> Self {
        let last_word = LastWord(Arc::clone(&calls));
        Self { route, calls, core, _last_word: last_word }
    }

    /// Runs until the session is over or its last handle is gone.
    pub(crate) async fn run(mut self) {
        let over = loop {
            let (wire, address) = match self.connect().await {
                Ok(connected) => connected,
                Err(over) => break over,
            };
            Span::current().record("id", field::display(self.core.session_id()));
            let connection = info_span!("connection", server = address);
            match self.serve(wire).instrument(connection).await {
                End::Over(state) => break state,
                End::Lost(error) => {
                    let why = error.cause();
                    debug!(address, why, "connection lost");
                    self.core
                        .disconnected(&format!("{address}: {why}"), error.shared_source().as_ref());
                    self.route.leave(address);
                }
            }
        };
        warn_of_end(over);
        self.core.over(over);
        self.calls.stop(&over.end());
    }

    /// Waits for a server that serves the session.
    async fn connect(&mut self) -> Result<(Wire, String), SessionState> {
        loop {
            let Reached { wire, response, asked_at, address } = self.reach().await?;
            match self.core.greet(response, asked_at, Instant::now()) {
                Ok(()) => return Ok((wire, address)),
                Err(End::Over(state)) => return Err(state),
                Err(End::Lost(error)) => self.route.fail(&address, error.cause()),
            }
        }
    }

    /// Waits for a server that answers, and reports when the session may have ended meanwhile.
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
        self.take_calls(Instant::now())?;
        let takes_calls = self.core.has_room() && !self.core.is_closing();
        let deadline = self.core.deadline();
        let Wire { reader, writer, incoming, flushed } = wire;
        incoming.reserve(READ_BYTES);
        let outgoing = self.core.outgoing();
        let has_bytes = !outgoing.is_empty();
        tokio::select! {
            read = reader.read_buf(incoming) => self.receive(read, incoming),
            wrote = push(writer, outgoing), if has_bytes || !*flushed => {
                wrote?;
                *flushed = !has_bytes;
                Ok(())
            }
            () = self.calls.ready(), if takes_calls => Ok(()),
            // Bytes may have come in while this task did not run: they are looked at first.
            () = sleep_until(deadline) => {
                if let Some(read) = at_once(reader.read_buf(incoming)).await {
                    self.receive(read, incoming)?;
                }
                self.core.wake(Instant::now())
            }
            address = found(look) => {
                debug!(address, "a server that writes");
                self.route.hosts.prefer(&address);
                self.route.refresh();
                let why = "it is read-only, and another server accepts writes";
                Err(io::Error::new(io::ErrorKind::ConnectionReset, why).into())
            }
        }
    }

    /// Handles what was read.
    fn receive(&mut self, read: io::Result<usize>, incoming: &mut BytesMut) -> Result<(), End> {
        match read? {
            0 => {
                let why = "the server has closed the connection";
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, why).into())
            }
            _ => self.core.receive(incoming, Instant::now()),
        }
    }

    /// Sends what was asked for, as far as there is room.
    fn take_calls(&mut self, now: Instant) -> Result<(), End> {
        let ending = self.calls.ending();
        if ending == Some(Ending::Detach) {
            return Err(End::Over(SessionState::Closed));
        }
        for (kind, path) in self.calls.take_forgotten() {
            self.core.forget(kind, path, now);
        }
        while self.core.has_room() && !self.core.is_closing() {
            match self.calls.take() {
                Some(operation) => self.core.ask(operation, now),
                None if ending == Some(Ending::Close) => self.core.close(None, now),
                None => break,
            }
        }
        Ok(())
    }
}

/// Logs the end of a session that the program did not ask for.
fn warn_of_end(over: SessionState) {
    match over {
        SessionState::Expired => {
            warn!("the session has expired: its ephemeral znodes and locks are gone");
        }
        SessionState::AuthFailed => {
            warn!("the server refused the credentials: the session is over");
        }
        SessionState::Closed
        | SessionState::Connected
        | SessionState::ReadOnly
        | SessionState::Lost
        | SessionState::Disconnected => {}
    }
}

/// Returns what a future comes to without a wait.
async fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
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
