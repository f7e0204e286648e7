//! Slow links, large replies and servers that are cut off: what keeps a connection, and what ends it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use zoolet_client::{
    AddWatchMode, ErrorCode, ErrorKind, EventType, SessionId, SessionState, Version,
};
use zoolet_jute::{Reply, Request, Stat, Xid};

use crate::script::{Connection, SERVERS, Servers, TIMEOUT};

/// What timers and tasks may add to an exact moment.
const SLACK: Duration = Duration::from_millis(5);

/// Collects the states that a session goes through from now on.
fn states(mut state: watch::Receiver<SessionState>) -> JoinHandle<Vec<SessionState>> {
    tokio::spawn(async move {
        let mut seen = Vec::new();
        while state.changed().await.is_ok() {
            seen.push(*state.borrow_and_update());
        }
        seen
    })
}

/// Answers everything in order, over a link on which every reply to a read takes so long. Returns
/// how many reads were answered when the client hangs up.
async fn serve_slowly(mut connection: Connection, read: Duration, write: Duration) -> usize {
    let mut reads = 0;
    while let Some((xid, request)) = connection.any_request().await {
        match request {
            Request::Ping => connection.pong().await,
            Request::CloseSession => {
                connection.answer(xid, Ok(Reply::Empty)).await;
                return reads;
            }
            Request::SetData(_) => {
                sleep(write).await;
                connection.answer(xid, Ok(Reply::Stat(Stat::default()))).await;
            }
            _ => {
                reads += 1;
                sleep(read).await;
                connection.answer(xid, Ok(Reply::Data(None, Stat::default()))).await;
            }
        }
    }
    reads
}

/// 300 reads of 100 kB were asked for at once over a link of 2 MB a second. The reply to a ping
/// came behind all of them, and the client left a connection on which replies streamed.
#[tokio::test(start_paused = true)]
async fn bulk_reads_on_a_slow_link_neither_lose_the_session_nor_end_the_connection() {
    for millis in [20, 50, 200, 400] {
        let mut servers = Servers::new();
        let (client, connection) = servers.client().await;
        let server = tokio::spawn(serve_slowly(
            connection,
            Duration::from_millis(millis),
            Duration::from_millis(1),
        ));
        let seen = states(client.state());
        let calls: Vec<_> = (0..300).map(|_| client.get("/bulk")).collect();
        for call in calls {
            call.await.unwrap();
            assert!(client.remaining() > Duration::ZERO, "{millis} ms");
        }
        client.close().await.unwrap();
        assert_eq!(server.await.unwrap(), 300);
        assert_eq!(seen.await.unwrap(), [SessionState::Closed], "{millis} ms");
    }
}

/// The same with data that goes to the server.
#[tokio::test(start_paused = true)]
async fn bulk_writes_on_a_slow_link_neither_lose_the_session_nor_end_the_connection() {
    let mut servers = Servers::new();
    let (client, connection) = servers.client().await;
    let server = tokio::spawn(serve_slowly(connection, Duration::ZERO, Duration::from_millis(24)));
    let seen = states(client.state());
    let data = vec![7; 100_000];
    let calls: Vec<_> = (0..600).map(|_| client.set_data("/bulk", &data, Version::Any)).collect();
    for call in calls {
        call.await.unwrap();
        assert!(client.remaining() > Duration::ZERO);
    }
    client.close().await.unwrap();
    server.await.unwrap();
    assert_eq!(seen.await.unwrap(), [SessionState::Closed]);
}

/// The first burst of a connection: 10 MiB were under way before anything was known of the link, and
/// the answer to a ping came behind all of them.
#[tokio::test(start_paused = true)]
async fn a_first_burst_of_writes_on_a_slow_uplink_does_not_lose_the_session() {
    const SESSION: Duration = Duration::from_secs(4);
    for (kilobytes_per_second, data_bytes) in
        [(256, 40_000), (256, 100_000), (1_000, 100_000), (1_000, 900_000), (100_000, 100_000)]
    {
        let mut servers = Servers::new();
        let options = servers.options().session_timeout(SESSION);
        let script = async {
            let mut connection = servers.accept().await;
            connection.hello().await;
            connection.welcome(SessionId(7), 4_000, false).await;
            connection
        };
        let (client, connection) = tokio::join!(options.connect(SERVERS), script);
        let client = client.unwrap();
        let write = Duration::from_secs(data_bytes) / (kilobytes_per_second * 1_000);
        let server = tokio::spawn(serve_slowly(connection, Duration::ZERO, write));
        let seen = states(client.state());
        let data = vec![7; usize::try_from(data_bytes).unwrap()];
        let calls: Vec<_> =
            (0..300).map(|_| client.set_data("/bulk", &data, Version::Any)).collect();
        let began_at = Instant::now();
        for call in calls {
            call.await.unwrap();
            assert!(client.remaining() > Duration::ZERO, "{kilobytes_per_second} kB a second");
        }
        let took = began_at.elapsed();
        assert!(took < write * 310, "the link was not used all the time: {took:?}");
        client.close().await.unwrap();
        server.await.unwrap();
        assert_eq!(seen.await.unwrap(), [SessionState::Closed], "{kilobytes_per_second} kB");
    }
}

