//! Locks of a session that another client has left.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zoolet_client::recipes::{
    DoubleBarrier, LeaderLatch, LockOptions, MultiLock, Mutex, PersistentNode, ReadWriteLock,
    Semaphore, SemaphoreMutex, SimpleLock, Suspension,
};
use zoolet_client::{Client, ClientOptions, CreateMode, ErrorCode};

use crate::tree::{Ensemble, SOON};

/// Leaves the session, and resumes it as another process does.
async fn handed_over(ensemble: &mut Ensemble, client: Client) -> Client {
    let session = client.detach().await.to_text().parse().unwrap();
    let options: ClientOptions = ensemble.servers.options().resume(session);
    ensemble.client_with(options).await
}

/// The guards were gone with the process that had them, and the znodes stayed: no one could release
/// the locks, and the new process waited for itself.
#[tokio::test(start_paused = true)]
async fn a_resumed_session_takes_over_its_locks() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let bilingual = || LockOptions::new().bilingual();
    let plain = Mutex::new(&client, "/plain").acquire().await.unwrap();
    let both = Mutex::with_options(&client, "/both", bilingual()).acquire().await.unwrap();
    let simple = SimpleLock::new(&client, "/simple").acquire().await.unwrap();
    let one = SemaphoreMutex::new(&client, "/one").acquire().await.unwrap();
    let permits = Semaphore::new(&client, "/permits", 3).acquire_many(2).await.unwrap();
    let locked = ReadWriteLock::new(&client, "/written").write().await.unwrap();
    let read = ReadWriteLock::new(&client, "/read").read().await.unwrap();
    let tokens = [plain.token(), both.token(), simple.token(), one.token(), locked.token()];
    // Attempts that were under way: they wait for what their own session holds.
    let waiter = Mutex::new(&client, "/plain");
    let waits = tokio::spawn(async move { waiter.acquire().await.map(drop) });
    ensemble.tree.until("it waits", |tree| tree.names("/plain").len() == 2).await;
    let more = Semaphore::new(&client, "/permits", 3);
    let waits_too = tokio::spawn(async move { more.acquire_many(2).await.map(drop) });
    ensemble.tree.until("it waits", |tree| tree.names("/permits/leases").len() == 4).await;

    let client = handed_over(&mut ensemble, client).await;
    assert!(waits.await.unwrap().is_err() && waits_too.await.unwrap().is_err());
    drop((plain, both, simple, one, permits, locked, read));
    sleep(Duration::from_secs(1)).await;
    let plain = Mutex::new(&client, "/plain").adopt().await.unwrap().unwrap();
    let both = Mutex::with_options(&client, "/both", bilingual()).adopt().await.unwrap().unwrap();
    let simple = SimpleLock::new(&client, "/simple").adopt().await.unwrap().unwrap();
    let one = SemaphoreMutex::new(&client, "/one").adopt().await.unwrap().unwrap();
    let locked = ReadWriteLock::new(&client, "/written").adopt_writer().await.unwrap().unwrap();
    let adopted = [plain.token(), both.token(), simple.token(), one.token(), locked.token()];
    assert_eq!(adopted, tokens, "the same grants");
    let readers = ReadWriteLock::new(&client, "/read").adopt_readers().await.unwrap();
    assert_eq!(readers.len(), 1);
    // Of the two that were asked for together the first was there already: it counts.
    let permits = Semaphore::new(&client, "/permits", 3).adopt().await.unwrap();
    assert_eq!(permits.len(), 3);
    assert_eq!(ensemble.tree.names("/permits/locks"), [""; 0]);
    assert_eq!(ensemble.tree.names("/plain").len(), 1, "an attempt without a caller has left");
    for guard in [plain, both, simple, one, locked.into_guard()].into_iter().chain(permits) {
        assert!(guard.release().await.unwrap());
    }
    drop(readers);
    for dir in ["/plain", "/both", "/one/leases", "/permits/leases", "/written", "/read"] {
        ensemble.tree.until(dir, |tree| tree.names(dir).is_empty()).await;
    }
    assert!(!ensemble.tree.names("/").contains(&"simple".to_owned()));
    assert!(Mutex::new(&client, "/plain").adopt().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_resumed_session_leads_on_and_stays_inside() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let latch = LeaderLatch::start(&client, "/leader", "me");
    let token = timeout(SOON, latch.lead()).await.unwrap().unwrap();
    let entered = DoubleBarrier::new(&client, "/barrier", 1).enter().await.unwrap();
    let several = MultiLock::mutexes(&client, ["/a", "/b"]).acquire().await.unwrap();
    let client = handed_over(&mut ensemble, client).await;
    drop((latch, entered, several));
    let latch = LeaderLatch::adopt(&client, "/leader", "me", Suspension::StepDown);
    assert_eq!(timeout(SOON, latch.lead()).await.unwrap().unwrap(), token, "the same term");
    let several = MultiLock::mutexes(&client, ["/a", "/b"]).adopt().await.unwrap().unwrap();
    assert!(several.release().await.unwrap());
    let entered = DoubleBarrier::new(&client, "/barrier", 1).adopt().await.unwrap().unwrap();
    entered.leave().await.unwrap();
    timeout(SOON, latch.close()).await.unwrap().unwrap();
    for dir in ["/leader", "/barrier", "/a", "/b"] {
        assert_eq!(ensemble.tree.names(dir), [""; 0], "{dir}");
    }
}

