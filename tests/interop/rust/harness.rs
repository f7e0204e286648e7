//! Checks that count, bounded waits, and the lines that go to and come from the harness.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use zookeeper_client::{Client, Connector, Error, OneshotWatcher, PersistentWatcher, WatchedEvent};

/// Long enough for an election on a busy machine, so that a lost server never costs a session.
pub const SESSION: Duration = Duration::from_secs(10);
/// Bounds the wait for something that is on its way.
pub const ON_ITS_WAY: Duration = Duration::from_secs(20);

static CHECKS: AtomicU64 = AtomicU64::new(0);

pub fn checks() -> u64 {
    CHECKS.load(Ordering::Relaxed)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a thread of its own, which a stuck runtime cannot stop"
)]
pub fn give_up_after(limit: Duration) {
    thread::spawn(move || {
        thread::sleep(limit);
        eprintln!("no end after {limit:?}");
        std::process::exit(3);
    });
}

/// Counts what was found right; the first wrong ends the program.
#[track_caller]
pub fn check(right: bool, what: &str) {
    assert!(right, "{what}");
    CHECKS.fetch_add(1, Ordering::Relaxed);
}

#[track_caller]
pub fn equal<T: Debug + PartialEq>(found: T, expected: T, what: &str) {
    assert_eq!(found, expected, "{what}");
    CHECKS.fetch_add(1, Ordering::Relaxed);
}

#[track_caller]
pub fn ok<T, E: Debug>(result: Result<T, E>, what: &str) -> T {
    CHECKS.fetch_add(1, Ordering::Relaxed);
    match result {
        Ok(value) => value,
        Err(error) => panic!("{what}: {error:?}"),
    }
}

#[track_caller]
pub fn fails<T: Debug, E: Debug + PartialEq>(result: Result<T, E>, expected: E, what: &str) {
    match result {
        Ok(value) => panic!("{what}: no error but {value:?}"),
        Err(error) => equal(error, expected, what),
    }
}

/// Waits for what is on its way, and not forever.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match timeout(ON_ITS_WAY, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: not within {ON_ITS_WAY:?}"),
    }
}

pub async fn fired(watcher: OneshotWatcher, what: &str) -> WatchedEvent {
    soon(what, watcher.changed()).await
}

pub async fn next(watcher: &mut PersistentWatcher, what: &str) -> WatchedEvent {
    soon(what, watcher.changed()).await
}

/// Did the connection end under a call? The crate says so in two ways: with an error of its own, or
/// with the operating system's, such as "connection reset by peer" from a server that was killed.
pub fn is_loss(error: &Error) -> bool {
    matches!(error, Error::ConnectionLoss | Error::Custom(_))
}

/// Repeats a call whose connection was lost under it, as every user of ZooKeeper must. The calls
/// made through it may run twice unharmed.
pub async fn carried<T, F: Future<Output = Result<T, Error>>>(
    mut call: impl FnMut() -> F,
) -> Result<T, Error> {
    let start = Instant::now();
    loop {
        match call().await {
            Err(error) if is_loss(&error) && start.elapsed() < ON_ITS_WAY => {
                sleep(Duration::from_millis(50)).await;
            }
            result => return result,
        }
    }
}

/// The addresses of the ensemble.
#[derive(Clone)]
pub struct Servers(pub Vec<String>);

impl Servers {
    pub fn from_env() -> Self {
        let connect = std::env::var("ZK_CONNECT").expect("ZK_CONNECT is set");
        Self(connect.split(',').map(str::to_owned).collect())
    }

    pub fn connect_string(&self) -> String {
        self.0.join(",")
    }

    pub fn connector() -> Connector {
        Client::connector().with_session_timeout(SESSION)
    }

    pub async fn connect(&self) -> Client {
        ok(Self::connector().connect(&self.connect_string()).await, "connect")
    }

    pub fn without(&self, lost: &str) -> Self {
        Self(self.0.iter().filter(|server| *server != lost).cloned().collect())
    }

    /// The server that lists the session among its connections.
    pub async fn server_of(&self, client: &Client) -> String {
        let session = format!("sid={},", client.session_id());
        for server in &self.0 {
            if ask(server, "cons").await.contains(&session) {
                return server.clone();
            }
        }
        panic!("no server has a connection of session {session}");
    }

    /// The server that calls itself the leader.
    pub async fn leader(&self) -> Option<String> {
        for server in &self.0 {
            if ask(server, "srvr").await.contains("Mode: leader\n") {
                return Some(server.clone());
            }
        }
        None
    }
}

/// Sends a four-letter word; a server that is not there answers nothing.
async fn ask(server: &str, word: &str) -> String {
    let exchange = async {
        let mut stream = TcpStream::connect(server).await?;
        stream.write_all(word.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, io::Error>(answer)
    };
    let answer = timeout(Duration::from_secs(2), exchange).await;
    answer.ok().and_then(Result::ok).unwrap_or_default()
}

/// Has the harness kill a server, and returns when it is dead.
pub async fn lose_server(server: &str) {
    exchange(format!("LOSE SERVER {server}"), format!("LOST {server}")).await;
}

/// Has the harness start the killed server again.
pub async fn bring_back() {
    exchange("BRING BACK".to_owned(), "BACK".to_owned()).await;
}

async fn exchange(request: String, expected: String) {
    println!("{request}");
    let answer = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|_| line)
    });
    let line = ok(answer.await.expect("reading does not panic"), "read the harness's answer");
    equal(line.trim(), expected.as_str(), "the harness's answer");
}
