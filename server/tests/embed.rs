//! An ensemble inside this process: killed, paused, restarted.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use tokio::time::Instant;
use zoolet_client::{Client, ClientOptions, CreateMode, ErrorCode};
use zoolet_server::embed::{EmbedError, Ensemble};

async fn client(ensemble: &Ensemble) -> Client {
    ClientOptions::new()
        .session_timeout(Duration::from_secs(20))
        .connect(&ensemble.connect_string())
        .await
        .unwrap()
}

#[tokio::test]
async fn one_server_in_memory_keeps_what_it_has_through_a_kill() {
    let mut ensemble = Ensemble::builder().start().await.unwrap();
    let first = client(&ensemble).await;
    first.create("/kept", b"data", CreateMode::Persistent).await.unwrap();
    ensemble.kill(0).unwrap();
    assert!(matches!(ensemble.kill(0), Err(EmbedError::WrongState { server: 0, is: "stopped" })));
    ensemble.restart(0).await.unwrap();
    ensemble.wait_ready().await.unwrap();
    let (data, _) = client(&ensemble).await.get("/kept").await.unwrap();
    assert_eq!(data.as_ref(), b"data");
    ensemble.shutdown().await;
}

#[tokio::test]
async fn a_session_outlives_the_leader_that_it_was_on() {
    let mut ensemble = Ensemble::builder().servers(3).start().await.unwrap();
    let leader = ensemble.leader().unwrap();
    let address = ensemble.client_addr(leader).unwrap().to_string();
    let all = ensemble.connect_string();
    let first = Client::connect(&address).await.unwrap();
    first.create("/mine", b"", CreateMode::Ephemeral).await.unwrap();
    let session = first.session();
    ensemble.kill(leader).unwrap();
    ensemble.wait_ready().await.unwrap();
    assert_ne!(ensemble.leader(), Some(leader));

    let second = ClientOptions::new().resume(session.clone()).connect(&all).await.unwrap();
    assert_eq!(second.session().id, session.id);
    let stat = second.exists("/mine").await.unwrap().unwrap();
    assert_eq!(stat.ephemeral_owner, session.id);
    // The first client would take its session back once its server runs again.
    second.close().await.unwrap();
    ensemble.restart(leader).await.unwrap();
    ensemble.wait_ready().await.unwrap();
    ensemble.shutdown().await;
}

#[tokio::test]
async fn a_paused_leader_is_replaced_and_follows_when_it_goes_on() {
    let mut ensemble = Ensemble::builder().servers(3).start().await.unwrap();
    let old = ensemble.leader().unwrap();
    ensemble.pause(old).unwrap();
    ensemble.wait_ready().await.unwrap();
    let new = ensemble.leader().unwrap();
    assert_ne!(new, old);
    let address = ensemble.client_addr(new).unwrap().to_string();
    let writer = Client::connect(&address).await.unwrap();
    writer.create("/while-paused", b"", CreateMode::Persistent).await.unwrap();

    ensemble.resume(old).unwrap();
    let address = ensemble.client_addr(old).unwrap().to_string();
    let reader = Client::connect(&address).await.unwrap();
    reader.sync("/").await.unwrap();
    assert!(reader.exists("/while-paused").await.unwrap().is_some());
    ensemble.shutdown().await;
}

/// One of the others took itself for a server that had lost its data, was being rebuilt by the
/// leader, and had no vote to give when that one was gone.
#[tokio::test]
async fn an_ensemble_that_has_started_can_lose_its_leader_at_once() {
    let trials = (0..6).map(|_| async {
        let mut ensemble = Ensemble::builder().servers(3).start().await.unwrap();
        let leader = ensemble.leader().unwrap();
        ensemble.kill(leader).unwrap();
        ensemble.wait_ready().await.unwrap();
        ensemble.shutdown().await;
    });
    futures_util::future::join_all(trials).await;
}

/// A write that was too long for a message between servers stopped the commit of all
/// writes, and the leader kept its lead.
#[tokio::test]
async fn a_write_too_long_for_the_log_is_refused_and_others_go_on() {
    let builder = Ensemble::builder().servers(3).configure(|config| {
        config.limits.frame_bytes_max = 8 << 20;
        // The first server is more generous than the others.
        let is_first = config.server_id.0 == 1;
        config.limits.peer_frame_bytes_max = if is_first { 4 << 20 } else { 1 << 20 };
    });
    let ensemble = builder.start().await.unwrap();
    let mut clients = Vec::new();
    for server in 0..3 {
        let address = ensemble.client_addr(server).unwrap().to_string();
        let options = ClientOptions::new().request_bytes_max(8 << 20);
        clients.push(options.connect(&address).await.unwrap());
    }
    let persistent = CreateMode::Persistent;
    for (number, bytes) in [(0, 5 << 20), (1, 2 << 20), (2, 2 << 20)] {
        let long = vec![7; bytes];
        let refused = clients[number].create("/long", &long, persistent).await.unwrap_err();
        assert_eq!(refused.code(), Some(ErrorCode::BadArguments), "client {number}");
    }
    let long = vec![7; 2 << 20];
    clients[0].create("/long", &long, persistent).await.unwrap();
    for (number, client) in clients.iter().enumerate() {
        client.create(&format!("/short{number}"), b"", persistent).await.unwrap();
        client.sync("/").await.unwrap();
        assert_eq!(client.get("/long").await.unwrap().0, long, "client {number}");
    }
    ensemble.shutdown().await;
}

