//! The web console of a server's own HTTP port: a client of this server, by TCP where it shows what all
//! may see, and within the program where clients speak TLS alone or a user has logged in with a
//! certificate.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use tracing::info;
use zoolet_client::{Connecting, Connector, Transport};
use zoolet_console::{CertificateLogins, Console, ConsoleOptions, SharedConnector};
use zoolet_http::HttpPort;
use zoolet_server::embed::Server;
use zoolet_server::embed::config::{HttpConfig, ServerConfig, TlsConfig, TlsSide};
use zoolet_tls::{ClientAuth, Insiders, VerifiedCertificate};

/// How the console of an HTTP port is shown.
#[derive(Clone, Debug)]
pub(crate) struct OwnConsole {
    config: HttpConfig,
    /// Whether it reaches its server within the program: clients speak TLS alone, and by TCP it would
    /// need certificates of its own.
    is_inside: bool,
}

impl OwnConsole {
    /// Returns what the configuration says of it; none if there is to be no console.
    pub(crate) fn of(config: &ServerConfig) -> Option<Self> {
        if config.http_bind.is_none() || !config.http.console {
            return None;
        }
        let is_inside = config.client_is_secure;
        if is_inside && let Some(lack) = lack(&config.tls) {
            info!("no web console: {lack}");
            return None;
        }
        Some(Self { config: config.http.clone(), is_inside })
    }
}

/// Returns what the HTTP port lacks that the port for clients demands, of a server whose clients speak
/// TLS alone. A console would pass by that.
fn lack(tls: &TlsConfig) -> Option<&'static str> {
    if !tls.http_enabled {
        return Some("clients speak TLS alone, and the HTTP port does not (tls.http_enabled)");
    }
    let demands = |side: &TlsSide| side.client_auth == ClientAuth::Need;
    (demands(&tls.client) && !demands(&tls.http)).then_some(
        "the port for clients demands certificates, and the HTTP port does not (tls.http_auth)",
    )
}

/// Shows the web console, as a client of this server; the others are in the ensemble's configuration.
pub(crate) fn show_console(console: &OwnConsole, port: &HttpPort, server: &Server) {
    let OwnConsole { config, is_inside } = console;
    let address = reached(server.client_addr()).to_string();
    let Ok(servers) = address.parse() else { return };
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
    if *is_inside {
        let own = inside(&own.clients, peer, None);
        options.connector = SharedConnector::new(OwnAlone { address, own });
    }
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

/// Connects to the client port of this program alone.
#[derive(Debug)]
struct OwnAlone {
    address: String,
    own: SharedConnector,
}

impl Connector for OwnAlone {
    fn connect<'a>(&'a self, address: &'a str) -> Connecting<'a> {
        if address == self.address {
            return self.own.connect(address);
        }
        let why = "clients speak TLS alone, and this console shows its own server; `zoolet console \
                   --trust-store` shows all";
        Box::pin(async move { Err(io::Error::new(io::ErrorKind::Unsupported, why)) })
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
