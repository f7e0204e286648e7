//! How often and where a client tries again, and what it tells a new connection.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use zoolet_client::{ErrorKind, SessionState, Version};
use zoolet_jute::{ErrorCode, Reply, Request, Xid};

use crate::script::{SERVERS, Servers, TIMEOUT};

/// When a client that is dropped at once on every connection comes back, over a minute.
async fn arrivals(seed: u64) -> Vec<Duration> {
    let mut servers = Servers::new();
    let options = servers.options().seed(seed);
    let (_client, connection) = servers.start(options).await;
    drop(connection);
    let began_at = Instant::now();
    let mut arrivals = Vec::new();
    while began_at.elapsed() < Duration::from_mins(1) {
        drop(servers.serve().await);
        arrivals.push(began_at.elapsed());
    }
    arrivals
}

#[tokio::test(start_paused = true)]
async fn clients_that_are_dropped_again_and_again_come_back_slowly_and_not_together() {
    let one = arrivals(1).await;
    let other = arrivals(2).await;
    assert!(one.len() < 400, "{} connections in a minute", one.len());
    let last = one.len() - 1;
    assert!(one[last] >= one[last - 3] + TIMEOUT / 8, "the waits grow");
    assert!(one.len() > 100, "and stay below the session timeout: {}", one.len());
    let shared = one.iter().filter(|at| other.contains(at)).count();
    assert!(shared < one.len() / 10, "{shared} of {} at the same moment", one.len());
}

#[tokio::test(start_paused = true)]
async fn every_server_is_tried_before_any_is_tried_again() {
    let mut servers = Servers::new();
    let (_client, connection) = servers.client().await;
    let mut addresses = vec![connection.address.clone()];
    drop(connection);
    for _ in 0..5 {
        let connection = servers.accept().await;
        addresses.push(connection.address.clone());
    }
    for round in addresses.chunks(3) {
        let mut round = round.to_vec();
        round.sort();
        assert_eq!(round, ["one:1", "three:3", "two:2"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_connection_without_an_answer_fails_in_time() {
    let servers = Servers::new();
    servers.network.down.store(true, Ordering::Relaxed);
    let (began_at, limit) = (Instant::now(), Duration::from_secs(3));
    let error = servers.options().connect_timeout(limit).connect(SERVERS).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Timeout(3000));
    assert!(began_at.elapsed() < limit + Duration::from_millis(5));
}

#[tokio::test(start_paused = true)]
async fn identities_are_sent_on_every_connection_and_a_lost_answer_is_waited_for() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let auth = client.add_auth("digest", b"alice:secret");
    let (xid, request) = connection.request().await;
    assert!(matches!(request, Request::Auth(_)) && xid == Xid::AUTH);
    drop(connection);
    let mut connection = servers.serve().await;
    assert_eq!(connection.request().await, (Xid::AUTH, request.clone()));
    connection.answer(Xid::AUTH, Ok(Reply::Empty)).await;
    auth.await.unwrap();

    // The same once more is asked once more, and sent on the next connection once.
    let again = client.add_auth("digest", b"alice:secret");
    assert_eq!(connection.request().await, (Xid::AUTH, request.clone()));
    connection.answer(Xid::AUTH, Ok(Reply::Empty)).await;
    again.await.unwrap();
    drop(connection);
    let mut connection = servers.serve().await;
    assert_eq!(connection.request().await, (Xid::AUTH, request));
    assert!(connection.silent_for(TIMEOUT / 4).await);
}

#[tokio::test(start_paused = true)]
async fn refused_credentials_end_the_session() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let pending = client.exists("/a");
    connection.request().await;
    // It is unknown whether the server has carried it out.
    let write = client.delete("/a", Version::Any);
    connection.request().await;
    let auth = client.add_auth("digest", b"nonsense");
    connection.request().await;
    connection.answer(Xid::AUTH, Err(ErrorCode::AuthFailed)).await;
    for error in [auth.await.unwrap_err(), pending.await.unwrap_err()] {
        assert_eq!(error.kind(), &ErrorKind::AuthFailed);
        assert!(error.ends_session());
    }
    let error = write.await.unwrap_err();
    assert!(error.kind() == &ErrorKind::AuthFailed && error.may_have_happened());
    let unsent = client.delete("/a", Version::Any).await.unwrap_err();
    assert!(unsent.kind() == &ErrorKind::AuthFailed && !unsent.may_have_happened());
    assert_eq!(*client.state().borrow(), SessionState::AuthFailed);
    assert_eq!(client.exists("/a").await.unwrap_err().kind(), &ErrorKind::AuthFailed);
}

/// "No server answered within 3000 ms" did not say what was wrong with which.
#[tokio::test(start_paused = true)]
async fn a_connect_error_names_each_server_and_what_is_wrong_with_it() {
    let mut servers = Servers::new();
    servers.network.down.store(true, Ordering::Relaxed);
    let options = servers.options().connect_timeout(Duration::from_secs(3));
    let error = options.clone().connect(SERVERS).await.unwrap_err().to_string();
    for server in SERVERS.split(',') {
        assert!(error.contains(&format!("{server}: nothing listens")), "{error}");
    }
    servers.network.down.store(false, Ordering::Relaxed);
    let script = async {
        let silent = servers.accept().await;
        sleep(Duration::from_secs(9)).await;
        drop(silent);
    };
    let (error, ()) = tokio::join!(options.connect("silent:1"), script);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("silent:1: "), "{error}");
}

