//! A client of HTTP ports: one request on one connection, as it is on the wire.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    /// The status line and the headers.
    pub head: String,
    pub body: String,
}

impl Answer {
    /// The body as JSON; null if it is something else.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    fn parse(text: &str) -> io::Result<Self> {
        let invalid = || io::Error::other(format!("no answer: {text:?}"));
        let (head, body) = text.split_once("\r\n\r\n").ok_or_else(invalid)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let (head, body) = (head.to_owned(), body.to_owned());
        Ok(Self { status: status.ok_or_else(invalid)?, head, body })
    }
}

/// GET of a path, with further lines of the head.
pub fn get_with(address: SocketAddr, path: &str, lines: &str) -> io::Result<Answer> {
    let head =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{lines}\r\n");
    Answer::parse(&send(address, head.as_bytes())?)
}

/// GET of a path.
pub fn get(address: SocketAddr, path: &str) -> io::Result<Answer> {
    get_with(address, path, "")
}

/// Sends bytes, and returns everything that comes until the connection is closed.
pub fn send(address: SocketAddr, bytes: &[u8]) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.write_all(bytes)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
