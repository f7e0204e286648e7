//! Deleting, in one transaction: all of a subtree goes, or nothing.

use std::collections::VecDeque;

use futures_util::future::join_all;
use serde_json::{Value, json};
use zoolet_client::{Client, ErrorCode, Version};
use zoolet_survey::path::join;

use super::write::with_present;
use crate::failure::Failure;
use crate::logins::Login;
use crate::requests::Sent;
use crate::shared_client::answer;
use crate::state::{Asked, State};

/// The most znodes that are deleted at a time.
const SUBTREE_MAX: usize = 5000;

/// How many znodes are listed at a time.
const LISTS_MAX: usize = 64;

/// How many paths a page gets to show.
const SHOWN_MAX: usize = 20;

/// `subtree`: what goes with a znode.
pub(crate) async fn subtree(state: &State, asked: &Asked) -> Result<Value, Failure> {
    let path = asked.query.path("path")?;
    let client = state.client(asked).await?;
    let paths = descendants(&client, path).await?;
    let below = paths.len().saturating_sub(1);
    Ok(json!({
        "path": path,
        "below": below,
        "isTooLarge": paths.len() > SUBTREE_MAX,
        "max": SUBTREE_MAX,
        "first": paths.get(1..).unwrap_or_default().iter().take(SHOWN_MAX).collect::<Vec<_>>(),
    }))
}

/// `delete`: deletes a znode of this version, with `below` znodes below it. For those, the name of the
/// znode has to be given once more.
pub(crate) async fn delete(login: &Login, sent: &Sent) -> Result<Value, Failure> {
    let (path, version) = (sent.path()?, Version::Exactly(sent.version()?));
    if path == "/" || path == "/zookeeper" || path.starts_with("/zookeeper/") {
        return Err(Failure::invalid(format!(
            "{path} is the servers' own, and is not deleted here"
        )));
    }
    let expected = sent.count("below").unwrap_or(0);
    if expected == 0 {
        return match answer(login.client.delete(path, version)).await {
            Ok(()) => Ok(json!({ "deleted": 1 })),
            Err(failure) => Err(with_present(login, path, failure).await),
        };
    }
    let name = path.rsplit('/').next().unwrap_or_default();
    if sent.optional_text("name") != Some(name) {
        return Err(Failure::invalid(format!("the name that was typed is not {name:?}")));
    }
    let paths = descendants(&login.client, path).await?;
    let below = u64::try_from(paths.len().saturating_sub(1)).unwrap_or(u64::MAX);
    if paths.len() > SUBTREE_MAX {
        let why = format!(
            "{path} has {below} znodes or more below it, the limit is {SUBTREE_MAX}: delete it with \
             `zooletctl deleteall {path}`"
        );
        return Err(Failure::conflict(why));
    }
    if below != expected {
        let why = format!("{path} has {below} znodes below it now, and had {expected}: look again");
        return Err(Failure::conflict(why).with("below", below));
    }
    // Deepest first; the version of the top is what was looked at.
    let mut transaction = login.client.transaction();
    for below in paths.iter().skip(1).rev() {
        transaction = transaction.delete(below, Version::Any);
    }
    let committed = answer(transaction.delete(path, version).commit()).await;
    match committed {
        Ok(_) => Ok(json!({ "deleted": paths.len() })),
        Err(failure) => Err(with_present(login, path, failure).await),
    }
}

/// Returns a znode and all below it, each behind its parent; a little more than `SUBTREE_MAX` at most.
async fn descendants(client: &Client, top: &str) -> Result<Vec<String>, Failure> {
    let mut paths = vec![top.to_owned()];
    let mut next = VecDeque::from([top.to_owned()]);
    while !next.is_empty() && paths.len() <= SUBTREE_MAX {
        let listed = next.drain(..next.len().min(LISTS_MAX)).collect::<Vec<_>>();
        let lists = join_all(listed.iter().map(|path| answer(client.children(path)))).await;
        for (path, list) in listed.iter().zip(lists) {
            let names = match list {
                Ok((names, _)) => names,
                // It has gone meanwhile.
                Err(failure) if path != top && is_gone(&failure) => continue,
                Err(failure) => return Err(failure),
            };
            let children = names.iter().map(|name| join(path, name));
            for child in children.take((SUBTREE_MAX + 1).saturating_sub(paths.len())) {
                paths.push(child.clone());
                next.push_back(child);
            }
        }
    }
    Ok(paths)
}

fn is_gone(failure: &Failure) -> bool {
    failure.more.get("code").and_then(Value::as_str) == Some(ErrorCode::NoNode.name())
}