/// All clients of a server that goes came to the next one in the same moment.
#[tokio::test(start_paused = true)]
async fn the_first_reconnect_comes_at_once_but_not_with_all_others() {
    let mut waits = std::collections::BTreeSet::new();
    for seed in 1..=20 {
        let mut servers = Servers::new();
        let began_at = Instant::now();
        let options = servers.options().seed(seed);
        let (_client, connection) = servers.start(options).await;
        assert_eq!(began_at.elapsed(), Duration::ZERO, "the first connection does not wait");
        sleep(TIMEOUT / 4).await;
        let dropped_at = Instant::now();
        drop(connection);
        servers.serve().await;
        let wait = dropped_at.elapsed();
        assert!(wait <= TIMEOUT / 30, "{wait:?}");
        waits.insert(wait);
    }
    assert!(waits.len() >= 15, "{waits:?}");
    assert!(*waits.last().unwrap() >= TIMEOUT / 80, "{waits:?}");
}

/// One name had two addresses. The first one was dead, and the client never came to the second.
#[tokio::test(start_paused = true)]
async fn a_dead_address_of_a_name_does_not_block_the_others() {
    for seed in 1..=6 {
        let mut servers = Servers::new();
        let all = ["dead:1", "dead:2", "alive:3"].map(str::to_owned).to_vec();
        servers.network.addresses.lock().unwrap().insert("name:1".to_owned(), all);
        let options = servers.options().seed(seed);
        let mut silent = Vec::new();
        let script = async {
            loop {
                let mut connection = servers.accept().await;
                if connection.address == "alive:3" {
                    connection.hello().await;
                    connection.grant().await;
                    return connection;
                }
                silent.push(connection);
            }
        };
        let (client, connection) =
            tokio::join!(options.connect("name:1"), timeout(TIMEOUT * 3, script));
        let (client, connection) = (client.unwrap(), connection.unwrap());
        // What was dead is not tried first the next time.
        drop(connection);
        let connection = servers.accept().await;
        let was_dead = silent.iter().any(|dead| dead.address == connection.address);
        assert!(!was_dead, "{}", connection.address);
        drop(client);
    }
}

/// Twenty addresses had a twentieth of the session timeout each, which was too little for the one
/// that is there: a connection to it takes a while, and so does its answer.
#[tokio::test(start_paused = true)]
async fn a_slow_address_is_reached_behind_many_dead_ones_of_its_name() {
    for names in ["name:1", "name:1,other:1,another:1"] {
        let mut servers = Servers::new();
        let mut all: Vec<String> = (0..19).map(|place| format!("dead:{place}")).collect();
        servers.network.lost.lock().unwrap().extend(all.iter().cloned());
        servers.network.lost.lock().unwrap().extend(["other:1", "another:1"].map(str::to_owned));
        all.push("slow:1".to_owned());
        servers.network.addresses.lock().unwrap().insert("name:1".to_owned(), all);
        servers.network.delay_ms.store(900, Ordering::Relaxed);
        let options = servers.options().connect_timeout(TIMEOUT * 2);
        let script = async {
            let mut kept = Vec::new();
            loop {
                let mut connection = servers.accept().await;
                connection.hello().await;
                sleep(Duration::from_millis(900)).await;
                connection.grant().await;
                kept.push(connection);
            }
        };
        let client = tokio::select! {
            client = options.connect(names) => client,
            () = script => unreachable!("it goes on for ever"),
        };
        assert!(client.is_ok(), "{names}: {:?}", client.err());
    }
}

/// Each address had the share of a whole server, one after the other, and the next server's turn
/// came when the session was over.
#[tokio::test(start_paused = true)]
async fn silent_addresses_of_one_name_leave_time_for_the_next() {
    for seed in 0..8 {
        let mut servers = Servers::new();
        let silent: Vec<String> = (0..4).map(|place| format!("silent:{place}")).collect();
        servers.network.addresses.lock().unwrap().insert("name:1".to_owned(), silent);
        let options = servers.options().seed(seed).connect_timeout(TIMEOUT);
        let script = async {
            let mut kept = Vec::new();
            loop {
                let mut connection = servers.accept().await;
                if connection.address == "other:1" {
                    connection.hello().await;
                    connection.grant().await;
                }
                kept.push(connection);
            }
        };
        let client = tokio::select! {
            client = options.connect("name:1,other:1") => client,
            () = script => unreachable!("it goes on for ever"),
        };
        assert!(client.is_ok(), "{seed}: {:?}", client.err());
    }
}
