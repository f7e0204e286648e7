//! Servers whose disks are replaced, as plain processes: what was acknowledged is there, and no two
//! histories are served (`docs/decisions/0004-empty-disk.md`).

use std::fs;
use std::time::Duration;

use tokio::task::block_in_place;
use tokio::time::{Instant, sleep};
use zoolet_client::{Client, CreateMode};
use zoolet_tests::faults::{connect, convergence};
use zoolet_tests::four_letter;
use zoolet_tests::servers::{LEADER_MAX, Servers};

/// Longer than several elections, and than an ensemble takes to be founded.
const WATCHED: Duration = Duration::from_secs(6);

fn started() -> (Servers, usize, usize, usize) {
    let servers = Servers::zoolet().servers(3).start().unwrap();
    let leader = servers.wait_for_leader(LEADER_MAX).unwrap();
    (servers, leader, (leader + 1) % 3, (leader + 2) % 3)
}

fn serves(servers: &Servers, index: usize) -> bool {
    let mode = four_letter::mode(servers.client_address(index).unwrap());
    matches!(mode.as_deref(), Some("leader" | "follower"))
}

async fn none_serves(servers: &Servers, indexes: &[usize], limit: Duration) {
    let until = Instant::now() + limit;
    while Instant::now() < until {
        for &index in indexes {
            let output = || servers.output(index).unwrap();
            assert!(!block_in_place(|| serves(servers, index)), "{index}: {}", output());
        }
        sleep(Duration::from_millis(50)).await;
    }
}

async fn until_one_serves(servers: &Servers, index: usize) {
    let until = Instant::now() + LEADER_MAX * 2;
    while !block_in_place(|| serves(servers, index)) {
        assert!(Instant::now() < until, "{}", servers.output(index).unwrap());
        sleep(Duration::from_millis(50)).await;
    }
}

/// Gives a killed server an empty disk.
fn replace_disk(servers: &Servers, index: usize) {
    let data = servers.server_dir(index).join("data");
    fs::remove_dir_all(&data).unwrap();
    fs::create_dir(&data).unwrap();
    fs::write(data.join("myid"), format!("{}\n", index + 1)).unwrap();
}

async fn write(client: &Client, prefix: &str, count: usize) {
    for number in 0..count {
        client.create(&format!("/{prefix}-{number}"), b"", CreateMode::Persistent).await.unwrap();
    }
}

async fn all_there(servers: &Servers, prefix: &str, count: usize) {
    let addresses: Vec<_> = (0..3).map(|index| servers.client_address(index).unwrap()).collect();
    convergence::all(&addresses).await.unwrap();
    let client = connect(&servers.connect_string()).await.unwrap();
    for number in 0..count {
        let path = format!("/{prefix}-{number}");
        assert!(client.exists(&path).await.unwrap().is_some(), "{path} is gone");
    }
    client.close().await.unwrap();
}

/// The leader was stopped, the others acknowledged writes under another one; one of these went
/// down, the other lost its disk, and the old leader went on: the empty server acknowledged
/// whatever the old leader sent it, and the writes were gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writes_outlive_a_stopped_leader_and_a_replaced_disk() {
    let (mut servers, leader, poor, third) = block_in_place(started);
    servers.signal(leader, "STOP").unwrap();
    until_one_serves(&servers, third).await;
    let address = servers.client_address(third).unwrap().to_string();
    let client = connect(&address).await.unwrap();
    write(&client, "kept", 20).await;
    client.close().await.unwrap();
    servers.kill(third).unwrap();
    servers.kill(poor).unwrap();
    replace_disk(&servers, poor);
    block_in_place(|| servers.spawn(poor)).unwrap();
    servers.signal(leader, "CONT").unwrap();
    // The old leader may believe for a moment that it still leads.
    sleep(Duration::from_secs(2)).await;
    none_serves(&servers, &[poor, leader], WATCHED).await;
    let waits_for = (third + 1).to_string();
    servers.until_logged(poor, &["not part of the ensemble", &waits_for]).unwrap();
    block_in_place(|| servers.spawn(third)).unwrap();
    for index in 0..3 {
        until_one_serves(&servers, index).await;
    }
    all_there(&servers, "kept", 20).await;
}

/// Two servers lost their disks and founded another ensemble, and the third one became its leader
/// with the data of the first: all three served different trees.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_second_founding_does_not_mix_with_the_first() {
    let (mut servers, _, _, _) = block_in_place(started);
    let client = connect(&servers.connect_string()).await.unwrap();
    write(&client, "first", 5).await;
    client.close().await.unwrap();
    for index in 0..3 {
        servers.kill(index).unwrap();
    }
    for index in [0, 1] {
        replace_disk(&servers, index);
    }
    block_in_place(|| {
        servers.spawn(0).unwrap();
        servers.spawn(1).unwrap();
    });
    until_one_serves(&servers, 0).await;
    until_one_serves(&servers, 1).await;
    block_in_place(|| servers.spawn(2)).unwrap();
    none_serves(&servers, &[2], WATCHED).await;
    servers.until_logged(2, &["founding"]).unwrap();
    let address = servers.client_address(1).unwrap().to_string();
    let client = connect(&address).await.unwrap();
    write(&client, "second", 5).await;
    assert!(client.exists("/first-0").await.unwrap().is_none());
    client.close().await.unwrap();
    // Emptied, it joins the others.
    servers.kill(2).unwrap();
    replace_disk(&servers, 2);
    block_in_place(|| servers.spawn(2)).unwrap();
    until_one_serves(&servers, 2).await;
    all_there(&servers, "second", 5).await;
}

/// Every server in turn gets an empty disk under load, and the ensemble can lose any other one
/// afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn disks_are_replaced_one_after_the_other() {
    let (mut servers, _, _, _) = block_in_place(started);
    let client = connect(&servers.connect_string()).await.unwrap();
    for index in 0..3 {
        write(&client, &format!("round-{index}"), 10).await;
        servers.kill(index).unwrap();
        replace_disk(&servers, index);
        block_in_place(|| servers.spawn(index)).unwrap();
        until_one_serves(&servers, index).await;
    }
    client.close().await.unwrap();
    for index in 0..3 {
        all_there(&servers, &format!("round-{index}"), 10).await;
    }
}
