//! What the scenes have in common.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zoolet_client::{Client, ClientOptions, CreateMode};

/// How long something may take that happens without anybody's further doing.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The session timeout of the scenes' clients, the most that the servers grant: no session ends by
/// itself on a busy machine.
const SESSION: Duration = Duration::from_secs(10);

/// Running servers, and a part of their tree for each scene.
pub(crate) struct Scene {
    pub(crate) servers: String,
    paths: AtomicUsize,
}

impl Scene {
    pub(crate) fn new(servers: String) -> Self {
        Self { servers, paths: AtomicUsize::new(0) }
    }

    pub(crate) async fn play(&self, name: &str, scene: impl AsyncFnOnce(&Self)) {
        println!("{name}");
        // The first scene makes it; it stays.
        let _ = self.client().await.create("/client", b"", CreateMode::Persistent).await;
        scene(self).await;
    }

    /// The path of a znode that nobody has made.
    pub(crate) fn path(&self) -> String {
        format!("/client/{}", self.paths.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn options() -> ClientOptions {
        ClientOptions::new().session_timeout(SESSION)
    }

    pub(crate) async fn client(&self) -> Client {
        Self::options().connect(&self.servers).await.unwrap()
    }
}

/// Waits until something is so.
pub(crate) async fn soon(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !is_so().await {
            sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(timeout(SOON, wait).await.is_ok(), "not within {} s: {what}", SOON.as_secs());
}
