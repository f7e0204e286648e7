//! Create, in all its kinds (protocol §2.1).

use std::fmt::Write;
use std::sync::Arc;

use bytes::Bytes;
use zoolet_jute::{Acl, CreateMode, CreateRequest, CreateTtlRequest, ErrorCode, Stat, Zxid, perms};

use super::Context;
use crate::state::change::Change;
use crate::state::chunk::own;
use crate::state::tree::Tree;
use crate::state::znode::{Kind, Znode};
use crate::state::{access, path, quota};

/// The longest time to live, in milliseconds (protocol §11.2).
const TTL_MS_MAX: i64 = 0xff_ffff_ffff;
/// The last number of a sequential znode (protocol §5).
const SEQUENCE_MAX: u32 = i32::MAX as u32;

/// A create of any kind.
#[derive(Debug)]
pub(super) struct Create {
    path: String,
    data: Option<Bytes>,
    acl: Option<Vec<Acl>>,
    flags: i32,
    op: CreateOp,
}

/// The operation, not the flags, decides whether a znode is a container or has a time to live.
#[derive(Clone, Copy, Debug)]
enum CreateOp {
    Plain,
    Container,
    Ttl(i64),
}

impl Create {
    pub(super) fn plain(body: CreateRequest) -> Self {
        let CreateRequest { path, data, acl, flags } = body;
        Self { path, data, acl, flags, op: CreateOp::Plain }
    }

    pub(super) fn container(body: CreateRequest) -> Self {
        Self { op: CreateOp::Container, ..Self::plain(body) }
    }

    pub(super) fn ttl(body: CreateTtlRequest) -> Self {
        let CreateTtlRequest { path, data, acl, flags, ttl_ms } = body;
        Self { path, data, acl, flags, op: CreateOp::Ttl(ttl_ms) }
    }
}

/// Creates the znode; answers its path, and its Stat before the server writes to it itself, which
/// it does with the usage of a quota (protocol §12).
pub(super) fn apply(
    tree: &mut Tree,
    context: &mut Context,
    create: Create,
) -> Result<(String, Stat), ErrorCode> {
    context.charge(&create.path, create.acl.as_deref());
    let mode = CreateMode::from_flags(create.flags).ok_or(ErrorCode::BadArguments)?;
    let kind = kind(context, mode, create.op)?;
    let (parent_path, _) = path::split(&create.path)?;
    let acl = access::fix_up(create.acl.as_deref(), &context.identities, context.level)?;
    let parent = tree.find(parent_path).ok_or(ErrorCode::NoNode)?;
    context.check_access(tree, parent, perms::CREATE)?;
    let mut path = create.path;
    if mode.is_sequential() {
        let number = if planted!("sequence-counts-children") {
            u32::try_from(tree.child_count(parent)).unwrap_or(0)
        } else {
            tree.node(parent).created
        };
        append_number(&mut path, number)?;
    }
    path::validate(&path)?;
    let (_, name) = path::split(&path)?;
    // The root is found by its path, not by a name.
    if name.is_empty() || tree.child(parent, name).is_some() {
        return Err(ErrorCode::NodeExists);
    }
    if matches!(tree.node(parent).kind, Kind::Ephemeral(_)) {
        return Err(ErrorCode::NoChildrenForEphemerals);
    }
    let bytes = create.data.as_ref().map_or(0, |data| data.len().cast_signed()) as i64;
    if context.policy.enforce_quota {
        quota::check(tree, &path, bytes, 1)?;
    }

    let mut node = Znode::built_in(parent, tree.hold_acl(&acl));
    node.kind = kind;
    stamp(&mut node, context.zxid, context.now_ms);
    let id = tree.insert(node, name, create.data.map(own));
    tree.change(parent, |node| {
        node.created = node.created.saturating_add(1);
        node.pzxid = context.zxid;
    });
    let stat = tree.stat(id);
    quota::created(tree, id, &path);
    quota::account(tree, &path, bytes, 1);
    context.changes.push(Change::Created {
        path: path.clone(),
        acl: Arc::clone(tree.acl(id)),
        parent_acl: Arc::clone(tree.acl(parent)),
        owner: kind.owner(),
    });
    Ok((path, stat))
}

fn kind(context: &Context, mode: CreateMode, op: CreateOp) -> Result<Kind, ErrorCode> {
    if mode.is_ttl() && !context.policy.extended_types {
        return Err(ErrorCode::Unimplemented);
    }
    match op {
        CreateOp::Ttl(ttl_ms) if mode.is_ttl() && (1..=TTL_MS_MAX).contains(&ttl_ms) => {
            Ok(Kind::Ttl(ttl_ms))
        }
        CreateOp::Ttl(_) => Err(ErrorCode::BadArguments),
        CreateOp::Plain | CreateOp::Container if mode.is_ttl() => Err(ErrorCode::BadArguments),
        CreateOp::Container => Ok(Kind::Container),
        CreateOp::Plain if mode.is_ephemeral() => Ok(Kind::Ephemeral(context.session)),
        CreateOp::Plain => Ok(Kind::Persistent),
    }
}

/// Appends the ten digits. When the numbers are used up the create is refused: Apache would give
/// the last one out again (protocol §5).
fn append_number(path: &mut String, number: u32) -> Result<(), ErrorCode> {
    if number > SEQUENCE_MAX {
        return Err(ErrorCode::BadArguments);
    }
    write!(path, "{number:010}").expect("a String takes everything");
    Ok(())
}

fn stamp(node: &mut Znode, zxid: Zxid, now_ms: i64) {
    node.czxid = zxid;
    node.mzxid = zxid;
    node.pzxid = zxid;
    node.ctime = now_ms;
    node.mtime = now_ms;
}
