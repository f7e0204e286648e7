//! Closing a session, leaving it to another client, and dropping it.

use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::{Instant, timeout};
use zoolet_client::{CreateMode, ErrorKind, SessionInfo, SessionState, Version};
use zoolet_jute::{Reply, Request};

use crate::script::{SESSION, Servers, TIMEOUT};

#[tokio::test(start_paused = true)]
async fn a_close_comes_behind_what_was_asked_before_and_ends_all_handles() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let other = client.clone();
    let before = client.delete("/a", Version::Any);
    let close = client.close();
    let behind = other.delete("/b", Version::Any);
    let (first, request) = connection.request().await;
    assert!(matches!(request, Request::Delete(_)), "{request:?}");
    let (second, request) = connection.request().await;
    assert_eq!(request, Request::CloseSession);
    connection.answer(first, Ok(Reply::Empty)).await;
    connection.answer(second, Ok(Reply::Empty)).await;
    before.await.unwrap();
    close.await.unwrap();
    let error = behind.await.unwrap_err();
    assert!(error.kind() == &ErrorKind::Closed && !error.may_have_happened());
    let mut state = other.state();
    state.wait_for(|state| *state == SessionState::Closed).await.unwrap();
    connection.until_hung_up().await;
}

#[tokio::test(start_paused = true)]
async fn a_close_whose_future_is_dropped_closes_all_the_same() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let other = client.clone();
    drop(client.close());
    assert_eq!(connection.request().await.1, Request::CloseSession);
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn the_last_handle_that_is_dropped_closes_the_session() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let other = client.clone();
    drop(client);
    assert!(connection.silent_for(TIMEOUT / 4).await);
    drop(other);
    assert_eq!(connection.request().await.1, Request::CloseSession);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_dropped_while_no_server_answers_gives_up() {
    let mut servers = Servers::new();
    let (client, connection) = servers.client().await;
    let mut state = servers.vanish(&client, connection).await;
    let began_at = Instant::now();
    drop(client);
    state.wait_for(|state| *state == SessionState::Closed).await.unwrap();
    assert_eq!(Instant::now(), began_at, "at once");
}

#[tokio::test(start_paused = true)]
async fn a_session_is_left_to_another_process() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let create = client.create("/e", b"", CreateMode::Ephemeral);
    let (xid, _) = connection.request().await;
    let created = Reply::PathStat("/e".into(), zoolet_client::Stat::default());
    connection.answer_at(xid, zoolet_client::Zxid(42), Ok(created)).await;
    create.await.unwrap();
    let text = client.detach().await.to_text();
    assert_eq!(connection.any_request().await, None, "it hangs up without a word");

    let session: SessionInfo = text.parse().unwrap();
    let options = servers.options().resume(session);
    let script = async {
        let mut connection = servers.accept().await;
        let hello = connection.hello().await;
        assert_eq!((hello.session_id, hello.last_zxid_seen.0), (SESSION, 42));
        assert_eq!(hello.password.unwrap().as_ref(), b"sixteen bytes...");
        connection.grant().await;
        connection
    };
    let (resumed, _connection) = tokio::join!(options.connect("one:1"), script);
    assert_eq!(resumed.unwrap().session().id, SESSION);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_has_ended_is_not_resumed() {
    let mut servers = Servers::new();
    let (client, _connection) = servers.client().await;
    let options = servers.options().resume(client.session());
    let script = async {
        let mut connection = servers.accept().await;
        connection.hello().await;
        connection.welcome(zoolet_client::SessionId::NONE, 0, false).await;
        connection
    };
    let (resumed, _connection) = tokio::join!(options.connect("one:1"), script);
    assert_eq!(resumed.unwrap_err().kind(), &ErrorKind::SessionExpired);
}

/// The session's task goes with the runtime that it runs on.
#[test]
fn calls_of_a_client_whose_runtime_is_gone_fail() {
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let mut servers = Servers::new();
    let (client, _connection) = first.block_on(servers.client());
    let before = client.delete("/a", Version::Any);
    drop(first);
    second.block_on(async {
        for call in [before, client.delete("/b", Version::Any)] {
            let answer = timeout(Duration::from_secs(10), call).await.expect("it waits for ever");
            let error = answer.unwrap_err();
            assert!(error.kind() == &ErrorKind::Closed && !error.may_have_happened());
        }
    });
}
