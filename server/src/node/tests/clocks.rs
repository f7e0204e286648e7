//! Servers whose wall clocks differ, or were set back.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zoolet_client::{Acl, Client, CreateMode};
use zoolet_storage::{Disk, MemoryDisk};

use super::{Ensemble, PATIENCE, exists};
use crate::clock::Clock;

const HOUR_MS: i64 = 3_600_000;
const HALF_AN_HOUR: Duration = Duration::from_mins(30);

async fn create_ttl(client: &Client, path: &str, ttl: Duration) -> i64 {
    let mode = CreateMode::PersistentWithTtl;
    let created = client.create_with_ttl(path, b"", Acl::open(), mode, ttl);
    timeout(PATIENCE, created).await.expect("a create").unwrap().1.mtime
}

async fn gone(client: &Client, path: &str) {
    let gone = async {
        while exists(client, path).await {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, gone).await.unwrap_or_else(|_| panic!("{path} is not deleted"));
}

/// A znode to live for 30 minutes, created through a follower whose clock was one hour behind, was
/// deleted after 3 s: the leader's clock judged what the follower's had written. One that was
/// created through a follower an hour ahead lived for an hour longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_to_live_is_judged_by_the_leaders_clock_alone() {
    let ensemble = Ensemble::start(3, 0, |_| {}).await;
    let leader = ensemble.leader().await;
    let follower = (leader + 1) % 3;
    let client = ensemble.client(follower).await;
    for ahead_ms in [-HOUR_MS, HOUR_MS] {
        ensemble.servers[follower].clock.set(ahead_ms);
        let long = format!("/long{ahead_ms}");
        let short = format!("/short{ahead_ms}");
        let written_ms = create_ttl(&client, &long, HALF_AN_HOUR).await;
        let now_ms = ensemble.servers[leader].clock.now().wall_ms;
        assert!((now_ms - written_ms).abs() < HOUR_MS / 2, "written by the follower's clock");
        create_ttl(&client, &short, Duration::from_millis(300)).await;
        gone(&client, &short).await;
        assert!(exists(&client, &long).await, "{long} was deleted early");
    }
}

/// What a leader change with skewed clocks does, as in Apache ZooKeeper: the new leader's clock
/// judges what the old one's has written. An hour ahead, it takes an hour away from the time to
/// live; an hour behind, it adds one, until the clock is set right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_change_moves_times_to_live_by_the_difference_of_the_clocks() {
    for ahead_ms in [-HOUR_MS, HOUR_MS] {
        let mut ensemble = Ensemble::start(3, 0, |_| {}).await;
        let old = ensemble.leader().await;
        let client = ensemble.client(old).await;
        create_ttl(&client, "/minutes", HALF_AN_HOUR).await;
        create_ttl(&client, "/hours", 4 * HALF_AN_HOUR + Duration::from_mins(1)).await;
        create_ttl(&client, "/moment", Duration::from_secs(30)).await;
        for at in (0..3).filter(|at| *at != old) {
            ensemble.servers[at].clock.set(ahead_ms);
        }
        ensemble.stop(old).await;
        let new = ensemble.leader().await;
        let client = ensemble.client(new).await;
        create_ttl(&client, "/short", Duration::from_millis(300)).await;
        gone(&client, "/short").await;
        assert!(exists(&client, "/hours").await);
        if ahead_ms > 0 {
            gone(&client, "/moment").await;
            gone(&client, "/minutes").await;
        } else {
            assert!(exists(&client, "/moment").await && exists(&client, "/minutes").await);
            let later_ms = i64::try_from(HALF_AN_HOUR.as_millis()).unwrap() + 60_000;
            ensemble.servers[new].clock.set(later_ms);
            gone(&client, "/moment").await;
            gone(&client, "/minutes").await;
            assert!(exists(&client, "/hours").await);
        }
    }
}

/// The number of a start came from the clock. With the clock set back and the disk replaced it was
/// lower than the one before: every batch was dropped by the fence, and the server believed them
/// applied. No handshake was answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_serves_after_its_clock_was_set_back_and_its_disk_replaced() {
    let mut ensemble = Ensemble::start(3, HOUR_MS, |_| {}).await;
    let leader = ensemble.leader().await;
    let server = (leader + 1) % 3;
    let before = ensemble.client(server).await;
    before.create("/before", b"", CreateMode::Persistent).await.unwrap();
    ensemble.stop(server).await;
    ensemble.servers[server].disk = MemoryDisk::default();
    ensemble.servers[server].clock.set(0);
    ensemble.launch(server).await;
    ensemble.leader().await;
    let after = ensemble.client(server).await;
    assert!(exists(&after, "/before").await);
    let created = after.create("/after", b"", CreateMode::Persistent);
    timeout(PATIENCE, created).await.expect("a write").unwrap();
}

/// The same on a leader: it ended no session and reaped nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_number_was_set_back_ends_sessions() {
    let mut ensemble = Ensemble::start(1, HOUR_MS, |_| {}).await;
    let before = ensemble.client(0).await;
    before.create("/mine", b"", CreateMode::Ephemeral).await.unwrap();
    create_ttl(&before, "/ttl", Duration::from_millis(100)).await;
    ensemble.stop(0).await;
    drop(before);
    let boot = ensemble.servers[0].config.data_dir.join("boot");
    ensemble.servers[0].disk.remove(&boot).unwrap();
    ensemble.servers[0].clock.set(-HOUR_MS);
    ensemble.launch(0).await;
    ensemble.leader().await;
    let after = ensemble.client(0).await;
    gone(&after, "/mine").await;
    ensemble.servers[0].clock.set(2 * HOUR_MS);
    gone(&after, "/ttl").await;
}
