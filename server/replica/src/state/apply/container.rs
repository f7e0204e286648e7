//! Reaping containers and znodes with a time to live (protocol §2.11, §11).

use zoolet_jute::{ErrorCode, Reply};

use super::{Context, delete};
use crate::state::path;
use crate::state::tree::Tree;
use crate::state::znode::Kind;

/// Deletes it if that is still right. Between the leader's look and this moment it may have got a
/// child or a write, or another kind of znode may have taken its place.
pub(super) fn delete(
    tree: &mut Tree,
    context: &mut Context,
    path: String,
) -> Result<Reply, ErrorCode> {
    path::split_deletable(&path)?;
    let id = tree.find(&path).ok_or(ErrorCode::NoNode)?;
    if tree.child_count(id) > 0 {
        return Err(ErrorCode::NotEmpty);
    }
    let node = tree.node(id);
    let is_due = match node.kind {
        Kind::Container => true,
        Kind::Ttl(ttl_ms) => context.now_ms.saturating_sub(node.mtime) > ttl_ms,
        Kind::Persistent | Kind::Ephemeral(_) => false,
    };
    if !is_due {
        return Err(ErrorCode::BadVersion);
    }
    delete::remove(tree, context, id, path);
    Ok(Reply::Empty)
}
