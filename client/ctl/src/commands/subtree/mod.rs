//! Commands for a znode and everything below it, also of two ensembles.

mod copy;
mod diff;
mod find;
mod relocate;

use zoolet_client::{Acl, ErrorCode, SessionId, Stat};

use crate::args::Place;
use crate::connection::Connection;
use crate::context::Context;
use crate::error::{CtlError, Exit};
use crate::path;

pub(crate) use copy::copy;
pub(crate) use diff::diff;
pub(crate) use find::find;
pub(crate) use relocate::relocate;

/// The part of a tree that the servers have for themselves.
const SYSTEM: &str = "/zookeeper";

/// A subtree, and the session in which it is used.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) connection: Connection,
    pub(super) path: String,
    /// Where the servers are.
    servers: String,
    /// Whether the session is this side's own.
    is_own: bool,
}

impl Side {
    /// Opens a session where the place is in another ensemble.
    async fn open(place: &Place, context: &Context) -> Result<Self, CtlError> {
        let path = place.path.clone();
        path::check(path.strip_suffix('/').filter(|path| !path.is_empty()).unwrap_or(&path))?;
        let own = place
            .ensemble
            .as_deref()
            .filter(|name| context.options.ensemble.as_deref() != Some(name));
        let Some(name) = own else {
            let connection = context.connection.clone();
            let servers = context.options.connect_string().to_owned();
            return Ok(Self { connection, path, servers, is_own: false });
        };
        let options = context.options.of_ensemble(name)?;
        let interrupt = context.connection.interrupt.clone();
        let opened = tokio::select! {
            opened = Connection::open(&options) => opened?,
            error = interrupt.comes() => return Err(error),
        };
        let connection = Connection { interrupt, ..opened };
        Ok(Self { connection, path, servers: options.servers, is_own: true })
    }

    async fn close(self) {
        if self.is_own {
            self.connection.close().await;
        }
    }
}

/// The path of a target: with / at its end it is the child of that name.
fn target_path(source: &str, target: &str) -> String {
    let Some(parent) = target.strip_suffix('/') else { return target.to_owned() };
    match source.rsplit('/').next().unwrap_or_default() {
        // The root has no name to give to a child.
        "" if parent.is_empty() => "/".to_owned(),
        "" => parent.to_owned(),
        name => format!("{parent}/{name}"),
    }
}

/// Whether a path is another one or below it.
fn is_within(path: &str, top: &str) -> bool {
    top == "/"
        || path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a znode belongs to the servers, in a walk that was not begun in their part of the tree.
/// Below a root of its own a connect string reaches none of it.
fn is_system(path: &str, top: &str, connect_string: &str) -> bool {
    is_within(path, SYSTEM) && !is_within(top, SYSTEM) && !connect_string.contains('/')
}

/// Whether a znode goes with a session. Some servers show containers and znodes with a time to live
/// as owned by sessions that cannot be.
pub(super) fn is_ephemeral(stat: &Stat) -> bool {
    let owner = stat.ephemeral_owner.0;
    owner != SessionId::NONE.0 && owner != i64::MIN && owner.cast_unsigned() >> 56 != 0xff
}

/// The ACL of a znode, to give to another one. Servers hide the hashes of passwords from those who
/// may not write the ACL: what they show instead would lock all out.
async fn whole_acl(path: &str, connection: &Connection) -> Result<Vec<Acl>, CtlError> {
    let (acl, _) = connection.ask(path, connection.client.acl(path)).await?;
    let is_hidden = |acl: &Acl| {
        let id = acl.id.id.as_deref().unwrap_or_default();
        acl.id.scheme.as_deref() == Some("digest") && id.ends_with(":x")
    };
    if acl.iter().any(is_hidden) {
        let message = format!("{path}: the servers do not show its whole ACL to this identity");
        return Err(CtlError {
            code: Some(ErrorCode::NoAuth),
            ..CtlError::new(Exit::Failed, message)
        }
        .hint("an identity with the permission to write the ACL sees it: --auth-file"));
    }
    Ok(acl)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_and_what_is_within_them() {
        for (source, target, path) in [
            ("/a/b", "/c", "/c"),
            ("/a/b", "/c/", "/c/b"),
            ("/a/b", "/", "/b"),
            ("/", "/", "/"),
            ("/", "/c/", "/c"),
        ] {
            assert_eq!(target_path(source, target), path, "{source} {target}");
        }
        assert!(is_within("/a/b", "/a") && is_within("/a", "/a") && is_within("/a", "/"));
        assert!(!is_within("/ab", "/a") && !is_within("/a", "/a/b"));
        assert!(is_system("/zookeeper/quota", "/", "a:1"));
        assert!(!is_system("/zookeeper/x", "/zookeeper", "a:1"));
        assert!(!is_system("/zookeeper/x", "/", "a:1/root"));
    }

    #[test]
    fn containers_are_not_ephemeral() {
        for (owner, is) in [(0, false), (5, true), (i64::MIN, false), (-1 << 56, false)] {
            let stat = Stat { ephemeral_owner: SessionId(owner), ..Stat::default() };
            assert_eq!(is_ephemeral(&stat), is, "{owner}");
        }
    }
}
