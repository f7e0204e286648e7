//! Asking one server about itself: four-letter words at its client port, commands at its HTTP port.

use std::fmt;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use zoolet_client::Connector;

use crate::logins::Credentials;
use crate::options::SharedConnector;

/// How long an answer may take.
const WORD_TIME: Duration = Duration::from_secs(2);
const COMMAND_TIME: Duration = Duration::from_secs(12);

/// The longest answer that is read, in bytes. `cons` has the longest, about 200 bytes for each connection.
const ANSWER_BYTES_MAX: usize = 32 << 20;

/// Why a server did not say what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// No connection.
    Unreachable(String),
    /// It took the connection, and said nothing in time.
    Late,
    /// Its configuration forbids this word.
    Forbidden,
    /// It has no leader.
    NotServing,
    /// It has answered otherwise.
    Refused { status: u16, why: String },
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => write!(f, "unreachable: {why}"),
            Self::Late => f.write_str("takes connections, and does not answer"),
            Self::Forbidden => f.write_str("does not allow it (4lw.commands.whitelist)"),
            Self::NotServing => f.write_str("up, without a leader"),
            Self::Refused { why, .. } => f.write_str(why),
        }
    }
}

impl From<io::Error> for Silence {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::ConnectionRefused {
            return Self::Unreachable("connection refused, no program listens there".to_owned());
        }
        Self::Unreachable(error.to_string())
    }
}

/// Asks a four-letter word at a client port.
pub(crate) async fn word(
    connector: &SharedConnector,
    address: &str,
    word: &'static str,
) -> Result<String, Silence> {
    let answer = timeout(WORD_TIME, exchange(connector, address, word)).await;
    let answer = answer.map_err(|_| Silence::Late)??;
    if answer.contains("not in the whitelist") && answer.len() < 200 {
        return Err(Silence::Forbidden);
    }
    if answer.contains("not currently serving requests") && answer.len() < 200 {
        return Err(Silence::NotServing);
    }
    Ok(answer)
}

async fn exchange(connector: &SharedConnector, address: &str, word: &str) -> io::Result<String> {
    let mut stream = connector.connect(address).await?;
    stream.write_all(word.as_bytes()).await?;
    stream.flush().await?;
    let mut answer = Vec::new();
    let mut limited = stream.take(u64::try_from(ANSWER_BYTES_MAX).unwrap_or(u64::MAX));
    match limited.read_to_end(&mut answer).await {
        Ok(_) => {}
        // A server that closes while bytes of ours are unread resets the connection behind its answer.
        Err(_) if !answer.is_empty() => {}
        Err(error) => return Err(error),
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Asks a command at an HTTP port; `command` is its name and its query, encoded.
pub(crate) async fn command(
    address: &str,
    command: &str,
    identity: Option<&Credentials>,
) -> Result<Value, Silence> {
    let asking = timeout(COMMAND_TIME, get(address, command, identity)).await;
    asking.unwrap_or(Err(Silence::Late))
}

async fn get(
    address: &str,
    command: &str,
    identity: Option<&Credentials>,
) -> Result<Value, Silence> {
    let broken = |error: &dyn fmt::Display| Silence::Unreachable(error.to_string());
    let stream = TcpStream::connect(address).await?;
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| broken(&error))?;
    // What it fails of, the answer fails of as well.
    tokio::spawn(async move { drop(connection.await) });
    let mut request = Request::get(format!("/commands/{command}")).header(HOST, address);
    if let Some(identity) = identity {
        let mut value = HeaderValue::try_from(format!("digest {}", identity.0))
            .map_err(|_| broken(&"the password has characters that HTTP does not carry"))?;
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(|error| broken(&error))?;
    let answer = sender.send_request(request).await.map_err(|error| broken(&error))?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| broken(&error))?.to_bytes();
    let value: Value = serde_json::from_slice(&body).unwrap_or_default();
    let error = value.get("error").and_then(Value::as_str);
    if status == StatusCode::OK && value.is_object() && error.is_none() {
        return Ok(value);
    }
    if error.is_some_and(|why| why.contains("not currently serving requests")) {
        return Err(Silence::NotServing);
    }
    let why = error.map_or_else(|| format!("the answer is {status}"), str::to_owned);
    Err(Silence::Refused { status: status.as_u16(), why })
}
