//! Slow links between the client and real servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use zoolet_client::{Client, CreateMode, SessionState, Version};
use zoolet_tests::scenes::{Scene, options};

/// Short beside what the link takes for all replies together.
const SESSION: Duration = Duration::from_secs(4);

/// What a link carries in a second, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    /// Towards the server; `None` for no limit.
    up: Option<u32>,
    /// Towards the client; `None` for no limit.
    down: Option<u32>,
}

/// Listens for clients and carries what they and the server send at fixed rates.
async fn slow_link(
    server: String,
    rates: Rates,
    connections: Arc<AtomicUsize>,
) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let link = tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            connections.fetch_add(1, Ordering::Relaxed);
            let server = TcpStream::connect(&server).await.unwrap();
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            tokio::spawn(carry(from_client, to_server, rates.up));
            tokio::spawn(carry(from_server, to_client, rates.down));
        }
    });
    (address, link)
}

/// Carries bytes in one direction, at most this many a second, until one end is closed.
async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, rate: Option<u32>) {
    let mut buffer = vec![0; 16 * 1024];
    let mut free_at = Instant::now();
    while let Ok(bytes @ 1..) = from.read(&mut buffer).await {
        if let Some(rate) = rate {
            let takes = Duration::from_secs(1) * u32::try_from(bytes).unwrap() / rate;
            free_at = free_at.max(Instant::now()) + takes;
            sleep_until(free_at).await;
        }
        if to.write_all(&buffer[..bytes]).await.is_err() {
            return;
        }
    }
}

/// Connects over a link, and collects the states that the session goes through.
async fn client_over(address: &str) -> (Client, JoinHandle<Vec<SessionState>>) {
    let client = options().session_timeout(SESSION).connect(address).await.unwrap();
    let mut state = client.state();
    let changes = tokio::spawn(async move {
        let mut seen = Vec::new();
        while state.changed().await.is_ok() {
            seen.push(*state.borrow_and_update());
        }
        seen
    });
    (client, changes)
}

/// 200 reads of 100 kB at once, over a link that takes 10 s for them: with a session of 4 s the
/// client reported the loss of its locks after 3.2 s, and left the connection.
pub(crate) async fn bulk_replies_on_a_slow_link_keep_the_session(scene: &Scene) {
    let (direct, path) = (scene.client().await, scene.path());
    direct.create(&path, &vec![7; 100_000], CreateMode::Persistent).await.unwrap();
    let server = scene.servers.split(',').next().unwrap().to_owned();
    // The server at hand may be behind.
    let elsewhere = options().connect(&server).await.unwrap();
    scene.catch_up(&elsewhere).await;
    let connections = Arc::new(AtomicUsize::new(0));
    let rates = Rates { down: Some(2_000_000), ..Rates::default() };
    let (address, link) = slow_link(server, rates, Arc::clone(&connections)).await;
    let (client, changes) = client_over(&address).await;
    let calls: Vec<_> = (0..200).map(|_| client.get(&path)).collect();
    for call in calls {
        assert_eq!(call.await.unwrap().0.len(), 100_000);
        assert!(client.remaining() > Duration::ZERO);
    }
    assert_eq!(connections.load(Ordering::Relaxed), 1, "it has left the connection");
    client.close().await.unwrap();
    assert_eq!(changes.await.unwrap(), [SessionState::Closed]);
    link.abort();
}

/// The first writes of a connection, over links of several rates: 10 MiB were under way before the
/// first answer, and the answer to a ping came behind them, too late for a session of 4 s.
pub(crate) async fn a_burst_of_writes_on_a_slow_uplink_keeps_the_session(scene: &Scene) {
    let (direct, data) = (scene.client().await, vec![7; 100_000]);
    let server = scene.servers.split(',').next().unwrap();
    for (up, writes) in [(Some(256_000), 25), (Some(1_000_000), 80), (None, 200)] {
        let path = scene.path();
        direct.create(&path, b"", CreateMode::Persistent).await.unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let rates = Rates { up, ..Rates::default() };
        let (address, link) = slow_link(server.to_owned(), rates, Arc::clone(&connections)).await;
        let (client, changes) = client_over(&address).await;
        client.sync(&path).await.unwrap();
        let calls: Vec<_> =
            (0..writes).map(|_| client.set_data(&path, &data, Version::Any)).collect();
        for call in calls {
            call.await.unwrap();
            assert!(client.remaining() > Duration::ZERO, "{up:?}");
        }
        assert_eq!(connections.load(Ordering::Relaxed), 1, "it has left the connection: {up:?}");
        client.close().await.unwrap();
        assert_eq!(changes.await.unwrap(), [SessionState::Closed], "{up:?}");
        link.abort();
    }
}
