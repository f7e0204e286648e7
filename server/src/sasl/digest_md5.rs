//! DIGEST-MD5, the server's side: a challenge, and the look at the response (RFC 2831).
//!
//! ```text
//!   Begin --any token--> Challenged(nonce) --response--> Ended
//! ```

use bytes::Bytes;
use md5::{Digest, Md5};
use thiserror::Error;

use super::Users;
use super::directives::Directives;

/// The realm of every server: clients send it back.
const REALM: &str = "zk-sasl-md5";

/// What the client wants to use, as `ZooKeeper`'s clients name it.
const URI: &str = "zookeeper/zk-sasl-md5";

/// The number of the response in its login. There is one response.
const NONCE_COUNT: &str = "00000001";

/// The longest token that is looked at, in bytes, as in Java.
const TOKEN_BYTES_MAX: usize = 4096;

/// What the first token of Kerberos begins with (RFC 2743, section 3.1).
const KERBEROS_TAG: u8 = 0x60;

/// A login under way on one connection.
#[derive(Debug, Default)]
pub(crate) struct Login(Stage);

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Begin,
    Challenged(String),
    Ended,
}

/// What the server says to a token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// The login goes on.
    Challenge(Bytes),
    /// It is done.
    LoggedIn {
        /// Proves to the client that the server knows its password.
        token: Bytes,
        /// The user.
        user: String,
    },
}

/// Why a login fails. The client does not learn it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum LoginError {
    /// It is longer than any response.
    #[error("a token of {0} bytes: {TOKEN_BYTES_MAX} are the most")]
    TooLong(usize),
    /// It is Kerberos.
    #[error(
        "the client wants to log in by Kerberos (GSSAPI), which is not supported: expected \
         DIGEST-MD5, with username and password in the client's JAAS section"
    )]
    Kerberos,
    /// The login has ended before.
    #[error("a token behind the end of the login")]
    Ended,
    /// The response cannot be read.
    #[error("{0}")]
    Syntax(&'static str),
    /// It is not complete.
    #[error("{0} is missing in the response")]
    Missing(&'static str),
    /// Not what the server asks for.
    #[error("{0} in the response is not what the server expects")]
    Unexpected(&'static str),
    /// The user is not configured.
    #[error("unknown user {0:?}")]
    UnknownUser(String),
    /// The user has another password.
    #[error("wrong password of user {0:?}")]
    WrongPassword(String),
}

impl Login {
    /// Takes a client's token. `nonce` returns a text without quotes that no other login has.
    pub(crate) fn take(
        &mut self,
        token: &[u8],
        users: &Users,
        nonce: impl FnOnce() -> String,
    ) -> Result<Answer, LoginError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(LoginError::TooLong(token.len()));
        }
        match &self.0 {
            Stage::Begin if token.first() == Some(&KERBEROS_TAG) => Err(LoginError::Kerberos),
            // As in Apache ZooKeeper, whatever else the first token is.
            Stage::Begin => {
                let nonce = nonce();
                let challenge =
                    format!("realm=\"{REALM}\",nonce=\"{nonce}\",charset=utf-8,algorithm=md5-sess");
                self.0 = Stage::Challenged(nonce);
                Ok(Answer::Challenge(challenge.into()))
            }
            Stage::Challenged(_) => {
                let Stage::Challenged(nonce) = std::mem::replace(&mut self.0, Stage::Ended) else {
                    return Err(LoginError::Ended);
                };
                check(token, &nonce, users)
            }
            Stage::Ended => Err(LoginError::Ended),
        }
    }
}

/// Checks a response. An unknown user takes as long as a wrong password.
fn check(token: &[u8], nonce: &str, users: &Users) -> Result<Answer, LoginError> {
    let response = Directives::parse(token)?;
    let user = text(response.need("username")?, "username")?;
    expect(&response, "charset", |charset| charset == b"utf-8")?;
    expect(&response, "qop", |qop| qop == b"auth")?;
    response.need("nc")?;
    expect(&response, "nc", |count| count == NONCE_COUNT.as_bytes())?;
    response.need("realm")?;
    expect(&response, "realm", |realm| realm == REALM.as_bytes())?;
    response.need("nonce")?;
    expect(&response, "nonce", |echoed| echoed == nonce.as_bytes())?;
    let uri = response.need("digest-uri")?;
    expect(&response, "digest-uri", |uri| uri.eq_ignore_ascii_case(URI.as_bytes()))?;
    let (cnonce, proof) = (response.need("cnonce")?, response.need("response")?);
    let known = users.password(user);
    let key = session_key(
        (user, known.unwrap_or_default()),
        (nonce.as_bytes(), cnonce),
        response.get("authzid"),
    );
    let expected = digest(&key, (nonce.as_bytes(), cnonce), &[b"AUTHENTICATE:", uri].concat());
    let is_proved = is_same(proof, expected.as_bytes());
    if known.is_none() {
        return Err(LoginError::UnknownUser(user.to_owned()));
    }
    if !is_proved {
        return Err(LoginError::WrongPassword(user.to_owned()));
    }
    let mutual = digest(&key, (nonce.as_bytes(), cnonce), &[b":", uri].concat());
    let token = format!("rspauth={mutual}").into();
    Ok(Answer::LoggedIn { token, user: user.to_owned() })
}

