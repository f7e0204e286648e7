//! Measures the memory of idle sessions: `cargo run --release --example idle_sessions`. Opens
//! connections to a server in this process, and prints by how much the resident memory grows for
//! each. The clients' side is nothing but sockets.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program that measures")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use bytes::BytesMut;
use zoolet_jute::{ConnectRequest, Encode, Request, RequestHeader, SessionId, Xid, Zxid, frame};
use zoolet_server::embed::Ensemble;

/// Two file descriptors each.
const SESSIONS: usize = 8_000;

/// Sessions that are opened before the measurement: memory that they leave free is used again.
const WARM_UP: usize = 500;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let directory = tempfile::tempdir().unwrap();
    let ensemble = Ensemble::builder()
        .directory(directory.path())
        .configure(|config| {
            config.limits.connections_per_address_max = 0;
            config.session.timeout_ms_max = 600_000;
        })
        .start()
        .await
        .unwrap();
    let address = ensemble.client_addr(0).unwrap();
    let mut clients: Vec<_> = (0..WARM_UP).map(|_| open(address)).collect();
    let before = resident_bytes();
    clients.extend((0..SESSIONS).map(|_| open(address)));
    let grown = resident_bytes() - before;
    println!("a new session {:34} B", grown / SESSIONS as u64);
    for client in &mut clients {
        ping(client);
    }
    let grown = resident_bytes() - before;
    println!("a session that has sent a ping {:17} B", grown / SESSIONS as u64);
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

fn open(address: SocketAddr) -> TcpStream {
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(0),
        timeout_ms: 600_000,
        session_id: SessionId::NONE,
        password: None,
        read_only: None,
    };
    let mut stream = TcpStream::connect(address).unwrap();
    send(&mut stream, |out| request.encode(out));
    stream
}

fn ping(stream: &mut TcpStream) {
    let op = Request::Ping.op_code() as i32;
    send(stream, |out| RequestHeader { xid: Xid::PING, op }.encode(out));
}

/// Sends a frame and reads the reply.
fn send(stream: &mut TcpStream, payload: impl FnOnce(&mut BytesMut)) {
    let mut out = BytesMut::new();
    frame::put(&mut out, payload);
    stream.write_all(&out).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut reply = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut reply).unwrap();
}
