//! The links of a server to its peers.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::timeout;

use super::link::Probes;
use super::{Lane, Link, LinkOptions, Reach, Target};
use crate::node_id::NodeId;

/// How long a link for snapshots may be silent: the disk of the receiver may take that long.
pub(crate) const SNAPSHOT_SILENCE_MAX: Duration = Duration::from_secs(10);

/// How long the receiver of a snapshot may take to install it.
pub(crate) const SNAPSHOT_INSTALL_MAX: Duration = Duration::from_mins(5);

/// What shows in the meantime that it is there.
const SNAPSHOT_PROBES: Probes =
    Probes { every: Duration::from_millis(2500), stall_timeout_before: SNAPSHOT_INSTALL_MAX };

/// The most addresses that are known of one peer.
const ADDRESSES_MAX: usize = 4;

/// The links to all peers, each opened when it is first used.
#[derive(Debug)]
pub(crate) struct Links {
    /// What is the same for all of them.
    template: LinkOptions,
    known: Mutex<LinkTable>,
}

#[derive(Debug)]
struct LinkTable {
    /// By the numbers of the servers: where each is, and before that where it was. A server that a
    /// change has moved listens at the old place as well, until it is restarted.
    addresses: BTreeMap<u64, Vec<String>>,
    /// By node.
    links: BTreeMap<(NodeId, Lane), Arc<Link>>,
    /// To whichever directory a server has, by the numbers of the servers.
    questions: BTreeMap<u64, Arc<Link>>,
    reaches: BTreeMap<u64, Arc<Reach>>,
}

impl Links {
    pub(crate) fn new(template: LinkOptions, addresses: BTreeMap<u64, String>) -> Self {
        let addresses = addresses.into_iter().map(|(server, address)| (server, vec![address]));
        let known = Mutex::new(LinkTable {
            addresses: addresses.collect(),
            links: BTreeMap::new(),
            questions: BTreeMap::new(),
            reaches: BTreeMap::new(),
        });
        Self { template, known }
    }

    /// Returns the link to a node; `None` if the address of its server is not known. It carries
    /// nothing to another directory of that server.
    pub(crate) fn to(&self, node: NodeId, lane: Lane) -> Option<Arc<Link>> {
        let mut known = self.lock();
        if let Some(link) = known.links.get(&(node, lane)) {
            return Some(Arc::clone(link));
        }
        let target = Target { server: node.server(), directory: Some(node.directory()) };
        let link = self.open(&mut known, target, lane)?;
        known.links.insert((node, lane), Arc::clone(&link));
        Some(link)
    }

    /// Returns the link for questions to a server, whichever directory it has.
    pub(crate) fn ask(&self, server: u64) -> Option<Arc<Link>> {
        let mut known = self.lock();
        if let Some(link) = known.questions.get(&server) {
            return Some(Arc::clone(link));
        }
        let target = Target { server, directory: None };
        let link = self.open(&mut known, target, Lane::Question)?;
        known.questions.insert(server, Arc::clone(&link));
        Some(link)
    }

    fn open(&self, known: &mut LinkTable, target: Target, lane: Lane) -> Option<Arc<Link>> {
        let addresses = known.addresses.get(&target.server)?.clone();
        let (stall_timeout, probes) = match lane {
            Lane::Control | Lane::Append | Lane::Request | Lane::Question | Lane::Query => {
                (self.template.stall_timeout, None)
            }
            Lane::Snapshot => (SNAPSHOT_SILENCE_MAX, Some(SNAPSHOT_PROBES)),
        };
        let template = self.template.clone();
        let reach = Arc::clone(known.reaches.entry(target.server).or_default());
        let options =
            LinkOptions { target, addresses, lane, stall_timeout, probes, reach, ..template };
        Some(Arc::new(Link::open(options)))
    }

    /// Returns whether a server's ports refuse connections: then no process listens there. False if
    /// one of them is silent, or cannot be reached.
    pub(crate) async fn is_refused(&self, server: u64) -> bool {
        let addresses = self.lock().addresses.get(&server).cloned().unwrap_or_default();
        for address in &addresses {
            let connecting = self.template.net.connect(address);
            match timeout(self.template.connect_timeout, connecting).await {
                Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Ok(_) | Err(_) => return false,
            }
        }
        !addresses.is_empty()
    }

    /// Returns the directory that a server had when it was last called.
    pub(crate) fn directory(&self, server: u64) -> Option<u64> {
        let known = self.lock();
        known.reaches.get(&server)?.directory()
    }

