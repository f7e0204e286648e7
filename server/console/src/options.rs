//! What a console shows, and what it allows.

use std::sync::Arc;
use std::time::Duration;

use zoolet_client::{ConnectString, Connecting, Connector, Resolving, TcpConnector};

use crate::certificates::CertificateLogins;
use crate::http_addresses::{HttpAddress, HttpAddresses};

/// The settings of a console.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConsoleOptions {
    /// The servers of the ensemble, or some of them.
    pub servers: ConnectString,
    /// The HTTP ports of these servers, where they are known.
    pub http: HttpAddresses,
    /// How servers are reached: by TCP by default.
    pub connector: SharedConnector,
    /// Whether that is by TLS, so that the ports of the ensemble's configuration may be others. No by
    /// default.
    pub is_tls: bool,
    /// How their HTTP ports are reached: by TCP by default.
    pub http_connector: SharedConnector,
    /// How those are reached that `http` has with `https://`. Without it, they are not.
    pub https_connector: Option<SharedConnector>,
    /// How users log in with the certificate that their browser has shown, beside those who log in by
    /// digest; they cannot by default.
    pub certificates: Option<Arc<dyn CertificateLogins>>,
    /// Whether users can log in; without that nothing can be changed. They can by default.
    pub logins: bool,
    /// The name of a proxy in front of the console that speaks TLS: requests under it are taken, and
    /// browsers send the cookie of a login over TLS alone. None by default.
    pub tls_name: Option<String>,
    /// The most logins at a time, 32 by default. Each has a session of its own.
    pub logins_max: usize,
    /// A login that is not used for so long ends; 30 min by default.
    pub login_idle: Duration,
    /// Whether servers are looked at while no page shows them, so that the timeline has no gaps. No by
    /// default.
    pub watches_always: bool,
}

impl ConsoleOptions {
    /// The default settings, and the servers to show.
    pub fn new(servers: ConnectString) -> Self {
        Self {
            servers,
            http: HttpAddresses::default(),
            connector: SharedConnector::new(TcpConnector),
            is_tls: false,
            http_connector: SharedConnector::new(TcpConnector),
            https_connector: None,
            certificates: None,
            logins: true,
            tls_name: None,
            logins_max: 32,
            login_idle: Duration::from_mins(30),
            watches_always: false,
        }
    }

    /// Sets how servers are reached.
    #[must_use]
    pub fn connector(mut self, connector: impl Connector + 'static) -> Self {
        self.connector = SharedConnector::new(connector);
        self
    }

    /// Returns the HTTP port of a server of the connect string, counted from 0; `None` if it is not known,
    /// or not how it is reached.
    pub(crate) fn http_end(&self, index: usize) -> Option<HttpEnd> {
        self.end(self.http.of(index)?)
    }

    /// Returns all HTTP ports that can be asked.
    pub(crate) fn http_ends(&self) -> impl Iterator<Item = HttpEnd> {
        self.http.known().filter_map(|address| self.end(address))
    }

    /// Requests carry passwords: a port that speaks TLS is asked over TLS or not at all.
    fn end(&self, address: &HttpAddress) -> Option<HttpEnd> {
        let connector =
            if address.is_tls { self.https_connector.as_ref()? } else { &self.http_connector };
        Some(HttpEnd { authority: address.authority.clone(), connector: connector.clone() })
    }
}

/// An HTTP port, and how it is reached.
#[derive(Clone, Debug)]
pub(crate) struct HttpEnd {
    pub(crate) authority: String,
    pub(crate) connector: SharedConnector,
}

/// A connector that several clients share.
#[derive(Clone, Debug)]
pub struct SharedConnector(Arc<dyn Connector>);

impl SharedConnector {
    /// Shares a connector.
    pub fn new(connector: impl Connector + 'static) -> Self {
        Self(Arc::new(connector))
    }
}

impl Connector for SharedConnector {
    fn connect<'a>(&'a self, address: &'a str) -> Connecting<'a> {
        self.0.connect(address)
    }

    fn resolve<'a>(&'a self, address: &'a str) -> Resolving<'a> {
        self.0.resolve(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_speaks_tls_is_never_asked_in_plain_text() {
        let mut options = ConsoleOptions::new("a:1,b:2".parse().unwrap());
        options.http = "a:8080,https://b:8080".parse().unwrap();
        let all = |options: &ConsoleOptions| {
            options.http_ends().map(|end| end.authority).collect::<Vec<_>>()
        };
        assert_eq!(all(&options), ["a:8080"]);
        assert!(options.http_end(0).is_some() && options.http_end(1).is_none());
        options.https_connector = Some(SharedConnector::new(TcpConnector));
        assert_eq!(all(&options), ["a:8080", "b:8080"]);
        assert!(options.http_end(1).is_some());
    }
}