/// The new process did not know their names, and they stayed until the session ended.
#[tokio::test(start_paused = true)]
async fn a_resumed_session_keeps_its_persistent_nodes() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let numbered = CreateMode::EphemeralSequential;
    let mut paths = Vec::new();
    let mut nodes = Vec::new();
    for data in [b"1", b"2"] {
        nodes.push(PersistentNode::start(&client, "/kept/numbered", numbered, data).unwrap());
    }
    let one = CreateMode::Ephemeral;
    nodes.push(PersistentNode::start_protected(&client, "/kept/protected", one, b"3").unwrap());
    nodes.push(PersistentNode::start(&client, "/kept/plain", one, b"4").unwrap());
    for node in &nodes {
        paths.push(timeout(SOON, node.path()).await.unwrap().unwrap());
    }
    // One that another session has, and one of another name.
    let foreign = "/kept/_c_a0a0a0a0-a0a0-40a0-80a0-a0a0a0a0a0a0-protected";
    ensemble.tree.create(foreign, b"");
    let client = handed_over(&mut ensemble, client).await;
    drop(nodes);
    let mut nodes = PersistentNode::adopt(&client, "/kept/numbered", numbered).await.unwrap();
    assert_eq!(nodes.len(), 2);
    nodes.extend(PersistentNode::adopt(&client, "/kept/protected", one).await.unwrap());
    nodes.extend(PersistentNode::adopt(&client, "/kept/plain", one).await.unwrap());
    assert!(PersistentNode::adopt(&client, "/kept/none", one).await.unwrap().is_empty());
    let mut adopted = Vec::new();
    for node in &nodes {
        let path = timeout(SOON, node.path()).await.unwrap().unwrap();
        assert_eq!(node.data(), ensemble.tree.data(&path).unwrap());
        adopted.push(path);
    }
    // In no order.
    paths.sort();
    adopted.sort();
    assert_eq!(adopted, paths);
    // They come back, under the names that they had.
    for path in &paths {
        ensemble.tree.delete(path);
        ensemble.tree.until("it comes back", |tree| tree.data(path).is_some()).await;
    }
    for node in nodes {
        timeout(SOON, node.close()).await.unwrap().unwrap();
    }
    assert_eq!(ensemble.tree.names("/kept"), [foreign.trim_start_matches("/kept/")]);
}

/// It had handles of those that it had found already; dropped, they deleted their znodes.
#[tokio::test(start_paused = true)]
async fn an_adoption_that_fails_deletes_nothing() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let numbered = CreateMode::EphemeralSequential;
    let mut nodes = Vec::new();
    for data in [b"1", b"2"] {
        let node = PersistentNode::start(&client, "/kept/numbered", numbered, data).unwrap();
        timeout(SOON, node.path()).await.unwrap().unwrap();
        nodes.push(node);
    }
    // Behind the others in the list.
    let foreign = "/kept/_c_ffffffff-ffff-4fff-bfff-ffffffffffff-numbered0000000099";
    ensemble.tree.create(foreign, b"");
    ensemble.tree.state().unreadable.insert(foreign.to_owned());
    let before = ensemble.tree.names("/kept");
    let client = handed_over(&mut ensemble, client).await;
    drop(nodes);
    let refused = PersistentNode::adopt(&client, "/kept/numbered", numbered).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::NoAuth));
    sleep(SOON).await;
    assert_eq!(ensemble.tree.names("/kept"), before);
}

/// Nothing shows which process has created a persistent znode.
#[tokio::test(start_paused = true)]
async fn a_persistent_znode_is_not_adopted_and_taken_over_by_its_path() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let numbered = CreateMode::PersistentSequential;
    let node = PersistentNode::start(&client, "/kept/one", numbered, b"1").unwrap();
    let path = timeout(SOON, node.path()).await.unwrap().unwrap();
    let client = handed_over(&mut ensemble, client).await;
    drop(node);
    let refused = PersistentNode::adopt(&client, "/kept/one", numbered).await.unwrap_err();
    assert!(
        refused.to_string().contains("use `PersistentNode::start` with its full path"),
        "{refused}"
    );
    let node = PersistentNode::start(&client, &path, CreateMode::Persistent, b"1").unwrap();
    assert_eq!(timeout(SOON, node.path()).await.unwrap().unwrap(), path);
    timeout(SOON, node.close()).await.unwrap().unwrap();
    assert_eq!(ensemble.tree.names("/kept"), [""; 0]);
}
