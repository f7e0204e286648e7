//! Where a server listens, in its log.

use std::net::SocketAddr;

use tracing::info;

use crate::config::ServerConfig;

/// The addresses on which plain text is spoken, and those on which TLS is. One may have both.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listening {
    clients: Option<SocketAddr>,
    /// With commas, if there are two.
    tls_clients: Option<String>,
    peers: Option<SocketAddr>,
    tls_peers: Option<SocketAddr>,
}

impl Listening {
    pub(super) fn new(
        config: &ServerConfig,
        (clients, secure): (SocketAddr, Option<SocketAddr>),
        peers: Option<SocketAddr>,
    ) -> Self {
        let tls = &config.tls;
        let is_tls = config.client_is_secure || tls.client_port_unification;
        let with_tls = is_tls.then_some(clients).into_iter().chain(secure);
        let with_tls: Vec<String> = with_tls.map(|address| address.to_string()).collect();
        let is_tls_spoken = tls.peer_enabled || tls.peer_port_unification;
        Self {
            clients: (!config.client_is_secure).then_some(clients),
            tls_clients: (!with_tls.is_empty()).then(|| with_tls.join(",")),
            peers: peers.filter(|_| !is_tls_spoken || tls.peer_port_unification),
            tls_peers: peers.filter(|_| is_tls_spoken),
        }
    }

    /// Logs that the server has started; what it does not have is left out.
    pub(super) fn log(&self, server: u8) {
        info!(
            server,
            clients = self.clients.map(tracing::field::display),
            tls_clients = self.tls_clients.as_ref().map(tracing::field::display),
            peers = self.peers.map(tracing::field::display),
            tls_peers = self.tls_peers.map(tracing::field::display),
            "server started"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_plain_text_and_of_tls_differ() {
        let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let listening = |change: fn(&mut ServerConfig), secure: Option<u16>| {
            let mut config = ServerConfig::default();
            change(&mut config);
            let clients = (address(1), secure.map(address));
            let it = Listening::new(&config, clients, Some(address(3)));
            (it.clients.is_some(), it.tls_clients, it.peers.is_some(), it.tls_peers.is_some())
        };
        let tls = |text: &str| Some(text.to_owned());
        assert_eq!(listening(|_| {}, None), (true, None, true, false));
        assert_eq!(listening(|_| {}, Some(2)), (true, tls("127.0.0.1:2"), true, false));
        let secure = |config: &mut ServerConfig| {
            config.client_is_secure = true;
            config.tls.peer_enabled = true;
        };
        assert_eq!(listening(secure, None), (false, tls("127.0.0.1:1"), false, true));
        let either = |config: &mut ServerConfig| {
            config.tls.client_port_unification = true;
            config.tls.peer_port_unification = true;
        };
        let both = tls("127.0.0.1:1,127.0.0.1:2");
        assert_eq!(listening(either, Some(2)), (true, both, true, true));
    }
}