/// Checks a directive that may be left out.
fn expect(
    response: &Directives,
    key: &'static str,
    is_expected: impl FnOnce(&[u8]) -> bool,
) -> Result<(), LoginError> {
    match response.get(key) {
        Some(value) if !is_expected(value) => Err(LoginError::Unexpected(key)),
        Some(_) | None => Ok(()),
    }
}

fn text<'a>(value: &'a [u8], key: &'static str) -> Result<&'a str, LoginError> {
    std::str::from_utf8(value).map_err(|_| LoginError::Unexpected(key))
}

/// The hex digest of A1 (RFC 2831, section 2.1.2.1).
fn session_key(
    (user, password): (&str, &str),
    (nonce, cnonce): (&[u8], &[u8]),
    authzid: Option<&[u8]>,
) -> String {
    let secret = Md5::new()
        .chain_update(plain(user))
        .chain_update(format!(":{REALM}:"))
        .chain_update(plain(password))
        .finalize();
    let mut key = Md5::new()
        .chain_update(secret)
        .chain_update(b":")
        .chain_update(nonce)
        .chain_update(b":")
        .chain_update(cnonce);
    if let Some(authzid) = authzid {
        key = key.chain_update(b":").chain_update(authzid);
    }
    hex(&key.finalize())
}

/// The hex digest that proves the knowledge of the key.
fn digest(key: &str, (nonce, cnonce): (&[u8], &[u8]), a2: &[u8]) -> String {
    let proof = Md5::new()
        .chain_update(key)
        .chain_update(b":")
        .chain_update(nonce)
        .chain_update(format!(":{NONCE_COUNT}:"))
        .chain_update(cnonce)
        .chain_update(b":auth:")
        .chain_update(hex(&Md5::digest(a2)));
    hex(&proof.finalize())
}

/// The bytes of a user or a password: in ISO 8859-1 if that has all letters, else in UTF-8
/// (RFC 2831, section 2.1.2.1).
fn plain(text: &str) -> Vec<u8> {
    let latin: Option<Vec<u8>> = text.chars().map(|letter| u8::try_from(letter).ok()).collect();
    latin.unwrap_or_else(|| text.as_bytes().to_vec())
}

