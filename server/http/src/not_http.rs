//! Clients that do not speak HTTP at all: they get a text, which hyper would not send.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::refusals::Malformed;

/// The first byte of a TLS record with a hello.
const TLS_HANDSHAKE: u8 = 0x16;

/// What is read behind the answer: closing a socket that has unread bytes would take the answer back.
const REST_BYTES_MAX: u64 = 16 << 10;
const REST_TIME_MAX: Duration = Duration::from_secs(1);

/// Refuses a client whose first byte cannot begin a request. Returns the stream of any other client,
/// with that byte still to be read, and none if the client has left.
pub(crate) async fn refuse(stream: TcpStream) -> Result<Option<TcpStream>, Malformed> {
    let mut first = [0];
    match stream.peek(&mut first).await {
        Ok(1..) => {}
        Ok(0) | Err(_) => return Ok(None),
    }
    let [first] = first;
    let malformed = match first {
        TLS_HANDSHAKE => Malformed::TlsHello,
        first if begins_request(first) => return Ok(Some(stream)),
        first => Malformed::NotHttp(first),
    };
    answer(stream, &malformed).await;
    Err(malformed)
}

/// Returns whether it is a character of a method's name, or of an empty line before it.
fn begins_request(first: u8) -> bool {
    first.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~\r\n".contains(&first)
}

async fn answer(mut stream: TcpStream, malformed: &Malformed) {
    let body = format!("{malformed}\n");
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    // The client may have left, which changes nothing.
    if stream.write_all(answer.as_bytes()).await.is_ok() && stream.shutdown().await.is_ok() {
        let mut rest = stream.take(REST_BYTES_MAX);
        let mut nowhere = tokio::io::sink();
        let reading = tokio::io::copy(&mut rest, &mut nowhere);
        let _ = timeout(REST_TIME_MAX, reading).await;
    }
}
