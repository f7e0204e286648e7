//! The session without a login: one for all who only look, made when it is needed.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use zoolet_client::{Call, Client, ClientOptions, ConnectString};

use crate::failure::Failure;
use crate::options::SharedConnector;

/// How long a connection and a call may take.
const CONNECT_TIME: Duration = Duration::from_secs(5);
pub(crate) const CALL_TIME: Duration = Duration::from_secs(15);

/// The session timeout to ask for.
const SESSION_TIMEOUT: Duration = Duration::from_secs(20);

/// A failure to connect is repeated for so long, without another try.
const FAILURE_KEPT: Duration = Duration::from_secs(2);

/// The session ends when it was not used for so long.
const IDLE_MAX: Duration = Duration::from_mins(5);

/// Makes clients of one ensemble.
#[derive(Clone, Debug)]
pub(crate) struct Ensemble {
    connect_string: String,
    connector: SharedConnector,
}

impl Ensemble {
    pub(crate) fn new(servers: &ConnectString, connector: SharedConnector) -> Self {
        let chroot = if servers.chroot() == "/" { "" } else { servers.chroot() };
        let connect_string = format!("{}{chroot}", servers.addresses().join(","));
        Self { connect_string, connector }
    }

    /// Connects. A server that serves reads alone will do.
    pub(crate) async fn connect(&self) -> Result<Client, Failure> {
        self.connect_by(self.connector.clone()).await
    }

    /// The same by another connector.
    pub(crate) async fn connect_by(&self, connector: SharedConnector) -> Result<Client, Failure> {
        let options = ClientOptions::new()
            .connect_timeout(CONNECT_TIME)
            .session_timeout(SESSION_TIMEOUT)
            .read_only(true)
            .connector(connector);
        options.connect(&self.connect_string).await.map_err(Failure::from)
    }
}

/// Waits for the answer of a call, but not for longer than a page would wait.
pub(crate) async fn answer<T>(call: Call<T>) -> Result<T, Failure> {
    let Ok(answered) = timeout(CALL_TIME, call).await else {
        let why = format!("no server answered within {} s", CALL_TIME.as_secs());
        return Err(Failure::unavailable(why).with("mayHaveHappened", true));
    };
    Ok(answered?)
}

/// The shared session.
#[derive(Debug)]
pub(crate) struct SharedClient {
    ensemble: Ensemble,
    now: Mutex<Option<Made>>,
}

/// What came of the last try to connect.
#[derive(Debug)]
enum Made {
    Connected { client: Client, used: Instant },
    Failed { failure: Failure, at: Instant },
}

impl SharedClient {
    pub(crate) fn new(ensemble: Ensemble) -> Self {
        Self { ensemble, now: Mutex::default() }
    }

    /// Returns the session, or a new one if it has ended.
    pub(crate) async fn get(&self) -> Result<Client, Failure> {
        let mut now = self.now.lock().await;
        match now.as_mut() {
            Some(Made::Connected { client, used }) if !client.state().borrow().is_terminal() => {
                *used = Instant::now();
                return Ok(client.clone());
            }
            Some(Made::Failed { failure, at }) if at.elapsed() < FAILURE_KEPT => {
                return Err(failure.clone());
            }
            Some(_) | None => {}
        }
        let connected = self.ensemble.connect().await;
        *now = Some(match &connected {
            Ok(client) => Made::Connected { client: client.clone(), used: Instant::now() },
            Err(failure) => Made::Failed { failure: failure.clone(), at: Instant::now() },
        });
        connected
    }

    /// Ends a session that is not in use.
    pub(crate) async fn sweep(&self) {
        let mut now = self.now.lock().await;
        let is_idle = |made: &Made| match made {
            Made::Connected { used, .. } => used.elapsed() >= IDLE_MAX,
            Made::Failed { .. } => false,
        };
        if now.as_ref().is_some_and(is_idle) {
            *now = None;
        }
    }
}
