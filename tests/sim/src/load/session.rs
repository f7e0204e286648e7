//! A raw session: its own connections, with every frame in the history.
//!
//! It behaves as programs do, and as they should not: it has several requests in flight, it does not
//! always wait for the answer to its handshake, it moves between servers while requests are under way.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use zoolet_client::Connector;
use zoolet_jute::{Request, SessionId, WatcherEvent};
use zoolet_replica::ServerId;

use super::chance::Chance;
use super::driver::Driver;
pub use super::exchange::Outcome;
pub use super::watches::Restore;
use crate::history::{ClientNumber, Recorder};

/// How a session behaves.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Whose it is.
    pub client: ClientNumber,
    /// How servers are reached.
    pub connector: Arc<dyn Connector>,
    /// The servers and their addresses.
    pub servers: Vec<(ServerId, String)>,
    /// Where everything is noted.
    pub recorder: Recorder,
    /// The timeout to ask for.
    pub timeout: Duration,
    /// The most requests in flight.
    pub in_flight_max: usize,
    /// How watches are registered anew.
    pub restore: Restore,
    /// One connection of this number does not wait for the answer to its handshake; 0 for none.
    pub eager_one_in: u64,
    /// Whether the handshake has the byte that came with 3.4.
    pub has_read_only: bool,
}

/// What the owner of a session has it do, beside requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// Ends the connection and makes another one, to any server.
    HangUp,
    /// Makes a connection to another server while the old one is open and has requests in flight.
    Move,
    /// Goes on as a new process that knows the session's id and password: xids begin again, watches
    /// and identities are forgotten. `lastZxidSeen` is kept or forgotten.
    NewProcess {
        /// Whether the last zxid was written down with the password.
        keeps_zxid: bool,
    },
    /// Closes the session, and begins another one, whether the reply comes or not.
    Close,
    /// Neither reads nor writes for so long, as a process that is stopped.
    Pause(Duration),
}

/// What a session sees besides replies, in its order among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// A watch has fired.
    Watch(WatcherEvent),
    /// A connection serves the session.
    Connected {
        /// The session.
        session: SessionId,
        /// Whether the watches of the last connection are registered on this one: not if the session
        /// has begun now, or another process resumes it.
        keeps_watches: bool,
    },
    /// A connection has ended.
    Disconnected,
}

/// The events of a session. Dropping it loses them, and nothing else.
pub type SessionEvents = mpsc::UnboundedReceiver<SessionEvent>;

/// Where a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionStatus {
    /// The session; none before the first connection, and after it has expired.
    pub session: SessionId,
    /// Whether it has a connection.
    pub is_connected: bool,
    /// Until when no server can have ended the session: two thirds of the timeout, counted from when
    /// the last ping was sent that was answered.
    pub safe_until: Option<Instant>,
    /// The timeout that was granted last; before, the one that is asked for.
    pub timeout: Duration,
    /// Whether it was closed.
    pub is_over: bool,
}

/// What the driver gets from its owner.
#[derive(Debug)]
pub(super) enum Command {
    Call(Request, oneshot::Sender<Outcome>),
    Disturb(Disturbance),
}

/// A session that goes on until it is closed or dropped. One that has expired is begun anew.
#[derive(Debug)]
pub struct Session {
    commands: mpsc::UnboundedSender<Command>,
    status: watch::Receiver<SessionStatus>,
    /// Dropped with it, so that nothing of a session outlives its owner.
    driver: JoinSet<()>,
}

impl Session {
    /// Begins a session in the background.
    pub fn start(options: SessionOptions, chance: Chance) -> (Self, SessionEvents) {
        let (commands, command_receiver) = mpsc::unbounded_channel();
        let (event_sender, events) = mpsc::unbounded_channel();
        let (status_sender, status) = watch::channel(SessionStatus {
            session: SessionId::NONE,
            is_connected: false,
            safe_until: None,
            timeout: options.timeout,
            is_over: false,
        });
        let driver_parts = (command_receiver, event_sender, status_sender);
        let mut driver = JoinSet::new();
        driver.spawn(Driver::new(options, chance, driver_parts).run());
        (Self { commands, status, driver }, events)
    }

    /// Sends a request as soon as there is a connection and room. Requests keep their order.
    pub fn send(&self, request: Request) -> Pending {
        let (sender, receiver) = oneshot::channel();
        // A driver that has ended drops the sender: the outcome is unknown.
        let _ = self.commands.send(Command::Call(request, sender));
        Pending(receiver)
    }

    /// Sends a request and waits for its outcome, without a limit.
    pub async fn call(&self, request: Request) -> Outcome {
        self.send(request).await
    }

    /// Disturbs the session, once the requests before have been sent.
    pub fn disturb(&self, disturbance: Disturbance) {
        let _ = self.commands.send(Command::Disturb(disturbance));
    }

    /// Where it is now.
    pub fn status(&self) -> SessionStatus {
        *self.status.borrow()
    }

    /// The same, as it changes.
    pub fn watch_status(&self) -> watch::Receiver<SessionStatus> {
        self.status.clone()
    }

    /// Whether nothing is sent any more: every outcome is unknown at once.
    pub fn is_over(&self) -> bool {
        self.commands.is_closed()
    }

    /// Closes the session, within a limit: then it is left to its timeout. Returns whether the reply
    /// has arrived.
    pub async fn close(mut self, limit: Duration) -> bool {
        let reply = self.send(Request::CloseSession);
        let is_closed = matches!(timeout(limit, reply).await, Ok(Outcome::Done(..)));
        self.driver.shutdown().await;
        is_closed
    }

    /// Ends the connection and leaves the session to its timeout.
    pub async fn abandon(mut self) {
        self.driver.shutdown().await;
    }
}

/// A request under way. Dropping it does not take it back.
#[derive(Debug)]
#[must_use = "the outcome of a request is lost"]
pub struct Pending(oneshot::Receiver<Outcome>);

impl Future for Pending {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        Pin::new(&mut self.0).poll(context).map(|outcome| outcome.unwrap_or(Outcome::Unknown))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(zxid, _) => write!(f, "done at {zxid}"),
            Self::Refused(code) => write!(f, "refused: {code}"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}
