//! Requests to the HTTP port of a server.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Collected, Empty, Limited};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use serde_json::Value;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use zoolet_client::{Connector, Transport};
use zoolet_survey::http::{self, HttpError};

use crate::args::{Identity, Options};
use crate::error::{CtlError, Exit};

/// How long a server may take to begin its answer, and between two pieces of it.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The longest refusal that is read, in bytes.
const REASON_BYTES_MAX: usize = 64 << 10;

/// The path of the commands, unless the address has one.
const COMMAND_URL: &str = "/commands";

const HTTP_PORT: &str = "this needs the HTTP port of a server: `http` in cluster.toml, \
                         `admin.serverPort` in zoo.cfg, `--http-port` of `zoolet up`";

/// What a server wants to see.
pub(crate) const IDENTITY: &str = "put digest:super:PASSWORD, with the password of auth.super_digest, into a file for --auth-file \
     or into ZOOLETCTL_AUTH";

/// Where a server's HTTP port is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// `host:port`.
    pub(crate) authority: String,
    command_url: String,
    /// Whether it speaks TLS.
    pub(crate) is_tls: bool,
}

impl Endpoint {
    /// Reads addresses with commas between them: `host:port`, or a URL with the path of the commands,
    /// which may end with the command.
    pub(crate) fn parse_all(text: &str, command: &str) -> Result<Vec<Self>, CtlError> {
        text.split(',').map(|one| Self::parse(one, command)).collect()
    }

    fn parse(text: &str, command: &str) -> Result<Self, CtlError> {
        let wrong = |why: &str| {
            let message = format!("`{text}` is not the address of an HTTP port: {why}");
            CtlError::new(Exit::InvalidInput, message)
        };
        let secure = text.strip_prefix("https://");
        let rest = secure.unwrap_or(text.strip_prefix("http://").unwrap_or(text));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let has_port =
            authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        if !has_port {
            return Err(wrong("it is written host:port, http://host:port or https://host:port"));
        }
        let path = path.trim_end_matches('/');
        let command_url = if path.is_empty() { COMMAND_URL } else { path };
        let parent = command_url.strip_suffix(command).and_then(|path| path.strip_suffix('/'));
        let command_url = parent.unwrap_or(command_url);
        let (authority, command_url) = (authority.to_owned(), command_url.to_owned());
        Ok(Self { authority, command_url, is_tls: secure.is_some() })
    }

    /// Sends a command with its parameters, as `history?limit=1`. Returns when the head of the answer
    /// has arrived, which may be a refusal.
    pub(crate) async fn get(
        &self,
        command: &str,
        identity: Option<&Identity>,
        options: &Options,
    ) -> Result<Response<Incoming>, CtlError> {
        let failed = |why: &dyn std::fmt::Display| {
            CtlError::new(Exit::Connection, format!("{}: {why}", self.authority))
        };
        let connecting = timeout(options.timeout, self.connect(options)).await;
        let stream = connecting.map_err(|_| failed(&"it does not answer"))??;
        let request = self.request(command, identity)?;
        http::send(stream, request, SILENCE_MAX).await.map_err(|error| match &error {
            // With TLS 1.3 a refusal comes behind the handshake, and can be lost with the connection.
            HttpError::NotHttp(why) if self.is_tls => failed(&format!(
                "the connection has ended behind the TLS handshake ({why}): the port may want a \
                 certificate, --key-store, or it is not an HTTP port"
            )),
            HttpError::NotHttp(why) => {
                let message = format!("{} is not an HTTP port: {why}", self.authority);
                CtlError::new(Exit::Connection, message).hint(HTTP_PORT)
            }
            HttpError::Late | HttpError::Failed(_) => failed(&error),
        })
    }

    async fn connect(&self, options: &Options) -> Result<Box<dyn Transport>, CtlError> {
        if !self.is_tls {
            return Ok(Box::new(self.connect_plain().await?));
        }
        let connector = options.tls.connector()?.ok_or_else(|| {
            let message = format!("https://{}: it is not known whom to trust", self.authority);
            CtlError::new(Exit::Usage, message).hint("give --trust-store FILE")
        })?;
        connector.connect(&self.authority).await.map_err(|error| {
            CtlError::new(Exit::Connection, format!("https://{}: {error}", self.authority))
        })
    }

    async fn connect_plain(&self) -> Result<TcpStream, CtlError> {
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

    fn request(
        &self,
        command: &str,
        identity: Option<&Identity>,
    ) -> Result<Request<Empty<Bytes>>, CtlError> {
        let wrong = |why: &str| CtlError::new(Exit::InvalidInput, why);
        let authorization = match identity {
            Some(identity) => {
                let parts = identity.0.split_once(':');
                let (scheme, credentials) =
                    parts.ok_or_else(|| wrong("an identity is written SCHEME:ID"))?;
                Some(format!("{scheme} {credentials}"))
            }
            None => None,
        };
        let path = format!("{}/{command}", self.command_url);
        http::request(&self.authority, &path, authorization.as_deref())
            .map_err(|error| wrong(&error.to_string()))
    }

    /// What an answer says that is not what was asked for.
    pub(crate) async fn refusal(&self, answer: Response<Incoming>, otherwise: &str) -> CtlError {
        let status = answer.status();
        let body = Limited::new(answer.into_body(), REASON_BYTES_MAX).collect();
        let body = timeout(SILENCE_MAX, body).await.ok().and_then(Result::ok);
        let body = body.map(Collected::to_bytes).unwrap_or_default();
        let said: Value = serde_json::from_slice(&body).unwrap_or_default();
        // What was refused before it was a request has a text.
        let text = std::str::from_utf8(&body).ok().filter(|_| said.is_null()).map(str::trim);
        let text = text.filter(|text| !text.is_empty() && !text.contains('\n'));
        let why = said.get("error").and_then(Value::as_str).or(text).unwrap_or(otherwise);
        let exit = match status {
            // Not serving: another server may.
            StatusCode::OK | StatusCode::SERVICE_UNAVAILABLE => Exit::Connection,
            StatusCode::NOT_FOUND | StatusCode::NOT_IMPLEMENTED => Exit::Unsupported,
            StatusCode::BAD_REQUEST => Exit::InvalidInput,
            _ => Exit::Failed,
        };
        let error = CtlError::new(exit, format!("{}: {why} ({status})", self.authority));
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => error.hint(IDENTITY),
            _ => error,
        }
    }
}

