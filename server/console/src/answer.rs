//! What is answered to a request.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Response, StatusCode};
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::failure::Failure;

/// What a page may load: what came with it, and nothing within its text.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";

/// The body of an answer: in memory as a whole, or events that come.
#[derive(Debug)]
pub struct ConsoleBody(Content);

#[derive(Debug)]
enum Content {
    Whole(Full<Bytes>),
    Events(mpsc::Receiver<Bytes>),
}

/// An answer before it is hyper's.
#[derive(Debug)]
pub(crate) struct Answer {
    status: StatusCode,
    content_type: &'static str,
    content: Content,
    cookie: Option<HeaderValue>,
}

/// A body, and the place that it takes until it is sent or given up.
struct Held {
    body: Vec<u8>,
    _place: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Answer {
    fn whole(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        let content = Content::Whole(Full::new(body.into()));
        Self { status, content_type, content, cookie: None }
    }

    /// A file that is compiled in.
    pub(crate) fn file(content_type: &'static str, body: &'static [u8]) -> Self {
        Self::whole(StatusCode::OK, content_type, Bytes::from_static(body))
    }

    pub(crate) fn json(value: &Value) -> Self {
        Self::whole(StatusCode::OK, JSON, value.to_string())
    }

    /// JSON that is written already.
    pub(crate) fn json_text(text: Bytes) -> Self {
        Self::whole(StatusCode::OK, JSON, text)
    }

    /// A long answer, which keeps its place until it is sent.
    pub(crate) fn json_in(value: &Value, place: OwnedSemaphorePermit) -> Self {
        let held = Held { body: value.to_string().into_bytes(), _place: place };
        Self::whole(StatusCode::OK, JSON, Bytes::from_owner(held))
    }

    /// A stream of events, as they are on the wire.
    pub(crate) fn events(events: mpsc::Receiver<Bytes>) -> Self {
        let content = Content::Events(events);
        Self { status: StatusCode::OK, content_type: EVENT_STREAM, content, cookie: None }
    }

    #[must_use]
    pub(crate) fn with_cookie(mut self, cookie: Option<HeaderValue>) -> Self {
        self.cookie = cookie;
        self
    }

    pub(crate) fn into_response(self) -> Response<ConsoleBody> {
        let mut response = Response::new(ConsoleBody(self.content));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        put_guards(headers);
        if let Some(cookie) = self.cookie {
            headers.insert(header::SET_COOKIE, cookie);
        }
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD, POST"));
        }
        response
    }
}

/// Says to browsers what the answer may not be used for.
fn put_guards(headers: &mut HeaderMap) {
    let guards = [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in guards {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

impl From<Failure> for Answer {
    fn from(failure: Failure) -> Self {
        let mut object: Map<String, Value> = failure.more;
        object.insert("error".to_owned(), Value::from(failure.error));
        Self::whole(failure.status, JSON, Value::Object(object).to_string())
    }
}

impl Body for ConsoleBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.get_mut().0 {
            Content::Whole(whole) => Pin::new(whole).poll_frame(context),
            Content::Events(events) => {
                events.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Content::Whole(whole) => whole.is_end_stream(),
            Content::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Whole(whole) => whole.size_hint(),
            Content::Events(_) => SizeHint::default(),
        }
    }
}