#[tokio::test]
async fn a_directory_is_used_again_by_the_next_ensemble() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let builder = Ensemble::builder().servers(1).directory(directory.path());
        let ensemble = builder.start().await.unwrap();
        let client = client(&ensemble).await;
        let (children, _) = client.children("/").await.unwrap();
        assert_eq!(children.len(), round + 1, "{children:?}");
        client.create("/round-", b"", CreateMode::PersistentSequential).await.unwrap();
        client.close().await.unwrap();
        ensemble.shutdown().await;
    }
}

#[tokio::test]
async fn there_is_no_server_behind_the_last_one() {
    let mut ensemble = Ensemble::builder().start().await.unwrap();
    assert!(matches!(ensemble.kill(1), Err(EmbedError::NoServer { server: 1, servers: 1 })));
    ensemble.shutdown().await;
}

#[tokio::test]
async fn a_list_of_children_too_long_to_be_sent_ends_the_connection_and_not_the_server() {
    let ensemble = Ensemble::builder()
        .configure(|config| config.limits.outbox_bytes_max = 1 << 20)
        .start()
        .await
        .unwrap();
    let client = client(&ensemble).await;
    for index in 0..18 {
        let path = format!("/{index}{}", "x".repeat(1_000_000));
        client.create(&path, b"", CreateMode::Persistent).await.unwrap();
    }
    assert!(client.children("/").await.is_err());
    // The session goes on, on a new connection.
    client.get("/zookeeper").await.unwrap();
    ensemble.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ensembles_that_start_at_the_same_time_do_not_take_each_others_ports() {
    let starting: Vec<_> =
        (0..6).map(|_| tokio::spawn(Ensemble::builder().servers(2).start())).collect();
    let mut ensembles = Vec::new();
    for started in starting {
        ensembles.push(started.await.unwrap().unwrap());
    }
    // A server that is down keeps its port.
    for ensemble in &mut ensembles {
        ensemble.kill(0).unwrap();
    }
    let another = Ensemble::builder().servers(3).start().await.unwrap();
    for ensemble in &mut ensembles {
        ensemble.restart(0).await.unwrap();
    }
    for ensemble in ensembles.into_iter().chain([another]) {
        ensemble.wait_ready().await.unwrap();
        ensemble.shutdown().await;
    }
}

#[tokio::test]
async fn bytes_of_log_make_a_snapshot_and_the_log_can_be_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let log_dir = log.clone();
    let ensemble = Ensemble::builder()
        .directory(directory.path())
        .configure(move |config| {
            config.snapshot.log_bytes = 100_000;
            config.data_log_dir.clone_from(&log_dir);
        })
        .start()
        .await
        .unwrap();
    let files = |path: &str| {
        let path = directory.path().join(path);
        std::fs::read_dir(path).map_or(0, Iterator::count)
    };
    let client = client(&ensemble).await;
    client.create("/first", &vec![1; 50_000], CreateMode::Persistent).await.unwrap();
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(files("1/snapshots"), 0, "too early");
    client.create("/second", &vec![1; 60_000], CreateMode::Persistent).await.unwrap();
    let start = Instant::now();
    while files("1/snapshots") == 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "no snapshot");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(files("log/wal") > 0 && files("1/wal") == 0);
    client.close().await.unwrap();
    ensemble.shutdown().await;
}

#[tokio::test]
async fn a_leader_that_is_cut_off_is_replaced_and_follows_when_it_is_healed() {
    let mut ensemble = Ensemble::builder().servers(3).start().await.unwrap();
    let old = ensemble.leader().unwrap();
    ensemble.cut(old).unwrap();
    let replaced = async {
        while ensemble.leader().is_none_or(|leader| leader == old) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), replaced).await.unwrap();
    let address = ensemble.client_addr(ensemble.leader().unwrap()).unwrap().to_string();
    let writer = Client::connect(&address).await.unwrap();
    writer.create("/while-cut", b"", CreateMode::Persistent).await.unwrap();

    ensemble.heal(old).unwrap();
    ensemble.wait_ready().await.unwrap();
    let address = ensemble.client_addr(old).unwrap().to_string();
    let reader = Client::connect(&address).await.unwrap();
    reader.sync("/").await.unwrap();
    assert!(reader.exists("/while-cut").await.unwrap().is_some());
    ensemble.kill(old).unwrap();
    let refused = ensemble.cut(old);
    assert!(matches!(refused, Err(EmbedError::WrongState { is: "stopped", .. })), "{refused:?}");
    ensemble.shutdown().await;
}

#[tokio::test]
async fn a_session_can_be_expired_while_its_client_is_alive() {
    let ensemble = Ensemble::builder().servers(3).start().await.unwrap();
    let watching = client(&ensemble).await;
    let first = client(&ensemble).await;
    first.create("/mine", b"", CreateMode::Ephemeral).await.unwrap();
    let session = first.session().id;
    assert!(!ensemble.expire_session(session.0 ^ 0xff), "an unknown session");
    assert!(ensemble.expire_session(session.0));
    let gone = async {
        while watching.exists("/mine").await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    // Its timeout is longer, and its client sends pings.
    tokio::time::timeout(Duration::from_secs(10), gone).await.unwrap();
    let error = loop {
        match first.exists("/mine").await {
            Err(error) if error.ends_session() => break error,
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    assert!(error.to_string().contains("expired"), "{error}");
    ensemble.shutdown().await;
}
