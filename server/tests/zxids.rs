//! Transaction numbers (protocol §13.1) when the lead changes, when a server begins from a snapshot,
//! and when it is sent one: the epoch is the leader's term, the counter goes on in it without a gap
//! and begins at one in the next, and all servers count alike.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::time::Duration;

use zoolet_client::{Client, ClientOptions, CreateMode};
use zoolet_server::embed::Ensemble;

/// The commands between two snapshots.
const SNAPSHOT_COMMANDS: u64 = 40;

async fn ensemble(servers: usize) -> Ensemble {
    let builder = Ensemble::builder().servers(servers).configure(|config| {
        config.snapshot.commands = SNAPSHOT_COMMANDS;
        // The smallest segments, so that the beginning of the log soon goes.
        config.log.segment_bytes = 1 << 16;
    });
    builder.start().await.unwrap()
}

async fn client(ensemble: &Ensemble, server: usize) -> Client {
    let address = ensemble.client_addr(server).unwrap().to_string();
    ClientOptions::new().session_timeout(Duration::from_secs(20)).connect(&address).await.unwrap()
}

/// Epoch and counter of a new znode.
async fn write(client: &Client, path: &str) -> (i64, i64) {
    client.create(path, b"", CreateMode::Persistent).await.unwrap();
    let zxid = client.exists(path).await.unwrap().unwrap().czxid.0;
    (zxid >> 32, zxid & 0xffff_ffff)
}

/// All servers have given the znode the same number.
async fn agree(ensemble: &Ensemble, path: &str, expected: (i64, i64)) {
    for server in 0..ensemble.len() {
        let reader = client(ensemble, server).await;
        reader.sync("/").await.unwrap();
        let zxid = reader.exists(path).await.unwrap().unwrap().czxid.0;
        assert_eq!((zxid >> 32, zxid & 0xffff_ffff), expected, "server {server}, {path}");
        reader.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_new_leader_begins_an_epoch_and_nothing_else_does() {
    let mut ensemble = ensemble(3).await;
    let mut before = (0, 0);
    for round in 0..4 {
        let leader = ensemble.leader().unwrap();
        let writer = client(&ensemble, (leader + round) % 3).await;
        let first = write(&writer, &format!("/first{round}")).await;
        let second = write(&writer, &format!("/second{round}")).await;
        assert!(first.0 > before.0, "round {round}: {first:?} after {before:?}");
        assert!(first.1 < 30, "the counter begins anew: {first:?}");
        assert_eq!(second, (first.0, first.1 + 1), "round {round}");
        agree(&ensemble, &format!("/first{round}"), first).await;
        before = second;
        writer.close().await.unwrap();
        ensemble.stop(leader).await.unwrap();
        ensemble.wait_ready().await.unwrap();
        ensemble.restart(leader).await.unwrap();
        ensemble.wait_ready().await.unwrap();
    }
    ensemble.shutdown().await;
}

#[tokio::test]
async fn a_server_that_begins_from_a_snapshot_counts_on() {
    let mut ensemble = ensemble(1).await;
    let mut before = (0, 0);
    for round in 0..3 {
        let writer = client(&ensemble, 0).await;
        let mut last = write(&writer, &format!("/{round}")).await;
        assert!(last.0 > before.0, "round {round}: {last:?} after {before:?}");
        for number in 1..=SNAPSHOT_COMMANDS * 2 {
            let next = write(&writer, &format!("/{round}-{number}")).await;
            assert_eq!(next, (last.0, last.1 + 1), "round {round}, write {number}");
            last = next;
        }
        before = last;
        writer.close().await.unwrap();
        ensemble.kill(0).unwrap();
        ensemble.restart(0).await.unwrap();
        ensemble.wait_ready().await.unwrap();
        agree(&ensemble, &format!("/{round}-{}", SNAPSHOT_COMMANDS * 2), before).await;
    }
    ensemble.shutdown().await;
}

#[tokio::test]
async fn a_server_that_is_sent_a_snapshot_counts_on_and_can_lead() {
    let mut ensemble = ensemble(3).await;
    let leader = ensemble.leader().unwrap();
    let away = (leader + 1) % 3;
    ensemble.kill(away).unwrap();
    let writer = client(&ensemble, leader).await;
    let mut last = (0, 0);
    // More snapshots than are kept, so that the beginning of the log is purged.
    for number in 0..SNAPSHOT_COMMANDS * 8 {
        last = write(&writer, &format!("/{number}")).await;
        if number % SNAPSHOT_COMMANDS == 0 {
            // Snapshots are looked for a few times in a second.
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }
    let last_path = format!("/{}", SNAPSHOT_COMMANDS * 8 - 1);
    ensemble.restart(away).await.unwrap();
    ensemble.wait_ready().await.unwrap();
    agree(&ensemble, &last_path, last).await;
    writer.close().await.unwrap();
    // The leader hands over to a server that answers. Where it leads already, nothing is to be done.
    let leader = ensemble.leader().unwrap();
    if leader != away {
        let other = 3 - leader - away;
        ensemble.pause(other).unwrap();
        ensemble.stop(leader).await.unwrap();
        ensemble.resume(other).unwrap();
        ensemble.restart(leader).await.unwrap();
        ensemble.wait_ready().await.unwrap();
    }
    assert_eq!(ensemble.leader(), Some(away));
    let writer = client(&ensemble, away).await;
    let first = write(&writer, "/first").await;
    assert!(first.0 > last.0, "{first:?} after {last:?}");
    let second = write(&writer, "/second").await;
    assert_eq!(second, (first.0, first.1 + 1));
    agree(&ensemble, "/first", first).await;
    ensemble.shutdown().await;
}
