//! How to connect.

use std::time::Duration;

use zoolet_jute::{SessionId, Zxid};

use crate::session::SessionInfo;
use crate::{Client, Error};

/// The settings of a client; each method changes one.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    pub(crate) session_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) resume: Option<SessionInfo>,
    pub(crate) last_zxid_seen: Zxid,
    pub(crate) seed: u64,
}

impl Default for ClientOptions {
    /// A session timeout of 10 s, a connect timeout of 10 s, a new session.
    fn default() -> Self {
        Self {
            session_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(10),
            resume: None,
            last_zxid_seen: Zxid(0),
            seed: 0,
        }
    }
}

impl ClientOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The session timeout to ask for; servers clamp it, to 2 to 20 of their ticks by default.
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = timeout;
        self
    }

    /// How long the first connection may take, over all servers.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Resumes a session that another client, in this process or another, has left behind.
    pub fn resume(mut self, session: SessionInfo) -> Self {
        self.last_zxid_seen = session.last_zxid;
        self.resume = (session.id != SessionId::NONE).then_some(session);
        self
    }

    /// Decides in which order the servers are tried; the default differs between processes.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Connects to one of the servers of `host:port,host:port,…` and waits for the session.
    pub async fn connect(self, connect_string: &str) -> Result<Client, Error> {
        Client::start(connect_string, self).await
    }
}
