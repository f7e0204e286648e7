//! `diff`: what differs between two subtrees, also of two ensembles.

use serde_json::{Value, json};
use zoolet_client::{Bytes, ErrorCode, Stat};

use super::super::Context;
use super::{Side, is_ephemeral, is_system};
use crate::args::Diff;
use crate::connection::Connection;
use crate::error::{CtlError, Exit};
use crate::format::{acl_json, acl_text, name_text};
use crate::path;

/// `diff [--acl] [--persistent] A B`. It ends with 1 if something differs, and with another number
/// if that is not known, as diff(1) does.
pub(crate) async fn diff(arguments: &Diff, context: &Context) -> Result<(), CtlError> {
    match differences(arguments, context).await {
        Ok(0) => Ok(()),
        Ok(_) => Err(CtlError::new(Exit::Failed, "")),
        Err(error) if error.exit == Exit::Failed => {
            Err(CtlError { exit: Exit::NotCompared, ..error })
        }
        Err(error) => Err(error),
    }
}

async fn differences(arguments: &Diff, context: &Context) -> Result<usize, CtlError> {
    let left = Side::open(&arguments.left, context).await?;
    let right = match Side::open(&arguments.right, context).await {
        Ok(right) => right,
        Err(error) => {
            left.close().await;
            return Err(error);
        }
    };
    let compared = compare(arguments, &left, &right, context).await;
    left.close().await;
    right.close().await;
    compared
}

/// Goes down both subtrees at once, and prints what differs. Returns how much does.
async fn compare(
    arguments: &Diff,
    left: &Side,
    right: &Side,
    context: &Context,
) -> Result<usize, CtlError> {
    let mut differences = 0;
    // The paths below the tops that are still to be visited, the next one last.
    let mut waiting = vec![String::new()];
    while let Some(below) = waiting.pop() {
        context.connection.go_on()?;
        let here = read(left, &below, arguments).await?;
        let there = read(right, &below, arguments).await?;
        let (here, there) = match (here, there) {
            (Some(here), Some(there)) => (here, there),
            (None, None) if below.is_empty() => {
                return Err(CtlError::of(&ErrorCode::NoNode.into(), &left.path));
            }
            // Deleted since its parents were listed.
            (None, None) => continue,
            (here, _) => {
                print(&below, if here.is_some() { Found::Left } else { Found::Right }, context)?;
                differences += 1;
                continue;
            }
        };
        if here.data != there.data {
            print(&below, Found::Data(&here.data, &there.data), context)?;
            differences += 1;
        }
        if here.acl != there.acl {
            print(&below, Found::Acl(&here, &there), context)?;
            differences += 1;
        }
        let mut names: Vec<String> = here.children.into_iter().chain(there.children).collect();
        names.sort_unstable_by(|a, b| b.cmp(a));
        names.dedup();
        waiting.extend(names.iter().map(|name| format!("{below}/{name}")));
    }
    Ok(differences)
}

/// A znode, as far as it is compared.
struct Znode {
    data: Bytes,
    acl: Option<Vec<zoolet_client::Acl>>,
    children: Vec<String>,
}

/// Reads what is at a path below the top of one side; `None` if nothing is.
async fn read(side: &Side, below: &str, arguments: &Diff) -> Result<Option<Znode>, CtlError> {
    let path = match below.strip_prefix('/') {
        Some(names) => path::join(&side.path, names),
        None => side.path.clone(),
    };
    if is_system(&path, &side.path, &side.servers) {
        return Ok(None);
    }
    let connection = &side.connection;
    let Some((data, stat)) =
        unless_gone(connection.ask(&path, connection.client.get(&path)).await)?
    else {
        return Ok(None);
    };
    if arguments.persistent && is_ephemeral(&stat) {
        return Ok(None);
    }
    let Some(children) = children(&path, &stat, connection).await? else { return Ok(None) };
    let acl = if arguments.acl {
        let read = connection.ask(&path, connection.client.acl(&path)).await;
        let Some((acl, _)) = unless_gone(read)? else { return Ok(None) };
        Some(acl)
    } else {
        None
    };
    Ok(Some(Znode { data, acl, children }))
}

async fn children(
    path: &str,
    stat: &Stat,
    connection: &Connection,
) -> Result<Option<Vec<String>>, CtlError> {
    if stat.num_children == 0 {
        return Ok(Some(Vec::new()));
    }
    let listed = connection.ask(path, connection.client.children(path)).await;
    Ok(unless_gone(listed)?.map(|(children, _)| children))
}

fn unless_gone<T>(read: Result<T, CtlError>) -> Result<Option<T>, CtlError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.code == Some(ErrorCode::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What differs at a path.
#[derive(Clone, Copy)]
enum Found<'a> {
    Left,
    Right,
    Data(&'a [u8], &'a [u8]),
    Acl(&'a Znode, &'a Znode),
}

fn print(below: &str, found: Found<'_>, context: &Context) -> Result<(), CtlError> {
    let path = if below.is_empty() { "/" } else { below };
    let shown = name_text(path);
    let acl = |znode: &Znode| acl_text(znode.acl.as_deref().unwrap_or_default());
    let text = || match found {
        Found::Left => format!("- {shown}"),
        Found::Right => format!("+ {shown}"),
        Found::Data(left, right) => {
            format!("! {shown}  data: {} bytes, {} bytes", left.len(), right.len())
        }
        Found::Acl(left, right) => format!("! {shown}  acl: {} | {}", acl(left), acl(right)),
    };
    context.output.result(text, || json_of(path, &found))
}

fn json_of(path: &str, found: &Found<'_>) -> Value {
    let acl = |znode: &Znode| acl_json(znode.acl.as_deref().unwrap_or_default());
    match found {
        Found::Left => json!({ "path": path, "difference": "only_a" }),
        Found::Right => json!({ "path": path, "difference": "only_b" }),
        Found::Data(left, right) => json!({
            "path": path, "difference": "data", "bytes_a": left.len(), "bytes_b": right.len(),
        }),
        Found::Acl(left, right) => json!({
            "path": path, "difference": "acl", "acl_a": acl(left), "acl_b": acl(right),
        }),
    }
}
