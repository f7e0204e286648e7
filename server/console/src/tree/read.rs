//! A znode, and the pages of its children.

use futures_util::future::join_all;
use serde_json::{Value, json};
use zoolet_client::{Client, ErrorCode};
use zoolet_survey::path::join;

use crate::failure::Failure;
use crate::shared_client::answer;
use crate::state::{Asked, State};
use crate::{data, json as shown};

/// The most children of one page, and how many a page has by default.
const PAGE_MAX: usize = 500;
const PAGE_DEFAULT: usize = 100;

/// The largest offset: no server has as many children.
const OFFSET_MAX: usize = 1 << 30;

/// `children`: a page of the children of a znode, by name; `filter` is a part of their names.
pub(crate) async fn children(state: &State, asked: &Asked) -> Result<Value, Failure> {
    let path = asked.query.path("path")?;
    let offset = asked.query.number("offset", 0, OFFSET_MAX)?;
    let limit = asked.query.number("limit", PAGE_DEFAULT, PAGE_MAX)?;
    let filter = asked.query.text("filter").unwrap_or_default();
    let client = state.client(asked).await?;
    let (mut names, stat) = answer(client.children(path)).await?;
    let total = names.len();
    names.retain(|name| name.contains(filter));
    names.sort_unstable();
    let page: Vec<&String> = names.iter().skip(offset).take(limit).collect();
    let rows = join_all(page.into_iter().map(|name| child(&client, path, name))).await;
    Ok(json!({
        "path": path,
        "stat": shown::stat(&stat),
        "total": total,
        "matching": names.len(),
        "offset": offset,
        "children": rows,
    }))
}

/// A child as a row: its name, and its numbers if it is still there.
async fn child(client: &Client, path: &str, name: &str) -> Value {
    let path = join(path, name);
    match answer(client.exists(&path)).await {
        Ok(stat) => json!({ "name": name, "path": path, "stat": stat.as_ref().map(shown::stat) }),
        Err(failure) => json!({ "name": name, "path": path, "problem": failure.error }),
    }
}

/// `znode`: the data, the numbers and the ACL of a znode. What the session may not read is left out,
/// with the reason.
pub(crate) async fn znode(state: &State, asked: &Asked) -> Result<Value, Failure> {
    let path = asked.query.path("path")?;
    let client = state.client(asked).await?;
    of(&client, path).await
}

/// The same by a client.
pub(super) async fn of(client: &Client, path: &str) -> Result<Value, Failure> {
    let (data, acl) = (answer(client.get(path)), answer(client.acl(path)));
    let (data, acl) = (data.await, acl.await);
    let stat = match &data {
        Ok((_, stat)) => *stat,
        Err(failure) if is_forbidden(failure) => {
            let stat = answer(client.exists(path)).await?;
            stat.ok_or_else(|| Failure::from(zoolet_client::Error::from(ErrorCode::NoNode)))?
        }
        Err(failure) => return Err(failure.clone()),
    };
    Ok(json!({
        "path": path,
        "stat": shown::stat(&stat),
        "data": data.as_ref().map(|(data, _)| data::shown(data)).ok(),
        "dataProblem": data.err().map(|failure| failure.error),
        "acl": acl.as_ref().map(|(acl, _)| shown::acl(acl)).ok(),
        "aclProblem": acl.err().map(|failure| failure.error),
    }))
}

fn is_forbidden(failure: &Failure) -> bool {
    failure.status == hyper::StatusCode::FORBIDDEN
}
