//! "A clock is wrong": the leader's gives times and judges times to live, and ends no session.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use zoolet_client::jute::{Acl, Id, Stat, perms};
use zoolet_client::{Client, ClientOptions, CreateMode, SessionInfo};
use zoolet_tests::tools;
use zoolet_tests::wait::until_so;
use zoolet_tests::wrong_clock;

use crate::support::{Ensemble, PATIENCE, well};

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;
/// What a client asks for that no fault of this suite may end.
const SESSION: Duration = Duration::from_secs(20);

impl Ensemble {
    /// Servers whose wall clocks can be set; `None` without a C compiler, which was said.
    fn with_clocks() -> Option<Self> {
        let library = match wrong_clock::library() {
            Ok(library) => library,
            Err(missing) => {
                tools::skip_unless_required("runbook", missing).unwrap();
                return None;
            }
        };
        let mut ensemble = Self::with("[znodes]\nttl_enabled = true\nreap_interval_ms = 100\n");
        ensemble.set_variable("LD_PRELOAD", library.into_os_string());
        // Beside each server's data.
        ensemble.set_variable("WRONG_CLOCK_FILE", "clock".into());
        Some(ensemble)
    }

    /// Sets the clock of a server, running or not, by its difference from the true one.
    fn set_clock(&self, id: usize, wrong_by_ms: i64) {
        let (file, new) = (self.disk(id).join("clock"), self.disk(id).join("clock.new"));
        fs::write(&new, wrong_by_ms.to_string()).unwrap();
        // In one step: the server may be looking at it.
        fs::rename(new, file).unwrap();
    }

    async fn connect(&self, id: usize, timeout: Duration) -> Client {
        let options = ClientOptions::new().session_timeout(timeout);
        options.connect(&self.client(id).to_string()).await.unwrap()
    }

    /// The number of the last start of a server (`docs/storage.md`).
    fn boot(&self, id: usize) -> u64 {
        let file = fs::read(self.data(id).join("boot")).unwrap();
        u64::from_be_bytes(file[1..9].try_into().unwrap())
    }
}

#[allow(clippy::disallowed_methods, reason = "the true time, to compare servers with")]
fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

/// By how many minutes the time of a znode that was created just now is ahead, rounded.
fn minutes_ahead(stat: &Stat) -> i64 {
    (stat.ctime - now_ms() + MINUTE_MS / 2).div_euclid(MINUTE_MS)
}

/// By how many minutes the time of a new znode is wrong.
async fn wrong_by_minutes(client: &Client) -> i64 {
    let (_, stat) = client.create("/time-", b"", CreateMode::PersistentSequential).await.unwrap();
    assert_eq!(stat.ctime, stat.mtime);
    minutes_ahead(&stat)
}

async fn create_with_ttl(client: &Client, path: &str, minutes: u64) {
    let everyone = vec![Acl { perms: perms::ALL, id: Id::new("world", "anyone") }];
    let mode = CreateMode::PersistentWithTtl;
    client.create_with_ttl(path, b"", everyone, mode, Duration::from_mins(minutes)).await.unwrap();
}

async fn is_there(client: &Client, path: &str) -> bool {
    client.sync("/").await.unwrap();
    client.exists(path).await.unwrap().is_some()
}

async fn until_gone(client: &Client, path: &str) {
    let is_gone = async || !is_there(client, path).await;
    assert!(until_so(PATIENCE, is_gone).await, "{path} stays");
}

/// A session with an ephemeral znode, which must outlive what is done to clocks.
struct Held {
    client: Client,
    session: SessionInfo,
    path: String,
}

impl Held {
    async fn by(client: Client, path: &str) -> Self {
        client.create(path, b"", CreateMode::Ephemeral).await.unwrap();
        Self { session: client.session(), client, path: path.to_owned() }
    }

