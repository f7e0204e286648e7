//! What a connect string names: servers, and a root path.

use std::str::FromStr;

use crate::chroot::Chroot;
use crate::{Error, ErrorKind};

/// The client port of a server when the connect string names none.
const PORT_DEFAULT: u16 = 2181;

/// A parsed connect string: `host:port,host:port,…/chroot`, as
/// [`ClientOptions::connect`](crate::ClientOptions::connect) takes it. For programs that need the
/// addresses for more than a client, such as four-letter words.
///
/// ```
/// let parsed: zoolet_client::ConnectString = "a:2182, [::1]/app".parse()?;
/// assert_eq!(parsed.addresses(), ["a:2182", "[::1]:2181"]);
/// assert_eq!(parsed.chroot(), "/app");
/// # Ok::<(), zoolet_client::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectString {
    /// Invariant: not empty.
    addresses: Vec<String>,
    chroot: Chroot,
}

impl ConnectString {
    /// Returns the servers in their order, each with its port.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Returns the path of the znode that the client takes for the root; `/` for the root itself.
    pub fn chroot(&self) -> &str {
        self.chroot.path()
    }

    pub(crate) fn into_parts(self) -> (Vec<String>, Chroot) {
        (self.addresses, self.chroot)
    }
}

impl FromStr for ConnectString {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (servers, chroot) = match text.find('/') {
            Some(slash) => text.split_at(slash),
            None => (text, "/"),
        };
        let chroot = Chroot::parse(chroot)
            .ok_or_else(|| wrong(text, &format!("invalid path {chroot:?}")))?;
        let parse = |part: &str| parse_address(part.trim(), text);
        let addresses = servers.split(',').map(parse).collect::<Result<_, _>>()?;
        Ok(Self { addresses, chroot })
    }
}

/// What is wrong with a connect string.
fn wrong(connect_string: &str, why: &str) -> Error {
    ErrorKind::Protocol(format!("connect string {connect_string:?}: {why}")).into()
}

fn parse_address(part: &str, connect_string: &str) -> Result<String, Error> {
    let wrong = |why: &str| wrong(connect_string, why);
    if part.is_empty() {
        return Err(wrong("a server is empty"));
    }
    let port_at = match part.rfind(']') {
        Some(bracket) => part.get(bracket..).and_then(|rest| rest.find(':')).map(|at| bracket + at),
        None => part.rfind(':'),
    };
    match port_at.map(|at| part.split_at(at)) {
        None => Ok(format!("{part}:{PORT_DEFAULT}")),
        Some(("", _)) => Err(wrong("a host is empty")),
        Some((_, port)) => match port.trim_start_matches(':').parse::<u16>() {
            Ok(port) if port > 0 => Ok(part.to_owned()),
            Ok(_) | Err(_) => Err(wrong(&format!("{part:?} has no port between 1 and 65535"))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connect_string_names_hosts_with_and_without_ports() {
        let parsed: ConnectString = "a:1, b ,[::1]:3,[::1]/x/y".parse().unwrap();
        assert_eq!(parsed.addresses(), ["a:1", "b:2181", "[::1]:3", "[::1]:2181"]);
        assert_eq!(parsed.chroot(), "/x/y");
    }

    #[test]
    fn a_slash_alone_means_that_there_is_no_chroot() {
        let (addresses, chroot) = "a:1/".parse::<ConnectString>().unwrap().into_parts();
        assert_eq!((addresses, chroot), (vec!["a:1".to_owned()], Chroot::default()));
    }

    #[test]
    fn a_bad_connect_string_is_refused_by_name() {
        for bad in ["", "a:1,,b:2", "a:0", "a:x", "a:70000", ":2181", "a:1/x/", "a//b"] {
            let error = bad.parse::<ConnectString>().unwrap_err();
            assert!(error.to_string().contains("connect string"), "{bad}: {error}");
        }
    }
}
