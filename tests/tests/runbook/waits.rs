//! "A service waits for a lock": who holds it is found, asked, and made to let go.

use std::process::Output;

use zoolet_client::recipes::{LockGuard, LockOptions, Mutex};
use zoolet_client::{Client, CreateMode};
use zoolet_tests::{wait, zooletctl};

use crate::support::{Ensemble, PATIENCE, badly_with, well};

const LOCK: &str = "/locks/report";

impl Ensemble {
    async fn with_locks() -> (Self, Client, Client) {
        let ensemble = Self::started();
        let clients = (ensemble.superuser(1).await, ensemble.superuser(2).await);
        clients.0.create("/locks", b"", CreateMode::Persistent).await.unwrap();
        (ensemble, clients.0, clients.1)
    }

    fn locks(&self, words: &[&str]) -> Output {
        self.zooletctl(&[1, 2, 3], &[&["locks"], words].concat())
    }

    /// What the history of a lock shows.
    fn history(&self, lock: &str) -> String {
        let mut command = zooletctl::command().unwrap();
        command.args(["history", "--http", &self.http(1).to_string(), "--lock", lock]);
        well(&command.output().unwrap())
    }

    /// The same, as soon as it has this text.
    fn until_in_history(&self, lock: &str, text: &str) -> String {
        let shown =
            wait::until(PATIENCE, || Some(self.history(lock)).filter(|it| it.contains(text)));
        shown.unwrap_or_else(|| panic!("no {text:?} in {}", self.history(lock)))
    }

    /// Waits until `locks` shows this many that hold or wait.
    fn until_queued(&self, lock: &str, places: usize) -> String {
        let shown = wait::until(PATIENCE, || {
            let shown = well(&self.locks(&[lock]));
            (shown.matches("0x").count() >= places).then_some(shown)
        });
        shown.unwrap_or_else(|| panic!("{lock} has fewer than {places} places"))
    }
}

fn wait_for(client: &Client, path: &str) -> tokio::task::JoinHandle<LockGuard> {
    let mutex = Mutex::new(client, path);
    tokio::spawn(async move { mutex.acquire().await.unwrap() })
}

async fn acquired(waiting: tokio::task::JoinHandle<LockGuard>) -> LockGuard {
    tokio::time::timeout(PATIENCE, waiting).await.expect("the one that waits gets it").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_holder_is_found_asked_and_made_to_let_go() {
    let (ensemble, holder, waiter) = Ensemble::with_locks().await;
    let held = Mutex::new(&holder, LOCK).acquire().await.unwrap();
    let waiting = wait_for(&waiter, LOCK);
    let waiters = || (1..=3).map(|id| ensemble.metric(id, "zoolet_locks_waiters")).sum::<u64>();
    assert!(wait::until(PATIENCE, || (waiters() > 0).then_some(())).is_some(), "none waits");

    let shown = ensemble.until_queued(LOCK, 2);
    let sessions = [holder.session().id.to_string(), waiter.session().id.to_string()];
    let [first, second] = sessions.each_ref().map(|session| shown.find(session).unwrap());
    assert!(first < second && shown.contains("127.0.0.1:"), "{shown}");
    let graph = well(&ensemble.locks(&["--graph", "/locks"]));
    assert!(graph.contains(&format!("{} (holds)", sessions[0])), "{graph}");
    let history = ensemble.until_in_history(LOCK, &sessions[1]);
    assert!(history.contains("holds"), "{history}");

    // It does not listen, so that it has to be made to.
    let words = ["revoke", "--wait", "1s", LOCK];
    badly_with(&ensemble.zooletctl(&[1, 2, 3], &words), 124);
    well(&ensemble.locks(&["--release", LOCK, "--yes"]));
    let next = acquired(waiting).await;
    let shown = well(&ensemble.locks(&[LOCK]));
    assert!(shown.contains(&sessions[1]) && !shown.contains(&sessions[0]), "{shown}");
    let history = ensemble.until_in_history(LOCK, "deleted by session");
    let mut turns = history.lines();
    let is_end = |turn: &str| turn.contains(&sessions[0]) && turn.contains("deleted by session");
    assert!(turns.any(is_end), "{history}");
    drop(held);

    // The next holder listens.
    next.release().await.unwrap();
    let options = LockOptions::new().revocable();
    let listens = Mutex::with_options(&waiter, LOCK, options).acquire().await.unwrap();
    let asked = listens.revocation();
    let heeds = tokio::spawn(async move {
        asked.await;
        listens.release().await.unwrap();
    });
    well(&ensemble.zooletctl(&[1, 2, 3], &["revoke", "--wait", "30s", LOCK]));
    heeds.await.unwrap();
    let ended = |history: &str| history.matches(", released").count() == 2;
    let shown = wait::until(PATIENCE, || Some(ensemble.history(LOCK)).filter(|it| ended(it)));
    assert!(shown.is_some(), "{}", ensemble.history(LOCK));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_deadlock_is_named_and_resolved() {
    let (ensemble, a, b) = Ensemble::with_locks().await;
    let a_holds = Mutex::new(&a, "/locks/a").acquire().await.unwrap();
    let b_holds = Mutex::new(&b, "/locks/b").acquire().await.unwrap();
    let (a_waits, b_waits) = (wait_for(&a, "/locks/b"), wait_for(&b, "/locks/a"));
    ensemble.until_queued("/locks/a", 2);
    ensemble.until_queued("/locks/b", 2);

    let graph = badly_with(&ensemble.locks(&["--graph", "/locks"]), 7);
    assert!(graph.contains("deadlock of 2 sessions"), "{graph}");
    well(&ensemble.locks(&["--release", "/locks/b", "--yes"]));
    let next = acquired(a_waits).await;
    well(&ensemble.locks(&["--graph", "/locks"]));
    next.release().await.unwrap();
    a_holds.release().await.unwrap();
    acquired(b_waits).await.release().await.unwrap();
    drop(b_holds);
}
