//! `revoke`: asks the holders of a lock to release it, as Curator's `Revoker` does.

use serde_json::{Value, json};
use tokio::time::timeout;
use zoolet_client::recipes::Mutex;
use zoolet_survey::locks::{Family, Lock, Member, Role, parse};

use crate::args::Revoke;
use crate::context::Context;
use crate::error::{CtlError, Exit};
use crate::format::name_text;
use crate::locks;
use crate::path;

/// `revoke [--wait DURATION] PATH`.
pub(crate) async fn revoke(arguments: &Revoke, context: &Context) -> Result<(), CtlError> {
    let path = arguments.path.as_str();
    path::check(path)?;
    let (lock_path, znode) = split(path);
    let connection = &context.connection;
    let lock = locks::at(lock_path, connection).await?;
    let Some(lock) = lock.filter(|lock| lock.members.iter().any(|member| member.holds)) else {
        let message = format!("{lock_path}: no holder of a lock was found: nothing was written");
        let error = CtlError::new(Exit::Failed, message);
        return Err(error.hint("`zooletctl locks PATH` shows what is there"));
    };
    let holders = listeners(&lock, znode)?;
    for holder in &holders {
        let request = Mutex::request_revocation(&connection.client, &holder.path);
        connection.ask(&holder.path, request).await?;
    }
    if let Some(limit) = arguments.wait {
        let waited = tokio::select! {
            waited = timeout(limit, until_gone(&holders, context)) => waited,
            error = connection.interrupt.comes() => return Err(asked(&error)),
        };
        waited.map_err(|_| still_held(lock_path, limit.as_millis()))??;
    }
    let is_released = arguments.wait.is_some();
    print(&holders, is_released, context)
}

/// The lock, and the znode in its queue if it is that which the path names.
fn split(path: &str) -> (&str, Option<&str>) {
    match path.rsplit_once('/') {
        Some((lock, name)) if !lock.is_empty() && parse(name).is_some() => (lock, Some(path)),
        Some(_) | None => (path, None),
    }
}

/// Those of the holders that can be asked. Only Curator's locks and this client's look at the data
/// of their znodes.
fn listeners<'a>(lock: &'a Lock, znode: Option<&str>) -> Result<Vec<&'a Member>, CtlError> {
    let is_asked = |member: &&Member| znode.is_none_or(|znode| member.path == znode);
    let holders: Vec<&Member> =
        lock.members.iter().filter(|member| member.holds).filter(is_asked).collect();
    if holders.is_empty() {
        let message = format!("{}: it does not hold the lock", znode.unwrap_or_default());
        return Err(CtlError::new(Exit::Failed, message));
    }
    let listens = |member: &Member| {
        matches!(member.place.family, Family::Curator | Family::Bilingual)
            && matches!(member.place.role, Role::Mutex | Role::Read | Role::Write)
    };
    if let Some(member) = holders.iter().find(|member| !listens(member)) {
        let (family, role) = (member.place.family.word(), member.place.role.word());
        let message = format!(
            "{}: its holder cannot be asked: {role} of family {family}; nothing was written",
            member.path
        );
        let hint = "only mutexes and read-write locks of Curator and of the Rust client read the \
                    request";
        return Err(CtlError::new(Exit::Unsupported, message).hint(hint));
    }
    Ok(holders)
}

async fn until_gone(holders: &[&Member], context: &Context) -> Result<(), CtlError> {
    let connection = &context.connection;
    for holder in holders {
        loop {
            let exists = connection.client.exists_watched(&holder.path);
            let (stat, watcher) = connection.ask(&holder.path, exists).await?;
            if stat.is_none() {
                break;
            }
            watcher.changed().await.map_err(|error| CtlError::of(&error, &holder.path))?;
        }
    }
    Ok(())
}

fn asked(interrupted: &CtlError) -> CtlError {
    let message = format!("{}; its holder was asked before", interrupted.message);
    CtlError::new(interrupted.exit, message)
}

fn still_held(path: &str, limit_ms: u128) -> CtlError {
    let message = format!("{path}: still held {limit_ms} ms after its holder was asked");
    let hint = "a holder that does not listen keeps it: in Curator `makeRevocable`, in Rust \
                `LockGuard::revocation`";
    CtlError::new(Exit::NotInTime, message).hint(hint)
}

fn print(holders: &[&Member], is_released: bool, context: &Context) -> Result<(), CtlError> {
    let text = || {
        let line = |holder: &&Member| {
            let path = name_text(&holder.path);
            if is_released {
                return format!("released {path}");
            }
            format!("asked {path} to release it; whether its program listens is not known")
        };
        holders.iter().map(line).collect::<Vec<_>>().join("\n")
    };
    let json = || {
        let of = |holder: &&Member| {
            json!({
                "path": holder.path,
                "session": holder.stat.ephemeral_owner.to_string(),
                "family": holder.place.family.word(),
                "released": is_released,
            })
        };
        json!({ "asked": holders.iter().map(of).collect::<Value>() })
    };
    context.output.result(text, json)
}
