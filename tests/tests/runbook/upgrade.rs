//! "Upgrade and downgrade": one server after the other, under clients that notice nothing.
//!
//! There is only one release so far. The tests use a server with a lower `feature_level_max` as the
//! older release. `server/src/node/tests/levels.rs` tests a release that cannot read an entry of the
//! log.

use std::time::Duration;

use zoolet_client::jute::{Acl, Id, SessionId, perms};
use zoolet_client::recipes::{LockGuard, Mutex};
use zoolet_client::{Client, ClientOptions, CreateMode, ErrorCode, Version};
use zoolet_tests::faults::{Load, Seed};
use zoolet_tests::wait::{self, until_so};
use zoolet_tests::zooletctl;

use crate::support::{Ensemble, PATIENCE, SUPER, save, well};

const OLD_RELEASE: &str = "[ensemble]\nfeature_level_max = 1\n";
const OLD: &str = "feature_level_max = 1\n";
const NEW: &str = "#feature_level_max = 1\n";
const LOWERED: &str = "a lower feature level is agreed";
/// The mean time between two writes of a writer.
const PAUSE: Duration = Duration::from_millis(5);

/// A client that holds a lock and a session all the time, and another one that wants the lock.
struct Holder {
    client: Client,
    session: SessionId,
    guard: LockGuard,
    rival: Mutex,
}

impl Holder {
    async fn begin(servers: &str) -> Self {
        let connect = || async {
            let options = ClientOptions::new().session_timeout(Duration::from_secs(20));
            options.connect(servers).await.unwrap()
        };
        let (client, rival) = (connect().await, connect().await);
        client.create("/guarded", b"", CreateMode::Persistent).await.unwrap();
        let guard = Mutex::new(&client, "/lock").acquire().await.unwrap();
        let rival = Mutex::new(&rival, "/lock");
        Self { session: client.session().id, client, guard, rival }
    }

    /// The lock is still held, and its holder writes under it.
    async fn goes_on(&self) {
        self.guard.write("/guarded", b"x", Version::Any).await.expect("the lock is lost");
        assert!(self.rival.try_acquire().await.unwrap().is_none(), "two hold the lock");
        assert_eq!(self.client.session().id, self.session);
        let state = *self.client.state().borrow();
        assert!(!state.is_terminal(), "{state:?}");
    }

    /// Whether the servers take what the old release does not know: an ACL of the scheme `x509`.
    async fn new_features_work(&self) -> bool {
        let acl = vec![Acl { perms: perms::ALL, id: Id::new("x509", "CN=a") }];
        let mode = CreateMode::PersistentSequential;
        match self.client.create_with_acl("/new-", b"", acl, mode).await {
            Ok(_) => true,
            Err(error) if error.code() == Some(ErrorCode::InvalidAcl) => false,
            Err(error) => panic!("{error}"),
        }
    }
}

impl Ensemble {
    /// Starts a server again as another release.
    fn change(&mut self, id: usize, old: &str, new: &str) {
        self.stop(id);
        self.edit(id, old, new);
        self.start(id, &[]);
        self.until_serving(&[id]);
    }

    /// How often a server has logged that the level has fallen.
    fn falls(&self, id: usize) -> usize {
        self.output(id).matches(LOWERED).count()
    }

    /// The feature level in a backup of a server.
    fn feature_level(&self, id: usize) -> String {
        let file = self.path("level.snap");
        well(&save(&self.http(id).to_string(), &file, Some(SUPER), &["--force"]));
        let mut status = zooletctl::command().unwrap();
        let said = well(&status.args(["snapshot", "status"]).arg(&file).output().unwrap());
        let level = said.lines().find_map(|line| line.strip_prefix("feature level"));
        level.unwrap_or_else(|| panic!("{said}")).trim().to_owned()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn servers_are_upgraded_and_downgraded_under_clients_that_go_on() {
    let seed = Seed::of("runbook", "upgraded");
    let mut ensemble = Ensemble::with(OLD_RELEASE);
    ensemble.start_all();
    let servers = ensemble.connect_string(&[1, 2, 3]);
    let holder = Holder::begin(&servers).await;
    let mut load = Load::start(&servers, &seed, PAUSE).await.unwrap();
    load.until_acknowledged(50).await.unwrap();

    for id in 1..=3 {
        assert!(!holder.new_features_work().await, "before server {id} is upgraded");
        ensemble.change(id, OLD, NEW);
        well(&ensemble.zooletctl(&[1, 2, 3], &["status"]));
        holder.goes_on().await;
    }
    let works = async || holder.new_features_work().await;
    assert!(until_so(PATIENCE, works).await, "{}", ensemble.output(ensemble.leader()));
    let is_logged = |id| ensemble.output(id).contains("agreeing on a feature level from=1 to=");
    let is_raised = wait::until(PATIENCE, || (1..=3).any(is_logged).then_some(()));
    assert!(is_raised.is_some(), "no server has raised the level");
    assert_ne!(ensemble.feature_level(1), "1");

    ensemble.change(1, NEW, OLD);
    for id in 1..=3 {
        ensemble.until_logged(id, LOWERED);
    }
    assert!(!holder.new_features_work().await, "after the level was lowered");
    assert_eq!(ensemble.feature_level(2), "1");
    for id in 1..=3 {
        let now = if id == 1 { OLD } else { NEW };
        ensemble.change(id, now, OLD);
        holder.goes_on().await;
    }
    assert!(!holder.new_features_work().await);

    let known = load.acknowledged();
    load.until_acknowledged(known + 50).await.unwrap();
    load.finish().await.unwrap();
    assert!(holder.guard.release().await.unwrap(), "held to the end");
}

/// A server that read in one go that the level had risen and fallen did not log the fall and took no
/// snapshot: its downgrade was waited for in vain, and then met the commands in its log.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_joins_after_a_downgrade_was_prepared_follows_it_too() {
    let mut ensemble = Ensemble::with(&OLD_RELEASE.replace(OLD, NEW));
    ensemble.start_all();
    let holder = Holder::begin(&ensemble.connect_string(&[1, 2])).await;
    let works = async || holder.new_features_work().await;
    assert!(until_so(PATIENCE, works).await, "{}", ensemble.output(ensemble.leader()));
    ensemble.change(1, NEW, OLD);
    ensemble.until_logged(3, LOWERED);

    ensemble.kill(3);
    ensemble.empty(3);
    ensemble.start(3, &["--join"]);
    ensemble.until_serving(&[3]);
    let is_followed = wait::until(PATIENCE, || (ensemble.falls(3) == 2).then_some(()));
    assert!(is_followed.is_some(), "{}", ensemble.output(3));
    let is_taken = wait::until(PATIENCE, || (ensemble.snapshot_index(3) > 0).then_some(()));
    assert!(is_taken.is_some(), "{}", ensemble.output(3));
}
