//! `mv`: a subtree to another path, by one transaction.
//!
//! All of it happens or nothing: each znode is created at its new path and deleted at the old one,
//! if it still has the version that was read and no other child has come.

use serde_json::json;
use zoolet_client::{Acl, Bytes, CreateMode, ErrorCode, Stat, Version};

use super::super::Context;
use super::super::ended;
use super::super::walk::Walk;
use super::copy::{Copied, Copier, acl_bytes};
use super::{Side, is_ephemeral, is_system, is_within, target_path, whole_acl};
use crate::args::{Mv, Place};
use crate::connection::Connection;
use crate::error::{CtlError, Exit};
use crate::path;
use crate::progress::Progress;

/// How long the requests of one transaction may be. Servers take one byte less than a MiB together
/// with what is around them.
const TRANSACTION_BYTES_MAX: usize = 960 << 10;

/// What a part of a transaction has besides paths, data and ACL, in bytes.
const PART_BYTES: usize = 48;

/// `mv [--by-steps] SRC DST`.
pub(crate) async fn relocate(arguments: &Mv, context: &Context) -> Result<(), CtlError> {
    refuse_ensembles(arguments)?;
    let from = arguments.source.as_str();
    path::check(from)?;
    let to = target_path(from, &arguments.target);
    path::check(&to)?;
    let refused =
        |why: String| Err(CtlError::new(Exit::InvalidInput, format!("{why}: nothing was moved")));
    if from == "/" || is_system(from, "/", context.options.connect_string()) {
        return refused(format!("{from} cannot be moved"));
    }
    if to == from {
        return refused(format!("{from} is there already"));
    }
    if is_within(&to, from) {
        return refused(format!("{to} is {from} or below it"));
    }
    let progress = Progress::spinner("moving");
    let mut moved = Moved::default();
    let run = move_all(arguments, &to, context, &mut moved).await;
    drop(progress);
    let Moved { znodes, copied } = moved;
    let json = |complete: bool| {
        json!({
            "source": from, "target": to, "znodes": znodes, "copied": copied, "complete": complete,
        })
    };
    ended(run, copied, context.output, || format!("{znodes} znodes"), json)
}

/// How far it has come.
#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    /// How many are at the new path alone.
    znodes: usize,
    /// How many are there at all.
    copied: usize,
}

async fn move_all(
    arguments: &Mv,
    to: &str,
    context: &Context,
    moved: &mut Moved,
) -> Result<(), CtlError> {
    let (from, connection) = (&arguments.source, &context.connection);
    match read(from, to, connection).await.map_err(unmoved)? {
        Some(znodes) => {
            by_transaction(to, &znodes, connection).await?;
            *moved = Moved { znodes: znodes.len(), copied: znodes.len() };
            Ok(())
        }
        None if arguments.by_steps => by_steps(arguments, to, context, moved).await,
        None => {
            let message = format!("{from} does not fit into one transaction: nothing was moved");
            let hint = "--by-steps copies all of it, and then deletes what was copied: others see \
                        both meanwhile";
            Err(CtlError::new(Exit::Failed, message).hint(hint))
        }
    }
}

/// Says that a signal came before anything was moved.
fn unmoved(error: CtlError) -> CtlError {
    if !error.is_interrupt() {
        return error;
    }
    CtlError { message: format!("{}: nothing was moved", error.message), ..error }
}

/// A transaction is one ensemble's, so `NAME:/path` has no meaning here.
fn refuse_ensembles(arguments: &Mv) -> Result<(), CtlError> {
    for text in [&arguments.source, &arguments.target] {
        if let Place { ensemble: Some(name), path } = Place::from(text.as_str()) {
            let message = format!("{name}:{path}: mv moves within one ensemble: nothing was moved");
            let hint = "`--ensemble NAME` says in which; from one to another it takes two commands: \
                        `cp -r --acl SRC DST`, and then `deleteall SRC`";
            return Err(CtlError::new(Exit::InvalidInput, message).hint(hint));
        }
    }
    Ok(())
}

/// A znode that is to be moved.
struct Znode {
    path: String,
    target: String,
    data: Bytes,
    acl: Vec<Acl>,
    version: i32,
}

/// Reads all of a subtree, parents before their children; `None` if it is too much for one
/// transaction.
async fn read(
    from: &str,
    to: &str,
    connection: &Connection,
) -> Result<Option<Vec<Znode>>, CtlError> {
    let (mut znodes, mut bytes) = (Vec::new(), 0);
    let mut walk = Walk::new(from).whole();
    while let Some(found) = walk.next(connection).await? {
        let path = found.path;
        refuse_ephemeral(&path, &found.stat)?;
        let (data, stat) = connection.ask(&path, connection.client.get(&path)).await?;
        let acl = whole_acl(&path, connection).await?;
        let target = format!("{to}{}", path.strip_prefix(from).unwrap_or_default());
        bytes += 2 * PART_BYTES + path.len() + target.len() + data.len() + acl_bytes(&acl);
        if bytes > TRANSACTION_BYTES_MAX {
            return Ok(None);
        }
        znodes.push(Znode { path, target, data, acl, version: stat.version });
    }
    Ok(Some(znodes))
}

