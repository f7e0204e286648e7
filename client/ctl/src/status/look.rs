//! A look at one server from outside, without a session: what its client port answers to `srvr`,
//! by TLS or in plain text.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use zoolet_client::Connector;
use zoolet_client::tls::TlsConnector;
use zoolet_survey::four_letter::Silence;
use zoolet_survey::members::Identity;
use zoolet_survey::srvr::Served;

use super::tls::TlsFailure;
use crate::options::TlsFiles;

/// How long the look may take; one by TLS that fails is followed by one in plain text.
const LOOK_TIME: Duration = Duration::from_secs(1);

/// A port that is silent for so long is sent the end of a line: servers of other protocols answer
/// to a line only.
const SILENCE: Duration = Duration::from_millis(400);

/// How long the alert of a server that expects TLS may take.
const TLS_TIME: Duration = Duration::from_millis(500);

/// How many bytes of an answer are read at most. An answer to `srvr` has about 300.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// The shortest message that begins a TLS handshake. It is too short to be accepted, and a server that
/// expects TLS says so with an alert.
const TLS_HELLO: [u8; 10] = [22, 3, 1, 0, 5, 1, 0, 0, 1, 0];

/// The types of TLS messages that come as an answer: an alert and a handshake.
const TLS_ANSWERS: [u8; 2] = [21, 22];

/// What was found at an address.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub(crate) address: String,
    /// Where the connection went.
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) found: Found,
    /// Its identity, if a session has shown it.
    pub(crate) identity: Option<Identity>,
}

impl Look {
    /// Whether the server takes writes.
    pub(crate) fn is_serving(&self) -> bool {
        self.found.serving().is_some()
    }
}

/// How a server has answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Found {
    /// Its name has no address.
    UnknownHost(String),
    /// The machine answers, and no program listens at the port.
    Refused,
    /// No connection was made for another reason.
    Unreachable(String),
    /// It takes connections and does not answer.
    Silent,
    /// It closes connections without an answer.
    Closed,
    /// It expects TLS, and was asked in plain text.
    ExpectsTls,
    /// It speaks plain text, and was asked by TLS.
    SpeaksPlainText,
    /// No connection by TLS was made.
    TlsFailed(TlsFailure),
    /// Another protocol's server, with the beginning of its answer.
    NotZooKeeper(String),
    /// A server that does not allow `srvr`.
    WordForbidden,
    /// A server that does not serve: it has no leader.
    NotServing,
    /// A server that serves.
    Serving(Served),
}

impl Found {
    /// Whether a ZooKeeper server has answered.
    pub(crate) fn is_server(&self) -> bool {
        matches!(self, Self::WordForbidden | Self::NotServing | Self::Serving(_))
    }

    /// Returns what `srvr` has shown of a server that takes writes.
    pub(crate) fn serving(&self) -> Option<&Served> {
        if let Self::Serving(served) = self {
            Some(served).filter(|it| it.takes_writes())
        } else {
            None
        }
    }

    /// Whether it is the options for TLS that keep the server from being used: then waiting does not
    /// help.
    pub(crate) fn is_tls_mistake(&self) -> bool {
        self.remedy(&TlsFiles::default()).is_some()
    }

