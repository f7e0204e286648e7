//! Delete (protocol §2.2).

use std::sync::Arc;

use zoolet_jute::{ErrorCode, PathVersionRequest, perms};

use super::{Context, check_version};
use crate::state::change::Change;
use crate::state::tree::Tree;
use crate::state::znode::ZnodeId;
use crate::state::{path, quota};

pub(super) fn apply(
    tree: &mut Tree,
    context: &mut Context,
    body: PathVersionRequest,
) -> Result<(), ErrorCode> {
    context.charge(&body.path, None);
    let (parent_path, name) = path::split_deletable(&body.path)?;
    let parent = tree.find(parent_path).ok_or(ErrorCode::NoNode)?;
    context.check_access(tree, parent, perms::DELETE)?;
    // "//a" is not "/a", though its parent is the root by its other name.
    let is_alias = parent_path == "/";
    let node = tree.child(parent, name).filter(|_| !is_alias).ok_or(ErrorCode::NoNode)?;
    check_version(tree.node(node).version, body.version)?;
    if tree.child_count(node) > 0 {
        return Err(ErrorCode::NotEmpty);
    }
    remove(tree, context, node, body.path);
    Ok(())
}

/// Deletes a znode that has no children.
pub(super) fn remove(tree: &mut Tree, context: &mut Context, node: ZnodeId, path: String) {
    let acl = Arc::clone(tree.acl(node));
    let parent = tree.node(node).parent;
    let bytes = tree.node(node).data_bytes();
    let (owner, version) = (tree.node(node).kind.owner(), tree.node(node).version);
    tree.remove(node);
    tree.change(parent, |parent| parent.pzxid = context.zxid);
    quota::account(tree, &path, 0_i64.saturating_sub_unsigned(bytes), -1);
    let parent_acl = Arc::clone(tree.acl(parent));
    context.changes.push(Change::Deleted { path, acl, parent_acl, owner, version });
}
