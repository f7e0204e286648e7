//! Pings, silence, and when a session is given up: by the client's clock, to the millisecond.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, advance, sleep_until};
use zoolet_client::{
    AddWatchMode, ErrorCode, ErrorKind, EventType, SessionId, SessionState, Version,
};
use zoolet_jute::{Reply, Request, Stat, Xid};

use crate::log::Log;
use crate::script::{SESSION, Servers, TIMEOUT};

/// What timers and tasks may add to an exact moment.
const SLACK: Duration = Duration::from_millis(5);

#[track_caller]
fn assert_at(began_at: Instant, wanted: Duration) {
    let now = began_at.elapsed();
    assert!(now >= wanted && now < wanted + SLACK, "{now:?} is not {wanted:?}");
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_kept_alive_and_a_silent_one_is_given_up() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let began_at = Instant::now();
    for beat in 1..=3 {
        assert_eq!(connection.any_request().await, Some((Xid::PING, Request::Ping)));
        assert_at(began_at, TIMEOUT / 3 * beat);
        connection.pong().await;
    }
    // From here on it says nothing. The last pong came at one timeout.
    connection.until_hung_up().await;
    assert_at(began_at, TIMEOUT + TIMEOUT * 2 / 3);
    let mut state = client.state();
    state.wait_for(|state| *state == SessionState::Disconnected).await.unwrap();
    assert!(servers.accept().await.hello().await.session_id == SESSION);
}

#[tokio::test(start_paused = true)]
async fn a_busy_connection_pings_too() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let began_at = Instant::now();
    let load = tokio::spawn(async move {
        while client.exists("/a").await.is_ok() {
            sleep_until(Instant::now() + TIMEOUT / 100).await;
        }
        client
    });
    let mut pings = 0;
    while pings < 6 {
        match connection.any_request().await.unwrap() {
            (Xid::PING, _) => {
                pings += 1;
                assert_at(began_at, TIMEOUT / 3 * pings);
                connection.pong().await;
            }
            (xid, _) => connection.answer(xid, Ok(Reply::Stat(Stat::default()))).await,
        }
    }
    drop(connection);
    assert!(load.await.unwrap().remaining() > TIMEOUT * 7 / 10);
}

#[tokio::test(start_paused = true)]
async fn a_half_open_connection_is_given_up_although_requests_go_into_it() {
    let mut servers = Servers::new();
    let (client, connection) = servers.client().await;
    let (began_at, data) = (Instant::now(), vec![7; 3_000]);
    let calls: Vec<_> = (0..100).map(|_| client.set_data("/a", &data, Version::Any)).collect();
    for call in calls {
        assert_eq!(call.await.unwrap_err().kind(), &ErrorKind::ConnectionLoss);
    }
    assert_at(began_at, TIMEOUT * 2 / 3);
    drop(connection);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_talks_and_does_not_answer_is_given_up_before_the_session() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    servers.network.down.store(true, Ordering::Relaxed);
    let began_at = Instant::now();
    let chatter = tokio::spawn(async move {
        loop {
            connection.event(EventType::NodeCreated, "/a").await;
            sleep_until(Instant::now() + TIMEOUT / 10).await;
        }
    });
    let mut state = client.state();
    state.wait_for(|state| *state == SessionState::Lost).await.unwrap();
    assert_at(began_at, TIMEOUT * 4 / 5);
    chatter.abort();
}

#[tokio::test(start_paused = true)]
async fn a_session_is_lost_four_fifths_after_the_last_answered_ping_was_sent() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    assert_eq!(connection.any_request().await, Some((Xid::PING, Request::Ping)));
    let sent_at = Instant::now();
    // The answer is slow; what counts is when it was asked for.
    advance(TIMEOUT / 10).await;
    connection.pong().await;
    // Answers to other requests prove nothing: a server that is cut off gives them too.
    let call = client.exists("/a");
    let (xid, _) = connection.request().await;
    connection.answer(xid, Err(ErrorCode::NoNode)).await;
    assert_eq!(call.await.unwrap(), None);
    assert_eq!(client.remaining(), TIMEOUT * 7 / 10);

    let mut state = servers.vanish(&client, connection).await;
    assert!(client.remaining() > Duration::ZERO, "it is not lost yet");
    let ((), lost) =
        tokio::join!(client.lost(), state.wait_for(|state| *state == SessionState::Lost));
    lost.unwrap();
    assert_at(sent_at, TIMEOUT * 4 / 5);
    assert_eq!(client.remaining(), Duration::ZERO);

    // A server that still knows it gives it back.
    servers.network.down.store(false, Ordering::Relaxed);
    let _connection = servers.serve().await;
    state.wait_for(|state| *state == SessionState::Connected).await.unwrap();
    assert!(client.remaining() > Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_the_session_does_not_prolong_it() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let before = client.remaining();
    advance(TIMEOUT / 10).await;
    let call = client.delete("/a", Version::Any);
    let (xid, _) = connection.request().await;
    connection.answer(xid, Err(ErrorCode::SessionExpired)).await;
    let error = call.await.unwrap_err();
    assert!(error.ends_session() && !error.may_have_happened());
    assert!(client.remaining() + TIMEOUT / 10 <= before);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_has_expired_fails_everything_for_good() {
    for (answered, timeout_ms) in [(SessionId::NONE, 0), (SessionId(99), 6000)] {
        let mut servers = Servers::new();
        let (client, mut connection) = servers.client().await;
        let watch = client.add_watch("/a", AddWatchMode::Persistent);
        let (xid, _) = connection.request().await;
        connection.answer(xid, Ok(Reply::AddWatch(0))).await;
        let mut watch = watch.await.unwrap();
        drop(connection);
        let mut connection = servers.accept().await;
        let waiting = client.delete("/a", Version::Any);
        connection.hello().await;
        connection.welcome(answered, timeout_ms, false).await;

        let unsent = waiting.await.unwrap_err();
        let late = client.exists("/a").await.unwrap_err();
        for error in [unsent, late] {
            assert_eq!(error.kind(), &ErrorKind::SessionExpired);
            assert!(error.ends_session() && !error.may_have_happened());
        }
        assert_eq!(watch.changed().await.unwrap_err().kind(), &ErrorKind::SessionExpired);
        assert_eq!(*client.state().borrow(), SessionState::Expired);
        assert_eq!(client.remaining(), Duration::ZERO);
        client.lost().await;
    }
}

/// One line for the loss that may be one, one for the end, with the session and its server.
#[tokio::test(start_paused = true)]
async fn a_session_that_expires_is_logged_once() {
    let (log, _recording) = Log::begin();
    let mut servers = Servers::new();
    // The server falls silent, and no other is there.
    let (client, _silent) = servers.client().await;
    client.state().wait_for(|state| *state == SessionState::Lost).await.unwrap();
    let lost = log.warnings();
    assert_eq!(lost.len(), 1, "{lost:#?}");
    let session = format!("session{{id={SESSION}}}");
    assert!(lost[0].contains("may be lost") && lost[0].contains(&session), "{lost:#?}");
    let mut connection = servers.accept().await;
    connection.hello().await;
    connection.welcome(SessionId::NONE, 0, false).await;
    assert_eq!(client.exists("/a").await.unwrap_err().kind(), &ErrorKind::SessionExpired);
    let warnings = log.warnings();
    assert_eq!(warnings.len(), 2, "{warnings:#?}");
    assert!(warnings[1].contains("has expired") && warnings[1].contains(&session));
}
