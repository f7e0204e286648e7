//! Commands that read.

use std::fmt::Write as _;

use serde_json::json;
use zoolet_client::{ErrorCode, SessionId, WatcherType};
use zoolet_survey::data;

use super::walk::{Visited, Walk};
use super::watch::Watch;
use crate::args::{Get, Ls, PathArgs, StatArgs, Tree};
use crate::context::Context;
use crate::error::{CtlError, Exit};
use crate::format::{base64_text, data_text, hexdump_text, name_text, stat_json, stat_text};
use crate::output::{self, Output};
use crate::path;

/// `ls [-s] [-w] [-R] PATH`.
pub(crate) async fn ls(arguments: &Ls, context: &Context) -> Result<Vec<Watch>, CtlError> {
    path::check(&arguments.path)?;
    if arguments.recursive {
        return ls_recursive(arguments, context).await;
    }
    let (connection, path) = (&context.connection, &arguments.path);
    let (mut children, stat, watch) = if arguments.watch || arguments.old.is_wanted() {
        let read = connection.ask(path, connection.client.children_watched(path)).await?;
        (read.0, read.1, Some(Watch::once(path, WatcherType::Children, read.2)))
    } else {
        let (children, stat) = connection.ask(path, connection.client.children(path)).await?;
        (children, stat, None)
    };
    children.sort_unstable();
    let text = || {
        let mut lines: Vec<String> = children.iter().map(|name| name_text(name)).collect();
        lines.extend(arguments.stat.then(|| stat_text(&stat)));
        lines.join("\n")
    };
    let json = || json!({ "path": path, "children": children, "stat": stat_json(&stat) });
    context.output.result(text, json)?;
    Ok(Vec::from_iter(watch))
}

/// Every path below and the path itself, one a line, parents before their children. With `-w` each
/// znode's children are watched as they are listed, as zkCli does, so that nothing is missed between
/// the list and its watch.
async fn ls_recursive(arguments: &Ls, context: &Context) -> Result<Vec<Watch>, CtlError> {
    let mut walk = Walk::new(&arguments.path)
        .json(context.output.json)
        .watch(arguments.watch || arguments.old.is_wanted());
    let mut watches = Vec::new();
    while let Some(mut found) = walk.next(&context.connection).await? {
        let watch = found.watch.take();
        watches.extend(watch.map(|watch| Watch::once(&found.path, WatcherType::Children, watch)));
        let text = || {
            let path = name_text(&found.path);
            if arguments.stat { format!("{path}\n{}", stat_text(&found.stat)) } else { path }
        };
        let json = || {
            if arguments.stat {
                json!({ "path": found.path, "stat": stat_json(&found.stat) })
            } else {
                json!({ "path": found.path })
            }
        };
        context.output.result(text, json)?;
    }
    Ok(watches)
}

/// `tree [-L DEPTH] [-s] PATH`.
pub(crate) async fn tree(arguments: &Tree, context: &Context) -> Result<(), CtlError> {
    path::check(&arguments.path)?;
    let mut walk = Walk::new(&arguments.path)
        .json(context.output.json)
        .depth(arguments.depth.unwrap_or(usize::MAX));
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

/// Refuses a form of text together with JSON. `--json` may precede the command, so that the command's
/// own arguments do not show it.
pub(crate) fn check_form(arguments: &Get, output: Output) -> Result<(), CtlError> {
    let forms = [("--raw", arguments.raw), ("-b", arguments.base64), ("-x", arguments.hexdump)];
    match forms.iter().find(|(_, is_given)| output.json && *is_given) {
        Some((form, _)) => {
            let message = format!("{form} and --json are two forms: give one of them");
            Err(CtlError::new(Exit::Usage, message))
        }
        None => Ok(()),
    }
}

/// `get [-s] [-w] [-b] [-x] PATH`.
pub(crate) async fn get(arguments: &Get, context: &Context) -> Result<Option<Watch>, CtlError> {
    check_form(arguments, context.output)?;
    path::check(&arguments.path)?;
    let (connection, path) = (&context.connection, &arguments.path);
    let (data, stat, watch) = if arguments.watch || arguments.old.is_wanted() {
        let read = connection.ask(path, connection.client.get_watched(path)).await?;
        (read.0, read.1, Some(Watch::once(path, WatcherType::Data, read.2)))
    } else {
        let (data, stat) = connection.ask(path, connection.client.get(path)).await?;
        (data, stat, None)
    };
    if arguments.raw {
        return output::bytes(&data).map(|()| None);
    }
    let json = || {
        let (form, shown) = data::json(&data);
        json!({ "path": path, form: shown, "stat": stat_json(&stat) })
    };
    if context.output.json {
        context.output.result(String::new, json)?;
    } else {
        // A line even when there is nothing on it: a znode without data is not an error.
        output::line(&match arguments {
            Get { base64: true, .. } => base64_text(&data),
            Get { hexdump: true, .. } => hexdump_text(&data),
            Get { .. } => data_text(&data),
        })?;
        if arguments.stat {
            output::line(&stat_text(&stat))?;
        }
    }
    Ok(watch)
}

/// `stat [-w] PATH`.
pub(crate) async fn stat(
    arguments: &StatArgs,
    context: &Context,
) -> Result<Option<Watch>, CtlError> {
    path::check(&arguments.path)?;
    let (connection, path) = (&context.connection, &arguments.path);
    let (stat, watch) = if arguments.watch || arguments.old.is_wanted() {
        let read = connection.ask(path, connection.client.exists_watched(path)).await?;
        (read.0, Some(Watch::once(path, WatcherType::Data, read.1)))
    } else {
        (connection.ask(path, connection.client.exists(path)).await?, None)
    };
    match stat {
        Some(stat) => {
            let json = || json!({ "path": path, "stat": stat_json(&stat) });
            context.output.result(|| stat_text(&stat), json)?;
        }
        // A user who watches for its creation sees that nothing is there yet.
        None if watch.is_some() => {
            let text = || format!("{path} does not exist yet");
            context.output.result(text, || json!({ "path": path, "stat": null }))?;
        }
        None => return Err(CtlError::of(&ErrorCode::NoNode.into(), path)),
    }
    Ok(watch)
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
    let call = context.connection.client.ephemerals(prefix);
    let mut paths = context.connection.ask(prefix, call).await?;
    paths.sort_unstable();
    let text = || paths.iter().map(|path| name_text(path)).collect::<Vec<_>>().join("\n");
    context.output.result(text, || json!(paths))
}

/// `getAllChildrenNumber PATH`: how many there are below, at any depth.
pub(crate) async fn descendants(arguments: &PathArgs, context: &Context) -> Result<(), CtlError> {
    path::check(&arguments.path)?;
    let call = context.connection.client.all_children_number(&arguments.path);
    let count = context.connection.ask(&arguments.path, call).await?;
    let json = || json!({ "path": arguments.path, "count": count });
    context.output.result(|| count.to_string(), json)
}