    /// Notes the address of a node in the log's membership. It is used if the configuration has none,
    /// or if the ensemble was changed since the configuration was written.
    pub(crate) fn learn(&self, node: NodeId, address: &str, is_changed: bool) {
        let server = node.server();
        let mut known = self.lock();
        let addresses = known.addresses.entry(server).or_default();
        let is_known = addresses.first().is_some_and(|first| first == address);
        if is_known || !is_changed && !addresses.is_empty() {
            return;
        }
        addresses.retain(|known| known != address);
        addresses.insert(0, address.to_owned());
        addresses.truncate(ADDRESSES_MAX);
        // A caller that has a link still ends its calls on it.
        known.links.retain(|(node, _), _| node.server() != server);
        known.questions.remove(&server);
    }

    /// Drops a link that does not answer: the next call opens another one.
    pub(crate) fn give_up(&self, node: NodeId, lane: Lane) {
        let mut known = self.lock();
        known.links.remove(&(node, lane));
    }

    /// A link to a server that is not a peer yet, which is not kept.
    pub(crate) fn try_out(&self, server: u64, address: String) -> Link {
        let target = Target { server, directory: None };
        let stall_timeout = self.template.stall_timeout;
        let (lane, reach, template) = (Lane::Question, Arc::default(), self.template.clone());
        let addresses = vec![address];
        Link::open(LinkOptions { target, addresses, lane, stall_timeout, reach, ..template })
    }

    fn lock(&self) -> MutexGuard<'_, LinkTable> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fatal::Fatal;
    use crate::peer::{FrameLimits, PeerIdentity};
    use crate::transport::{BoxFuture, Listener, Net, RealNet, Stream};

    const TIMEOUT: Duration = Duration::from_secs(10);

    /// Links of server 1 over `net`.
    fn links(net: Arc<dyn Net>, connect_timeout: Duration, addresses: &[(u64, &str)]) -> Links {
        let template = LinkOptions {
            net,
            ours: PeerIdentity { cluster: 7, founding: 0, server: 1, directory: 5 },
            founding: Arc::default(),
            secret: None,
            tls: crate::peer::PeerTls::default(),
            target: Target { server: 0, directory: None },
            addresses: Vec::new(),
            lane: Lane::Control,
            frames: FrameLimits { small: 1000, large: 1000 },
            calls_max: 8,
            connect_timeout,
            backoff_max: TIMEOUT,
            stall_timeout: TIMEOUT,
            probes: None,
            reach: Arc::default(),
            fatal: Fatal::default(),
        };
        let addresses = addresses.iter().map(|(server, address)| (*server, (*address).to_owned()));
        Links::new(template, addresses.collect())
    }

    #[tokio::test]
    async fn a_link_that_was_given_up_is_opened_anew() {
        let links = links(Arc::new(RealNet), TIMEOUT, &[(2, "127.0.0.1:1")]);
        let to = |lane| links.to(NodeId(2), lane).unwrap();
        let (first, other) = (to(Lane::Snapshot), to(Lane::Append));
        assert!(Arc::ptr_eq(&first, &to(Lane::Snapshot)));
        links.give_up(NodeId(2), Lane::Snapshot);
        assert!(!Arc::ptr_eq(&first, &to(Lane::Snapshot)));
        assert!(Arc::ptr_eq(&other, &to(Lane::Append)));
    }

    /// Loopback, and one address from which nothing comes back.
    #[derive(Debug)]
    struct WithSilence;

    impl Net for WithSilence {
        fn listen<'a>(
            &'a self,
            address: &'a str,
            backlog: u32,
        ) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
            RealNet.listen(address, backlog)
        }

        fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
            if address == "silent:1" {
                return Box::pin(std::future::pending());
            }
            RealNet.connect(address)
        }
    }

    /// A server that was moved may be taken for gone only when all its ports refuse.
    #[tokio::test]
    async fn a_server_is_refused_when_each_of_its_addresses_refuses() {
        let bind = || tokio::net::TcpListener::bind("127.0.0.1:0");
        let address = |port: &tokio::net::TcpListener| port.local_addr().unwrap().to_string();
        let (first, second) = (bind().await.unwrap(), bind().await.unwrap());
        let (at_first, at_second) = (address(&first), address(&second));
        let timeout = Duration::from_millis(200);
        let links = links(Arc::new(WithSilence), timeout, &[(2, at_first.as_str())]);
        assert!(!links.is_refused(2).await && !links.is_refused(3).await);
        drop(first);
        assert!(links.is_refused(2).await);
        links.learn(NodeId::new(2, 9), &at_second, true);
        assert!(!links.is_refused(2).await, "the new place accepts");
        drop(second);
        assert!(links.is_refused(2).await);
        links.learn(NodeId::new(2, 9), "silent:1", true);
        assert!(!links.is_refused(2).await, "silence does not count as a refusal");
    }
}
