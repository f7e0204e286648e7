//! What the scenes of recipes have in common, beside what all scenes have.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Mutex;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zoolet_client::recipes::FencingToken;
use zoolet_client::{Client, ClientOptions, CreateMode, Error, Version};
use zoolet_tests::builder::Kind;
use zoolet_tests::four_letter;
use zoolet_tests::scenes::{SOON, Scene, connect, options, soon};
use zoolet_torture::proxy::{Fault, Proxy};

/// The most requests of one scenario that faults strike; more is a scenario that does not end.
const REQUESTS_MAX: usize = 200;

/// How long a cancelled future that only waits is looked at.
const WAITS: Duration = Duration::from_millis(400);

/// What the scenes of recipes do beside what all scenes do.
pub(crate) trait RecipeScene {
    /// Waits until every server has what was acknowledged, where a `sync` does not.
    async fn caught_up(&self);

    /// Ends a client's session behind its back, as a server does when it has expired. The client
    /// may fight for its session: who resumes it last has it.
    async fn expire(&self, client: &Client);

    /// Runs a scenario again and again, each time with a client of its own, a fresh path, and a
    /// fault that hits another of its requests, until no request is left to hit. The scenario
    /// has to come to its end all the same, and must leave nothing below its path.
    async fn under_every_fault<F>(&self, scenario: impl Fn(Client, String) -> F)
    where
        F: Future<Output = ()>;

    /// Begins something again and again, each time with a client of its own and a fresh path, and
    /// drops it when another of its requests is lost, or the reply: while it waits for that, or for
    /// a connection. One that comes to its goal without a loss is dropped then and is the last. Of
    /// none may be left a znode or a watch while its session lives on, and `others` go on.
    async fn dropped_at_every_call<T>(
        &self,
        start: impl Fn(&Client, &str) -> T,
        goal: impl AsyncFn(&mut T),
        others: impl AsyncFn(&Client, &str),
    );

    /// How many watches on a path or below it the servers know; `None` when one of them did not
    /// answer in time.
    fn watched(&self, path: &str) -> Option<usize>;

    /// Waits until only containers, and parents of containers, are left below a path.
    async fn until_bare(&self, client: &Client, path: &str);
}

impl RecipeScene for Scene {
    async fn caught_up(&self) {
        // Apache's leader answers a `sync` before it has applied what a follower has, and
        // acknowledged.
        if self.processes().kind() == Kind::Zoolet {
            return;
        }
        let zxid = |server: &str| {
            let report = four_letter::ask(server.parse().unwrap(), "srvr").ok()?;
            report.lines().find(|line| line.starts_with("Zxid: ")).map(str::to_owned)
        };
        soon("all servers at one zxid", async || {
            let zxids: Vec<Option<String>> = self.servers.split(',').map(zxid).collect();
            zxids.iter().all(|other| other.is_some() && *other == zxids[0])
        })
        .await;
    }

    async fn expire(&self, client: &Client) {
        let session = client.session();
        soon("the end of the session", async || {
            let options = ClientOptions::new().resume(session.clone());
            match options.connect(&self.servers).await {
                Ok(resumed) => resumed.close().await.is_ok(),
                Err(error) => error.ends_session(),
            }
        })
        .await;
    }

    async fn under_every_fault<F>(&self, scenario: impl Fn(Client, String) -> F)
    where
        F: Future<Output = ()>,
    {
        let watcher = self.client().await;
        for fault in [Fault::Reply, Fault::Request] {
            let mut struck = 0;
            for after in 0..REQUESTS_MAX {
                let proxy = Proxy::start(&self.servers).await.unwrap();
                let client = connect(&proxy.connect_string()).await;
                let path = self.path();
                proxy.strike(fault, after);
                let limit = SOON * 2;
                let end = timeout(limit, scenario(client.clone(), path.clone())).await;
                assert!(end.is_ok(), "{fault:?} {after}: no end");
                let was_struck = proxy.calm();
                self.until_bare(&watcher, &path).await;
                drop(client);
                if !was_struck {
                    break;
                }
                struck += 1;
            }
            assert!(struck > 1, "{fault:?} struck {struck} requests");
        }
    }

