//! What stands below the root of a run.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use zoolet_client::{Client, Error, ErrorCode, ErrorKind, Version};

use crate::recipe::{Lock, Recipe};

/// How often it is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The znode that is written under a lock.
pub(crate) fn ledger_of(ledger: &str, lock: &str) -> String {
    format!("{ledger}/{}", lock.trim_start_matches('/').replace('/', "."))
}

/// Waits until the ephemeral znodes below a root are gone; returns those that stay.
pub(crate) async fn ephemerals_gone(
    client: &Client,
    root: &str,
    limit: Duration,
) -> Result<Vec<String>, Error> {
    until_none(limit, || async {
        let mut left = Vec::new();
        for path in everything(client, root).await? {
            match client.exists(&path).await? {
                Some(stat) if stat.ephemeral_owner.0 != 0 => {
                    left.push(format!("{path} of session {:#x}", stat.ephemeral_owner.0));
                }
                Some(_) | None => {}
            }
        }
        Ok(left)
    })
    .await
}

/// Waits until all queues are empty; returns the znodes that stay.
pub(crate) async fn waiters_gone(
    client: &Client,
    locks: &[Lock],
    limit: Duration,
) -> Result<Vec<String>, Error> {
    until_none(limit, || async {
        let mut left = Vec::new();
        for lock in locks {
            if lock.recipe == Recipe::SimpleLock {
                if client.exists(&lock.path).await?.is_some() {
                    left.push(lock.path.clone());
                }
                continue;
            }
            for witnesses in [lock.beside("witness"), lock.beside("count-witness")] {
                left.extend(everything(client, &witnesses).await?.split_off(1));
            }
            if !lock.recipe.is_lock() {
                continue;
            }
            let mut ephemeral = everything(client, &lock.path).await?;
            let directories: Vec<String> = lock
                .parts()
                .iter()
                .filter(|part| part.recipe != Recipe::SimpleLock)
                .flat_map(|part| ["", "/locks", "/leases"].map(|end| format!("{}{end}", part.path)))
                .collect();
            ephemeral.retain(|path| *path != lock.path && !directories.contains(path));
            left.extend(ephemeral);
        }
        Ok(left)
    })
    .await
}

/// Deletes everything below a root, and the root.
pub(crate) async fn remove(client: &Client, root: &str) -> Result<(), Error> {
    let mut paths = everything(client, root).await?;
    paths.reverse();
    for path in paths {
        match client.delete(&path, Version::Any).await {
            // A reaper was here too.
            Err(error) if error.code() != Some(ErrorCode::NoNode) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

async fn until_none<F>(limit: Duration, look: impl Fn() -> F) -> Result<Vec<String>, Error>
where
    F: Future<Output = Result<Vec<String>, Error>>,
{
    let end = Instant::now() + limit;
    loop {
        match look().await {
            Ok(left) if left.is_empty() || Instant::now() > end => return Ok(left),
            Ok(_) => {}
            Err(error) if *error.kind() == ErrorKind::ConnectionLoss && Instant::now() < end => {}
            Err(error) => return Err(error),
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// The root and all paths below it, parents first.
async fn everything(client: &Client, root: &str) -> Result<Vec<String>, Error> {
    client.sync(root).await?;
    let mut paths = vec![root.to_owned()];
    let mut at = 0;
    while let Some(path) = paths.get(at).cloned() {
        at += 1;
        match client.children(&path).await {
            Ok((names, _)) => paths.extend(names.iter().map(|name| format!("{path}/{name}"))),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(paths)
}
