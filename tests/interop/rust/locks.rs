//! The crate's own lock, in the form that excludes Curator's `InterProcessMutex`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zookeeper_client::{Acls, Client, CreateMode, Error, LockOptions, LockPrefix};

use crate::harness::{Servers, check, equal, fails, ok, soon};

const CONTENDERS: u8 = 4;
const ROUNDS: u8 = 8;

pub fn options() -> LockOptions<'static> {
    let container = CreateMode::Container.with_acls(Acls::anyone_all());
    LockOptions::new(Acls::anyone_all()).with_ancestor_options(container).expect("a directory")
}

pub fn curator(dir: &str) -> LockPrefix<'_> {
    LockPrefix::new_curator(dir, "lock-").expect("a path")
}

pub async fn run(servers: &Servers) {
    let client = servers.connect().await;
    let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
    ok(client.create("/rust/count", &[0], &persistent).await, "create the counter");

    // Read, then write without a version: only mutual exclusion keeps the count right.
    let inside = Arc::new(AtomicU32::new(0));
    let mut contenders = JoinSet::new();
    for _ in 0..CONTENDERS {
        contenders.spawn(contend(servers.clone(), Arc::clone(&inside)));
    }
    while let Some(done) = contenders.join_next().await {
        ok(done, "a contender");
    }
    ok(client.sync("/rust/count").await, "sync");
    let (data, stat) = ok(client.get_data("/rust/count").await, "read the counter");
    equal(data, vec![CONTENDERS * ROUNDS], "the count under the lock");
    equal(stat.version, i32::from(CONTENDERS * ROUNDS), "the counter's version");

    properties(servers, &client).await;
}

async fn contend(servers: Servers, inside: Arc<AtomicU32>) {
    let client = servers.connect().await;
    for _ in 0..ROUNDS {
        let lock = ok(client.lock(curator("/rust/locks/count"), b"", options()).await, "lock");
        equal(inside.fetch_add(1, Ordering::SeqCst), 0, "holders at the same time");
        ok(client.sync("/rust/count").await, "sync under the lock");
        let (data, _) = ok(client.get_data("/rust/count").await, "read under the lock");
        ok(lock.set_data("/rust/count", &[data[0] + 1], None).await, "write through the lock");
        inside.fetch_sub(1, Ordering::SeqCst);
        drop(lock);
    }
}

async fn properties(servers: &Servers, client: &Client) {
    let dir = "/rust/locks/one";
    let lock = ok(client.lock(curator(dir), b"holder", options()).await, "lock");
    let (data, stat) = ok(client.get_data(lock.lock_path()).await, "read the holder");
    equal(data, b"holder".to_vec(), "the holder's data");
    equal(stat.ephemeral_owner, client.session_id().0, "the holder's session");

    // A wait that is given up leaves nothing in the queue.
    let other = servers.connect().await;
    let wait = other.lock(curator(dir), b"", options());
    check(timeout(Duration::from_millis(300), wait).await.is_err(), "a held lock is not granted");
    soon("the queue without the one who gave up", async {
        while ok(client.list_children(dir).await, "list the queue").len() != 1 {
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await;

    // Who lost the lock cannot write through it any more.
    ok(client.delete(lock.lock_path(), None).await, "take the lock away");
    let taken = soon("the lock taken over", other.lock(curator(dir), b"", options())).await;
    let taken = ok(taken, "lock");
    fails(
        lock.set_data("/rust/count", &[0], None).await,
        Error::RuntimeInconsistent,
        "a write through a lost lock",
    );
    ok(taken.set_data("/rust/count", &[0], None).await, "a write through the lock");
}
