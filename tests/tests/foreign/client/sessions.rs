//! What becomes of a session when connections and servers go, and when another client takes it up.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use zoolet_client::{CreateMode, ErrorCode, ErrorKind, SessionInfo, SessionState, Version};
use zoolet_tests::four_letter;
use zoolet_tests::scenes::{SOON, Scene, options, soon};
use zoolet_torture::proxy::Proxy;

use super::harness::ClientScene;

/// Short, so that a session that is left alone ends soon, and long enough for a busy machine.
const SHORT_SESSION: Duration = Duration::from_secs(4);

pub(crate) async fn a_session_outlives_its_connection(scene: &Scene) {
    let (proxy, path) = (Proxy::start(&scene.servers).await.unwrap(), scene.path());
    let client = options().connect(&proxy.connect_string()).await.unwrap();
    client.add_auth("digest", b"alice:secret").await.unwrap();
    client.create(&path, b"", CreateMode::Ephemeral).await.unwrap();
    let session = client.session().id;
    let mut state = client.state();
    for _ in 0..3 {
        proxy.cut();
        let gone = |state: &SessionState| *state == SessionState::Disconnected;
        timeout(SOON, state.wait_for(gone)).await.unwrap().unwrap();
        // It waits for a connection.
        let call = client.exists(&path);
        proxy.heal();
        let stat = timeout(SOON, call).await.unwrap().unwrap().unwrap();
        assert_eq!((stat.ephemeral_owner, client.session().id), (session, session));
        let users = client.who_am_i().await.unwrap();
        assert!(users.iter().any(|user| user.user == "alice"), "identities are sent again");
    }
}

pub(crate) async fn a_session_outlives_its_server(scene: &Scene) {
    let (client, other, path) = (scene.client().await, scene.client().await, scene.path());
    let session = client.session().id;
    client.create(&path, b"", CreateMode::Ephemeral).await.unwrap();
    for index in 0..3 {
        scene.kill(index);
        // Whichever server it was on, it goes on; what was under way may be lost.
        soon("an answer", async || client.set_data(&path, b"", Version::Any).await.is_ok()).await;
        scene.restart(&[index]);
    }
    assert_eq!(client.session().id, session);
    soon("the other one's answer", async || other.sync(&path).await.is_ok()).await;
    assert_eq!(other.exists(&path).await.unwrap().unwrap().ephemeral_owner, session);
}

pub(crate) async fn a_session_is_lost_before_the_servers_end_it(scene: &Scene) {
    let (proxy, path) = (Proxy::start(&scene.servers).await.unwrap(), scene.path());
    let options = options().session_timeout(SHORT_SESSION);
    let client = options.connect(&proxy.connect_string()).await.unwrap();
    client.create(&path, b"", CreateMode::Ephemeral).await.unwrap();
    let watcher = scene.client().await;
    scene.catch_up(&watcher).await;
    let (stat, gone) = watcher.exists_watched(&path).await.unwrap();
    assert_eq!(stat.unwrap().ephemeral_owner, client.session().id);
    let gone = tokio::spawn(async move { (gone.changed().await.unwrap(), Instant::now()) });
    let mut state = client.state();
    let lost = tokio::spawn(async move {
        state.wait_for(|state| *state == SessionState::Lost).await.unwrap();
        Instant::now()
    });

    proxy.cut();
    let lost_at = timeout(SOON, lost).await.unwrap().unwrap();
    assert_eq!(client.remaining(), Duration::ZERO);
    let (_, gone_at) = timeout(SOON, gone).await.unwrap().unwrap();
    assert!(lost_at < gone_at, "{:?} late", lost_at - gone_at);

    let unsent = client.exists(&path);
    proxy.heal();
    let error = timeout(SOON, unsent).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::SessionExpired);
    assert!(error.ends_session() && !error.may_have_happened());
    assert_eq!(*client.state().borrow(), SessionState::Expired);
}

