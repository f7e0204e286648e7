//! Writing an ACL (protocol §2.5). It fires no watch.

use zoolet_jute::{ErrorCode, SetAclRequest, Stat, perms};

use super::{Context, check_version, next_version};
use crate::state::change::Change;
use crate::state::tree::Tree;
use crate::state::{access, path};

pub(super) fn apply(
    tree: &mut Tree,
    context: &mut Context,
    body: SetAclRequest,
) -> Result<Stat, ErrorCode> {
    context.charge(&body.path, body.acl.as_deref());
    path::validate(&body.path)?;
    let acl = access::fix_up(body.acl.as_deref(), &context.identities, context.level)?;
    let id = tree.find(&body.path).ok_or(ErrorCode::NoNode)?;
    context.check_access(tree, id, perms::ADMIN)?;
    let aversion = tree.node(id).aversion;
    check_version(aversion, body.version)?;
    let (old_version, version) = (aversion, next_version(aversion));
    tree.change_acl(id, &acl, version);
    context.changes.push(Change::AclChanged { path: body.path, old_version, version });
    Ok(tree.stat(id))
}
