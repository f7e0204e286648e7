//! One server on the runtime of the caller.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;

use tokio::runtime::Handle;
use tokio::sync::watch;
use zoolet_replica::Role;

use super::error::StartError;
use crate::config::ServerConfig;
use crate::node::{self, Node, Seams};

/// One server of an ensemble, or a standalone one, on the runtime that [`Server::start`] is called
/// on. Dropping it ends it soon, as the end of a process does; [`Server::shutdown`] ends it in good
/// order.
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
    /// `None` once it is being shut down.
    node: Option<Node>,
    role: watch::Receiver<Role>,
    clients: watch::Receiver<SocketAddr>,
    runtime: Handle,
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
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, or on one without timers or I/O.
    pub async fn start(config: ServerConfig) -> Result<Self, StartError> {
        let node = Node::start(config, Seams::real()).await?;
        let (role, clients) = (node.role(), node.client_addrs());
        Ok(Self { node: Some(node), role, clients, runtime: Handle::current() })
    }

    /// The address on which clients are served now: a `reconfig` can move it. With port 0 in the
    /// configuration it has the port that the system chose.
    pub fn client_addr(&self) -> SocketAddr {
        *self.clients.borrow()
    }

    /// The server's part in the ensemble now; [`Role::Looking`] as long as it does not serve.
    pub fn role(&self) -> Role {
        *self.role.borrow()
    }

    /// Waits, without a limit, until the server has a leader or leads, and so serves. Fails with
    /// [`StartErrorKind::Failed`](super::StartErrorKind::Failed) if the server fails before that.
    pub async fn wait_ready(&self) -> Result<(), StartError> {
        let mut role = self.role.clone();
        tokio::select! {
            why = self.failed() => Err(node::StartError::Failed(why).into()),
            Ok(_) = role.wait_for(|role| *role != Role::Looking) => Ok(()),
        }
    }

    /// Waits until the server can no longer work, and returns why: its disk has failed, or a task
    /// of it has panicked. The server is then to be dropped; it can be started again.
    pub fn failed(&self) -> impl Future<Output = String> + Send + use<> {
        let failed = self.node.as_ref().map(Node::fatal);
        async move {
            match failed {
                Some(failed) => failed.await,
                None => std::future::pending().await,
            }
        }
    }

    /// Stops the server in good order: closes its connections, hands the lead over, and makes its
    /// log durable. Takes 5 s at most.
    pub async fn shutdown(mut self) {
        if let Some(node) = self.node.take() {
            node.shutdown().await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(node) = self.node.take() {
            self.runtime.spawn(node.kill());
        }
    }
}
