//! An HTTP service that refuses calls of a holder who has lost the lock.
//!
//! The caller sends its token in a header. The service remembers the highest one it has seen and
//! answers `412 Precondition Failed` to a lower one.
//!
//! `cargo run -p zoolet-client --example fence_http_call -- 127.0.0.1:2181`

#![allow(clippy::print_stdout, reason = "an example prints what happens")]

mod fencing;

use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use fencing::Holders;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use zoolet_client::recipes::FencingToken;

/// The header that carries the token.
const HEADER: &str = "fencing-token";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let service = listener.local_addr()?;
    tokio::spawn(serve(listener));
    let holders = Holders::meet("/examples/fence-http").await?;

    let (current, paused) = (holders.current.token(), holders.paused.token());
    assert_eq!(call(service, "switch on", current).await?, 204, "the holder calls");
    println!("token {current} was served");
    assert_eq!(call(service, "switch off", paused).await?, 412, "a lost lock does not");
    println!("token {paused} was refused");

    holders.current.release().await?;
    println!("fenced");
    Ok(())
}

/// Sends a command; returns the status.
async fn call(service: SocketAddr, command: &str, token: FencingToken) -> io::Result<u16> {
    let mut stream = TcpStream::connect(service).await?;
    let request = format!(
        "POST /command HTTP/1.1\r\nHost: {service}\r\n{HEADER}: {token}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{command}",
        command.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    let status = response.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.ok_or_else(|| io::Error::other(response))
}

/// The service: one caller after the other, so that no two compare at a time.
async fn serve(listener: TcpListener) -> io::Result<()> {
    let mut highest = 0;
    loop {
        let (stream, _) = listener.accept().await?;
        let mut stream = BufReader::new(stream);
        let status = match token_of(&mut stream).await? {
            None => "400 Bad Request",
            Some(token) if token < highest => "412 Precondition Failed",
            Some(token) => {
                highest = token;
                "204 No Content"
            }
        };
        let response = format!("HTTP/1.1 {status}\r\nConnection: close\r\n\r\n");
        stream.write_all(response.as_bytes()).await?;
        stream.shutdown().await?;
    }
}

/// Reads a request to its end; returns the token in its header.
async fn token_of(stream: &mut BufReader<TcpStream>) -> io::Result<Option<i64>> {
    let (mut token, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case(HEADER) => token = value.parse().ok(),
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().unwrap_or(0);
            }
            _ if line.trim_end().is_empty() => break,
            _ => {}
        }
    }
    let mut command = vec![0; length];
    stream.read_exact(&mut command).await?;
    Ok(token)
}