/// A link that is fast, and becomes slow in the middle of it.
#[tokio::test(start_paused = true)]
async fn a_link_that_becomes_slow_does_not_lose_the_session() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let server = tokio::spawn(async move {
        let mut reads = 0;
        while let Some((xid, request)) = connection.any_request().await {
            if request == Request::Ping {
                connection.pong().await;
                continue;
            }
            reads += 1;
            sleep(Duration::from_millis(if reads < 200 { 1 } else { 40 })).await;
            connection.answer(xid, Ok(Reply::Data(None, Stat::default()))).await;
        }
    });
    let seen = states(client.state());
    let small: Vec<_> = (0..200).map(|_| client.get("/small")).collect();
    for call in small {
        call.await.unwrap();
    }
    // The small ones have shown how fast the link is, but nothing is known after a pause.
    sleep(TIMEOUT / 4).await;
    let large: Vec<_> = (0..300).map(|_| client.get("/large")).collect();
    for call in large {
        call.await.unwrap();
        assert!(client.remaining() > Duration::ZERO);
    }
    drop(client);
    server.await.unwrap();
    assert_eq!(seen.await.unwrap(), [SessionState::Closed]);
}

/// One reply can be longer than the link carries within a lease. Its bytes prove that the connection
/// lives, and not that the session does.
#[tokio::test(start_paused = true)]
async fn a_reply_that_outlasts_the_lease_is_received_and_the_loss_is_reported_on_time() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let (began_at, mut state) = (Instant::now(), client.state());
    let call = client.get("/large");
    let (xid, _) = connection.request().await;
    let data = Reply::Data(Some(vec![7; 1_000_000].into()), Stat::default());
    let frame = Connection::frame_of(xid, &data);
    let link = tokio::spawn(async move {
        for piece in frame.chunks(50_000) {
            sleep(TIMEOUT / 10).await;
            connection.send(piece).await;
        }
        // The pings that came meanwhile.
        while let Ok(Some((Xid::PING, _))) = timeout(TIMEOUT / 10, connection.any_request()).await {
            connection.pong().await;
        }
        connection
    });
    client.lost().await;
    assert_eq!(began_at.elapsed().max(TIMEOUT * 4 / 5), began_at.elapsed(), "not before its time");
    state.wait_for(|state| *state == SessionState::Lost).await.unwrap();
    assert!(began_at.elapsed() < TIMEOUT * 4 / 5 + SLACK, "{:?}", began_at.elapsed());
    assert_eq!(call.await.unwrap().0.len(), 1_000_000);
    // The server counts the session after all: it has answered a ping.
    state.wait_for(|state| *state == SessionState::Connected).await.unwrap();
    assert!(client.remaining() > Duration::ZERO);
    drop(link.await.unwrap());
}

/// A follower that is cut off from its leader answers reads from what it has, and no pings. A busy
/// client stayed until its locks were lost; an idle one changed the server in time.
#[tokio::test(start_paused = true)]
async fn a_busy_client_leaves_a_server_that_answers_no_pings_while_its_locks_are_safe() {
    // From a call every 60 ms to one in two thirds of the timeout.
    for pause in [TIMEOUT / 100, TIMEOUT / 10, TIMEOUT / 4, TIMEOUT * 3 / 10, TIMEOUT * 2 / 5] {
        let mut servers = Servers::new();
        let (client, mut connection) = servers.client().await;
        let (began_at, seen) = (Instant::now(), states(client.state()));
        let other = client.clone();
        let load = tokio::spawn(async move {
            loop {
                sleep(pause).await;
                if other.exists("/a").await.is_err_and(|error| error.ends_session()) {
                    return;
                }
            }
        });
        let answers = async {
            while let Some((xid, request)) = connection.any_request().await {
                if request != Request::Ping {
                    connection.answer(xid, Err(ErrorCode::NoNode)).await;
                }
            }
        };
        assert!(timeout(TIMEOUT, answers).await.is_ok(), "{pause:?}: it stays");
        let left_at = began_at.elapsed();
        assert!(left_at >= TIMEOUT * 2 / 3, "{pause:?}: {left_at:?}");
        assert!(left_at < TIMEOUT * 3 / 4, "{pause:?}: {left_at:?}");
        let mut connection = servers.serve().await;
        sleep_until(Instant::now() + TIMEOUT / 20).await;
        assert!(client.remaining() > TIMEOUT / 2, "{pause:?}");
        load.abort();
        let _ = load.await;
        drop(client);
        while let Some((xid, _)) = connection.any_request().await {
            connection.answer(xid, Ok(Reply::Empty)).await;
        }
        let expected = [SessionState::Disconnected, SessionState::Connected, SessionState::Closed];
        assert_eq!(seen.await.unwrap(), expected, "{pause:?}");
    }
}