fn hex(bytes: &[u8]) -> String {
    let digit = |digit: u8| char::from_digit(u32::from(digit), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
}

/// Compares in a time that depends on the lengths alone.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    let differences = a.iter().zip(b).fold(0, |differences, (a, b)| differences | (a ^ b));
    a.len() == b.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use zoolet_tls::Password;

    fn users() -> Users {
        let mut users = Users::default();
        users.add("bob", Password::new("builder")).unwrap();
        users.add("zoé", Password::new("ñ")).unwrap();
        users.add("花", Password::new("子")).unwrap();
        users
    }

    /// A client's response, with directives changed.
    fn respond(user: &str, password: &str, nonce: &str, more: &str) -> Vec<u8> {
        let nonces = (nonce.as_bytes(), &b"c"[..]);
        let key = session_key((user, password), nonces, None);
        let proof = digest(&key, nonces, format!("AUTHENTICATE:{URI}").as_bytes());
        format!(
            "charset=utf-8,username=\"{user}\",realm=\"{REALM}\",nonce=\"{nonce}\",nc=00000001,\
             cnonce=\"c\",digest-uri=\"{URI}\",maxbuf=65536,response={proof},qop=auth{more}"
        )
        .into_bytes()
    }

    fn challenged() -> Login {
        let mut login = Login::default();
        let challenge = login.take(b"", &users(), || "n".to_owned()).unwrap();
        let expected = "realm=\"zk-sasl-md5\",nonce=\"n\",charset=utf-8,algorithm=md5-sess";
        assert_eq!(challenge, Answer::Challenge(expected.into()));
        login
    }

    fn answer(token: &[u8]) -> Result<Answer, LoginError> {
        challenged().take(token, &users(), || panic!("one nonce is enough"))
    }

    #[test]
    fn the_numbers_are_those_of_rfc_2831() {
        // Section 4, with the realm of that example in place of ours.
        let nonces = (&b"OA6MG9tEQGm2hh"[..], &b"OA6MHXh6VqTrRk"[..]);
        let secret = Md5::digest(b"chris:elwood.innosoft.com:secret");
        let key = Md5::new().chain_update(secret).chain_update(b":OA6MG9tEQGm2hh:OA6MHXh6VqTrRk");
        let key = hex(&key.finalize());
        let uri = b"AUTHENTICATE:imap/elwood.innosoft.com";
        assert_eq!(digest(&key, nonces, uri), "d388dad90d4bbd760a152321f2143af7");
        let uri = b":imap/elwood.innosoft.com";
        assert_eq!(digest(&key, nonces, uri), "ea40f60335c427b5527b84dbabcdfffd");
    }

    #[test]
    fn the_right_password_logs_in() {
        for (user, password) in [("bob", "builder"), ("zoé", "ñ"), ("花", "子")] {
            let answered = answer(&respond(user, password, "n", "")).unwrap();
            let Answer::LoggedIn { token, user: known } = answered else { panic!("{answered:?}") };
            assert_eq!(known, user);
            assert!(token.starts_with(b"rspauth=") && token.len() == 40, "{token:?}");
        }
    }

    #[test]
    fn whatever_else_is_refused() {
        let unknown = answer(&respond("eve", "builder", "n", "")).unwrap_err();
        assert_eq!(unknown, LoginError::UnknownUser("eve".to_owned()));
        // The digest of an unknown user is computed with an empty password.
        assert!(answer(&respond("eve", "", "n", "")).is_err());
        let wrong = answer(&respond("bob", "x", "n", "")).unwrap_err();
        assert_eq!(wrong, LoginError::WrongPassword("bob".to_owned()));
        assert_eq!(
            answer(&respond("bob", "builder", "m", "")),
            Err(LoginError::Unexpected("nonce"))
        );
        assert!(answer(&respond("bob", "builder", "n", ",qop=auth")).is_err());
        for (from, to, error) in [
            ("qop=auth", "qop=auth-int", LoginError::Unexpected("qop")),
            ("nc=00000001", "nc=00000002", LoginError::Unexpected("nc")),
            ("charset=utf-8", "charset=latin", LoginError::Unexpected("charset")),
            ("realm=\"zk", "realm=\"", LoginError::Unexpected("realm")),
            ("cnonce=\"c\",", "", LoginError::Missing("cnonce")),
            ("username=\"bob\",", "", LoginError::Missing("username")),
            ("uri=\"zookeeper", "uri=\"imap", LoginError::Unexpected("digest-uri")),
        ] {
            let good = String::from_utf8(respond("bob", "builder", "n", "")).unwrap();
            assert!(good.contains(from), "{from}");
            assert_eq!(answer(good.replace(from, to).as_bytes()), Err(error), "{to}");
        }
    }

    #[test]
    fn a_login_has_its_order_and_one_try() {
        let (good, users) = (respond("bob", "builder", "n", ""), users());
        let nonce = || "n".to_owned();
        let mut login = Login::default();
        assert_eq!(login.take(&[0x60, 1], &users, nonce), Err(LoginError::Kerberos));
        assert_eq!(login.take(&[0; 4097], &users, nonce), Err(LoginError::TooLong(4097)));
        assert!(matches!(login.take(&good, &users, nonce), Ok(Answer::Challenge(_))));
        let mut login = challenged();
        assert!(login.take(b"", &users, nonce).is_err());
        assert_eq!(login.take(&good, &users, nonce), Err(LoginError::Ended));
        let mut login = challenged();
        assert!(login.take(&good, &users, nonce).is_ok());
        assert_eq!(login.take(b"", &users, nonce), Err(LoginError::Ended));
    }

    /// Every byte changed in several ways, every cut: no panic, and no login.
    #[test]
    fn damaged_responses_are_refused() {
        let good = respond("bob", "builder", "n", "");
        let place = |part: &[u8]| good.windows(part.len()).position(|other| other == part).unwrap();
        // The names of directives that may be left out, and one that is not looked at.
        let (charset, qop) = (place(b"charset="), place(b"qop="));
        let maxbuf = place(b"maxbuf=65536");
        let ignored = [charset..charset + 7, qop..qop + 4, maxbuf..maxbuf + 13];
        for at in 0..good.len() {
            let _ = answer(&good[..at]);
            for change in [1, 0x20, 0x80, 0xff] {
                let mut damaged = good.clone();
                damaged[at] ^= change;
                // The case of keys and of the URI makes no difference either.
                let is_ignored = ignored.iter().any(|part| part.contains(&at));
                let answered = answer(&damaged);
                let shown = String::from_utf8_lossy(&damaged);
                assert!(change == 0x20 || is_ignored || answered.is_err(), "{shown}");
            }
        }
    }
}
