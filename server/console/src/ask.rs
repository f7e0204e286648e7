//! Asking one server about itself: four-letter words at its client port, commands at its HTTP port.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::time::timeout;
use zoolet_client::Connector;

use crate::logins::Proof;
use crate::options::HttpEnd;

pub(crate) use zoolet_survey::four_letter::{Silence, ask as word};

/// How long an answer may take.
const COMMAND_TIME: Duration = Duration::from_secs(12);

/// The longest answer that is read, in bytes.
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
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| broken(&error))?;
    // What it fails of, the answer fails of as well.
    tokio::spawn(async move { drop(connection.await) });
    let mut request = Request::get(format!("/commands/{command}")).header(HOST, &end.authority);
    if let Some(identity) = identity {
        let value = match identity {
            Proof::Digest(credentials) => format!("digest {}", credentials.0),
            // The connection shows it.
            Proof::Certificate(..) => "x509 certificate".to_owned(),
        };
        let mut value = HeaderValue::try_from(value)
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
