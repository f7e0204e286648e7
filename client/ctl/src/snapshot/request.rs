//! The request for a snapshot, over HTTP.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::{Response, StatusCode};
use tokio::time::timeout;

use crate::args::{Identity, Options};
use crate::error::CtlError;
use crate::http::{Endpoint, SILENCE_MAX};

const OCTETS: &str = "application/octet-stream";

/// Asks for a snapshot, of which the head has arrived when this returns. An error says what the
/// server says.
pub(super) async fn ask(
    endpoint: &Endpoint,
    identity: &Identity,
    options: &Options,
) -> Result<Response<Incoming>, CtlError> {
    let answer = endpoint.get("snapshot?streaming=true", Some(identity), options).await?;
    let content_type = answer.headers().get(CONTENT_TYPE);
    let is_snapshot = content_type.is_some_and(|found| found == OCTETS);
    if answer.status() == StatusCode::OK && is_snapshot {
        return Ok(answer);
    }
    Err(endpoint.refusal(answer, "the answer is not a snapshot").await)
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
