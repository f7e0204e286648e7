//! Who is logged in: a random token in a cookie, and a session of its own with the ensemble.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::{COOKIE, HeaderValue};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use zoolet_client::Client;
use zoolet_tls::VerifiedCertificate;

use crate::failure::Failure;
use crate::json::hex;
use crate::options::SharedConnector;

/// A user that is logged in.
#[derive(Clone)]
pub(crate) struct Login {
    pub(crate) client: Client,
    /// The identities by which the servers know the user, `scheme:id`.
    pub(crate) identities: Vec<String>,
    /// What proves the user's identity to HTTP ports whose commands need one.
    pub(crate) proof: Proof,
}

/// How a user has logged in.
#[derive(Clone, Debug)]
pub(crate) enum Proof {
    /// By digest: `user:password`.
    Digest(Credentials),
    /// By a certificate, which each request of the login has to show again; and how HTTP ports are reached
    /// with it.
    Certificate(Arc<VerifiedCertificate>, SharedConnector),
}

impl Proof {
    fn is_shown_by(&self, certificate: Option<&VerifiedCertificate>) -> bool {
        match self {
            Self::Digest(_) => true,
            Self::Certificate(own, _) => certificate == Some(own),
        }
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("identities", &self.identities).finish_non_exhaustive()
    }
}

/// A secret. `Debug` does not show it.
#[derive(Clone)]
pub(crate) struct Credentials(pub(crate) String);

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(..)")
    }
}

/// All logins. Their tokens are kept as digests, so that how long a comparison takes shows nothing.
#[derive(Debug)]
pub(crate) struct Logins {
    max: usize,
    idle: Duration,
    names: CookieNames,
    /// Whether a proxy in front of the console speaks TLS.
    is_secure: bool,
    open: Mutex<BTreeMap<[u8; 32], Open>>,
}

/// The cookie's names. A page that comes in plain text, from any port of the host, can set a cookie of
/// every name but those that begin with `__Secure-`: over TLS only such a name counts.
#[derive(Debug)]
struct CookieNames {
    plain: String,
    secure: String,
}

#[derive(Debug)]
struct Open {
    login: Login,
    used: Instant,
}

impl Logins {
    /// Keeps up to `max` logins. The cookie's names end in `name`: browsers keep one set of cookies
    /// for all ports of a host.
    pub(crate) fn new(max: usize, idle: Duration, name: &str, is_secure: bool) -> Self {
        let plain = format!("zoolet_console_{name}");
        let names = CookieNames { secure: format!("__Secure-{plain}"), plain };
        Self { max, idle, names, is_secure, open: Mutex::default() }
    }

    /// Returns whether there is room for one more.
    pub(crate) fn has_room(&self) -> bool {
        self.open().len() < self.max
    }

    /// Adds a login; returns its cookie.
    pub(crate) fn add(&self, login: Login, is_secure: bool) -> Result<HeaderValue, Failure> {
        let mut token = [0; 32];
        getrandom::fill(&mut token)
            .map_err(|error| Failure::unavailable(format!("no random numbers: {error}")))?;
        let token = hex(&token);
        let mut open = self.open();
        if open.len() >= self.max {
            return Err(Failure::unavailable(format!("all {} logins are in use", self.max)));
        }
        let key = key(self.cookie_name(is_secure), &token);
        open.insert(key, Open { login, used: Instant::now() });
        self.set_cookie(&token, None, is_secure)
    }

    /// Returns the login of a request that has shown this certificate, and notes that it is in use. It was
    /// made over TLS if the request comes over TLS, and in plain text otherwise.
    pub(crate) fn find(
        &self,
        headers: &HeaderMap,
        (is_secure, certificate): (bool, Option<&VerifiedCertificate>),
    ) -> Option<Login> {
        let key = self.key_of(headers, is_secure)?;
        let mut open = self.open();
        let found = open.get_mut(&key)?;
        if found.used.elapsed() >= self.idle || found.login.client.state().borrow().is_terminal() {
            open.remove(&key);
            return None;
        }
        if !found.login.proof.is_shown_by(certificate) {
            return None;
        }
        found.used = Instant::now();
        Some(found.login.clone())
    }

    /// Ends the login of a request; returns the cookie that removes its own, and its client.
    pub(crate) fn end(
        &self,
        headers: &HeaderMap,
        is_secure: bool,
    ) -> Result<(HeaderValue, Option<Client>), Failure> {
        let key = self.key_of(headers, is_secure);
        let ended = key.and_then(|key| self.open().remove(&key));
        Ok((self.set_cookie("", Some(0), is_secure)?, ended.map(|open| open.login.client)))
    }