    async fn goes_on(&self) {
        let found = self.client.exists(&self.path).await.unwrap();
        let stat = found.unwrap_or_else(|| panic!("{} has ended", self.path));
        assert_eq!(stat.ephemeral_owner, self.session.id);
        assert_eq!(self.client.session().id, self.session.id);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_wrong_clock_of_the_leader_moves_times_and_ends_no_session() {
    let Some(mut ensemble) = Ensemble::with_clocks() else { return };
    ensemble.start_all();
    let leader = ensemble.leader();
    let follower = leader % 3 + 1;
    let client = ensemble.connect(follower, SESSION).await;
    let held = Held::by(client.clone(), "/held").await;
    let near = Held::by(ensemble.connect(leader, SESSION).await, "/held-near").await;
    create_with_ttl(&client, "/ttl-30", 30).await;
    create_with_ttl(&client, "/ttl-120", 120).await;

    // The clock of a follower changes nothing.
    ensemble.set_clock(follower, HOUR_MS);
    assert_eq!(wrong_by_minutes(&client).await, 0);
    ensemble.set_clock(follower, 0);

    // As an operator looks for it.
    ensemble.set_clock(leader, HOUR_MS);
    well(&ensemble.zooletctl(&[follower], &["create", "/clock", "x"]));
    let shown = well(&ensemble.zooletctl(&[follower], &["stat", "/clock"]));
    let stat = client.exists("/clock").await.unwrap().unwrap();
    assert_eq!(minutes_ahead(&stat), 60, "{shown}");
    well(&ensemble.zooletctl(&[follower], &["delete", "/clock"]));
    assert_eq!(wrong_by_minutes(&client).await, 60);
    until_gone(&client, "/ttl-30").await;
    assert!(is_there(&client, "/ttl-120").await);
    create_with_ttl(&client, "/made-ahead", 30).await;

    // It is corrected while the server runs. What was made meanwhile lives an hour longer.
    ensemble.set_clock(leader, 0);
    assert_eq!(wrong_by_minutes(&client).await, 0);
    create_with_ttl(&client, "/made-right", 30).await;
    ensemble.set_clock(leader, 31 * MINUTE_MS);
    until_gone(&client, "/made-right").await;
    assert!(is_there(&client, "/made-ahead").await);
    ensemble.set_clock(leader, 91 * MINUTE_MS);
    until_gone(&client, "/made-ahead").await;
    assert!(is_there(&client, "/ttl-120").await);

    // One that is behind: writes go on, and the sessions of dead clients end.
    ensemble.set_clock(leader, -HOUR_MS);
    assert_eq!(wrong_by_minutes(&client).await, -60);
    let dead = Held::by(ensemble.connect(follower, Duration::from_secs(4)).await, "/dead").await;
    let _ = dead.client.detach().await;
    until_gone(&client, "/dead").await;
    near.goes_on().await;

    // A clock that cannot be corrected at once: another server leads.
    ensemble.stop(leader);
    assert_ne!(ensemble.leader(), leader);
    assert_eq!(wrong_by_minutes(&client).await, 0);
    assert!(is_there(&client, "/ttl-120").await);
    held.goes_on().await;
}

/// Writes through each server, and returns the ids of the sessions that did.
async fn write_everywhere(ensemble: &Ensemble) -> BTreeSet<i64> {
    let mut sessions = BTreeSet::new();
    for id in 1..=3 {
        let client = ensemble.connect(id, SESSION).await;
        client.create("/n-", b"", CreateMode::PersistentSequential).await.unwrap();
        sessions.insert(client.session().id.0);
    }
    sessions
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn servers_whose_clocks_were_set_back_before_a_start_go_on_writing() {
    let Some(mut ensemble) = Ensemble::with_clocks() else { return };
    for id in 1..=3 {
        ensemble.set_clock(id, DAY_MS);
    }
    ensemble.start_all();
    let mut sessions = write_everywhere(&ensemble).await;
    let boots: Vec<u64> = (1..=3).map(|id| ensemble.boot(id)).collect();
    for id in 1..=3 {
        ensemble.stop(id);
        ensemble.set_clock(id, 0);
    }
    ensemble.start_all();
    sessions.extend(write_everywhere(&ensemble).await);
    for (id, before) in (1..=3).zip(&boots) {
        assert!(ensemble.boot(id) > *before, "server {id}: {} after {before}", ensemble.boot(id));
    }

    // One that has lost the number of its last start, too.
    ensemble.stop(3);
    ensemble.empty(3);
    ensemble.set_clock(3, -DAY_MS);
    ensemble.start(3, &["--join"]);
    ensemble.until_serving(&[3]);
    sessions.extend(write_everywhere(&ensemble).await);
    assert!(ensemble.boot(3) > boots[2], "{} after {}", ensemble.boot(3), boots[2]);
    assert_eq!(sessions.len(), 9, "no session has the id of an earlier one");
}
