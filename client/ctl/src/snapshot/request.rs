//! The request for a snapshot, over HTTP.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Collected, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use crate::args::Identity;
use crate::error::{CtlError, Exit};

/// How long a server may take to begin its answer, and between two pieces of it.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The most that is read of an answer that is not a snapshot.
const REASON_BYTES_MAX: usize = 64 << 10;

/// The path of the commands, unless the address has one.
const COMMAND_URL: &str = "/commands";

const HTTP_PORT: &str = "snapshots come from the HTTP port of a server: `http` in cluster.toml, \
                         `admin.serverPort` in zoo.cfg";

/// What a server wants to see.
pub(super) const IDENTITY: &str = "put digest:super:PASSWORD, with the password of auth.super_digest, into a file for --auth-file \
     or into ZOOLETCTL_AUTH";

const OCTETS: &str = "application/octet-stream";

/// Where a server's HTTP port is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// `host:port`.
    pub(super) authority: String,
    command_url: String,
}

impl Endpoint {
    /// Reads addresses with commas between them: `host:port`, or a URL with the path of the commands.
    pub(super) fn parse_all(text: &str) -> Result<Vec<Self>, CtlError> {
        text.split(',').map(Self::parse).collect()
    }

    fn parse(text: &str) -> Result<Self, CtlError> {
        let wrong = |why: &str| {
            let message = format!("`{text}` is not the address of an HTTP port: {why}");
            CtlError::new(Exit::InvalidInput, message)
        };
        if text.starts_with("https://") {
            return Err(wrong("it has no TLS"));
        }
        let rest = text.strip_prefix("http://").unwrap_or(text);
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let has_port =
            authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        if !has_port {
            return Err(wrong("it is written host:port or http://host:port"));
        }
        let path = path.trim_end_matches('/');
        let command_url = if path.is_empty() { COMMAND_URL } else { path };
        let command_url = command_url.strip_suffix("/snapshot").unwrap_or(command_url);
        Ok(Self { authority: authority.to_owned(), command_url: command_url.to_owned() })
    }

    /// Asks for a snapshot, of which the head has arrived when this returns. An error says what the
    /// server says.
    pub(super) async fn ask(
        &self,
        identity: &Identity,
        connect_time: Duration,
    ) -> Result<Response<Incoming>, CtlError> {
        let failed = |why: &dyn std::fmt::Display| {
            CtlError::new(Exit::Connection, format!("{}: {why}", self.authority))
        };
        let connecting = timeout(connect_time, self.connect()).await;
        let stream = connecting.map_err(|_| failed(&"it does not answer"))??;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
        // What it fails of, the body or the answer fails of as well.
        tokio::spawn(async move { drop(connection.await) });
        let request = self.request(identity)?;
        let answer = timeout(SILENCE_MAX, sender.send_request(request)).await;
        let answer = answer.map_err(|_| failed(&"it does not answer"))?;
        let answer = answer.map_err(|error| match &error {
            error if error.is_incomplete_message() || error.is_parse() || is_reset(error) => {
                let message = format!("{} is not an HTTP port: {error}", self.authority);
                CtlError::new(Exit::Connection, message).hint(HTTP_PORT)
            }
            error => failed(error),
        })?;
        let content_type = answer.headers().get(CONTENT_TYPE);
        let is_snapshot = content_type.is_some_and(|found| found == OCTETS);
        if answer.status() == StatusCode::OK && is_snapshot {
            return Ok(answer);
        }
        Err(self.refusal(answer).await)
    }

    async fn connect(&self) -> Result<TcpStream, CtlError> {
        let failed = |why: &str, error: &io::Error| {
            CtlError::new(Exit::Connection, format!("{}: {why}{error}", self.authority))
        };
        let addresses = lookup_host(&self.authority).await;
        let addresses: Vec<_> =
            addresses.map_err(|error| failed("unknown host: ", &error))?.collect();
        TcpStream::connect(&*addresses).await.map_err(|error| {
            if error.kind() != io::ErrorKind::ConnectionRefused {
                return failed("", &error);
            }
            let message =
                format!("{}: connection refused: no program listens there", self.authority);
            CtlError::new(Exit::Connection, message).hint(HTTP_PORT)
        })
    }

