//! Locks.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zoolet_client::recipes::{
    DoubleBarrier, LeaderLatch, LockOptions, Mutex, PersistentNode, SimpleLock,
};
use zoolet_client::{Client, CreateMode, ErrorKind, SessionState};
use zoolet_jute::OpCode;

use crate::script::{Connection, SESSION, TIMEOUT};
use crate::tree::{Ensemble, SOON, Tree};

/// A client whose session has moved to a server that only reads.
async fn on_a_read_only_server(ensemble: &mut Ensemble, client: &Client, serves: Connection) {
    drop(serves);
    let mut reads = ensemble.servers.accept().await;
    reads.hello().await;
    ensemble.tree.state().is_read_only = true;
    reads.welcome(SESSION, i32::try_from(TIMEOUT.as_millis()).unwrap(), true).await;
    ensemble.serve(reads);
    let mut state = client.state();
    state.wait_for(|state| *state == SessionState::ReadOnly).await.unwrap();
}

/// Waits until the client has found a server that writes.
async fn write_again(ensemble: &mut Ensemble) {
    let mut probe = ensemble.servers.accept().await;
    assert_eq!(&probe.word().await, b"isro");
    ensemble.tree.state().is_read_only = false;
    probe.send(b"rw").await;
    ensemble.serve_next().await;
}

/// A served client, and the connection with what serves it.
async fn served(ensemble: &mut Ensemble) -> (Client, tokio::task::JoinHandle<()>) {
    let options = ensemble.servers.options().read_only(true);
    let (client, connection) = ensemble.servers.start(options).await;
    let serving = ensemble.serve(connection);
    (client, serving)
}

async fn cut(ensemble: &mut Ensemble, client: &Client, serving: tokio::task::JoinHandle<()>) {
    serving.abort();
    let _ = serving.await;
    let mut state = client.state();
    state.wait_for(|state| *state != SessionState::Connected).await.unwrap();
    let spare = ensemble.servers.accept().await;
    // A connection that ends at once: the next one is to the server that reads.
    on_a_read_only_server(ensemble, client, spare).await;
}

fn is_empty(tree: &Tree) -> bool {
    tree.names("/locks/report").is_empty()
}

/// The delete was answered `NotReadOnly`, twice, and that was that: the lock stood until the end of
/// the session, which went on.
#[tokio::test(start_paused = true)]
async fn a_lock_released_on_a_read_only_server_is_released_by_one_that_writes() {
    for (bilingual, drops) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut ensemble = Ensemble::new();
        let (client, serving) = served(&mut ensemble).await;
        let options = LockOptions::new();
        let options = if bilingual { options.bilingual() } else { options };
        let guard = Mutex::with_options(&client, "/locks/report", options);
        let guard = guard.acquire().await.unwrap();
        assert!(!is_empty(&ensemble.tree));
        cut(&mut ensemble, &client, serving).await;
        let releasing = if drops {
            drop(guard);
            None
        } else {
            Some(tokio::spawn(guard.release()))
        };
        sleep(Duration::from_secs(1)).await;
        write_again(&mut ensemble).await;
        if let Some(releasing) = releasing {
            assert!(timeout(SOON, releasing).await.unwrap().unwrap().unwrap(), "it was held");
        }
        ensemble.tree.until("the lock is free", is_empty).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_simple_lock_dropped_on_a_read_only_server_is_released_by_one_that_writes() {
    let mut ensemble = Ensemble::new();
    let (client, serving) = served(&mut ensemble).await;
    let guard = SimpleLock::new(&client, "/locks/report").acquire().await.unwrap();
    cut(&mut ensemble, &client, serving).await;
    drop(guard);
    sleep(Duration::from_secs(1)).await;
    write_again(&mut ensemble).await;
    ensemble.tree.until("the lock is free", |tree| tree.names("/locks").is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_latch_that_starts_on_a_read_only_server_leads_on_one_that_writes() {
    let mut ensemble = Ensemble::new();
    let (client, serving) = served(&mut ensemble).await;
    client.sync("/").await.unwrap();
    cut(&mut ensemble, &client, serving).await;
    let latch = LeaderLatch::start(&client, "/locks/report", "me");
    sleep(Duration::from_secs(1)).await;
    assert!(!latch.is_leader());
    write_again(&mut ensemble).await;
    timeout(SOON, latch.lead()).await.unwrap().unwrap();
    timeout(SOON, latch.close()).await.unwrap().unwrap();
    assert!(is_empty(&ensemble.tree));
}

#[tokio::test(start_paused = true)]
async fn a_persistent_node_closed_on_a_read_only_server_is_deleted_by_one_that_writes() {
    let mut ensemble = Ensemble::new();
    let (client, serving) = served(&mut ensemble).await;
    let start = |path| PersistentNode::start(&client, path, CreateMode::Persistent, b"").unwrap();
    let (closed, dropped) = (start("/locks/report/closed"), start("/locks/report/dropped"));
    closed.path().await.unwrap();
    dropped.path().await.unwrap();
    cut(&mut ensemble, &client, serving).await;
    drop(dropped);
    let closing = tokio::spawn(closed.close());
    let begun = start("/locks/report/begun");
    sleep(Duration::from_secs(1)).await;
    write_again(&mut ensemble).await;
    timeout(SOON, closing).await.unwrap().unwrap().unwrap();
    timeout(SOON, begun.path()).await.unwrap().unwrap();
    ensemble.tree.until("one is left", |tree| tree.names("/locks/report") == ["begun"]).await;
}

/// The task ended with the error and the znode stayed as long as the session, a persistent one for
/// good: data that no server takes was enough.
#[tokio::test(start_paused = true)]
async fn a_persistent_node_that_fails_is_deleted() {
    for mode in [CreateMode::Persistent, CreateMode::EphemeralSequential] {
        let mut ensemble = Ensemble::new();
        let client = ensemble.client().await;
        let node = PersistentNode::start(&client, "/nodes/one", mode, b"").unwrap();
        timeout(SOON, node.path()).await.unwrap().unwrap();
        node.set_data(&vec![0; 2 * 1024 * 1024]);
        ensemble.tree.until("it is deleted", |tree| tree.names("/nodes").is_empty()).await;
        let error = timeout(SOON, node.close()).await.unwrap().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::RequestTooLong { .. }), "{error}");
    }
}

/// What it could not create or take over is not deleted.
#[tokio::test(start_paused = true)]
async fn a_persistent_node_that_is_refused_deletes_nothing_of_others() {
    let mut ensemble = Ensemble::new();
    ensemble.tree.create("/closed", b"");
    ensemble.tree.create("/closed/one", b"another's");
    ensemble.tree.state().closed.push("/closed".to_owned());
    let client = ensemble.client().await;
    let node = PersistentNode::start(&client, "/closed/one", CreateMode::Persistent, b"").unwrap();
    assert!(timeout(SOON, node.path()).await.unwrap().is_err());
    sleep(SOON).await;
    assert_eq!(ensemble.tree.names("/closed"), ["one"]);
}

/// A delete that is refused now may be allowed later: the clean-up was tried once.
#[tokio::test(start_paused = true)]
async fn a_clean_up_goes_on_until_it_is_done() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let guard = Mutex::new(&client, "/locks/report").acquire().await.unwrap();
    ensemble.tree.state().undeletable.insert(guard.path().to_owned());
    drop(guard);
    sleep(SOON).await;
    assert!(!is_empty(&ensemble.tree));
    ensemble.tree.state().undeletable.clear();
    ensemble.tree.until("the lock is free", is_empty).await;
}

