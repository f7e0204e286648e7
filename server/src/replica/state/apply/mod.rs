//! What commands do: the checks of each operation in protocol §2's order, then the change.
//!
//! Every check stands before the first change, so a refused operation leaves nothing behind; only
//! a multi needs a way back.

mod container;
mod create;
mod delete;
mod multi;
mod session;
mod set_acl;
mod set_data;

use zoolet_jute::{ErrorCode, Id, PathVersionRequest, Reply, Request, SessionId, Zxid, perms};

use super::change::Change;
use super::tree::Tree;
use super::znode::NodeId;
use super::{State, access, path};
use crate::replica::{Command, Op, Origin, Policy, Stamp};
use create::Create;

/// What an operation may know besides the state and its own arguments.
#[derive(Debug)]
pub(super) struct Context<'a> {
    /// The term of the leader that put the command into the log.
    term: u64,
    zxid: Zxid,
    now_ms: i64,
    session: SessionId,
    attachment: u64,
    policy: Policy,
    identities: &'a [Id],
    changes: Vec<Change>,
}

impl Context<'_> {
    fn check_access(&self, tree: &Tree, node: NodeId, wanted: i32) -> Result<(), ErrorCode> {
        let allowed =
            access::permits(tree.acl(node), wanted, self.identities, self.policy.skip_acl);
        if allowed || planted!("acl-ignored") { Ok(()) } else { Err(ErrorCode::NoAuth) }
    }

    /// Whether what a leader decided in `term` got into the log while it still led: its successor
    /// knows things that it did not.
    fn check_term(&self, term: u64) -> Result<(), ErrorCode> {
        if self.term == term { Ok(()) } else { Err(ErrorCode::BadVersion) }
    }
}

/// Applies a command under its leader's stamp and its zxid.
pub(super) fn apply(
    state: &mut State,
    (stamp, zxid): (Stamp, Zxid),
    origin: Origin,
    command: Command,
) -> (Result<Reply, ErrorCode>, Vec<Change>) {
    let Stamp { term, now_ms } = stamp;
    let Command { session, attachment, policy, identities, op, .. } = command;
    let changes = Vec::new();
    let identities = &identities;
    let mut context =
        Context { term, zxid, now_ms, session, attachment, policy, identities, changes };
    let result = run(state, &mut context, origin, op);
    (result, context.changes)
}

fn run(
    state: &mut State,
    context: &mut Context<'_>,
    origin: Origin,
    op: Op,
) -> Result<Reply, ErrorCode> {
    match op {
        Op::CreateSession { timeout_ms } => session::create(state, context, origin, timeout_ms),
        Op::ResumeSession { timeout_ms } => session::resume(state, context, origin, timeout_ms),
        Op::CloseSession => session::close(state, context, origin),
        Op::ExpireSession { generation, term } => {
            context.check_term(term)?;
            session::expire(state, context, generation)
        }
        Op::DeleteContainer { path } => container::delete(&mut state.tree, context, path),
        Op::SetConfig { term, text, .. } => {
            context.check_term(term)?;
            set_data::set_config(&mut state.tree, context, text)
        }
        Op::SetLevel { level, term } => {
            context.check_term(term)?;
            state.level = level;
            Ok(Reply::Empty)
        }
        #[cfg(test)]
        Op::MadeUp(body) => {
            state.sessions.check(context.session, origin, context.attachment)?;
            let data = Some(bytes::Bytes::from_static(b"made up"));
            let body = zoolet_jute::CreateRequest { data, ..body };
            write(&mut state.tree, context, Request::Create2(body))
        }
        Op::Write(request) => {
            if !planted!("moved-session-writes") {
                state.sessions.check(context.session, origin, context.attachment)?;
            }
            write(&mut state.tree, context, request)
        }
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "reads and connection matters change nothing")]
fn write(tree: &mut Tree, context: &mut Context<'_>, request: Request) -> Result<Reply, ErrorCode> {
    match request {
        Request::Create(body) => {
            create::apply(tree, context, Create::plain(body)).map(|(path, _)| Reply::Path(path))
        }
        Request::Create2(body) => create_with_stat(tree, context, Create::plain(body)),
        Request::CreateContainer(body) => create_with_stat(tree, context, Create::container(body)),
        Request::CreateTtl(body) => create_with_stat(tree, context, Create::ttl(body)),
        Request::Delete(body) => delete::apply(tree, context, body).map(|()| Reply::Empty),
        Request::SetData(body) => set_data::apply(tree, context, body).map(Reply::Stat),
        Request::SetAcl(body) => set_acl::apply(tree, context, &body).map(Reply::Stat),
        Request::Multi(body) => Ok(multi::apply(tree, context, body)),
        // Switched on, it is carried out by the leader, and never gets into the log as a request
        // (docs/decisions/0007-reconfiguration.md).
        Request::Reconfig(_) if context.policy.reconfig => Err(ErrorCode::Unimplemented),
        Request::Reconfig(_) => Err(ErrorCode::ReconfigDisabled),
        _ => Err(ErrorCode::Unimplemented),
    }
}

fn create_with_stat(
    tree: &mut Tree,
    context: &mut Context<'_>,
    create: Create,
) -> Result<Reply, ErrorCode> {
    create::apply(tree, context, create).map(|(path, stat)| Reply::PathStat(path, stat))
}

/// A check inside a multi (protocol §2.8).
fn check(tree: &Tree, context: &Context<'_>, body: &PathVersionRequest) -> Result<(), ErrorCode> {
    path::validate(&body.path)?;
    let node = tree.find(&body.path).ok_or(ErrorCode::NoNode)?;
    context.check_access(tree, node, perms::READ)?;
    check_version(tree.node(node).version, body.version)
}

/// −1 expects any version.
fn check_version(actual: i32, expected: i32) -> Result<(), ErrorCode> {
    if expected == -1 || expected == actual || planted!("versions-ignored") {
        Ok(())
    } else {
        Err(ErrorCode::BadVersion)
    }
}

/// The version behind this one. −1 as expected version means any, so it is left out, as newer
/// Apache servers do (protocol §4); the built-in −1 goes on to 0 as well.
const fn next_version(version: i32) -> i32 {
    match version.wrapping_add(1) {
        -1 => 0,
        next => next,
    }
}
