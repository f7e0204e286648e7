//! Suites of scenes, which are played on servers of zoolet and on servers of Apache `ZooKeeper`, and
//! the fixture that the scenes share. What one suite needs beside it is an extension trait in the
//! suite's own `harness.rs`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use zoolet_client::{Client, ClientOptions, CreateMode, Version};

use crate::builder::{Kind, ServersBuilder};
use crate::servers::{Servers, ServersError};
use crate::wait::until_so;

/// How long something may take that happens by itself.
pub const SOON: Duration = Duration::from_secs(20);

/// The session timeout of the scenes' clients, the most that the servers grant: no session ends by
/// itself on a busy machine.
const SESSION: Duration = Duration::from_secs(10);

/// Defines suites: of each a test on zoolet and one on Apache `ZooKeeper`. Its user defines the
/// functions `on_zoolet(suite)` and `on_apache(name, suite)`, which [`run`] the suite on the servers
/// that it needs.
#[macro_export]
macro_rules! suites {
    ($($suite:ident / $apache:ident: $($scene:path),+;)+) => {$(
        #[test]
        fn $suite() {
            on_zoolet(async |scene| {
                $(scene.play(stringify!($scene), $scene).await;)+
            });
        }

        #[test]
        fn $apache() {
            on_apache(stringify!($apache), async |scene| {
                $(scene.play(stringify!($scene), $scene).await;)+
            });
        }
    )+};
}

/// Starts servers and runs a suite on them, on two threads: contenders have to meet, and scenes may
/// block while proxies and clients run beside them. The scenes' znodes are children of `root`.
pub fn run(
    servers: ServersBuilder,
    root: &'static str,
    suite: impl AsyncFnOnce(Scene),
) -> Result<(), ServersError> {
    let scene = Scene::new(servers.start()?, root);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build()?.block_on(suite(scene));
    Ok(())
}

/// Running servers, and a part of their tree for each scene.
#[derive(Debug)]
pub struct Scene {
    /// The connect string.
    pub servers: String,
    processes: Mutex<Servers>,
    root: &'static str,
    paths: AtomicUsize,
}

impl Scene {
    fn new(processes: Servers, root: &'static str) -> Self {
        let servers = processes.connect_string();
        Self { servers, processes: Mutex::new(processes), root, paths: AtomicUsize::new(0) }
    }

    /// Plays a scene; its name is printed.
    #[allow(clippy::print_stdout, reason = "a failed test shows which scene it was")]
    pub async fn play(&self, name: &str, scene: impl AsyncFnOnce(&Self)) {
        println!("{name}");
        // The first scene creates it; it stays.
        let _ = self.client().await.create(self.root, b"", CreateMode::Persistent).await;
        scene(self).await;
    }

    /// The path of a znode that does not exist; its parent does.
    pub fn path(&self) -> String {
        format!("{}/{}", self.root, self.paths.fetch_add(1, Ordering::Relaxed))
    }

    /// The processes of the servers.
    pub fn processes(&self) -> MutexGuard<'_, Servers> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub async fn client(&self) -> Client {
        connect(&self.servers).await
    }

    /// Has a client read what was acknowledged to any client before.
    pub async fn catch_up(&self, client: &Client) {
        client.sync(self.root).await.expect("the servers serve");
        let kind = self.processes().kind();
        if kind == Kind::Apache {
            // Its leader answers a sync of a client of its own as a read: before it has applied
            // what a follower has applied and acknowledged. A write comes behind all of that.
            let written = client.set_data(self.root, b"", Version::Any).await;
            written.expect("the servers serve");
        }
    }

    /// The children of a znode in order, after everything that was committed before; none without
    /// the znode.
    pub async fn children(&self, client: &Client, path: &str) -> Vec<String> {
        self.catch_up(client).await;
        let mut names = client.children(path).await.map(|(names, _)| names).unwrap_or_default();
        names.sort();
        names
    }

    /// Waits until a znode has `count` children.
    pub async fn until_children(&self, client: &Client, path: &str, count: usize) {
        let mut names = Vec::new();
        let is_so = until_so(SOON, async || {
            names = self.children(client, path).await;
            names.len() == count
        });
        let is_so = is_so.await;
        assert!(is_so, "{path} has not {count} children after {SOON:?}: {names:?}");
    }
}

/// The options of the scenes' clients.
pub fn options() -> ClientOptions {
    ClientOptions::new().session_timeout(SESSION).connect_timeout(SOON)
}

/// A client of servers, or of a proxy of theirs.
pub async fn connect(servers: &str) -> Client {
    options().connect(servers).await.expect("the servers serve")
}

/// Waits until something is so.
pub async fn soon(what: &str, is_so: impl AsyncFnMut() -> bool) {
    assert!(until_so(SOON, is_so).await, "not within {} s: {what}", SOON.as_secs());
}
