//! A session that outlives its client, is taken over, and ends.

use std::time::Duration;

use zookeeper_client::{Acls, CreateMode, Error, EventType, SessionState};

use crate::harness::{Servers, check, equal, fired, ok, soon};

pub async fn run(servers: &Servers) {
    let observer = servers.connect().await;
    let ephemeral = CreateMode::Ephemeral.with_acls(Acls::anyone_all());

    // A detached client leaves its session behind; another one goes on with it, at any server.
    let connector = Servers::connector().with_detached();
    let first = ok(connector.connect(&servers.connect_string()).await, "connect detached");
    ok(first.create("/rust/kept", b"", &ephemeral).await, "create an ephemeral");
    let home = servers.server_of(&first).await;
    let session = first.into_session();
    let id = session.id();
    let elsewhere = servers.without(&home).connect_string();
    let connector = Servers::connector().with_session(session.clone());
    let second = ok(connector.connect(&elsewhere).await, "resume at another server");
    equal(second.session_id(), id, "the resumed session");
    equal(ok(second.list_ephemerals("/rust").await, "ephemerals").len(), 1, "what it owns");

    // This client is not detached: its end is the session's.
    ok(observer.sync("/rust").await, "sync");
    let (found, gone) = ok(observer.check_and_watch_stat("/rust/kept").await, "watch it");
    equal(found.map(|stat| stat.ephemeral_owner), Some(id.0), "the owner");
    drop(second);
    equal(fired(gone, "the end of the session").await.event_type, EventType::NodeDeleted, "event");
    let connector = Servers::connector().with_session(session);
    let refused = connector.connect(&servers.connect_string()).await;
    equal(refused.map(|_| ()), Err(Error::SessionExpired), "resume an ended session");

    expiry(servers).await;
}

/// A session without pings expires, not before its timeout.
async fn expiry(servers: &Servers) {
    let observer = servers.connect().await;
    let ephemeral = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
    let connector =
        zookeeper_client::Client::connector().with_session_timeout(Duration::from_secs(4));
    let brief = ok(connector.with_detached().connect(&servers.connect_string()).await, "connect");
    let granted = brief.session_timeout();
    ok(brief.create("/rust/brief-owner", b"", &ephemeral).await, "create an ephemeral");
    let mut states = brief.state_watcher();
    equal(states.state(), SessionState::SyncConnected, "the state of a living session");
    let _session = brief.into_session();
    let left = tokio::time::Instant::now();
    ok(observer.sync("/rust").await, "sync");
    let (found, gone) = ok(observer.check_and_watch_stat("/rust/brief-owner").await, "watch it");
    check(found.is_some(), "the ephemeral of a session without a client");
    let event = soon("the expiry", gone.changed()).await;
    equal(event.event_type, EventType::NodeDeleted, "the event");
    // The server counts from the last word it heard, which may be a ping sent just before.
    check(left.elapsed() + Duration::from_secs(2) > granted, "the session ended too early");
    check(left.elapsed() < granted * 4, "the session ended too late");
}
