//! Asking one server about itself: four-letter words at its client port, commands at its HTTP port.

use std::fmt;
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::StatusCode;
use serde_json::Value;
use tokio::time::timeout;
use zoolet_client::Connector;
use zoolet_survey::http::{self, HttpError};

use crate::logins::Proof;
use crate::options::HttpEnd;

pub(crate) use zoolet_survey::four_letter::{Silence, ask as word};

/// How long an answer may take.
const COMMAND_TIME: Duration = Duration::from_secs(12);

/// The length limit of an answer, in bytes.
const ANSWER_BYTES_MAX: usize = 32 << 20;

/// Asks a command at an HTTP port; `command` is its name and its query, encoded.
pub(crate) async fn command(
    end: &HttpEnd,
    command: &str,
    identity: Option<&Proof>,
) -> Result<Value, Silence> {
    let asking = timeout(COMMAND_TIME, get(end, command, identity)).await;
    asking.unwrap_or(Err(Silence::Late))
}

async fn get(end: &HttpEnd, command: &str, identity: Option<&Proof>) -> Result<Value, Silence> {
    let broken = |error: &dyn fmt::Display| Silence::Unreachable(error.to_string());
    let connector = match identity {
        Some(Proof::Certificate(_, connector)) => connector,
        Some(Proof::Digest(_)) | None => &end.connector,
    };
    let stream = connector.connect(&end.authority).await?;
    let authorization = identity.map(|identity| match identity {
        Proof::Digest(credentials) => format!("digest {}", credentials.0),
        // The connection shows it.
        Proof::Certificate(..) => "x509 certificate".to_owned(),
    });
    let path = format!("/commands/{command}");
    let request = http::request(&end.authority, &path, authorization.as_deref());
    let request = request.map_err(|error| broken(&error))?;
    let answer = http::send(stream, request, COMMAND_TIME).await;
    let answer = answer.map_err(|error| match error {
        HttpError::Late => Silence::Late,
        HttpError::NotHttp(why) | HttpError::Failed(why) => broken(&why),
    })?;
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

#[cfg(test)]
mod tests {
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
    use zoolet_client::{Connecting, Transport};

    use super::*;
    use crate::options::SharedConnector;

    /// A server that refuses the client's certificate: with TLS 1.3 the first read reports it.
    #[derive(Debug)]
    struct Refusing;

    impl AsyncRead for Refusing {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::Error::other("received fatal alert: CertificateRequired")))
        }
    }

    impl AsyncWrite for Refusing {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[derive(Debug)]
    struct ToRefusing;

    impl Connector for ToRefusing {
        fn connect<'a>(&'a self, _address: &'a str) -> Connecting<'a> {
            Box::pin(async { Ok(Box::new(Refusing) as Box<dyn Transport>) })
        }
    }

    #[tokio::test]
    async fn a_refused_certificate_is_the_reason() {
        let connector = SharedConnector::new(ToRefusing);
        let end = HttpEnd { authority: "a:1".to_owned(), connector };
        let Err(Silence::Unreachable(why)) = command(&end, "monitor", None).await else {
            panic!("it is refused");
        };
        assert!(why.contains("CertificateRequired"), "{why}");
    }
}