    /// Returns how the options for TLS have to be changed for this server.
    pub(crate) fn remedy(&self, flags: &TlsFiles) -> Option<&'static str> {
        match self {
            Self::ExpectsTls => Some(
                "give --trust-store FILE with the authority of the servers' certificates, and \
                 --key-store FILE if they demand one from their clients",
            ),
            Self::SpeaksPlainText => Some(
                "name in --servers the port that speaks TLS (secureClientPort), or leave out \
                 --trust-store and ZOOLETCTL_TRUST_STORE",
            ),
            Self::TlsFailed(failure) => failure.remedy(flags.key_store.is_some()),
            Self::Serving(_)
            | Self::UnknownHost(_)
            | Self::Refused
            | Self::Unreachable(_)
            | Self::Silent
            | Self::Closed
            | Self::NotZooKeeper(_)
            | Self::WordForbidden
            | Self::NotServing => None,
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownHost(why) => write!(f, "unknown host: {why}"),
            Self::Refused => f.write_str("connection refused: no program listens there"),
            Self::Unreachable(why) => write!(f, "unreachable: {why}"),
            Self::Silent => f.write_str("takes connections, and does not answer"),
            Self::Closed => f.write_str("closes connections without an answer"),
            Self::ExpectsTls => f.write_str("expects TLS"),
            Self::SpeaksPlainText => f.write_str("speaks plain text, and TLS is asked for"),
            Self::TlsFailed(failure) => write!(f, "{failure}"),
            Self::NotZooKeeper(answer) => {
                write!(f, "not a ZooKeeper port: it answers {answer:?}")
            }
            Self::WordForbidden => {
                f.write_str("up; it does not allow `srvr` (4lw.commands.whitelist)")
            }
            Self::Serving(served) if served.is_read_only() => f.write_str("serves only reads"),
            Self::Serving(served) if served.takes_writes() => f.write_str(&served.mode),
            Self::NotServing | Self::Serving(_) => f.write_str("up, without a leader"),
        }
    }
}

/// Looks at all of these servers at once, by TLS if there is a connector for it.
pub(crate) async fn look_at(addresses: &[String], tls: Option<&TlsConnector>) -> Vec<Look> {
    join_all(addresses.iter().map(|address| look(address, tls))).await
}

async fn look(address: &str, tls: Option<&TlsConnector>) -> Look {
    match tls {
        Some(tls) => look_by_tls(address, tls).await,
        None => look_in_plain_text(address).await,
    }
}

async fn look_in_plain_text(address: &str) -> Look {
    let mut peer = None;
    let mut found = within_look_time(ask(address, &mut peer)).await.unwrap_or_else(|late| {
        // It has been connected to.
        if peer.is_some() { Found::Silent } else { late }
    });
    if matches!(found, Found::Closed | Found::Silent)
        && let Some(peer) = peer
        && timeout(TLS_TIME, expects_tls(peer)).await.is_ok_and(|answer| answer.unwrap_or(false))
    {
        found = Found::ExpectsTls;
    }
    Look { address: address.to_owned(), peer, found, identity: None }
}

async fn look_by_tls(address: &str, tls: &TlsConnector) -> Look {
    let mut peer = None;
    let asked = within_look_time(ask_by_tls(address, tls, &mut peer)).await;
    let mut found = asked.unwrap_or_else(|late| late);
    if let Found::TlsFailed(failure) = &found
        && failure.may_be_plain_text()
    {
        match within_look_time(ask(address, &mut peer)).await {
            Ok(plain) if plain.is_server() => found = Found::SpeaksPlainText,
            Ok(other @ Found::NotZooKeeper(_)) => found = other,
            Ok(_) | Err(_) => {}
        }
    }
    Look { address: address.to_owned(), peer, found, identity: None }
}

async fn within_look_time(asking: impl Future<Output = Found>) -> Result<Found, Found> {
    timeout(LOOK_TIME, asking).await.map_err(|_| {
        Found::Unreachable(format!("no connection within {} ms", LOOK_TIME.as_millis()))
    })
}

async fn ask(address: &str, peer: &mut Option<SocketAddr>) -> Found {
    let addresses = match resolve(address).await {
        Ok(addresses) => addresses,
        Err(found) => return found,
    };
    let stream = match TcpStream::connect(&*addresses).await {
        Ok(stream) => stream,
        Err(error) => return unconnected(&error),
    };
    *peer = stream.peer_addr().ok();
    let mut answer = Vec::new();
    match exchange(stream, &mut answer).await {
        // A server that closes while bytes of ours are unread resets the connection behind its answer.
        Ok(()) => classify(&answer),
        Err(_) if !answer.is_empty() => classify(&answer),
        Err(_) => Found::Closed,
    }
}

