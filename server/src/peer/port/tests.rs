//! What becomes of the port's tasks.

use super::*;
use crate::descriptors::peer_handshakes_max;
use crate::peer::Target;
use crate::peer::handshake::greet;
use crate::transport::RealNet;

const OURS: PeerIdentity = PeerIdentity { cluster: 7, founding: 0, server: 2, directory: 5 };
const TARGET: Target = Target { server: 2, directory: Some(5) };

#[derive(Debug)]
struct Silent;

impl Service for Silent {
    fn call(&self, _: Call) -> BoxFuture<'_, Answer> {
        Box::pin(async { Answer::Later(Box::pin(async { None })) })
    }
}

async fn until_open(port: &PeerPort, count: usize) {
    let reached = async {
        while port.connections.tasks.lock().unwrap().len() != count {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(20), reached).await.expect("the list follows");
}

fn options() -> PeerPortOptions {
    PeerPortOptions {
        ours: OURS,
        founding: Arc::default(),
        any_cluster: false,
        secret: None,
        tls: PeerTls::default(),
        address: "127.0.0.1:0".to_owned(),
        frames: FrameLimits { small: 1000, large: 1000 },
        answers_max: 8,
        handshake_timeout: Duration::from_mins(2),
        hung_up: mpsc::channel(1).0,
        fatal: Fatal::default(),
    }
}

/// Silent callers kept all others out until their time was over.
#[tokio::test]
async fn silent_connections_do_not_keep_others_out() {
    let port = PeerPort::listen(&RealNet, options(), Arc::new(Silent)).await.unwrap();
    let address = port.local_addr().to_string();
    let mut silent = Vec::new();
    for _ in 0..peer_handshakes_max() * 2 {
        silent.push(RealNet.connect(&address).await.unwrap());
    }
    let mut stream = RealNet.connect(&address).await.unwrap();
    let ours = PeerIdentity { server: 1, ..OURS };
    let greeting = greet(&mut *stream, ours, (TARGET, Lane::Control), None);
    timeout(Duration::from_secs(20), greeting).await.expect("it is let in").unwrap();
    until_open(&port, 1).await;
}

#[derive(Debug)]
struct Panicking;

impl Listener for Panicking {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Box<dyn Stream>, SocketAddr)>> {
        panic!("the test's panic")
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Service for Panicking {
    fn call(&self, _: Call) -> BoxFuture<'_, Answer> {
        panic!("the test's panic")
    }
}

#[tokio::test]
async fn a_panic_in_the_peer_port_is_fatal() {
    let (options, connections) = (options(), Arc::default());
    let mut fatal = options.fatal.watch();
    tokio::spawn(accepting(Box::new(Panicking), options, Arc::new(Silent), connections));
    let waiting = timeout(Duration::from_secs(20), fatal.wait_for(Option::is_some));
    let why = waiting.await.expect("it is not reported").unwrap().clone().unwrap();
    assert!(why.starts_with("the task \"peer port\" has panicked: the test's panic"), "{why}");
}

#[tokio::test]
async fn a_panic_in_a_connection_leaves_the_port_open() {
    let options = options();
    let fatal = options.fatal.watch();
    let port = PeerPort::listen(&RealNet, options, Arc::new(Panicking)).await.unwrap();
    for _ in 0..2 {
        let mut stream = RealNet.connect(&port.local_addr().to_string()).await.unwrap();
        let ours = PeerIdentity { server: 1, ..OURS };
        greet(&mut *stream, ours, (TARGET, Lane::Control), None).await.unwrap();
        let mut call = BytesMut::new();
        Frame { kind: 1, id: 1, body: Bytes::new() }.encode(&mut call);
        stream.write_all(&call).await.unwrap();
        until_open(&port, 0).await;
    }
    assert_eq!(*fatal.borrow(), None);
}

#[tokio::test]
async fn a_connection_that_has_ended_leaves_the_list() {
    let port = PeerPort::listen(&RealNet, options(), Arc::new(Silent)).await.unwrap();
    let address = port.local_addr().to_string();
    let mut streams = Vec::new();
    for (server, lane) in [(1, Lane::Control), (1, Lane::Append), (254, Lane::Control)] {
        let mut stream = RealNet.connect(&address).await.unwrap();
        let ours = PeerIdentity { server, ..OURS };
        greet(&mut *stream, ours, (TARGET, lane), None).await.unwrap();
        streams.push(stream);
    }
    until_open(&port, 3).await;
    // The newer one takes the older one's place, and keeps it when that has ended.
    let mut newer = RealNet.connect(&address).await.unwrap();
    let ours = PeerIdentity { server: 254, ..OURS };
    greet(&mut *newer, ours, (TARGET, Lane::Control), None).await.unwrap();
    streams.clear();
    until_open(&port, 1).await;
    drop(newer);
    until_open(&port, 0).await;
}

/// A test that took the port of a server that it had killed found it in use now and then.
#[tokio::test]
async fn the_address_is_free_once_the_port_is_closed() {
    // Not where outgoing connections come from.
    let mut options = PeerPortOptions { address: "127.77.1.1:0".to_owned(), ..options() };
    for _ in 0..3 {
        let port = PeerPort::listen(&RealNet, options.clone(), Arc::new(Silent)).await.unwrap();
        options.address = port.local_addr().to_string();
        port.close().await;
    }
}
