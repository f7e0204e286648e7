//! All servers are killed at the same moment, under load, and started again (issue 2, §7.4):
//! everything that was acknowledged is there.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use zoolet_client::{Client, ClientOptions, CreateMode, Error};
use zoolet_tests::tools::announce;
use zoolet_tests::zoolet::Zoolet;

const SERVERS: usize = 3;
const WRITERS: usize = 3;
const ROUNDS: usize = 6;

async fn connect(servers: &str) -> Client {
    let options = ClientOptions::new().session_timeout(Duration::from_secs(30));
    options.connect_timeout(Duration::from_mins(1)).connect(servers).await.unwrap()
}

/// Creates znodes until the first call that is not answered; answers the paths that were.
async fn write_until_lost(client: Client, prefix: String) -> (Vec<String>, Error) {
    let mut acknowledged = Vec::new();
    loop {
        match client.create(&prefix, b"kept", CreateMode::PersistentSequential).await {
            Ok((path, _)) => acknowledged.push(path),
            Err(error) => return (acknowledged, error),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_the_death_of_all_servers_at_once() {
    let mut servers = Zoolet::builder().servers(SERVERS).start().unwrap();
    let connect_string = servers.connect_string();
    let mut acknowledged: Vec<String> = Vec::new();
    for round in 0..ROUNDS {
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            let client = connect(&connect_string).await;
            let prefix = format!("/round-{round}-writer-{writer}-");
            writers.push(tokio::spawn(write_until_lost(client, prefix)));
        }
        // Later rounds run longer, so that the kill finds the log in other places.
        tokio::time::sleep(Duration::from_millis(200 + 150 * round as u64)).await;
        for server in 0..SERVERS {
            servers.kill(server).unwrap();
        }
        for writer in writers {
            let (paths, error) = writer.await.unwrap();
            assert!(error.may_have_happened(), "{error}");
            assert!(!paths.is_empty(), "a writer of round {round} wrote nothing");
            acknowledged.extend(paths);
        }
        for server in 0..SERVERS {
            servers.spawn(server).unwrap();
        }
        for server in 0..SERVERS {
            tokio::task::block_in_place(|| servers.wait_until_serving(server)).unwrap();
        }
        let reader = connect(&connect_string).await;
        reader.sync("/").await.unwrap();
        for path in &acknowledged {
            let stat = reader.exists(path).await.unwrap();
            assert!(stat.is_some(), "round {round}: {path} was acknowledged and is gone");
        }
        reader.close().await.unwrap();
    }
    announce(&format!(
        "all killed: {ROUNDS} deaths of all {SERVERS} servers, {} acknowledged writes all there",
        acknowledged.len()
    ));
}