/// It held a handle while it waited: a program that dropped its client kept its session and its lock.
#[tokio::test(start_paused = true)]
async fn a_clean_up_that_is_refused_does_not_keep_the_session_open() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let guard = Mutex::new(&client, "/locks/report").acquire().await.unwrap();
    ensemble.tree.state().undeletable.insert(guard.path().to_owned());
    drop((guard, client));
    let is_closed = |tree: &Tree| tree.count(OpCode::CloseSession) == 1;
    ensemble.tree.until("the session is closed", is_closed).await;
}

/// Every turn of a loop around `select!` read the znode and removed the watch again.
#[tokio::test(start_paused = true)]
async fn many_looks_for_a_loss_cost_one_watch() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.client().await;
    for bilingual in [false, true] {
        let options = LockOptions::new();
        let options = if bilingual { options.bilingual() } else { options };
        let mutex = Mutex::with_options(&client, "/locks/report", options);
        let guard = mutex.acquire().await.unwrap();
        ensemble.tree.state().requests.clear();
        for _ in 0..20 {
            tokio::select! {
                loss = guard.lost() => panic!("{loss:?}"),
                () = guard.revocation() => panic!("a request that was not made"),
                () = sleep(Duration::from_millis(50)) => {}
            }
        }
        let (gets, removes) =
            (ensemble.tree.count(OpCode::GetData), ensemble.tree.count(OpCode::RemoveWatches));
        assert!(gets <= guard_znodes(bilingual) && removes == 0, "{gets} gets, {removes} removes");
        let (lost, path) = (guard.lost(), guard.path().to_owned());
        ensemble.tree.delete(&path);
        timeout(SOON, lost).await.unwrap();
        assert!(!guard.release().await.unwrap());
    }
}

const fn guard_znodes(bilingual: bool) -> usize {
    if bilingual { 2 } else { 1 }
}

/// The transaction checked as many members as fit into 512 KiB: a client that sends no requests of
/// that length refused it, and no member ever entered.
#[tokio::test(start_paused = true)]
async fn a_double_barrier_opens_for_clients_that_send_short_requests_only() {
    for bytes_max in [200, 400, 1_000, 100_000] {
        let mut ensemble = Ensemble::new();
        let options = ensemble.servers.options().request_bytes_max(bytes_max);
        let client = ensemble.client_with(options).await;
        let app = format!("/{}", "app".repeat(20));
        for dir in [app.clone(), format!("{app}/barrier")] {
            ensemble.tree.create(&dir, b"");
        }
        for member in 0..20 {
            ensemble.tree.create(&format!("{app}/barrier/member-{member}"), b"");
        }
        let client = client.chrooted(&app).unwrap();
        let barrier = DoubleBarrier::new(&client, "/barrier", 21);
        let entered = timeout(SOON, barrier.enter()).await.unwrap();
        drop(entered.unwrap_or_else(|error| panic!("{bytes_max}: {error}")));
    }
}
