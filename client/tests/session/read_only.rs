//! Servers that are cut off from their ensemble and serve reads alone.

use std::time::Duration;

use zoolet_client::{CreateMode, ErrorCode, SessionId, SessionState, Stat};
use zoolet_jute::Reply;

use crate::script::{SERVERS, SESSION, Servers};

/// The session that a read-only server makes up.
const MADE_UP: SessionId = SessionId(0x0200_0000_0000_0001);

#[tokio::test(start_paused = true)]
async fn a_read_only_server_serves_until_one_that_writes_is_found() {
    let mut servers = Servers::new();
    let options = servers.options().read_only(true);
    let script = async {
        let mut connection = servers.accept().await;
        let hello = connection.hello().await;
        assert_eq!((hello.session_id, hello.read_only), (SessionId::NONE, Some(true)));
        connection.welcome(MADE_UP, 6000, true).await;
        connection
    };
    let (client, mut reads) = tokio::join!(options.connect(SERVERS), script);
    let client = client.unwrap();
    assert_eq!(*client.state().borrow(), SessionState::ReadOnly);
    assert_eq!(client.remaining(), Duration::ZERO, "no server keeps it alive");
    let (get, create) = (client.exists("/a"), client.create("/a", b"", CreateMode::Persistent));
    let (xid, _) = reads.request().await;
    reads.answer(xid, Ok(Reply::Stat(Stat::default()))).await;
    let (xid, _) = reads.request().await;
    reads.answer(xid, Err(ErrorCode::NotReadOnly)).await;
    get.await.unwrap();
    assert_eq!(create.await.unwrap_err().code(), Some(ErrorCode::NotReadOnly));

    for answer in [b"ro", b"rw"] {
        let mut probe = servers.accept().await;
        assert_eq!(&probe.word().await, b"isro");
        probe.send(answer).await;
        if answer == b"rw" {
            let mut connection = servers.accept().await;
            assert_eq!(connection.address, probe.address, "the one that writes");
            let hello = connection.hello().await;
            assert_eq!(hello.session_id, SessionId::NONE, "the ensemble does not know it");
            connection.grant().await;
            let mut state = client.state();
            state.wait_for(|state| *state == SessionState::Connected).await.unwrap();
        }
    }
    reads.until_hung_up().await;
    assert_eq!(client.session().id, SESSION);
    assert!(client.remaining() > Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_session_of_the_ensemble_is_kept_while_a_read_only_server_refuses_it() {
    let mut servers = Servers::new();
    let options = servers.options().read_only(true);
    let (client, connection) = servers.start(options).await;
    drop(connection);
    // A read-only server closes the connection: it cannot know whether the session has ended.
    drop(servers.accept().await);
    let mut connection = servers.accept().await;
    assert_eq!(connection.hello().await.session_id, SESSION);
    connection.grant().await;
    let mut state = client.state();
    state.wait_for(|state| *state == SessionState::Connected).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_writes_leaves_a_read_only_server() {
    let mut servers = Servers::new();
    let options = servers.options();
    let script = async {
        let mut connection = servers.accept().await;
        assert_eq!(connection.hello().await.read_only, Some(false));
        connection.welcome(MADE_UP, 6000, true).await;
        servers.serve().await
    };
    let (client, _connection) = tokio::join!(options.connect(SERVERS), script);
    let client = client.unwrap();
    assert_eq!((client.session().id, *client.state().borrow()), (SESSION, SessionState::Connected));
}
