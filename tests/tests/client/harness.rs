//! What the scenes have in common.

use std::ops::DerefMut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zoolet_client::{Client, ClientOptions, CreateMode};
use zoolet_tests::servers::{LEADER_MAX, Servers};
use zoolet_tests::wait::until_so;

/// How long something may take that happens by itself.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The session timeout of the scenes' clients, the most that the servers grant: no session ends by
/// itself on a busy machine.
const SESSION: Duration = Duration::from_secs(10);

/// Servers of either kind.
pub(crate) type AnyServers = Box<dyn DerefMut<Target = Servers> + Send>;

/// Running servers, and a part of their tree for each scene.
pub(crate) struct Scene {
    /// The connect string.
    pub(crate) servers: String,
    processes: Mutex<AnyServers>,
    paths: AtomicUsize,
}

impl Scene {
    pub(crate) fn new(processes: AnyServers) -> Self {
        let servers = processes.connect_string();
        Self { servers, processes: Mutex::new(processes), paths: AtomicUsize::new(0) }
    }

    pub(crate) async fn play(&self, name: &str, scene: impl AsyncFnOnce(&Self)) {
        println!("{name}");
        // The first scene makes it; it stays.
        let _ = self.client().await.create("/client", b"", CreateMode::Persistent).await;
        scene(self).await;
    }

    /// The path of a znode that does not exist.
    pub(crate) fn path(&self) -> String {
        format!("/client/{}", self.paths.fetch_add(1, Ordering::Relaxed))
    }

    /// Kills a server.
    pub(crate) fn kill(&self, index: usize) {
        tokio::task::block_in_place(|| self.processes.lock().unwrap().kill(index).unwrap());
    }

    /// Starts killed servers and waits until they serve.
    pub(crate) fn restart(&self, indexes: &[usize]) {
        tokio::task::block_in_place(|| {
            let mut processes = self.processes.lock().unwrap();
            for index in indexes {
                processes.spawn(*index).unwrap();
            }
            for index in indexes {
                processes.wait_until_serving(*index).unwrap();
            }
        });
    }

    /// The servers without whom one follower is left.
    pub(crate) fn all_but_a_follower(&self) -> Vec<usize> {
        let leader = tokio::task::block_in_place(|| {
            self.processes.lock().unwrap().wait_for_leader(LEADER_MAX)
        });
        let leader = leader.unwrap();
        (0..3).filter(|index| *index != (leader + 1) % 3).collect()
    }

    pub(crate) fn options() -> ClientOptions {
        ClientOptions::new().session_timeout(SESSION)
    }

    pub(crate) async fn client(&self) -> Client {
        Self::options().connect(&self.servers).await.unwrap()
    }
}

/// Waits until something is so.
pub(crate) async fn soon(what: &str, is_so: impl AsyncFnMut() -> bool) {
    assert!(until_so(SOON, is_so).await, "not within {} s: {what}", SOON.as_secs());
}