    async fn dropped_at_every_call<T>(
        &self,
        start: impl Fn(&Client, &str) -> T,
        goal: impl AsyncFn(&mut T),
        others: impl AsyncFn(&Client, &str),
    ) {
        let watcher = self.client().await;
        for fault in [Fault::Servers, Fault::Reply] {
            let mut dropped = Vec::new();
            loop {
                let proxy = Proxy::start(&self.servers).await.unwrap();
                let client = connect(&proxy.connect_string()).await;
                let path = self.path();
                proxy.strike(fault, dropped.len());
                let mut begun = start(&client, &path);
                let struck = async {
                    while proxy.lost() == (0, 0) {
                        sleep(Duration::from_millis(1)).await;
                    }
                };
                let was_struck = tokio::select! {
                    biased;
                    () = struck => true,
                    () = goal(&mut begun) => proxy.lost() != (0, 0),
                };
                drop(begun);
                proxy.calm();
                proxy.heal();
                self.until_bare(&watcher, &path).await;
                others(&watcher, &path).await;
                dropped.push((proxy, client, path));
                assert!(dropped.len() < REQUESTS_MAX, "it does not end");
                if !was_struck {
                    break;
                }
            }
            assert!(dropped.len() > 2, "{fault:?} struck {} requests", dropped.len() - 1);
            for (_, client, path) in &dropped {
                // Behind all that it has asked for; the session is the one that it had.
                client.sync(path).await.unwrap();
                self.until_bare(&watcher, path).await;
                soon("no watch is left", async || self.watched(path) == Some(0)).await;
            }
        }
    }

    fn watched(&self, path: &str) -> Option<usize> {
        let below = format!("{path}/");
        let watched_by = |server: &str| {
            let report = four_letter::ask(server.parse().unwrap(), "wchp").ok()?;
            Some(report.lines().filter(|line| *line == path || line.starts_with(&below)).count())
        };
        self.servers.split(',').map(watched_by).sum()
    }

    async fn until_bare(&self, client: &Client, path: &str) {
        soon(&format!("nothing below {path}"), async || {
            let mut paths = vec![path.to_owned()];
            while let Some(next) = paths.pop() {
                for name in self.children(client, &next).await {
                    let child = format!("{next}/{name}");
                    let stat = client.exists(&child).await.unwrap();
                    if stat.is_none_or(|stat| stat.ephemeral_owner.0 != 0) {
                        return false;
                    }
                    paths.push(child);
                }
            }
            true
        })
        .await;
    }
}

/// A client of another session timeout.
pub(crate) async fn connect_for(servers: &str, session: Duration) -> Client {
    options().session_timeout(session).connect(servers).await.unwrap()
}

/// Drops a future at its first await, then a new one at its second, and so on, until one comes to
/// its end or only waits. `left` looks at what each of them has left.
pub(crate) async fn cancelled_at_every_await<T, F>(
    mut make: impl FnMut() -> F,
    mut left: impl AsyncFnMut(),
) where
    F: Future<Output = Result<T, Error>>,
{
    cancelled_until(async |polls| {
        let dropped = timeout(WAITS, dropped_after(polls, make())).await;
        // Out of time: it only waits.
        let has_ended = dropped.map_or(true, |answer| answer.map(Result::unwrap).is_some());
        left().await;
        has_ended
    })
    .await;
}

/// The same of what waits for no other client: the last one comes to its end, however long it
/// takes.
pub(crate) async fn cancelled_until_it_ends<T, F>(
    mut make: impl FnMut() -> F,
    mut left: impl AsyncFnMut(),
) where
    F: Future<Output = Result<T, Error>>,
{
    cancelled_until(async |polls| {
        let has_ended = dropped_after(polls, make()).await.map(Result::unwrap).is_some();
        left().await;
        has_ended
    })
    .await;
}

async fn cancelled_until(mut has_ended: impl AsyncFnMut(usize) -> bool) {
    let (mut polls, mut at_once) = (1, 0);
    while polls < 200 {
        if !has_ended(polls).await {
            polls += 1;
        } else if polls > 1 {
            return;
        } else {
            // All answers can arrive within the first poll if this thread pauses in it.
            at_once += 1;
            assert!(at_once < 10, "it awaits nothing");
        }
    }
    panic!("it does not end");
}

/// Polls a future `polls` times and drops it; returns its output if it came to its end.
pub(crate) async fn dropped_after<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut still = polls;
    let polled = poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending if still == 1 => Poll::Ready(None),
        Poll::Pending => {
            still -= 1;
            Poll::Pending
        }
    });
    timeout(SOON, polled).await.expect("it comes to its end, or to the next await")
}

/// A resource outside the ensemble that accepts no token below the highest it has seen.
#[derive(Debug, Default)]
pub(crate) struct Fenced {
    highest: Mutex<Option<FencingToken>>,
}

impl Fenced {
    /// A new grant: its token is higher than every one before.
    pub(crate) fn grant(&self, token: FencingToken) {
        let mut highest = self.highest.lock().unwrap();
        assert!(Some(token) > *highest, "{token} was granted after {highest:?}");
        *highest = Some(token);
    }
}

/// A counter that only mutual exclusion keeps right: it is read, then written without a version.
pub(crate) async fn count_up(client: &Client, path: &str) {
    client.sync(path).await.unwrap();
    let (data, _) = client.get(path).await.unwrap();
    let count: u32 = std::str::from_utf8(&data).unwrap().parse().unwrap();
    client.set_data(path, (count + 1).to_string().as_bytes(), Version::Any).await.unwrap();
}

pub(crate) async fn new_counter(client: &Client, path: &str) {
    client.create(path, b"0", CreateMode::Persistent).await.unwrap();
}
