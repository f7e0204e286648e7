//! What calls and recipes leave behind that were given up.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;
use zoolet_client::recipes::{Mutex, ReadWriteLock, Semaphore, SimpleLock};
use zoolet_jute::{ErrorCode, Reply, Request};

use crate::script::{Servers, TIMEOUT};

/// The tasks of this runtime.
fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// A program asked for a lock every few ms, with a deadline, while no server could be reached. Each
/// time left a task that was to delete the znode of a create that had never been sent.
#[tokio::test(start_paused = true)]
async fn acquires_that_time_out_without_a_server_leave_nothing() {
    let mut servers = Servers::new();
    let (client, connection) = servers.client().await;
    servers.vanish(&client, connection).await;
    let before = tasks();
    let mutex = Mutex::new(&client, "/locks/a");
    let simple = SimpleLock::new(&client, "/locks/b");
    let shared = ReadWriteLock::new(&client, "/locks/c");
    let semaphore = Semaphore::new(&client, "/locks/d", 3);
    let limit = Duration::from_micros(10);
    for _ in 0..5_000 {
        assert!(timeout(limit, mutex.acquire()).await.is_err());
        assert!(timeout(limit, simple.acquire()).await.is_err());
        assert!(timeout(limit, shared.read()).await.is_err());
        assert!(timeout(limit, semaphore.acquire()).await.is_err());
    }
    assert!(tasks() <= before, "{} tasks, {before} before", tasks());
}

/// Creates that were sent may have happened, and are looked for: by a few tasks, however many.
#[tokio::test(start_paused = true)]
async fn acquires_that_time_out_while_a_server_is_silent_are_made_up_for_by_few_tasks() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let before = tasks();
    let lock = SimpleLock::new(&client, "/locks/a");
    for _ in 0..1_000 {
        assert!(timeout(Duration::from_millis(1), lock.acquire()).await.is_err());
        // It goes out.
        connection.any_request().await.unwrap();
    }
    assert!(tasks() <= before + 100, "{} tasks, {before} before", tasks());
    let mut connection = servers.replace(&client, connection).await;
    let mut looked = 0;
    while looked < 1_000 {
        let (xid, request) = connection.request().await;
        match request {
            Request::Sync(_) => connection.answer(xid, Ok(Reply::Sync(None))).await,
            Request::GetData(_) => {
                looked += 1;
                connection.answer(xid, Err(ErrorCode::NoNode)).await;
            }
            other => panic!("{other:?}"),
        }
    }
    tokio::time::sleep(TIMEOUT / 10).await;
    assert!(tasks() <= before, "{} tasks, {before} before", tasks());
}

/// The program has ended its own use of the session while a server was silent: what is left to do
/// still keeps it open, and then it is closed.
#[tokio::test(start_paused = true)]
async fn a_session_is_closed_when_what_was_left_is_done() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let lock = SimpleLock::new(&client, "/locks/a");
    assert!(timeout(Duration::from_millis(1), lock.acquire()).await.is_err());
    assert!(matches!(connection.request().await.1, Request::Create2(_)));
    drop((lock, client));
    assert!(matches!(connection.request().await.1, Request::Sync(_)));
    drop(connection);
    let mut connection = servers.serve().await;
    loop {
        let (xid, request) = connection.request().await;
        match request {
            Request::Sync(_) => connection.answer(xid, Ok(Reply::Sync(None))).await,
            Request::GetData(_) => connection.answer(xid, Err(ErrorCode::NoNode)).await,
            Request::CloseSession => break,
            other => panic!("{other:?}"),
        }
    }
}
