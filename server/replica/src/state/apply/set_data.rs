//! Writing data (protocol §2.4), and the ensemble's own znode (protocol §15.4).

use std::fmt::Write;
use std::sync::Arc;

use bytes::Bytes;
use zoolet_jute::{ErrorCode, Reply, SetDataRequest, Stat, perms};

use super::{Context, check_version, next_version};
use crate::state::change::Change;
use crate::state::chunk::own;
use crate::state::tree::Tree;
use crate::state::znode::ZnodeId;
use crate::state::{path, quota};

pub(super) fn apply(
    tree: &mut Tree,
    context: &mut Context,
    body: SetDataRequest,
) -> Result<Stat, ErrorCode> {
    context.charge(&body.path, None);
    path::validate(&body.path)?;
    let id = tree.find(&body.path).ok_or(ErrorCode::NoNode)?;
    context.check_access(tree, id, perms::WRITE)?;
    let after = body.data.as_ref().map_or(0, |data| data.len() as u64);
    let delta = after.cast_signed().wrapping_sub(tree.node(id).data_bytes().cast_signed());
    if context.policy.enforce_quota {
        quota::check(tree, &body.path, delta, 0)?;
    }
    let version = tree.node(id).version;
    check_version(version, body.version)?;

    let old_version = version;
    let version = next_version(version);
    put(tree, context, id, body.data.map(own), version);
    quota::account(tree, &body.path, delta, 0);
    let acl = Arc::clone(tree.acl(id));
    context.changes.push(Change::DataChanged { path: body.path, acl, old_version, version });
    Ok(tree.stat(id))
}

/// Writes `/zookeeper/config`: the servers and the version, which is the zxid. Its own version
/// stays −1.
pub(super) fn set_config(
    tree: &mut Tree,
    context: &mut Context,
    mut text: String,
) -> Result<Reply, ErrorCode> {
    let id = tree.find(path::CONFIG).ok_or(ErrorCode::NoNode)?;
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    write!(text, "version={:x}", context.zxid.0).expect("a String takes everything");
    put(tree, context, id, Some(Bytes::from(text)), -1);
    let acl = Arc::clone(tree.acl(id));
    context.changes.push(Change::DataChanged {
        path: path::CONFIG.to_owned(),
        acl,
        old_version: -1,
        version: -1,
    });
    let data = tree.data(id);
    Ok(Reply::Data(data, tree.stat(id)))
}

fn put(tree: &mut Tree, context: &Context, id: ZnodeId, data: Option<Bytes>, version: i32) {
    tree.change_data(id, data, |node| {
        node.version = version;
        node.mzxid = context.zxid;
        node.mtime = context.now_ms;
    });
}
