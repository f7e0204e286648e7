//! The web console of a server's own HTTP port: a client of this server, by TCP where it shows what all
//! may see, and within the program where a user has logged in with a certificate.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use tracing::info;
use zoolet_client::{Connecting, Connector, Transport};
use zoolet_console::{CertificateLogins, Console, ConsoleOptions, SharedConnector};
use zoolet_http::{HttpPort, InsideHttp};
use zoolet_server::embed::config::{HttpConfig, ServerConfig};
use zoolet_server::embed::{Insiders, Server};
use zoolet_tls::VerifiedCertificate;

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
    let (http, inside) = (port.local_addr(), port.inside());
    if config.command_url == "/commands"
        && let Ok(http) = reached(http).to_string().parse()
    {
        options.http = http;
    }
    let peer = SocketAddr::new(reached(http).ip(), 0);
    let own = OwnHttp { inside: inside.clone(), peer, certificate: None };
    options.http_connector = SharedConnector::new(own);
    options.certificates = Some(Arc::new(OwnServer { insiders: server.insiders(), http: inside }));
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
    insiders: Insiders,
    http: InsideHttp,
}

impl CertificateLogins for OwnServer {
    fn servers(&self, certificate: &VerifiedCertificate, peer: SocketAddr) -> SharedConnector {
        let (insiders, certificate) = (self.insiders.clone(), certificate.clone());
        SharedConnector::new(OwnClients { insiders, peer, certificate })
    }

    fn http(&self, certificate: &VerifiedCertificate, peer: SocketAddr) -> SharedConnector {
        let (inside, certificate) = (self.http.clone(), Some(certificate.clone()));
        SharedConnector::new(OwnHttp { inside, peer, certificate })
    }
}

/// Connects to the client port of this program's server, as the owner of a certificate.
#[derive(Debug)]
struct OwnClients {
    insiders: Insiders,
    peer: SocketAddr,
    certificate: VerifiedCertificate,
}

impl Connector for OwnClients {
    fn connect<'a>(&'a self, _address: &'a str) -> Connecting<'a> {
        Box::pin(async move { boxed(self.insiders.connect(&self.certificate, self.peer).await) })
    }
}

/// Connects to the HTTP port of this program.
#[derive(Debug)]
struct OwnHttp {
    inside: InsideHttp,
    peer: SocketAddr,
    certificate: Option<VerifiedCertificate>,
}

impl Connector for OwnHttp {
    fn connect<'a>(&'a self, _address: &'a str) -> Connecting<'a> {
        Box::pin(
            async move { boxed(self.inside.connect(self.peer, self.certificate.clone()).await) },
        )
    }
}

fn boxed<S: Transport + 'static>(stream: io::Result<S>) -> io::Result<Box<dyn Transport>> {
    stream.map(|stream| Box::new(stream) as Box<dyn Transport>)
}
