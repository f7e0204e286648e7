//! The web console of a server's own HTTP port: a client of this server, by TCP where it shows what all
//! may see, and within the program where a user has logged in with a certificate.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use tracing::info;
use zoolet_client::{Connecting, Connector, Transport};
use zoolet_console::{CertificateLogins, Console, ConsoleOptions, SharedConnector};
use zoolet_http::HttpPort;
use zoolet_server::embed::Server;
use zoolet_server::embed::config::{HttpConfig, ServerConfig};
use zoolet_tls::{Insiders, VerifiedCertificate};

/// Whether the HTTP port shows a console. It is a client like any other, and the one of a server that
/// speaks TLS alone would need certificates of its own.
pub(crate) fn has_console(config: &ServerConfig) -> bool {
    let is_wanted = config.http_bind.is_some() && config.http.console;
    if is_wanted && config.client_is_secure {
        info!("no web console: clients speak TLS alone; use `zoolet console --trust-store`");
    }
    is_wanted && !config.client_is_secure
}

/// Shows the web console, as a client of this server; the others are in the ensemble's configuration.
pub(crate) fn show_console(config: &HttpConfig, port: &HttpPort, server: &Server) {
    let Ok(servers) = reached(server.client_addr()).to_string().parse() else { return };
    let mut options = ConsoleOptions::new(servers);
    options.logins = config.console_logins;
    let http = port.local_addr();
    if config.command_url == "/commands"
        && let Ok(http) = reached(http).to_string().parse()
    {
        options.http = http;
    }
    let peer = SocketAddr::new(reached(http).ip(), 0);
    let own = OwnServer { clients: server.insiders(), http: port.insiders() };
    options.http_connector = inside(&own.http, peer, None);
    options.certificates = Some(Arc::new(own));
    port.show_console(Console::new(options, &http.port().to_string()));
    info!(address = %http, "web console at /console/");
}

/// Returns how an address is reached from this machine.
fn reached(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Logins by certificate: the server of this program takes the certificates that its HTTP port has
/// verified.
#[derive(Debug)]
struct OwnServer {
    clients: Insiders,
    http: Insiders,
}

impl CertificateLogins for OwnServer {
    fn servers(&self, certificate: &VerifiedCertificate, peer: SocketAddr) -> SharedConnector {
        inside(&self.clients, peer, Some(certificate))
    }

    fn http(&self, certificate: &VerifiedCertificate, peer: SocketAddr) -> SharedConnector {
        inside(&self.http, peer, Some(certificate))
    }
}

/// Returns what connects to a port of this program, for a caller with this certificate or none.
fn inside(
    insiders: &Insiders,
    peer: SocketAddr,
    certificate: Option<&VerifiedCertificate>,
) -> SharedConnector {
    let (insiders, certificate) = (insiders.clone(), certificate.cloned());
    SharedConnector::new(Inside { insiders, peer, certificate })
}

/// Connects to a port of this program.
#[derive(Debug)]
struct Inside {
    insiders: Insiders,
    peer: SocketAddr,
    certificate: Option<VerifiedCertificate>,
}

impl Connector for Inside {
    fn connect<'a>(&'a self, _address: &'a str) -> Connecting<'a> {
        Box::pin(async move {
            let stream = self.insiders.connect(self.peer, self.certificate.clone()).await?;
            Ok(Box::new(stream) as Box<dyn Transport>)
        })
    }
}