/// A zoolet server answers a ping when its leader has counted it, which takes longer than a read.
#[tokio::test(start_paused = true)]
async fn a_ping_that_reads_overtake_does_not_end_the_connection() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let seen = states(client.state());
    let other = client.clone();
    let load = tokio::spawn(async move {
        while other.exists("/a").await.is_ok() {
            sleep(TIMEOUT / 100).await;
        }
    });
    let (mut pings, mut pong_at) = (0, None);
    while pings < 12 {
        let next = timeout(TIMEOUT / 200, connection.any_request()).await;
        match next {
            Ok(Some((Xid::PING, _))) => {
                pings += 1;
                pong_at = Some(Instant::now() + TIMEOUT / 4);
            }
            Ok(Some((xid, _))) => connection.answer(xid, Err(ErrorCode::NoNode)).await,
            Ok(None) => panic!("the client has hung up"),
            Err(_) => {}
        }
        if pong_at.is_some_and(|at| at <= Instant::now()) {
            connection.pong().await;
            pong_at = None;
        }
    }
    load.abort();
    drop((client, connection));
    let _ = load.await;
    assert!(!seen.await.unwrap().contains(&SessionState::Lost));
}

/// Watch events are not asked for. A server that sends nothing else serves no call.
#[tokio::test(start_paused = true)]
async fn a_server_that_sends_events_alone_is_left_for_another() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let began_at = Instant::now();
    let call = client.add_watch("/a", AddWatchMode::Persistent);
    connection.request().await;
    while !matches!(timeout(TIMEOUT / 10, connection.any_request()).await, Ok(None)) {
        connection.event(EventType::NodeCreated, "/a").await;
    }
    assert_eq!(call.await.unwrap_err().kind(), &ErrorKind::ConnectionLoss);
    assert!(began_at.elapsed() <= TIMEOUT * 3 / 2, "{:?}", began_at.elapsed());
    servers.serve().await;
}

/// The lease begins when the session is asked for, and the first ping belongs to it: a server that
/// took its time for the handshake left none for another one.
#[tokio::test(start_paused = true)]
async fn the_first_ping_counts_from_the_request_for_the_session() {
    let mut servers = Servers::new();
    let options = servers.options();
    let script = async {
        let mut connection = servers.accept().await;
        connection.hello().await;
        let asked_at = Instant::now();
        sleep(TIMEOUT / 4).await;
        connection.grant().await;
        (connection, asked_at)
    };
    let (client, (mut connection, asked_at)) = tokio::join!(options.connect("one:1"), script);
    let client = client.unwrap();
    assert_eq!(connection.any_request().await, Some((Xid::PING, Request::Ping)));
    let pinged = asked_at.elapsed();
    assert!(pinged >= TIMEOUT / 3 && pinged < TIMEOUT / 3 + SLACK, "{pinged:?}");
    connection.until_hung_up().await;
    let left = asked_at.elapsed();
    assert!(left >= TIMEOUT * 2 / 3 && left < TIMEOUT * 2 / 3 + SLACK, "{left:?}");
    drop(client);
}

/// The next server to try was off the network. Two thirds of the timeout were over by then, and a
/// third of it went by before another one was tried.
#[tokio::test(start_paused = true)]
async fn a_server_that_is_off_the_network_leaves_time_for_the_next() {
    for seed in 0..6 {
        let mut servers = Servers::new();
        let options = servers.options().seed(seed);
        let (client, mut connection) = servers.start(options).await;
        let seen = states(client.state());
        let others: Vec<&str> =
            SERVERS.split(',').filter(|one| *one != connection.address).collect();
        servers.network.lost.lock().unwrap().insert(others[0].to_owned());
        // It is silent.
        connection.until_hung_up().await;
        let mut connection = servers.serve().await;
        assert_eq!(connection.address, others[1]);
        sleep(TIMEOUT / 20).await;
        assert!(client.remaining() > TIMEOUT / 2);
        drop(client);
        while let Some((xid, _)) = connection.any_request().await {
            connection.answer(xid, Ok(Reply::Empty)).await;
        }
        let expected = [SessionState::Disconnected, SessionState::Connected, SessionState::Closed];
        assert_eq!(seen.await.unwrap(), expected, "{others:?}");
    }
}

/// A network on which a connection takes long is not dead: in the second round it has its time.
#[tokio::test(start_paused = true)]
async fn a_connection_that_takes_long_is_made_in_the_second_round() {
    let mut servers = Servers::new();
    servers.network.delay_ms.store(900, Ordering::Relaxed);
    let options = servers.options();
    let (client, connection) = tokio::join!(options.connect(SERVERS), servers.serve());
    drop(client.unwrap());
    drop(connection);
}