pub(crate) async fn a_session_is_left_and_taken_up_again(scene: &Scene) {
    let (client, path) = (scene.client().await, scene.path());
    client.create(&path, b"", CreateMode::Ephemeral).await.unwrap();
    let text = client.detach().await.to_text();
    let session: SessionInfo = text.parse().unwrap();
    let resumed = options().resume(session.clone()).connect(&scene.servers).await.unwrap();
    assert_eq!(resumed.session().id, session.id);
    let stat = resumed.exists(&path).await.unwrap().unwrap();
    assert_eq!(stat.ephemeral_owner, session.id);
    resumed.close().await.unwrap();
    let watcher = scene.client().await;
    scene.catch_up(&watcher).await;
    assert_eq!(watcher.exists(&path).await.unwrap(), None);
    let again = options().resume(session.clone()).connect(&scene.servers).await;
    assert_eq!(again.unwrap_err().kind(), &ErrorKind::SessionExpired);
    let mut forged = watcher.session();
    forged.password = vec![1; 16].into();
    let forged = options().resume(forged).connect(&scene.servers).await;
    assert_eq!(forged.unwrap_err().kind(), &ErrorKind::SessionExpired);
}

pub(crate) async fn the_last_handle_closes_the_session(scene: &Scene) {
    let (client, watcher, path) = (scene.client().await, scene.client().await, scene.path());
    client.create(&path, b"", CreateMode::Ephemeral).await.unwrap();
    scene.catch_up(&watcher).await;
    let (_, watch) = watcher.exists_watched(&path).await.unwrap();
    let other = client.clone();
    drop(client);
    other.set_data(&path, b"", Version::Any).await.unwrap();
    drop(other);
    // At once, and not after the session timeout.
    let limit = Duration::from_secs(5);
    let deleted = async { while watcher.exists(&path).await.unwrap().is_some() {} };
    timeout(limit, deleted).await.unwrap();
    watch.changed().await.unwrap();
}

pub(crate) async fn a_client_reads_without_the_ensemble(scene: &Scene) {
    let path = scene.path();
    let client = options().read_only(true).connect(&scene.servers).await.unwrap();
    assert_eq!(*client.state().borrow(), SessionState::Connected);
    client.create(&path, b"kept", CreateMode::Persistent).await.unwrap();
    // A majority has it; the server that is left is to have it as well.
    for server in scene.servers.split(',') {
        let elsewhere = options().connect(server).await.unwrap();
        scene.catch_up(&elsewhere).await;
        elsewhere.close().await.unwrap();
    }
    let killed = scene.all_but_a_follower();
    for index in &killed {
        scene.kill(*index);
    }
    // A server that has just lost the others is neither the one nor the other for a while.
    let says = |at: &str| four_letter::ask(at.parse().unwrap(), "isro").unwrap_or_default();
    soon("a server that reads", async || {
        tokio::task::block_in_place(|| scene.servers.split(',').any(|at| says(at) == "ro"))
    })
    .await;
    // The session that it has is of the ensemble, and waits for it; a new one reads.
    let reader = options().read_only(true).connect_timeout(SOON * 3);
    let reader = reader.connect(&scene.servers).await.unwrap();
    let state = *reader.state().borrow();
    let modes = || scene.servers.split(',').map(|at| four_letter::mode(at.parse().unwrap()));
    assert_eq!(state, SessionState::ReadOnly, "{:?}", modes().collect::<Vec<_>>());
    assert_eq!(reader.get(&path).await.unwrap().0, b"kept".as_ref());
    let refused = reader.set_data(&path, b"new", Version::Any).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::NotReadOnly));
    assert_eq!(reader.remaining(), Duration::ZERO);
    scene.restart(&killed);
    let mut state = reader.state();
    let written = |state: &SessionState| *state == SessionState::Connected;
    timeout(SOON * 3, state.wait_for(written)).await.unwrap().unwrap();
    soon("a write", async || reader.set_data(&path, b"new", Version::Any).await.is_ok()).await;
}