/// Returns the identity of a command that needs one: the first of the options, or else the certificate
/// that the connections show.
pub(crate) fn identity_of(options: &Options) -> Option<Identity> {
    let first = options.auth.first().cloned();
    let certificate = || Identity("x509:certificate".to_owned());
    first.or_else(|| options.tls.key_store.is_some().then(certificate))
}

/// Does something with one endpoint after the other, until one can be reached and has it.
pub(crate) async fn first_reached<'a, T>(
    endpoints: &'a [Endpoint],
    ask: impl AsyncFn(&'a Endpoint) -> Result<T, CtlError>,
) -> Result<(&'a Endpoint, T), CtlError> {
    let (mut reasons, mut hint, mut exit) = (Vec::new(), None, Exit::Unsupported);
    for endpoint in endpoints {
        match ask(endpoint).await {
            Ok(answer) => return Ok((endpoint, answer)),
            // Another server may be reached.
            Err(error) if matches!(error.exit, Exit::Connection | Exit::Unsupported) => {
                hint = hint.or(error.hint);
                if error.exit == Exit::Connection {
                    exit = Exit::Connection;
                }
                reasons.push(error.message);
            }
            Err(error) => return Err(error),
        }
    }
    Err(CtlError { hint, ..CtlError::new(exit, reasons.join("; ")) })
}

#[cfg(test)]
mod tests {
    use hyper::header::AUTHORIZATION;

    use super::*;

    #[test]
    fn addresses_have_a_port_and_may_have_a_path() {
        let parsed = |text: &str| {
            let all = Endpoint::parse_all(text, "snapshot").map_err(|error| error.message)?;
            Ok::<_, String>(
                all.into_iter().map(|one| (one.authority, one.command_url)).collect::<Vec<_>>(),
            )
        };
        let one = |authority: &str, url: &str| (authority.to_owned(), url.to_owned());
        assert_eq!(parsed("a:8080").unwrap(), [one("a:8080", "/commands")]);
        assert_eq!(parsed("http://[::1]:80/").unwrap(), [one("[::1]:80", "/commands")]);
        let two = [one("a:1", "/x/y"), one("b:2", "/commands")];
        assert_eq!(parsed("http://a:1/x/y,b:2/commands/snapshot").unwrap(), two);
        let secure = Endpoint::parse("https://a:1/x", "history").unwrap();
        assert!(secure.is_tls && secure.authority == "a:1" && secure.command_url == "/x");
        for bad in ["", "a", "a:x", "https://a", "a:1,", "a:99999"] {
            assert!(parsed(bad).is_err(), "{bad}");
        }
    }

    /// One that keeps no history ended the search.
    #[tokio::test]
    async fn one_that_does_not_have_it_is_passed_over() {
        let all = Endpoint::parse_all("none:1,down:2,has:3,wrong:4", "history").unwrap();
        let ask = async |endpoint: &Endpoint| match endpoint.authority.as_str() {
            "has:3" => Ok(3),
            "down:2" => Err(CtlError::new(Exit::Connection, "down")),
            "wrong:4" => Err(CtlError::new(Exit::InvalidInput, "wrong")),
            _ => Err(CtlError::new(Exit::Unsupported, "none")),
        };
        let exit = async |endpoints: &[Endpoint]| {
            let error = first_reached(endpoints, ask).await.unwrap_err();
            (error.exit, error.message)
        };
        assert_eq!(first_reached(&all, ask).await.unwrap().1, 3);
        assert_eq!(exit(&all[..1]).await, (Exit::Unsupported, "none".to_owned()));
        assert_eq!(exit(&all[..2]).await, (Exit::Connection, "none; down".to_owned()));
        assert_eq!(exit(&all[3..]).await, (Exit::InvalidInput, "wrong".to_owned()));
    }

    #[test]
    fn an_identity_is_the_header_of_a_request() {
        let endpoint = Endpoint::parse("a:1", "history").unwrap();
        let request = |identity: &str| {
            endpoint.request("history?limit=1", Some(&Identity(identity.to_owned())))
        };
        let sent = request("digest:super:secret").unwrap();
        assert_eq!(sent.headers()[AUTHORIZATION], "digest super:secret");
        assert_eq!(sent.uri(), "/commands/history?limit=1");
        assert!(!format!("{sent:?}").contains("secret"));
        assert!(request("digest").is_err() && request("digest:a:\n").is_err());
    }
}