    fn request(&self, identity: &Identity) -> Result<Request<Empty<Bytes>>, CtlError> {
        let wrong = |why: &str| CtlError::new(Exit::InvalidInput, why);
        let (scheme, credentials) =
            identity.0.split_once(':').ok_or_else(|| wrong("an identity is written SCHEME:ID"))?;
        let mut header = HeaderValue::try_from(format!("{scheme} {credentials}"))
            .map_err(|_| wrong("the identity has characters that HTTP does not carry"))?;
        header.set_sensitive(true);
        Request::get(format!("{}/snapshot?streaming=true", self.command_url))
            .header(HOST, &self.authority)
            .header(AUTHORIZATION, header)
            .body(Empty::new())
            .map_err(|error| wrong(&error.to_string()))
    }

    /// What an answer that is not a snapshot says.
    async fn refusal(&self, answer: Response<Incoming>) -> CtlError {
        let status = answer.status();
        let body = Limited::new(answer.into_body(), REASON_BYTES_MAX).collect();
        let body = timeout(SILENCE_MAX, body).await.ok().and_then(Result::ok);
        let body = body.map(Collected::to_bytes).unwrap_or_default();
        let said: Value = serde_json::from_slice(&body).unwrap_or_default();
        let why =
            said.get("error").and_then(Value::as_str).unwrap_or("the answer is not a snapshot");
        let exit = match status {
            // Not serving: another server may.
            StatusCode::OK | StatusCode::SERVICE_UNAVAILABLE => Exit::Connection,
            StatusCode::NOT_FOUND | StatusCode::NOT_IMPLEMENTED => Exit::Unsupported,
            _ => Exit::Failed,
        };
        let error = CtlError::new(exit, format!("{}: {why} ({status})", self.authority));
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => error.hint(IDENTITY),
            _ => error,
        }
    }
}

/// Whether the connection was reset, as a server does that closes it with bytes unread.
fn is_reset(error: &hyper::Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref());
    source.is_some_and(|error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
    })
}

/// Waits for the next piece of a body; `None` at its end, which the server has named.
pub(super) async fn next_piece(body: &mut Incoming) -> Result<Option<Bytes>, String> {
    loop {
        let frame = timeout(SILENCE_MAX, body.frame()).await;
        let frame = frame.map_err(|_| "the server has stopped sending".to_owned())?;
        match frame {
            None => return Ok(None),
            Some(Err(error)) => return Err(format!("the snapshot was cut: {error}")),
            Some(Ok(frame)) => {
                if let Ok(bytes) = frame.into_data() {
                    return Ok(Some(bytes));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_port_and_may_have_a_path() {
        let parsed = |text: &str| {
            let all = Endpoint::parse_all(text).map_err(|error| error.message)?;
            Ok::<_, String>(
                all.into_iter().map(|one| (one.authority, one.command_url)).collect::<Vec<_>>(),
            )
        };
        let one = |authority: &str, url: &str| (authority.to_owned(), url.to_owned());
        assert_eq!(parsed("a:8080").unwrap(), [one("a:8080", "/commands")]);
        assert_eq!(parsed("http://[::1]:80/").unwrap(), [one("[::1]:80", "/commands")]);
        let two = [one("a:1", "/x/y"), one("b:2", "/commands")];
        assert_eq!(parsed("http://a:1/x/y,b:2/commands/snapshot").unwrap(), two);
        for bad in ["", "a", "a:x", "https://a:1", "a:1,", "a:99999"] {
            assert!(parsed(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_password_is_in_no_debug_output() {
        let endpoint = Endpoint::parse("a:1").unwrap();
        let request = endpoint.request(&Identity("digest:super:secret".to_owned())).unwrap();
        assert_eq!(request.headers()[AUTHORIZATION], "digest super:secret");
        assert!(!format!("{request:?}").contains("secret"));
    }
}
