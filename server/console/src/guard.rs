//! Which requests a console takes at all: those of its own pages, under a name that is its own.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{HOST, HeaderName, ORIGIN};
use hyper::{HeaderMap, StatusCode};

use crate::failure::Failure;

/// A form or an image of another site cannot send it.
const OWN_HEADER: &str = "x-zoolet-console";

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Checks the name under which the console is asked. On loopback it is a loopback name alone: a name of
/// another site that has been made to point here (DNS rebinding) is refused. `proxy` is the name of a
/// proxy in front of it.
pub(crate) fn check_host(
    headers: &HeaderMap,
    (local, is_secure): (SocketAddr, bool),
    proxy: Option<&str>,
) -> Result<(), Failure> {
    let host = text(headers, &HOST)
        .ok_or_else(|| Failure::invalid("the request has no header Host, or more than one"))?;
    let is_proxy = proxy.is_some_and(|proxy| host_of(proxy).eq_ignore_ascii_case(host_of(host)));
    if !local.ip().to_canonical().is_loopback() || is_loopback(host_of(host)) || is_proxy {
        return Ok(());
    }
    let scheme = if is_secure { "https" } else { "http" };
    let why = format!(
        "{host:?} is not a name of this console: it listens on loopback, use {scheme}://{local}/console/"
    );
    Err(Failure::new(StatusCode::MISDIRECTED_REQUEST, why))
}

/// Checks that a request that changes something comes from a page of this console: over TLS, from one
/// that came over TLS.
pub(crate) fn check_origin(headers: &HeaderMap, is_secure: bool) -> Result<(), Failure> {
    let refuse = |why: &str| Err(Failure::new(StatusCode::FORBIDDEN, why));
    if !headers.contains_key(OWN_HEADER) {
        return refuse("the header X-Zoolet-Console is missing: only the console's pages send it");
    }
    if text(headers, &FETCH_SITE).is_some_and(|site| site != "same-origin") {
        return refuse("the request comes from another site");
    }
    let host = text(headers, &HOST).unwrap_or_default();
    let origin = text(headers, &ORIGIN).unwrap_or_default();
    // A proxy may speak TLS for this console.
    let schemes: &[&str] = if is_secure { &["https://"] } else { &["http://", "https://"] };
    let own = schemes.iter().find_map(|scheme| origin.strip_prefix(scheme));
    if own.is_none_or(|own| own != host) {
        return refuse("the header Origin is not the console's own");
    }
    Ok(())
}

/// Returns a header that is there once, as text.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    value.to_str().ok().filter(|_| values.next().is_none())
}

/// Returns the host of `host:port`.
fn host_of(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    authority.split(':').next().unwrap_or_default()
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        all.iter().map(pair).collect()
    }

    #[test]
    fn on_loopback_only_its_names_are_served() {
        let check = |host: &'static str, local: &str| {
            check_host(&headers(&[("host", host)]), (local.parse().unwrap(), false), None).is_ok()
        };
        for host in ["127.0.0.1:8081", "localhost", "LOCALHOST:1", "[::1]:8081", "127.9.9.9"] {
            assert!(check(host, "127.0.0.1:8081"), "{host}");
        }
        for host in
            ["evil.example:8081", "127.0.0.1.evil.example", "localhost.evil", "", "10.0.0.1"]
        {
            assert!(!check(host, "127.0.0.1:8081"), "{host}");
            assert!(!check(host, "[::1]:8081"), "{host}");
        }
        assert!(check("zk1.example:8081", "10.0.0.1:8081"), "not on loopback");
        assert!(
            check_host(&HeaderMap::new(), ("127.0.0.1:1".parse().unwrap(), true), None).is_err()
        );
        let behind = |host: &'static str| {
            let local = ("127.0.0.1:8081".parse().unwrap(), false);
            check_host(&headers(&[("host", host)]), local, Some("zk.example:443")).is_ok()
        };
        assert!(behind("ZK.example") && behind("127.0.0.1") && !behind("evil.example"));
    }

    #[test]
    fn a_change_comes_from_a_page_of_the_console() {
        let check =
            |all: &[(&'static str, &'static str)]| check_origin(&headers(all), false).is_ok();
        let host = ("host", "127.0.0.1:8081");
        let (own, origin) = (("x-zoolet-console", "1"), ("origin", "http://127.0.0.1:8081"));
        assert!(check(&[host, own, origin]));
        assert!(check(&[host, own, origin, ("sec-fetch-site", "same-origin")]));
        assert!(check(&[host, own, ("origin", "https://127.0.0.1:8081")]), "behind a proxy");
        let secure =
            |origin| check_origin(&headers(&[host, own, ("origin", origin)]), true).is_ok();
        assert!(secure("https://127.0.0.1:8081"));
        assert!(!secure("http://127.0.0.1:8081"), "a page that came in plain text");
        assert!(!check(&[host, origin]), "a form");
        assert!(!check(&[host, own]), "no origin");
        assert!(!check(&[host, own, ("origin", "null")]));
        assert!(!check(&[host, own, ("origin", "http://127.0.0.1:8082")]), "another port");
        assert!(!check(&[host, own, origin, ("sec-fetch-site", "same-site")]));
    }
}
