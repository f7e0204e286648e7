//! kill -9 of leaders and followers in turn, under load (issue 2, §7.4): every acknowledged write
//! is there, in order, once; sessions and their ephemeral znodes survive.
//!
//! `ZOOLET_KILL_ROUNDS` makes the run longer.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use zoolet_client::{Client, ClientOptions, CreateMode, ErrorCode, Zxid};
use zoolet_tests::four_letter;
use zoolet_tests::tools::announce;
use zoolet_tests::zoolet::Zoolet;

const SERVERS: usize = 3;
const WRITERS: usize = 4;
const ROUNDS: usize = 50;

/// What one writer knows at the end.
#[derive(Debug, Default)]
struct History {
    /// The counters whose write was acknowledged, with the zxid of the acknowledgment, in order.
    acknowledged: Vec<(u64, Zxid)>,
    /// The counters whose outcome is unknown.
    unknown: Vec<u64>,
}

async fn connect(servers: &str) -> Client {
    let options = ClientOptions::new().session_timeout(Duration::from_secs(30));
    options.connect_timeout(Duration::from_mins(1)).connect(servers).await.unwrap()
}

/// Creates `/log/<writer>/<counter>` for one counter after the other.
async fn write(servers: String, writer: usize, stop: Arc<AtomicBool>) -> History {
    let client = connect(&servers).await;
    let session = client.session().id;
    let ephemeral = format!("/alive-{writer}");
    client.create(&ephemeral, b"", CreateMode::Ephemeral).await.unwrap();
    let mut history = History::default();
    for counter in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let path = format!("/log/{writer}/{counter}");
        let data = counter.to_string();
        match client.create(&path, data.as_bytes(), CreateMode::Persistent).await {
            Ok((_, stat)) => history.acknowledged.push((counter, stat.czxid)),
            Err(error) if error.may_have_happened() && !error.ends_session() => {
                history.unknown.push(counter);
            }
            Err(error) => panic!("writer {writer}: {error}"),
        }
    }
    assert_eq!(client.session().id, session, "writer {writer} has lost its session");
    client.sync("/").await.unwrap();
    let stat = client.exists(&ephemeral).await.unwrap();
    assert_eq!(stat.map(|stat| stat.ephemeral_owner), Some(session), "{ephemeral}");
    history
}

/// Every acknowledged write is there with its own data and zxid; zxids rise as they were
/// acknowledged; nothing is there that was neither acknowledged nor unknown.
async fn check(client: &Client, writer: usize, history: &History) {
    let directory = format!("/log/{writer}");
    let (children, _) = client.children(&directory).await.unwrap();
    let mut found: Vec<u64> = children.iter().map(|name| name.parse().unwrap()).collect();
    found.sort_unstable();
    let mut last = Zxid(0);
    for (counter, zxid) in &history.acknowledged {
        assert!(*zxid > last, "writer {writer}: {zxid} was acknowledged behind {last}");
        last = *zxid;
        let answer = client.get(&format!("{directory}/{counter}")).await;
        let (data, stat) = match answer {
            Ok(answer) => answer,
            Err(error) => panic!("writer {writer}: acknowledged write {counter}: {error}"),
        };
        assert_eq!((data.as_ref(), stat.czxid), (counter.to_string().as_bytes(), *zxid));
    }
    let expected = |counter: &u64| {
        history.unknown.contains(counter)
            || history.acknowledged.binary_search_by_key(counter, |(known, _)| *known).is_ok()
    };
    assert!(found.iter().all(expected), "writer {writer}: a write that nobody made");
}

/// The zxid and digest of every server, once they are the same everywhere.
async fn converged(servers: &Zoolet) -> String {
    let mut seen = Vec::new();
    for _ in 0..600 {
        seen.clear();
        for index in 0..SERVERS {
            let text = four_letter::ask(servers.client_address(index).unwrap(), "mntr").unwrap();
            let state = text.lines().filter(|line| line.starts_with("zk_state_"));
            seen.push(state.collect::<Vec<_>>().join(" "));
        }
        if seen.iter().all(|state| !state.is_empty() && Some(state) == seen.first()) {
            return seen.remove(0);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the servers do not come to the same state: {seen:?}");
}

/// Kills one server of three at a time, every other time the leader, and starts it again.
async fn kill_in_turn(servers: &mut Zoolet, rounds: usize) -> usize {
    let mut leaders = 0;
    for round in 0..rounds {
        let leader = servers.leader();
        let victim = match leader {
            Some(leader) if round % 2 == 0 => leader,
            Some(leader) => (leader + 1 + round / 2 % (SERVERS - 1)) % SERVERS,
            None => round % SERVERS,
        };
        leaders += usize::from(leader == Some(victim));
        servers.kill(victim).unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        tokio::task::block_in_place(|| servers.restart(victim)).unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    leaders
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_writes_and_sessions_survive_kills_of_leaders_and_followers() {
    let rounds = std::env::var("ZOOLET_KILL_ROUNDS")
        .map_or(ROUNDS, |text| text.parse().unwrap_or_else(|_| panic!("{text} is no number")));
    let mut servers =
        Zoolet::builder().servers(SERVERS).property("4lw.commands.whitelist", "*").start().unwrap();
    let connect_string = servers.connect_string();
    let admin = connect(&connect_string).await;
    admin.create("/log", b"", CreateMode::Persistent).await.unwrap();
    for writer in 0..WRITERS {
        admin.create(&format!("/log/{writer}"), b"", CreateMode::Persistent).await.unwrap();
    }
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<JoinHandle<History>> = (0..WRITERS)
        .map(|writer| tokio::spawn(write(connect_string.clone(), writer, Arc::clone(&stop))))
        .collect();
    let leaders = kill_in_turn(&mut servers, rounds).await;
    stop.store(true, Ordering::Relaxed);
    let mut acknowledged = 0;
    let mut unknown = 0;
    for (writer, task) in writers.into_iter().enumerate() {
        let history = task.await.unwrap();
        admin.sync("/").await.unwrap();
        check(&admin, writer, &history).await;
        acknowledged += history.acknowledged.len();
        unknown += history.unknown.len();
    }
    let state = converged(&servers).await;
    let refused = admin.create("/log", b"", CreateMode::Persistent).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::NodeExists));
    announce(&format!(
        "kill9: {rounds} kills, {leaders} of leaders, {acknowledged} acknowledged writes all \
         there, {unknown} unknown, {state}"
    ));
    assert!(leaders * 3 > rounds, "only {leaders} of {rounds} kills hit a leader");
    assert!(acknowledged > rounds * 20, "only {acknowledged} writes were acknowledged");
}
