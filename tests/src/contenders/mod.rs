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
//! FREE <number>             →                 it is about to release
//!                           ←   OK <number>
//!                           ←   STOP            every contender ends its turn
//! DONE                      →                 the last line; the exit code is 0
//! ```
//!
//! The arguments are contenders, each as `RECIPE:PATH`; `ZK_CONNECT` names the servers and
//! `ZK_SESSION_TIMEOUT_MS` the session timeout.
//!
//! [`contest()`] starts a program twice. The first process contends over and over. The second gets
//! each lock once and is killed while it holds all of them: the first must get on when the dead
//! sessions have expired, and not before. Then the ensemble loses its leader under the contention.

mod contest;
mod process;
pub mod programs;
mod referee;

pub use contest::{ContestError, Loss, Outcome, contest};

use zoolet_client::Client;
use zoolet_jute::SessionId;

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

/// The ephemeral znodes that there are.
pub async fn left_behind(servers: &str) -> Result<Vec<String>, zoolet_client::Error> {
    let client = Client::connect(servers).await?;
    let mut left = Vec::new();
    let mut paths = vec!["/".to_owned()];
    while let Some(path) = paths.pop() {
        let (names, stat) = client.children(&path).await?;
        if stat.ephemeral_owner != SessionId::NONE {
            left.push(path.clone());
        }
        let parent = path.trim_end_matches('/');
        paths.extend(names.iter().map(|name| format!("{parent}/{name}")));
    }
    client.close().await?;
    Ok(left)
}
