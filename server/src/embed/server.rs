//! One server in a program.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;

use zoolet_jute::SessionId;
use zoolet_replica::Role;
use zoolet_tls::Insiders;

use super::error::StartError;
use super::thread::{Running, ServerThread};
use crate::config::ServerConfig;
use crate::node::{self, Reports, Seams};

/// One server of an ensemble, or a standalone one. It runs on threads of its own: one for its tasks,
/// others for its log and for what blocks. What else the program does cannot hold it up. Dropping it ends it soon, as
/// the end of a process does; [`Server::shutdown`] ends it in good order.
///
/// ```no_run
/// use zoolet_server::embed::{Server, config};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let (config, warnings) = config::load("cluster.toml".as_ref(), Some(1))?;
/// for warning in warnings {
///     eprintln!("{warning}");
/// }
/// let server = Server::start(config).await?;
/// server.wait_ready().await?;
/// println!("serving clients on {}", server.client_addr());
/// tokio::select! {
///     why = server.failed() => eprintln!("{why}"),
///     _ = tokio::signal::ctrl_c() => server.shutdown().await,
/// }
/// # Ok(())
/// # }
/// ```
pub struct Server {
    thread: Abandoned,
    running: Running,
}

/// A thread that is not waited for when it is dropped.
struct Abandoned(ServerThread);

impl Drop for Abandoned {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("client_addr", &self.client_addr())
            .field("role", &self.role())
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Opens the server's directory, replays its log, and listens for clients and other servers.
    /// The server need not have found a leader when this returns; [`Server::wait_ready`] waits for
    /// that. A start that is dropped before it is done leaves nothing running, but may hold the
    /// directory for a moment longer.
    pub async fn start(config: ServerConfig) -> Result<Self, StartError> {
        let failed = |why: String| node::StartError::Failed(why);
        let mut thread = Abandoned(ServerThread::new(config, Seams::real()));
        let launched = thread.0.launch();
        let started =
            launched.map_err(|error| failed(format!("cannot start a thread: {error}")))?;
        let ended = |_| Err(failed("its thread has ended".to_owned()));
        let running = started.await.unwrap_or_else(ended)?;
        thread.0.launched(running.clone());
        Ok(Self { thread, running })
    }

    /// The address on which clients are served now: a `reconfig` can move it. With port 0 in the
    /// configuration it has the port that the system chose.
    pub fn client_addr(&self) -> SocketAddr {
        *self.running.clients.borrow()
    }

    /// The server's part in the ensemble now; [`Role::Looking`] as long as it does not serve.
    pub fn role(&self) -> Role {
        *self.running.role.borrow()
    }

    /// Reads what the server knows of itself: for an HTTP port, or for the program's own metrics.
    pub fn reports(&self) -> Reports {
        self.running.reports.clone()
    }

    /// Makes connections to this server within the program, as the owners of certificates that the
    /// program has verified: for an HTTP port that shows a console.
    pub fn insiders(&self) -> Insiders {
        self.running.insiders.clone()
    }

    /// Cuts the server off from the other servers, for a test: nothing arrives and nothing leaves, and
    /// no connection breaks, until [`Server::heal`].
    pub fn cut(&self) {
        self.running.controls.cut_peers();
    }

    /// Cuts the server off from its clients, in the same way.
    pub fn cut_clients(&self) {
        self.running.controls.cut_clients();
    }

    /// Ends the cuts.
    pub fn heal(&self) {
        self.running.controls.heal();
    }

    /// Ends a session as if its timeout were over, for a test. False if this server does not lead, or
    /// has no such session.
    pub fn expire_session(&self, session: i64) -> bool {
        self.running.controls.expire(SessionId(session))
    }

    /// Waits, without a limit, until the server has a leader or leads, and so serves. Fails with
    /// [`StartErrorKind::Failed`](super::StartErrorKind::Failed) if the server fails before that.
    pub async fn wait_ready(&self) -> Result<(), StartError> {
        let mut role = self.running.role.clone();
        tokio::select! {
            why = self.failed() => Err(node::StartError::Failed(why).into()),
            Ok(_) = role.wait_for(|role| *role != Role::Looking) => Ok(()),
        }
    }

    /// Returns whether the server's thread, which does all of its work for clients and other servers,
    /// takes up an order; waits until it does. For a watchdog, which limits the wait.
    pub fn responds(&self) -> impl Future<Output = bool> + Send + use<> {
        self.thread.0.responds()
    }

    /// Waits until the server can no longer work, and returns why: its disk has failed, or a task
    /// of it has panicked. The server is then to be dropped; it can be started again.
    pub fn failed(&self) -> impl Future<Output = String> + Send + use<> {
        let mut failure = self.running.failure.clone();
        async move {
            match failure.wait_for(Option::is_some).await {
                Ok(why) => why.clone().unwrap_or_default(),
                Err(_) => "its thread has ended".to_owned(),
            }
        }
    }

    /// Stops the server in good order: closes its connections, hands the lead over, and makes its
    /// log durable. Takes 10 s at most.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub async fn shutdown(mut self) {
        self.thread.0.stop().await;
    }
}
