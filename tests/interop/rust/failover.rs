//! The death of a server: sessions, ephemerals, locks and watches go on at another one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zookeeper_client::{
    Acls, AddWatchMode, Client, CreateMode, Error, EventType, PersistentWatcher, SessionState,
};

use crate::harness::{
    Servers, bring_back, carried, check, equal, fails, fired, is_loss, lose_server, next, ok, soon,
};
use crate::locks::{curator, options};

const DIR: &str = "/rust/locks/failover";

pub async fn lose_server_in_use(servers: &Servers) {
    let connector = Servers::connector().with_auth("digest", b"crab:shell");
    let holder = ok(connector.connect(&servers.connect_string()).await, "connect");
    let lost = servers.server_of(&holder).await;
    let other = servers.without(&lost).connect().await;
    let session = holder.session_id();
    let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let ephemeral = CreateMode::Ephemeral.with_acls(Acls::anyone_all());

    let lock = ok(holder.lock(curator(DIR), b"", options()).await, "lock");
    ok(holder.create("/rust/alive", b"", &ephemeral).await, "create an ephemeral");
    for path in ["/rust/w", "/rust/w/data", "/rust/w/gap", "/rust/w/tree", "/rust/count-2"] {
        ok(holder.create(path, b"0", &persistent).await, "create");
    }
    let (_, _, data) = ok(holder.get_and_watch_data("/rust/w/data").await, "watch data");
    let (_, _, gap) = ok(holder.get_and_watch_data("/rust/w/gap").await, "watch data");
    let (_, born) = ok(holder.check_and_watch_stat("/rust/w/gap-born").await, "watch exists");
    let mut tree =
        ok(holder.watch("/rust/w/tree", AddWatchMode::PersistentRecursive).await, "watch a tree");
    let mut states = holder.state_watcher();
    equal(states.state(), SessionState::SyncConnected, "the state before the loss");
    let waiter = tokio::spawn({
        let other = other.clone();
        async move { other.lock(curator(DIR), b"", options()).await.map(drop) }
    });
    soon("the waiter in the queue", async {
        while ok(holder.list_children(DIR).await, "list the queue").len() != 2 {
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await;

    lose_server(&lost).await;
    ok(carried(|| other.set_data("/rust/w/gap", b"1", None)).await, "write in the gap");
    let created = carried(|| other.create("/rust/w/gap-born", b"", &persistent)).await;
    check(matches!(created, Ok(_) | Err(Error::NodeExists)), "create in the gap");
    ok(carried(|| holder.sync("/rust")).await, "sync through another server");
    check(servers.without(&lost).server_of(&holder).await != lost, "the session has moved");
    equal(holder.session_id(), session, "the session after the loss");

    equal(fired(gap, "the change in the gap").await.event_type, EventType::NodeDataChanged, "");
    equal(fired(born, "the birth in the gap").await.event_type, EventType::NodeCreated, "");
    reconnected(&mut tree).await;
    // Version 0.11.2 leaves persistent watches out of what it sends on a reconnect (its choice
    // of opcode takes the maximum of a number with itself), so its users have to set them again.
    let again = holder.watch("/rust/w/tree", AddWatchMode::PersistentRecursive).await;
    let mut tree = ok(again, "watch the tree again");
    let owned = ok(holder.list_ephemerals("/rust/alive").await, "the ephemerals");
    equal(owned, vec!["/rust/alive".to_owned()], "the ephemerals after the loss");
    ok(holder.get_data("/rust/own").await, "read with the identity given before the loss");

    let stat = ok(other.set_data("/rust/w/data", b"1", None).await, "change the data");
    let event = fired(data, "data").await;
    equal((event.event_type, event.zxid), (EventType::NodeDataChanged, stat.mzxid), "the event");
    ok(other.create("/rust/w/tree/leaf", b"", &persistent).await, "grow the tree");
    let event = next(&mut tree, "the tree").await;
    equal(
        (event.event_type, event.path.as_str()),
        (EventType::NodeCreated, "/rust/w/tree/leaf"),
        "",
    );

    check(!waiter.is_finished(), "the lock is not granted while it is held");
    ok(lock.set_data("/rust/count-2", b"1", None).await, "write through the lock after the loss");
    drop(lock);
    ok(ok(soon("the lock for the waiter", waiter).await, "the waiter"), "lock");
    bring_back().await;
    // A client that knows no living server says so in time.
    let dead = Servers::connector().with_fail_eagerly().connect("127.0.0.1:1").await;
    fails(dead.map(|_| ()), Error::NoHosts, "a port without a listener");
}

/// A persistent watch reports the connection as well: lost, then back, perhaps more than once.
async fn reconnected(watcher: &mut PersistentWatcher) {
    let event = next(watcher, "the loss").await;
    let found = (event.event_type, event.session_state);
    equal(found, (EventType::Session, SessionState::Disconnected), "the loss");
    loop {
        let event = next(watcher, "the return").await;
        equal(event.event_type, EventType::Session, "the return");
        if event.session_state == SessionState::SyncConnected {
            return;
        }
    }
}

pub async fn lose_leader(servers: &Servers) {
    let client = servers.connect().await;
    let session = client.session_id();
    let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let ephemeral = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
    ok(client.create("/rust/before", b"", &ephemeral).await, "create an ephemeral");
    ok(client.create("/rust/answered", b"", &persistent).await, "create the log of answers");

    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(write_until(client.clone(), Arc::clone(&stop)));
    sleep(Duration::from_millis(300)).await;
    let dead = servers.leader().await.expect("a server says that it leads");
    lose_server(&dead).await;
    let others = servers.without(&dead);
    soon("a new leader", async {
        while others.leader().await.is_none() {
            sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    ok(carried(|| client.sync("/rust")).await, "sync with the new leader");
    sleep(Duration::from_millis(300)).await;
    stop.store(true, Ordering::SeqCst);
    let answered = ok(writer.await, "the writer");
    check(answered > 0, "no write was answered");

    let (_, stat) = ok(carried(|| client.get_data("/rust/answered")).await, "read");
    check(stat.version >= answered, "every answered write is there");
    equal(client.session_id(), session, "the session after the election");
    check(ok(client.check_stat("/rust/before").await, "exists").is_some(), "the ephemeral");
    bring_back().await;
    let again = timeout(Duration::from_secs(10), servers.connect()).await;
    ok(again, "a session with the whole ensemble");
}

async fn write_until(client: Client, stop: Arc<AtomicBool>) -> i32 {
    let mut answered = 0;
    while !stop.load(Ordering::SeqCst) {
        match client.set_data("/rust/answered", b"x", None).await {
            Ok(_) => answered += 1,
            Err(error) if is_loss(&error) => sleep(Duration::from_millis(20)).await,
            Err(error) => panic!("a write ended with {error}"),
        }
    }
    answered
}
