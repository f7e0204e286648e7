//! [`ReadWriteLock`]: many readers or one writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zoolet_client::recipes::ReadWriteLock;
use zoolet_client::{ErrorKind, Version};
use zoolet_tests::scenes::Scene;

use crate::harness::{Fenced, RecipeScene, cancelled_at_every_await, count_up, new_counter};

const LONG: Duration = Duration::from_secs(10);

pub(crate) async fn readers_share_and_writers_do_not(scene: &Scene) {
    let (client, path) = (scene.client().await, scene.path());
    drop(ReadWriteLock::new(&client, &path).write().await.unwrap());
    let counter = format!("{path}-count");
    new_counter(&client, &counter).await;
    // Readers inside; −1 is a writer.
    let (inside, fenced) = (Arc::new(AtomicIsize::new(0)), Arc::new(Fenced::default()));
    let mut contenders = JoinSet::new();
    for number in 0..6 {
        let client = scene.client().await;
        let lock = ReadWriteLock::new(&client, &path);
        let (inside, fenced, counter) = (Arc::clone(&inside), Arc::clone(&fenced), counter.clone());
        contenders.spawn(async move {
            for _ in 0..8 {
                if number < 2 {
                    let guard = lock.write().await.unwrap();
                    assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 0);
                    fenced.grant(guard.token());
                    count_up(&client, &counter).await;
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), -1);
                    assert!(guard.release().await.unwrap());
                } else {
                    let guard = lock.read().await.unwrap();
                    let readers = inside.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(readers > 0, "a reader beside a writer");
                    sleep(Duration::from_millis(5)).await;
                    assert!(inside.fetch_sub(1, Ordering::SeqCst) > 0);
                    assert!(guard.release().await.unwrap());
                }
            }
        });
    }
    while let Some(ended) = contenders.join_next().await {
        ended.unwrap();
    }
    scene.catch_up(&client).await;
    assert_eq!(client.get(&counter).await.unwrap().0.as_ref(), b"16");
    scene.until_children(&client, &path, 0).await;
}

pub(crate) async fn a_reader_waits_for_the_writer_in_front_of_it(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let lock = ReadWriteLock::new(&one, &path);
    let first = lock.read().await.unwrap();
    assert!(lock.try_write().await.unwrap().is_none());
    let waiting = ReadWriteLock::new(&other, &path);
    let writer = tokio::spawn(async move { waiting.write().await.unwrap() });
    scene.until_children(&one, &path, 2).await;
    // Fair: it does not overtake the writer that waits.
    assert!(lock.try_read().await.unwrap().is_none());
    assert!(lock.read_timeout(Duration::from_millis(200)).await.unwrap().is_none());
    assert!(first.release().await.unwrap());
    let written = timeout(LONG, writer).await.unwrap().unwrap();
    assert!(lock.write_timeout(Duration::from_millis(200)).await.unwrap().is_none());
    assert!(written.release().await.unwrap());
    let (a, b) = (lock.read().await.unwrap(), lock.try_read().await.unwrap().unwrap());
    assert!(a.release().await.unwrap() && b.release().await.unwrap());
}

pub(crate) async fn a_writer_goes_on_as_a_reader(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let lock = ReadWriteLock::new(&one, &path);
    let writer = lock.write().await.unwrap();
    let token = writer.token();
    let waiting = ReadWriteLock::new(&other, &path);
    let next = tokio::spawn(async move { waiting.write().await.unwrap() });
    scene.until_children(&one, &path, 2).await;

    let reader = writer.acquire_read().await.unwrap();
    let (write_name, read_name) = (writer.path().to_owned(), reader.path().to_owned());
    assert!(write_name.ends_with("-__WRIT__0000000000"), "{write_name}");
    assert!(read_name.ends_with("-__READ__0000000000"), "{read_name}");
    assert!(reader.release().await.unwrap());

    let reader = writer.downgrade().await.unwrap();
    assert_eq!(reader.token(), token, "the next writer has a higher token");
    sleep(Duration::from_millis(200)).await;
    assert!(!next.is_finished(), "a reader precedes it");
    assert!(reader.release().await.unwrap());
    let next = timeout(LONG, next).await.unwrap().unwrap();
    assert!(next.token() > token);

    // Who has lost the write lock does not become a reader.
    one.delete(next.path(), Version::Any).await.unwrap();
    assert_eq!(*next.acquire_read().await.unwrap_err().kind(), ErrorKind::LockLost);
}

pub(crate) async fn a_cancelled_wait_leaves_nothing_behind(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let lock = ReadWriteLock::new(&other, &path);
    let free = async || scene.until_children(&one, &path, 0).await;
    cancelled_at_every_await(|| lock.read(), free).await;
    cancelled_at_every_await(|| async { lock.write().await?.downgrade().await }, free).await;
    let held = ReadWriteLock::new(&one, &path).write().await.unwrap();
    let taken = async || scene.until_children(&one, &path, 1).await;
    cancelled_at_every_await(|| lock.read(), taken).await;
    cancelled_at_every_await(|| lock.write(), taken).await;
    assert!(held.release().await.unwrap());
}

pub(crate) async fn a_lost_reply_does_no_harm(scene: &Scene) {
    scene
        .under_every_fault(async |client, path| {
            let lock = ReadWriteLock::new(&client, &path);
            let reader = lock.read().await.unwrap();
            assert!(reader.release().await.unwrap());
            let writer = lock.write().await.unwrap();
            let reader = writer.downgrade().await.unwrap();
            assert!(reader.release().await.unwrap());
        })
        .await;
}

pub(crate) async fn a_dead_writer_s_lock_goes_on(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let held = ReadWriteLock::new(&one, &path).write().await.unwrap();
    let lock = ReadWriteLock::new(&other, &path);
    let reader = tokio::spawn(async move { lock.read().await.unwrap() });
    scene.until_children(&other, &path, 2).await;
    scene.expire(&one).await;
    let reader = timeout(LONG, reader).await.unwrap().unwrap();
    assert!(reader.token() > held.token());
    assert!(held.downgrade().await.unwrap_err().ends_session());
}