async fn ask_by_tls(address: &str, tls: &TlsConnector, peer: &mut Option<SocketAddr>) -> Found {
    let addresses = match resolve(address).await {
        Ok(addresses) => addresses,
        Err(found) => return found,
    };
    // The certificate is compared with the name, so the connector looks the address up itself.
    if let [only] = *addresses {
        *peer = Some(only);
    }
    let stream = match tls.connect(address).await {
        Ok(stream) => stream,
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Found::TlsFailed(TlsFailure::new(&error));
        }
        Err(error) => return unconnected(&error),
    };
    let mut answer = Vec::new();
    match exchange(stream, &mut answer).await {
        Ok(()) => classify(&answer),
        Err(_) if !answer.is_empty() => classify(&answer),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Found::TlsFailed(TlsFailure::new(&error))
        }
        Err(_) => Found::Closed,
    }
}

async fn resolve(address: &str) -> Result<Vec<SocketAddr>, Found> {
    match lookup_host(address).await {
        Ok(addresses) => Ok(addresses.collect()),
        Err(error) => Err(Found::UnknownHost(error.to_string())),
    }
}

/// Returns what an error of TCP shows.
fn unconnected(error: &io::Error) -> Found {
    if error.kind() == io::ErrorKind::ConnectionRefused {
        return Found::Refused;
    }
    Found::Unreachable(error.to_string())
}

async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: &mut Vec<u8>,
) -> io::Result<()> {
    // What a server says before it hangs up is read even if it does not read any more.
    let asked = send(&mut stream, b"srvr").await;
    let begun = timeout(SILENCE, stream.read_buf(answer)).await;
    if begun.is_err() && asked.is_ok() {
        send(&mut stream, b"\r\n\r\n").await?;
    }
    if matches!(begun, Ok(Ok(0))) {
        return asked;
    }
    begun.unwrap_or(Ok(0))?;
    stream.take(ANSWER_BYTES_MAX).read_to_end(answer).await?;
    Ok(())
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

fn classify(answer: &[u8]) -> Found {
    if is_tls(answer) {
        return Found::ExpectsTls;
    }
    let text = String::from_utf8_lossy(answer);
    if let Some(served) = Served::parse(&text) {
        Found::Serving(served)
    } else if text.is_empty() {
        Found::Closed
    } else {
        match Silence::of_answer(&text) {
            Some(Silence::NotServing) => Found::NotServing,
            Some(Silence::Forbidden) => Found::WordForbidden,
            Some(_) | None => Found::NotZooKeeper(text.chars().take(40).collect()),
        }
    }
}

fn is_tls(answer: &[u8]) -> bool {
    matches!(answer, [kind, 3, ..] if TLS_ANSWERS.contains(kind))
}

/// Returns whether the port replies to the begin of a TLS handshake with a message of TLS.
async fn expects_tls(peer: SocketAddr) -> io::Result<bool> {
    let mut stream = TcpStream::connect(peer).await?;
    stream.write_all(&TLS_HELLO).await?;
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).await?;
    Ok(is_tls(&answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_shows_what_is_there() {
        let is = |answer: &[u8]| classify(answer).to_string();
        assert_eq!(is(b""), "closes connections without an answer");
        assert_eq!(is(&[21, 3, 3, 0, 2, 2, 50]), "expects TLS");
        let none = b"This ZooKeeper instance is not currently serving requests\n";
        assert_eq!(is(none), "up, without a leader");
        let word = b"srvr is not executed because it is not in the whitelist.\n";
        assert!(is(word).starts_with("up; it does not allow `srvr`"));
        let http = "not a ZooKeeper port: it answers \"HTTP/1.1 400 Bad Request\\r\\n\"";
        assert_eq!(is(b"HTTP/1.1 400 Bad Request\r\n"), http);
        assert!(is(b"\xff\xfe").starts_with("not a ZooKeeper port"));
    }
}
