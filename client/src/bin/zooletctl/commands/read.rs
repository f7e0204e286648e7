//! Commands that read.

use std::fmt::Write as _;

use serde_json::json;
use zoolet_client::{ErrorCode, Stat};
use zoolet_jute::{NullablePathRequest, PathRequest, Reply, Request, SessionId};

use super::Context;
use super::walk::{Visited, Walk};
use crate::args::{Get, Ls, PathArgs, StatArgs, Tree};
use crate::error::{CtlError, Exit};
use crate::format::{data_json, data_text, name_text, stat_json, stat_text};
use crate::output;
use crate::path;

/// `ls [-s] [-R] PATH`.
pub(crate) async fn ls(arguments: &Ls, context: &Context) -> Result<(), CtlError> {
    path::check(&arguments.path)?;
    if arguments.recursive {
        return ls_recursive(&arguments.path, context).await;
    }
    let connection = &context.connection;
    let listed = connection.client.children(&arguments.path);
    let (mut children, stat) = connection.ask(&arguments.path, listed).await?;
    children.sort_unstable();
    let text = || {
        let mut lines: Vec<String> = children.iter().map(|name| name_text(name)).collect();
        lines.extend(arguments.stat.then(|| stat_text(&stat)));
        lines.join("\n")
    };
    let json = || json!({ "path": arguments.path, "children": children, "stat": stat_json(&stat) });
    context.output.result(text, json)
}

/// Every path below and the path itself, one a line, parents before their children.
async fn ls_recursive(top: &str, context: &Context) -> Result<(), CtlError> {
    let mut walk = Walk::new(top);
    while let Some(found) = walk.next(&context.connection).await? {
        context.output.result(|| name_text(&found.path), || json!({ "path": found.path }))?;
    }
    Ok(())
}

/// `tree [-L DEPTH] [-s] PATH`.
pub(crate) async fn tree(arguments: &Tree, context: &Context) -> Result<(), CtlError> {
    path::check(&arguments.path)?;
    let mut walk = Walk::new(&arguments.path).depth(arguments.depth.unwrap_or(usize::MAX));
    // For each level above the znode: how many of its siblings there are still to come.
    let mut siblings: Vec<usize> = Vec::new();
    while let Some(found) = walk.next(&context.connection).await? {
        siblings.truncate(found.depth);
        let json = || json!({ "path": found.path, "stat": stat_json(&found.stat) });
        context.output.result(|| branch(&found, &mut siblings, arguments.stat), json)?;
        siblings.push(found.children.len());
    }
    Ok(())
}

/// A line of the tree.
fn branch(found: &Visited, siblings: &mut [usize], sizes: bool) -> String {
    let mut line = String::new();
    if let Some((last, above)) = siblings.split_last_mut() {
        for more in above.iter() {
            line.push_str(if *more > 0 { "│   " } else { "    " });
        }
        *last = last.saturating_sub(1);
        line.push_str(if *last > 0 { "├── " } else { "└── " });
        line.push_str(&name_text(found.path.rsplit('/').next().unwrap_or_default()));
    } else {
        line.push_str(&name_text(&found.path));
    }
    if found.stat.ephemeral_owner != SessionId::NONE {
        // Writing to a String cannot fail.
        let _ = write!(line, " (ephemeral, {})", found.stat.ephemeral_owner);
    }
    if sizes {
        let _ = write!(line, " [{} bytes, v{}]", found.stat.data_length, found.stat.version);
    }
    line
}

/// `get [-s] PATH`.
pub(crate) async fn get(arguments: &Get, context: &Context) -> Result<(), CtlError> {
    path::check(&arguments.path)?;
    let read = context.connection.client.get(&arguments.path);
    let (data, stat) = context.connection.ask(&arguments.path, read).await?;
    if arguments.raw {
        return output::bytes(&data);
    }
    let text = || {
        let mut text = data_text(&data);
        if arguments.stat {
            text.push('\n');
            text.push_str(&stat_text(&stat));
        }
        text
    };
    let json = || {
        let (form, data) = data_json(&data);
        json!({ "path": arguments.path, form: data, "stat": stat_json(&stat) })
    };
    context.output.result(text, json)
}

/// `stat PATH`.
pub(crate) async fn stat(arguments: &StatArgs, context: &Context) -> Result<(), CtlError> {
    path::check(&arguments.path)?;
    let stat = existing(&arguments.path, context).await?;
    let json = || json!({ "path": arguments.path, "stat": stat_json(&stat) });
    context.output.result(|| stat_text(&stat), json)
}

/// The Stat of a znode that has to be there.
async fn existing(path: &str, context: &Context) -> Result<Stat, CtlError> {
    let stat = context.connection.ask(path, context.connection.client.exists(path)).await?;
    stat.ok_or_else(|| CtlError::of(&ErrorCode::NoNode.into(), path))
}

/// `sync PATH`.
pub(crate) async fn sync(arguments: &PathArgs, context: &Context) -> Result<(), CtlError> {
    path::check(&arguments.path)?;
    let sync = context.connection.client.sync(&arguments.path);
    let zxid = context.connection.ask(&arguments.path, sync).await?;
    let json = || json!({ "path": arguments.path, "zxid": zxid.to_string() });
    context.output.result(|| format!("Sync is OK, zxid {zxid}"), json)
}

/// `getEphemerals [PREFIX]`: those of this session.
pub(crate) async fn ephemerals(prefix: Option<&str>, context: &Context) -> Result<(), CtlError> {
    let prefix = prefix.unwrap_or("/");
    path::check(prefix)?;
    let request = NullablePathRequest { path: Some(prefix.to_owned()) };
    let call = context.connection.client.call(Request::GetEphemerals(request));
    match context.connection.ask(prefix, call).await? {
        (_, Reply::Children(mut paths)) => {
            paths.sort_unstable();
            let text = || paths.iter().map(|path| name_text(path)).collect::<Vec<_>>().join("\n");
            context.output.result(text, || json!(paths))
        }
        (_, other) => Err(strange(&other)),
    }
}

/// `getAllChildrenNumber PATH`: how many there are below, at any depth.
pub(crate) async fn descendants(arguments: &PathArgs, context: &Context) -> Result<(), CtlError> {
    path::check(&arguments.path)?;
    let request = PathRequest { path: arguments.path.clone() };
    let call = context.connection.client.call(Request::GetAllChildrenNumber(request));
    match context.connection.ask(&arguments.path, call).await? {
        (_, Reply::Count(count)) => {
            let json = || json!({ "path": arguments.path, "count": count });
            context.output.result(|| count.to_string(), json)
        }
        (_, other) => Err(strange(&other)),
    }
}

/// A reply to something else.
pub(crate) fn strange(reply: &Reply) -> CtlError {
    CtlError::new(Exit::Failed, format!("the server answered {reply:?}"))
}