fn refuse_ephemeral(path: &str, stat: &Stat) -> Result<(), CtlError> {
    if !is_ephemeral(stat) {
        return Ok(());
    }
    let owner = stat.ephemeral_owner;
    let message = format!(
        "{path} is ephemeral, and cannot be moved away from its session {owner}: nothing was moved"
    );
    Err(CtlError::new(Exit::Failed, message))
}

async fn by_transaction(
    to: &str,
    znodes: &[Znode],
    connection: &Connection,
) -> Result<(), CtlError> {
    let mut transaction = connection.client.transaction();
    for Znode { target, data, acl, .. } in znodes {
        transaction = transaction.create(target, data, acl.clone(), CreateMode::Persistent);
    }
    for Znode { path, version, .. } in znodes.iter().rev() {
        transaction = transaction.delete(path, Version::Exactly(*version));
    }
    let paths = znodes.iter().map(|it| &it.target).chain(znodes.iter().rev().map(|it| &it.path));
    let paths: Vec<&String> = paths.collect();
    connection.go_on().map_err(unmoved)?;
    match connection.ask_part(to, transaction.commit()).await {
        Ok(_) => Ok(()),
        Err((part, error)) => {
            let path = part.and_then(|part| paths.get(part)).map_or(to, |path| path.as_str());
            Err(failed(path, to, error))
        }
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "the other refusals explain themselves")]
fn failed(path: &str, to: &str, error: CtlError) -> CtlError {
    // Without a refusal it may have happened, and the error says so.
    let Some(code) = error.code else { return error };
    let (why, hint) = match code {
        ErrorCode::NodeExists => (format!("{path}: znode exists already"), None),
        ErrorCode::NoNode if path == to => (format!("{path}: its parent does not exist"), None),
        ErrorCode::NotEmpty | ErrorCode::BadVersion | ErrorCode::NoNode => {
            (format!("{path}: changed meanwhile"), Some("try again"))
        }
        _ => (error.message.clone(), error.hint),
    };
    CtlError { message: format!("{why}: nothing was moved"), hint, ..error }
}

/// Copies all of it, and then deletes what was copied, the deepest first, if nothing has changed
/// since: whatever stops it, each znode is at one path at least.
async fn by_steps(
    arguments: &Mv,
    to: &str,
    context: &Context,
    moved: &mut Moved,
) -> Result<(), CtlError> {
    // Before anything is copied.
    let mut walk = Walk::new(&arguments.source).whole();
    while let Some(found) = walk.next(&context.connection).await.map_err(unmoved)? {
        refuse_ephemeral(&found.path, &found.stat)?;
    }
    let side = |path: &str| {
        let place = Place { ensemble: None, path: path.to_owned() };
        async move { Side::open(&place, context).await }
    };
    let (source, target) = (side(&arguments.source).await?, side(to).await?);
    let mut copier = Copier::new(&source, &target, to.to_owned()).acl(true);
    let copying = copier.run(true).await;
    moved.copied = copier.copied.len();
    copying?;
    let connection = &context.connection;
    for Copied { path, version } in copier.copied.iter().rev() {
        connection.go_on().map_err(|error| half_way(&error, *moved, arguments, to))?;
        let delete = connection.client.delete(path, Version::Exactly(*version));
        connection.ask(path, delete).await.map_err(|error| {
            if error.is_interrupt() {
                return half_way(&error, *moved, arguments, to);
            }
            let why = match error.code {
                Some(ErrorCode::NotEmpty | ErrorCode::BadVersion) => {
                    format!("{path}: changed since it was copied")
                }
                _ => error.message.clone(),
            };
            let message = format!("{why}; all that was copied is at {to}, and this is left here");
            CtlError { message, hint: Some("`diff` shows what differs"), ..error }
        })?;
        moved.znodes += 1;
    }
    Ok(())
}

/// Says which part is at which path when a signal has come among the deletes.
fn half_way(interrupted: &CtlError, moved: Moved, arguments: &Mv, to: &str) -> CtlError {
    let Moved { znodes, copied } = moved;
    let message = format!(
        "{}; all {copied} znodes are at {to}, and {znodes} of them are deleted at {}",
        interrupted.message, arguments.source
    );
    CtlError::new(interrupted.exit, message).hint("`deleteall` deletes the rest of the original")
}
