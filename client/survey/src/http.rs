//! One request at the HTTP port of a server.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::time::timeout;
use zoolet_client::Transport;

/// How long a connection that has failed may take to say why.
const CAUSE_TIME: Duration = Duration::from_secs(1);

/// A request that cannot be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The credentials do not fit into a header.
    #[error("the identity has characters that HTTP does not carry")]
    Authorization,
    /// The host or the path is invalid.
    #[error("{0}")]
    Address(hyper::http::Error),
}

/// Why an answer did not arrive.
#[derive(Debug, Error)]
pub enum HttpError {
    /// It did not begin in time.
    #[error("it does not answer")]
    Late,
    /// What arrived is not HTTP, or the other side has hung up.
    #[error("{0}")]
    NotHttp(String),
    /// The connection has failed; with TLS 1.3, also because the client's certificate is refused.
    #[error("{0}")]
    Failed(String),
}

impl From<hyper::Error> for HttpError {
    fn from(error: hyper::Error) -> Self {
        let causes = causes(&error);
        if let Some(wrong) = causes.iter().find(|error| is_not_http(**error)) {
            return Self::NotHttp(wrong.to_string());
        }
        // hyper's own words say less than what the system or TLS says.
        Self::Failed(causes.last().map(ToString::to_string).unwrap_or_default())
    }
}

/// Returns an error and its causes, the last of which has no other one.
fn causes<'a>(error: &'a (dyn StdError + 'static)) -> Vec<&'a (dyn StdError + 'static)> {
    let mut causes = vec![error];
    let mut last = error;
    while let Some(cause) = last.source() {
        causes.push(cause);
        last = cause;
    }
    causes
}

/// Makes a request for a path; `authorization` is the value of that header, which `Debug` does not
/// show.
pub fn request(
    authority: &str,
    path: &str,
    authorization: Option<&str>,
) -> Result<Request<Empty<Bytes>>, RequestError> {
    let mut request = Request::get(path).header(HOST, authority);
    if let Some(authorization) = authorization {
        let header = HeaderValue::try_from(authorization);
        let mut header = header.map_err(|_| RequestError::Authorization)?;
        header.set_sensitive(true);
        request = request.header(AUTHORIZATION, header);
    }
    request.body(Empty::new()).map_err(RequestError::Address)
}

/// Sends a request on a connection that is used for it alone. Returns when the head of the answer has
/// arrived, which has to happen within `answer_max`.
pub async fn send(
    stream: Box<dyn Transport>,
    request: Request<Empty<Bytes>>,
    answer_max: Duration,
) -> Result<Response<Incoming>, HttpError> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // What it fails of, the body or the answer fails of as well.
    let mut driving = tokio::spawn(connection);
    let answered = timeout(answer_max, sender.send_request(request)).await;
    let error = match answered {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(error)) => Some(error),
        Err(_) => None,
    };
    drop(sender);
    let Some(error) = error else {
        driving.abort();
        return Err(HttpError::Late);
    };
    // The connection knows why it has ended, the request only that it has.
    match timeout(CAUSE_TIME, &mut driving).await {
        Ok(Ok(Err(cause))) => Err(cause.into()),
        Ok(Ok(Ok(())) | Err(_)) => Err(error.into()),
        // It cannot even be closed.
        Err(_) => {
            driving.abort();
            Err(error.into())
        }
    }
}

/// Returns whether an error is that of a port which speaks something else: such a server may also reset
/// the connection, which it closes with bytes unread.
fn is_not_http(error: &(dyn StdError + 'static)) -> bool {
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        return error.is_incomplete_message()
            || error.is_parse()
            || error.source().is_some_and(is_reset);
    }
    is_reset(error)
}

fn is_reset(error: &(dyn StdError + 'static)) -> bool {
    error.downcast_ref().is_some_and(|error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
    use tokio::time::Instant;

    use super::*;

    /// A connection on which each read does the same once something was written, and which it may not be
    /// possible to close.
    struct Broken {
        reads: Result<&'static [u8], &'static str>,
        closes: bool,
        is_written: bool,
        reader: Option<Waker>,
    }

    impl AsyncRead for Broken {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if !self.is_written {
                self.reader = Some(context.waker().clone());
                return Poll::Pending;
            }
            match self.reads {
                Ok([]) => Poll::Pending,
                Ok(bytes) => {
                    buffer.put_slice(bytes);
                    Poll::Ready(Ok(()))
                }
                Err(why) => Poll::Ready(Err(io::Error::other(why))),
            }
        }
    }

    impl AsyncWrite for Broken {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.is_written = true;
            if let Some(reader) = self.reader.take() {
                reader.wake();
            }
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            if self.closes { Poll::Ready(Ok(())) } else { Poll::Pending }
        }
    }

    async fn failure(reads: Result<&'static [u8], &'static str>, closes: bool) -> HttpError {
        let request = request("a:1", "/commands/ruok", None).unwrap();
        let stream = Box::new(Broken { reads, closes, is_written: false, reader: None });
        let sending = send(stream, request, Duration::from_secs(30));
        let sent = timeout(Duration::from_mins(10), sending).await;
        sent.expect("it has a time limit").unwrap_err()
    }

    #[tokio::test(start_paused = true)]
    async fn the_reason_of_the_connection_is_the_reason() {
        let refused = failure(Err("received fatal alert: CertificateRequired"), true).await;
        assert_eq!(refused.to_string(), "received fatal alert: CertificateRequired");
        assert!(matches!(refused, HttpError::Failed(_)));
        assert!(matches!(failure(Ok(b"ZK\r\n\r\n"), true).await, HttpError::NotHttp(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_does_not_end_is_given_up() {
        let begun = Instant::now();
        assert!(matches!(failure(Ok(b"ZK\r\n\r\n"), false).await, HttpError::NotHttp(_)));
        assert!(begun.elapsed() <= CAUSE_TIME);
        assert!(matches!(failure(Ok(b""), false).await, HttpError::Late));
    }

    #[test]
    fn the_password_is_in_no_debug_output() {
        let request = request("a:1", "/commands/history?limit=1", Some("digest super:secret"));
        let request = request.unwrap();
        assert_eq!(request.headers()[AUTHORIZATION], "digest super:secret");
        assert_eq!(request.uri(), "/commands/history?limit=1");
        assert!(!format!("{request:?}").contains("secret"));
        let wrong = super::request("a:1", "/", Some("digest a:\n"));
        assert!(matches!(wrong, Err(RequestError::Authorization)));
    }
}
