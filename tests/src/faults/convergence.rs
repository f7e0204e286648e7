//! Whether all servers reach the same state.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Failure, connect, promised, read};
use crate::four_letter;

/// How long servers may take to come to the same state after the last write.
const CONVERGENCE_MAX: Duration = Duration::from_secs(30);

/// What all servers agree on.
#[derive(Clone, Debug)]
pub struct Agreement {
    /// The lines of `mntr` with zxid and digest of the state.
    pub state: String,
    pub znodes: usize,
}

/// Waits until all servers report the same zxid and digest, then reads the whole tree through each
/// of them and compares every znode. No client may write meanwhile.
pub async fn all(servers: &[SocketAddr]) -> Result<Agreement, Failure> {
    let state = same_state(servers).await?;
    let mut trees = Vec::new();
    for server in servers {
        let client = connect(&server.to_string()).await?;
        client.sync("/").await?;
        trees.push((server, read::tree(&client).await?));
        client.close().await?;
    }
    let mut trees = trees.into_iter();
    let Some((first, expected)) = trees.next() else {
        return Err(Failure::Broken("no servers to compare".into()));
    };
    for (server, tree) in trees {
        for (path, node) in &expected {
            let other = tree.get(path);
            promised(other == Some(node), || {
                format!("{path} is {node:?} on {first}, and {other:?} on {server}")
            })?;
        }
        let (here, there) = (expected.len(), tree.len());
        promised(here == there, || format!("{here} znodes on {first}, {there} on {server}"))?;
    }
    Ok(Agreement { state, znodes: expected.len() })
}

async fn same_state(servers: &[SocketAddr]) -> Result<String, Failure> {
    let start = Instant::now();
    loop {
        let mut states = Vec::new();
        for server in servers {
            states.push(state(*server).await);
        }
        if let Some(Some(first)) = states.first()
            && states.iter().all(|state| state.as_ref() == Some(first))
        {
            return Ok(first.clone());
        }
        promised(start.elapsed() < CONVERGENCE_MAX, || {
            format!("the servers do not come to the same state: {states:?}")
        })?;
        sleep(Duration::from_millis(50)).await;
    }
}

async fn state(server: SocketAddr) -> Option<String> {
    let asked = tokio::task::spawn_blocking(move || four_letter::ask(server, "mntr")).await;
    let text = asked.ok()?.ok()?;
    let is_of_state = |line: &&str| {
        ["zk_state_zxid\t", "zk_state_digest\t"].iter().any(|key| line.starts_with(key))
    };
    let lines: Vec<&str> = text.lines().filter(is_of_state).collect();
    (lines.len() == 2).then(|| lines.join(" ").replace('\t', " "))
}
