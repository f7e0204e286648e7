//! What is answered to a request.

use bytes::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::{Map, Value};
use tokio::sync::OwnedSemaphorePermit;

use crate::body::{AnswerBody, Sending};

/// A response before it is turned into hyper's: status, content type and body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
    /// The place that its body takes until it is sent or given up.
    pub(crate) place: Option<OwnedSemaphorePermit>,
}

/// A body that is in memory as a whole, and what bounds how many there are.
struct Held {
    body: String,
    _place: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        self.body.as_bytes()
    }
}

pub(crate) const JSON: &str = "application/json";
const OCTETS: &str = "application/octet-stream";
const HTML: &str = "text/html;charset=utf-8";

impl Answer {
    pub(crate) fn json(status: StatusCode, object: Map<String, Value>) -> Self {
        let mut body = format!("{:#}", Value::Object(object));
        body.push('\n');
        Self { status, content_type: JSON, body, place: None }
    }

    pub(crate) fn html(body: String) -> Self {
        Self { status: StatusCode::OK, content_type: HTML, body, place: None }
    }

    /// Says what is wrong.
    pub(crate) fn error(status: StatusCode, why: &str) -> Self {
        let object = Map::from_iter([("error".to_owned(), Value::from(why))]);
        Self::json(status, object)
    }

    /// Refuses a request for which there is no place.
    pub(crate) fn busy() -> Response<AnswerBody> {
        let why = "all places of this port are taken (http.connections_max): only /health and /ready \
                   are answered, try again later";
        let mut response = Self::error(StatusCode::SERVICE_UNAVAILABLE, why).into_response();
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    }

    pub(crate) fn into_response(self) -> Response<AnswerBody> {
        let status = self.status;
        let body = match self.place {
            Some(place) => Bytes::from_owner(Held { body: self.body, _place: place }),
            None => Bytes::from(self.body),
        };
        let mut response = Response::new(AnswerBody::from(body));
        *response.status_mut() = status;
        put_headers(&mut response, self.content_type);
        let headers = response.headers_mut();
        if status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
        response
    }
}

impl Sending {
    /// The headers are those of an `AdminServer`, but for the size, which shows at the end.
    pub(crate) fn into_response(self) -> Response<AnswerBody> {
        let mut response = Response::new(AnswerBody::streamed(self.pieces));
        put_headers(&mut response, OCTETS);
        if let Ok(zxid) = HeaderValue::try_from(format!("{:#x}", self.zxid)) {
            response.headers_mut().insert(HeaderName::from_static("last_zxid"), zxid);
        }
        response
    }
}

fn put_headers(response: &mut Response<AnswerBody>, content_type: &'static str) {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}
