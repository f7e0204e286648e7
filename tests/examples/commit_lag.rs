//! How far a follower is behind the leader's answer to a client: the time from that answer until
//! the followers' watch events, and how many reads through a follower, sent right after the
//! answer, are stale. `cargo build -p zoolet && cargo run -p zoolet-tests --example commit_lag
//! -- [apache] [zoolet] [embedded]`.

#![allow(clippy::print_stdout, reason = "the table is the result")]
#![allow(clippy::disallowed_methods, reason = "it measures real time")]

use std::error::Error;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;
use zoolet_client::{AddWatchMode, Client, CreateMode, PersistentWatcher, Version};
use zoolet_server::embed::Ensemble;
use zoolet_tests::servers::{LEADER_MAX, Servers};

const WRITES: usize = 1000;

/// Writers beside the measured one, when there is load.
const LOADERS: usize = 32;

/// Between two measured writes, so that each finds the ensemble at rest.
const PAUSE: Duration = Duration::from_millis(5);

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut wanted: Vec<String> = std::env::args().skip(1).collect();
    if wanted.is_empty() {
        wanted.extend(["apache", "zoolet", "embedded"].map(str::to_owned));
    }
    println!(
        "| servers | load | answer p50 µs | lag p50 µs | p90 µs | p99 µs | max µs | stale reads |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for which in &wanted {
        match which.as_str() {
            "apache" => {
                let servers = Servers::apache().servers(3).start()?;
                measure(which, &addresses(&servers)?, servers.wait_for_leader(LEADER_MAX)?).await?;
            }
            "zoolet" => {
                let servers = Servers::zoolet().servers(3).start()?;
                measure(which, &addresses(&servers)?, servers.wait_for_leader(LEADER_MAX)?).await?;
            }
            _ => {
                let ensemble = Ensemble::builder().servers(3).start().await?;
                ensemble.wait_ready().await?;
                let addresses: Result<Vec<_>, _> = (0..3)
                    .map(|server| ensemble.client_addr(server).map(|address| address.to_string()))
                    .collect();
                measure(which, &addresses?, ensemble.leader().ok_or("no leader")?).await?;
                ensemble.shutdown().await;
            }
        }
    }
    Ok(())
}

fn addresses(servers: &Servers) -> Result<Vec<String>, Failure> {
    let address = |index| Ok(servers.client_address(index)?.to_string());
    (0..3).map(address).collect()
}

async fn measure(name: &str, addresses: &[String], leader: usize) -> Result<(), Failure> {
    let mut followers = Vec::new();
    let mut writer = None;
    for (index, address) in addresses.iter().enumerate() {
        let client = Client::connect(address).await?;
        if index == leader {
            writer = Some(client);
        } else {
            followers.push(client);
        }
    }
    let writer = writer.ok_or("no leader")?;
    writer.create("/lag", b"", CreateMode::Persistent).await?;
    let mut watchers = Vec::new();
    for follower in &followers {
        follower.sync("/lag").await?;
        watchers.push(follower.add_watch("/lag", AddWatchMode::Persistent).await?);
    }
    run(name, "none", &writer, &followers, &mut watchers).await?;
    let mut loaders = JoinSet::new();
    for number in 0..LOADERS {
        let client = Client::connect(&addresses.join(",")).await?;
        let path = format!("/load{number}");
        client.create(&path, b"", CreateMode::Persistent).await?;
        loaders.spawn(async move {
            while client.set_data(&path, &[0; 100], Version::Any).await.is_ok() {}
        });
    }
    run(name, "32 writers", &writer, &followers, &mut watchers).await?;
    loaders.shutdown().await;
    Ok(())
}

async fn run(
    name: &str,
    load: &str,
    writer: &Client,
    followers: &[Client],
    watchers: &mut [PersistentWatcher],
) -> Result<(), Failure> {
    let (mut answers, mut lags, mut stale) = (Vec::new(), Vec::new(), 0);
    for _ in 0..WRITES {
        sleep(PAUSE).await;
        let asked = Instant::now();
        let version = writer.set_data("/lag", b"x", Version::Any).await?.version;
        let answered = Instant::now();
        answers.push(micros(asked, answered));
        let reads = followers.iter().map(|follower| follower.get("/lag"));
        let events = watchers.iter_mut().map(|watcher| async move {
            watcher.changed().await?;
            Ok::<_, zoolet_client::Error>(Instant::now())
        });
        let reads = futures_util::future::try_join_all(reads);
        let events = futures_util::future::try_join_all(events);
        let (reads, events) = tokio::try_join!(reads, events)?;
        stale += reads.iter().filter(|(_, stat)| stat.version < version).count();
        lags.extend(events.into_iter().map(|at| micros(answered, at)));
    }
    answers.sort_unstable();
    lags.sort_unstable();
    let at = |sorted: &[i128], share: usize| {
        sorted.get((sorted.len() * share / 1000).min(sorted.len() - 1)).copied().unwrap_or(0)
    };
    println!(
        "| {name} | {load} | {} | {} | {} | {} | {} | {} ‰ |",
        at(&answers, 500),
        at(&lags, 500),
        at(&lags, 900),
        at(&lags, 990),
        at(&lags, 1000),
        1000 * stale / lags.len(),
    );
    Ok(())
}

/// Negative when the event came before the answer.
fn micros(from: Instant, to: Instant) -> i128 {
    let nanos = |duration: Duration| i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX);
    (nanos(to.saturating_duration_since(from)) - nanos(from.saturating_duration_since(to))) / 1000
}
