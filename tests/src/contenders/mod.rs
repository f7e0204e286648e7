//! Lock programs in other languages under contention, with a referee outside of the ensemble.
//!
//! A program runs several contenders, each with a session of its own, and tells the referee on its
//! stdout what they do; it goes on when the referee has answered on its stdin, so that the referee
//! knows at any moment who may believe to hold what:
//!
//! ```text
//! program                       referee
//! READY                     →                 every contender has its session
//!                           ←   GO              contend
//! HELD <number> exclusive   →                 contender <number> has acquired (or: shared)
//!                           ←   OK <number>
//! WRITE <number> <token>    →                 it writes to what the lock guards
//!                           ←   OK <number>
//! FREE <number>             →                 it is about to release
//!                           ←   OK <number>
//!                           ←   STOP            every contender ends its turn
//! DONE                      →                 the last line; the exit code is 0
//! ```
//!
//! Only contenders with a fencing token write, and add it to `HELD` too: the transaction that created
//! their lock's znode, whatever the language. They write without looking whether they still hold the
//! lock, and do not learn whether the write was accepted.
//!
//! The arguments are contenders, each as `RECIPE:PATH`; `ZK_CONNECT` names the servers and
//! `ZK_SESSION_TIMEOUT_MS` the session timeout; with `ZK_MAY_EXPIRE` a session that has expired is no
//! failure.
//!
//! [`contest()`] starts a program twice. The first process contends over and over. The second gets
//! each lock once and is killed while it holds all of them: the first must get on when the dead
//! sessions have expired, and not before. Then the ensemble loses its leader under the contention.
//!
//! Both hold what the contenders say against who may hold the locks, see
//! [`zoolet_torture::reported`].
//!
//! [`contend()`] starts programs of several languages on the same paths, with faults of the programs,
//! their connections and the servers.

mod contest;
mod multi_language;
pub(crate) mod process;
pub mod programs;

pub use contest::{ContestError, Loss, Outcome, contest};
pub use multi_language::{ContentionReport, FAULTS, Fault, Harm, Side, contend};

use std::time::Duration;

use tokio::time::{Instant, sleep};
use zoolet_client::{Client, ErrorCode};
use zoolet_jute::SessionId;

/// A contender: which process, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Contender {
    process: usize,
    number: usize,
}

/// The permits of every semaphore.
const SEMAPHORE_PERMITS: usize = 2;

/// What is contended for by contenders of one program.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The lock path.
    pub path: &'static str,
    /// How many may hold it together in shared mode.
    pub permits: usize,
    /// The recipes of the contenders that live.
    pub contenders: [&'static str; 3],
    /// The recipe of the one that is killed.
    pub victim: &'static str,
}

impl Group {
    /// A lock with one holder at a time.
    pub const fn exclusive(recipe: &'static str, path: &'static str) -> Self {
        Self { path, permits: 1, contenders: [recipe; 3], victim: recipe }
    }

    /// A read-write lock: writers alone, readers together.
    pub const fn read_write(path: &'static str) -> Self {
        let contenders = ["write", "read", "read"];
        Self { path, permits: usize::MAX, contenders, victim: "write" }
    }

    /// A semaphore of two.
    pub const fn semaphore(path: &'static str) -> Self {
        Self { path, permits: SEMAPHORE_PERMITS, contenders: ["semaphore"; 3], victim: "semaphore" }
    }
}

/// The dead sessions of a contest have expired after this time: their own timeout, a ping that came
/// up to a third of it before the kill, a few ticks.
const EXPIRY_MAX: Duration = Duration::from_secs(15);

/// The ephemeral znodes that are there when all dead sessions have expired: as soon as there are
/// none, or in the end.
pub async fn left_behind(servers: &str) -> Result<Vec<String>, zoolet_client::Error> {
    let client = Client::connect(servers).await?;
    let start = Instant::now();
    let left = loop {
        let left = ephemerals(&client).await?;
        if left.is_empty() || start.elapsed() > EXPIRY_MAX {
            break left;
        }
        sleep(Duration::from_millis(100)).await;
    };
    client.close().await?;
    Ok(left)
}

async fn ephemerals(client: &Client) -> Result<Vec<String>, zoolet_client::Error> {
    let mut found = Vec::new();
    let mut paths = vec!["/".to_owned()];
    while let Some(path) = paths.pop() {
        let (names, stat) = match client.children(&path).await {
            Ok(known) => known,
            // It has just gone.
            Err(error) if error.code() == Some(ErrorCode::NoNode) => continue,
            Err(error) => return Err(error),
        };
        if stat.ephemeral_owner != SessionId::NONE {
            found.push(path.clone());
        }
        let parent = path.trim_end_matches('/');
        paths.extend(names.iter().map(|name| format!("{parent}/{name}")));
    }
    Ok(found)
}
