//! Where the HTTP ports of servers are.

use std::str::FromStr;

use thiserror::Error;

/// The HTTP ports of servers, in the order of the connect string: `host:port`, with commas between
/// them, and `https://` before those that speak TLS; an empty one for a server without a port. All
/// commands are below `/commands`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpAddresses(Vec<Option<HttpAddress>>);

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpAddress {
    /// `host:port`.
    pub(crate) authority: String,
    pub(crate) is_tls: bool,
}

impl HttpAddresses {
    /// Returns the HTTP port of a server of the connect string, counted from 0.
    pub(crate) fn of(&self, index: usize) -> Option<&HttpAddress> {
        self.0.get(index)?.as_ref()
    }

    /// Returns all that are known.
    pub(crate) fn known(&self) -> impl Iterator<Item = &HttpAddress> {
        self.0.iter().flatten()
    }

    /// Returns the first that speaks TLS.
    pub fn first_https(&self) -> Option<&str> {
        self.known().find(|address| address.is_tls).map(|address| address.authority.as_str())
    }

    /// Returns how many servers are named, those without a port too.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// An address of an HTTP port is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid HTTP address {address:?}: it is written host:port or https://host:port")]
pub struct HttpAddressesError {
    address: String,
}

impl FromStr for HttpAddresses {
    type Err = HttpAddressesError;

    fn from_str(text: &str) -> Result<Self, HttpAddressesError> {
        let parse = |part: &str| {
            let part = part.trim();
            if part.is_empty() {
                return Ok(None);
            }
            let address = || part.to_owned();
            let secure = part.strip_prefix("https://");
            let plain = part.strip_prefix("http://").unwrap_or(part);
            let authority = secure.unwrap_or(plain).trim_end_matches('/');
            match authority.rsplit_once(':') {
                Some((host, port)) if is_host(host) && port.parse::<u16>().is_ok_and(|p| p > 0) => {
                    Ok(Some(HttpAddress {
                        authority: authority.to_owned(),
                        is_tls: secure.is_some(),
                    }))
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
        let of = |index| all.of(index).map(|at| at.authority.as_str());
        assert_eq!((of(0), of(1), of(2)), (Some("a:8080"), None, Some("[::1]:81")));
        assert_eq!((all.count(), of(3), all.first_https()), (3, None, None));
        let secure: HttpAddresses = "a:1,https://b:2/".parse().unwrap();
        assert_eq!(secure.first_https(), Some("b:2"));
        for bad in ["a", "a:0", "a:x", "a b:1", "a/b:1", "a:1,\r\n:2", "https://", "ftp://a:1"] {
            assert!(bad.parse::<HttpAddresses>().is_err(), "{bad}");
        }
    }
}