    /// Ends logins that are not in use. Their sessions end with the last handle.
    pub(crate) fn sweep(&self) {
        self.open().retain(|_, open| {
            open.used.elapsed() < self.idle && !open.login.client.state().borrow().is_terminal()
        });
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<[u8; 32], Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key_of(&self, headers: &HeaderMap, is_secure: bool) -> Option<[u8; 32]> {
        Some(key(self.cookie_name(is_secure), self.token(headers, is_secure)?))
    }

    fn token<'a>(&self, headers: &'a HeaderMap, is_secure: bool) -> Option<&'a str> {
        let name = self.cookie_name(is_secure);
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).map(str::trim);
        pairs.find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    /// The name for a connection, and for what the browser speaks with a proxy in front of the console.
    fn cookie_name(&self, is_secure: bool) -> &str {
        if self.is_secure || is_secure { &self.names.secure } else { &self.names.plain }
    }

    fn set_cookie(
        &self,
        token: &str,
        max_age: Option<u32>,
        is_secure: bool,
    ) -> Result<HeaderValue, Failure> {
        let age = max_age.map(|age| format!("; Max-Age={age}")).unwrap_or_default();
        let secure = if self.is_secure || is_secure { "; Secure" } else { "" };
        let name = self.cookie_name(is_secure);
        let text = format!("{name}={token}; Path=/console; HttpOnly; SameSite=Strict{age}{secure}");
        let mut value = HeaderValue::try_from(text).map_err(|_| {
            Failure::unavailable("the cookie has characters that HTTP does not carry")
        })?;
        value.set_sensitive(true);
        Ok(value)
    }
}

/// The name is a part of it, so that a login holds over TLS alone if it was made over TLS.
fn key(name: &str, token: &str) -> [u8; 32] {
    Sha256::digest(format!("{name}={token}")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_for_the_console_alone() {
        let logins = |is_secure| Logins::new(1, Duration::from_secs(1), "8081", is_secure);
        let cookie = |is_secure, age| {
            logins(is_secure).set_cookie("ab", age, false).unwrap().to_str().unwrap().to_owned()
        };
        let plain = "zoolet_console_8081=ab; Path=/console; HttpOnly; SameSite=Strict";
        assert_eq!(cookie(false, None), plain);
        assert_eq!(cookie(true, Some(0)), format!("__Secure-{plain}; Max-Age=0; Secure"));
        let over_tls = logins(false).set_cookie("ab", None, true).unwrap();
        assert_eq!(over_tls.to_str().unwrap(), format!("__Secure-{plain}; Secure"));
        let headers = |text| HeaderMap::from_iter([(COOKIE, HeaderValue::from_static(text))]);
        let all = headers("a=b; zoolet_console_8082=no; zoolet_console_8081=yes");
        assert_eq!(logins(false).token(&all, false), Some("yes"));
        assert_eq!(logins(false).token(&headers("zoolet_console_80811=no"), false), None);
        assert!(logins(false).find(&all, (false, None)).is_none());
    }

    #[test]
    fn a_cookie_that_was_set_in_plain_text_does_not_count_over_tls() {
        let logins = |behind_tls| Logins::new(1, Duration::from_secs(1), "8081", behind_tls);
        // The planted one has a longer path, and so comes first.
        let both = "zoolet_console_8081=planted; __Secure-zoolet_console_8081=own";
        let planted = "zoolet_console_8081=planted";
        let headers = |text| HeaderMap::from_iter([(COOKIE, HeaderValue::from_static(text))]);
        for (behind_tls, is_secure) in [(false, true), (true, false), (true, true)] {
            let token =
                |text| logins(behind_tls).token(&headers(text), is_secure).map(str::to_owned);
            assert_eq!(token(both).as_deref(), Some("own"), "{behind_tls} {is_secure}");
            assert_eq!(token(planted), None, "{behind_tls} {is_secure}");
        }
        // One port may speak both: what was set over TLS is not taken in plain text.
        let own = headers("__Secure-zoolet_console_8081=own");
        assert_eq!(logins(false).token(&own, false), None);
        let keys = [true, false].map(|is_secure| {
            let name = logins(false).cookie_name(is_secure).to_owned();
            key(&name, "own")
        });
        assert_ne!(keys[0], keys[1]);
    }
}
