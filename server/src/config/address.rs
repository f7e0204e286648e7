//! A host and a port as configuration files write them.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// A host name or address with a port.
///
/// The name is kept as it was written and resolved only when it is used,
/// so that a server can start before its name service does.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// A host name, an IPv4 address or an IPv6 address without brackets.
    pub host: String,
    /// The TCP port; with 0 the operating system chooses one.
    pub port: u16,
}

impl HostPort {
    /// Puts a host and a port together.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// Whether the host is this machine, on any machine that reads it.
    pub(super) fn is_loopback(&self) -> bool {
        self.host.eq_ignore_ascii_case("localhost")
            || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// Whether the host means "every interface of this machine", which no client can connect to.
    pub fn is_wildcard(&self) -> bool {
        self.host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified())
    }
}

/// Writes `host:port`, with brackets around an IPv6 address.
impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", Bracketed(&self.host), self.port)
    }
}

impl FromStr for HostPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (host, rest) = split_host(text)?;
        match rest {
            Some(port) => Ok(Self::new(host, parse_port(port)?)),
            None => Err(format!("`{text}` has no port: expected host:port")),
        }
    }
}

/// A host inside `host:port`, with brackets where the colons of IPv6 need them.
struct Bracketed<'a>(&'a str);

impl fmt::Display for Bracketed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.contains(':') { write!(f, "[{}]", self.0) } else { f.write_str(self.0) }
    }
}

/// Splits the host, bracketed or not, from what follows its colon.
pub(super) fn split_host(text: &str) -> Result<(&str, Option<&str>), String> {
    let (host, rest) = if let Some(open) = text.strip_prefix('[') {
        let (host, rest) = open
            .split_once(']')
            .ok_or_else(|| format!("`{text}` opens a bracket and does not close it"))?;
        if !is_ipv6(host) {
            return Err(format!("invalid IPv6 address `{host}` in brackets"));
        }
        match rest.strip_prefix(':') {
            Some(rest) => (host, Some(rest)),
            None if rest.is_empty() => (host, None),
            None => return Err(format!("`{text}`: expected `:` behind the bracket")),
        }
    } else {
        match text.split_once(':') {
            Some((host, rest)) => (host, Some(rest)),
            None => (text, None),
        }
    };
    check_host(host)?;
    Ok((host, rest))
}

/// Whether this is an IPv6 address, which may say on which interface it is: `fe80::1%eth0`.
fn is_ipv6(host: &str) -> bool {
    let (address, scope) = host.split_once('%').unwrap_or((host, "-"));
    address.parse::<Ipv6Addr>().is_ok() && !scope.is_empty() && !scope.contains('%')
}

/// Refuses what cannot be a host; whether the host exists is found out when it is used.
fn check_host(host: &str) -> Result<(), String> {
    if host.is_empty() {
        return Err("the host is empty".to_owned());
    }
    let odd = |c: char| c.is_whitespace() || c.is_control() || "[]/|;,\"".contains(c);
    if host.contains(odd) {
        return Err(format!("invalid host name or address `{host}`"));
    }
    Ok(())
}

/// Reads a port, 1 to 65535.
pub(super) fn parse_port(text: &str) -> Result<u16, String> {
    match text.parse::<u16>() {
        Ok(0) | Err(_) => Err(format!("invalid port `{text}`: expected 1 to 65535")),
        Ok(port) => Ok(port),
    }
}

/// Reads a host that has no port, with or without brackets.
pub(super) fn parse_host(text: &str) -> Result<&str, String> {
    let host = text.strip_prefix('[').and_then(|open| open.strip_suffix(']')).unwrap_or(text);
    check_host(host)?;
    if host.contains(':') && !is_ipv6(host) {
        return Err(format!("invalid host name or address `{text}`"));
    }
    Ok(host)
}
