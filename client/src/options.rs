//! How to connect.

use std::sync::Arc;
use std::time::Duration;

use zoolet_jute::SessionId;
use zoolet_jute::frame::FRAME_BYTES_MAX_DEFAULT;

use crate::session::SessionInfo;
use crate::{Connector, TcpConnector};

/// The settings of a client; each method changes one.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    pub(crate) session_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) resume: Option<SessionInfo>,
    pub(crate) read_only: bool,
    pub(crate) request_bytes_max: usize,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) seed: u64,
}

impl Default for ClientOptions {
    /// A session timeout of 10 s, a connect timeout of 10 s, a new session, requests of up to 1 MiB,
    /// TCP.
    fn default() -> Self {
        Self {
            session_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(10),
            resume: None,
            read_only: false,
            request_bytes_max: FRAME_BYTES_MAX_DEFAULT,
            connector: Arc::new(TcpConnector),
            seed: 0,
        }
    }
}

impl ClientOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The session timeout to ask for, in whole milliseconds up to 2³¹ − 1. Servers clamp it, to 2
    /// to 20 of their ticks by default; [`Client::session`](crate::Client::session)
    /// returns what they granted.
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = timeout;
        self
    }

    /// How long the first connection may take, over all servers. Later ones may take as long as the
    /// session may live, and longer: see [`SessionState::Lost`](crate::SessionState::Lost).
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Resumes a session that another client, in this process or another, has left behind; see
    /// [`Client::detach`](crate::Client::detach). Its identities and watches are not part of it. A
    /// session that has ended fails [`connect`](Self::connect) with
    /// [`ErrorKind::SessionExpired`](crate::ErrorKind::SessionExpired).
    pub fn resume(mut self, session: SessionInfo) -> Self {
        self.resume = (session.id != SessionId::NONE).then_some(session);
        self
    }

    /// Whether a server will do that is cut off from its ensemble and serves reads alone, if it is
    /// set up for that: no by default. The client goes on to look for one that writes, and moves
    /// there; until then writes fail with
    /// [`ErrorCode::NotReadOnly`](crate::ErrorCode::NotReadOnly). See
    /// [`SessionState::ReadOnly`](crate::SessionState::ReadOnly).
    pub fn read_only(mut self, will_do: bool) -> Self {
        self.read_only = will_do;
        self
    }

    /// The longest request that is sent, in bytes: data, paths, ACLs and everything else of it
    /// together. A longer one fails with
    /// [`ErrorKind::RequestTooLong`](crate::ErrorKind::RequestTooLong) at once and is not sent. By
    /// default 1 MiB − 1, as servers have it; set it to their `jute.maxbuffer` if that is another.
    /// A server closes the connection on which it gets a longer one, with all other calls of the
    /// session.
    pub fn request_bytes_max(mut self, bytes: usize) -> Self {
        self.request_bytes_max = bytes;
        self
    }

    /// How servers are reached: by [`TcpConnector`] by default.
    pub fn connector(mut self, connector: impl Connector + 'static) -> Self {
        self.connector = Arc::new(connector);
        self
    }

    /// Decides in which order the servers are tried, and the jitter of the waits between; by default
    /// and for 0 each client has its own.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
}
