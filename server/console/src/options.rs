//! What a console shows, and what it allows.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use zoolet_client::{ConnectString, Connecting, Connector, Resolving, TcpConnector};

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
            connector: SharedConnector(Arc::new(TcpConnector)),
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
        self.connector = SharedConnector(Arc::new(connector));
        self
    }
}

/// A connector that several clients share.
#[derive(Clone, Debug)]
pub struct SharedConnector(pub(crate) Arc<dyn Connector>);

impl Connector for SharedConnector {
    fn connect<'a>(&'a self, address: &'a str) -> Connecting<'a> {
        self.0.connect(address)
    }

    fn resolve<'a>(&'a self, address: &'a str) -> Resolving<'a> {
        self.0.resolve(address)
    }
}

/// The HTTP ports of servers, in the order of the connect string: `host:port`, with commas between
/// them; an empty one for a server without a port. All commands are below `/commands`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpAddresses(Vec<Option<String>>);

impl HttpAddresses {
    /// Returns the HTTP port of a server of the connect string, counted from 0.
    pub(crate) fn of(&self, index: usize) -> Option<&str> {
        self.0.get(index)?.as_deref()
    }

    /// Returns all that are known.
    pub(crate) fn known(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flatten().map(String::as_str)
    }

    /// Returns how many servers are named, those without a port too.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// An address of an HTTP port is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid HTTP address {address:?}: it is written host:port")]
pub struct HttpAddressesError {
    address: String,
}

impl FromStr for HttpAddresses {
    type Err = HttpAddressesError;

    fn from_str(text: &str) -> Result<Self, HttpAddressesError> {
        let parse = |part: &str| {
            let part = part.trim();
            let part = part.strip_prefix("http://").unwrap_or(part).trim_end_matches('/');
            if part.is_empty() {
                return Ok(None);
            }
            let address = || part.to_owned();
            match part.rsplit_once(':') {
                Some((host, port)) if is_host(host) && port.parse::<u16>().is_ok_and(|p| p > 0) => {
                    Ok(Some(address()))
                }
                _ => Err(HttpAddressesError { address: address() }),
            }
        };
        Ok(Self(text.split(',').map(parse).collect::<Result<_, _>>()?))
    }
}

/// Returns whether a text may be the host of an address: nothing in it ends a line or begins a path.
fn is_host(host: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
    !host.is_empty() && host.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_addresses_are_in_the_order_of_the_servers() {
        let all: HttpAddresses = "a:8080,,http://[::1]:81/".parse().unwrap();
        assert_eq!((all.of(0), all.of(1), all.of(2)), (Some("a:8080"), None, Some("[::1]:81")));
        assert_eq!((all.count(), all.of(3)), (3, None));
        for bad in ["a", "a:0", "a:x", "a b:1", "a/b:1", "a:1,\r\n:2"] {
            assert!(bad.parse::<HttpAddresses>().is_err(), "{bad}");
        }
    }
}
