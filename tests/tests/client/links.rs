//! Slow links between the client and real servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use zoolet_client::{CreateMode, SessionState};

use crate::harness::Scene;

/// Short beside what the link takes for all replies together.
const SESSION: Duration = Duration::from_secs(4);

/// What the link carries towards the client in a second.
const BYTES_PER_SECOND: u32 = 2_000_000;

/// Listens for clients and carries what servers send at a fixed rate.
async fn slow_link(server: String, connections: Arc<AtomicUsize>) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let link = tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            connections.fetch_add(1, Ordering::Relaxed);
            let server = TcpStream::connect(&server).await.unwrap();
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = server.into_split();
            tokio::spawn(async move { copy(&mut from_client, &mut to_server).await });
            tokio::spawn(async move {
                let mut buffer = vec![0; 16 * 1024];
                let mut free_at = Instant::now();
                while let Ok(bytes @ 1..) = from_server.read(&mut buffer).await {
                    let bytes_u32 = u32::try_from(bytes).unwrap();
                    free_at = free_at.max(Instant::now())
                        + Duration::from_secs(1) * bytes_u32 / BYTES_PER_SECOND;
                    sleep_until(free_at).await;
                    if to_client.write_all(&buffer[..bytes]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, link)
}

/// 200 reads of 100 kB at once, over a link that takes 10 s for them: with a session of 4 s the
/// client reported the loss of its locks after 3.2 s, and left the connection.
pub(crate) async fn bulk_replies_on_a_slow_link_keep_the_session(scene: &Scene) {
    let (direct, path) = (scene.client().await, scene.path());
    direct.create(&path, &vec![7; 100_000], CreateMode::Persistent).await.unwrap();
    let server = scene.servers.split(',').next().unwrap().to_owned();
    // The server at hand may be behind.
    let elsewhere = Scene::options().connect(&server).await.unwrap();
    elsewhere.sync(&path).await.unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let (address, link) = slow_link(server, Arc::clone(&connections)).await;
    let client = Scene::options().session_timeout(SESSION).connect(&address).await.unwrap();
    let mut state = client.state();
    let changes = tokio::spawn(async move {
        let mut seen = Vec::new();
        while state.changed().await.is_ok() {
            seen.push(*state.borrow_and_update());
        }
        seen
    });
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
