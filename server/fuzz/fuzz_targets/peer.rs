//! A connection to the peer port, from its first byte to its end. An odd first byte puts a
//! handshake in front that is right, so that the frames behind it are tried as well.
#![no_main]

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use zoolet_server::internals::{
    Answer, BoxFuture, Call, Fatal, FrameLimits, Listener, Net, PeerIdentity, PeerPort,
    PeerPortOptions, PeerTls, Service, Stream,
};

const FRAME_BYTES_MAX: usize = 1024;
const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

/// Answers every call with what it holds.
#[derive(Debug)]
struct Echo;

impl Service for Echo {
    fn call(&self, call: Call) -> BoxFuture<'_, Answer> {
        assert!(call.kind != 0, "kind 0 is that of answers");
        assert!(call.body.len() < FRAME_BYTES_MAX);
        Box::pin(async move { Answer::Now(call.body) })
    }
}

/// A network of one connection.
#[derive(Debug)]
struct OneConnection(Mutex<Option<DuplexStream>>);

#[derive(Debug)]
struct OneListener(Option<DuplexStream>);

impl Net for OneConnection {
    fn listen<'a>(&'a self, _: &'a str, _: u32) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async {
            let stream = self.0.lock().expect("one thread").take();
            Ok(Box::new(OneListener(stream)) as Box<dyn Listener>)
        })
    }

    fn connect<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }
}

impl Listener for OneListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Box<dyn Stream>, SocketAddr)>> {
        Box::pin(async {
            match self.0.take() {
                Some(stream) => Ok((Box::new(stream) as Box<dyn Stream>, ADDRESS)),
                None => std::future::pending().await,
            }
        })
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(ADDRESS)
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let mut input = if choice % 2 == 1 { hello() } else { Vec::new() };
    input.extend(bytes);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(talk(&input));
});

/// Sends everything, and reads until the port hangs up: it must, since nothing more comes.
async fn talk(input: &[u8]) {
    let (ours, theirs) = duplex(64 * 1024);
    let options = PeerPortOptions {
        ours: PeerIdentity { cluster: 7, founding: 0, server: 2, directory: 1 },
        founding: Arc::new(AtomicU64::new(0)),
        any_cluster: false,
        secret: None,
        tls: PeerTls::default(),
        address: String::new(),
        frames: FrameLimits { small: FRAME_BYTES_MAX, large: FRAME_BYTES_MAX },
        answers_max: 8,
        handshake_timeout: Duration::from_secs(60),
        hung_up: tokio::sync::mpsc::channel(1).0,
        fatal: Fatal::default(),
    };
    let net = OneConnection(Mutex::new(Some(theirs)));
    let _port = PeerPort::listen(&net, options, Arc::new(Echo)).await.expect("it always listens");
    let (mut reader, mut writer) = tokio::io::split(ours);
    // A port that has hung up takes no more; that is its right.
    let (_, answered) = tokio::join!(
        async {
            let _ = writer.write_all(input).await;
            let _ = writer.shutdown().await;
        },
        async {
            let mut answered = Vec::new();
            let _ = reader.read_to_end(&mut answered).await;
            answered
        }
    );
    // It writes at most as much as it has read, and the one greeting.
    assert!(answered.len() <= input.len() + WELCOME_BYTES);
}

/// Magic, version, verdict and length; then identity, nonce and proof.
const WELCOME_BYTES: usize = 13 + 32 + 32 + 32;

/// What server 1 of the cluster says to this one.
fn hello() -> Vec<u8> {
    let mut hello = b"zoopeer\n".to_vec();
    hello.extend(4_u16.to_be_bytes());
    hello.extend(82_u16.to_be_bytes());
    // Cluster, founding, server, directory; then the server that it wants, and any directory.
    for number in [7_u64, 0, 1, 1, 2, u64::MAX] {
        hello.extend(number.to_be_bytes());
    }
    // The control lane, no secret, and no nonce.
    hello.extend([1, 0]);
    hello.extend([0; 32]);
    hello
}
