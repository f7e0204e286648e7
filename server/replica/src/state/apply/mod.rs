//! What commands do: the checks of each operation in protocol §2's order, then the change.
//!
//! Every check stands before the first change, so a refused operation leaves nothing behind; only
//! a multi needs a way back. What can take long, a multi and the end of a session, is done in
//! steps; see [`Pending`].

mod container;
mod create;
mod delete;
mod multi;
mod session;
mod set_acl;
mod set_data;

use std::sync::Arc;

use create::Create;
use zoolet_jute::{Acl, ErrorCode, Id, PathVersionRequest, Reply, Request, SessionId, Zxid, perms};

use super::access::Verdicts;
use super::change::{Change, Step};
use super::tree::Tree;
use super::znode::ZnodeId;
use super::{State, access, path};
use crate::cost;
use crate::{Command, FeatureLevel, Op, Origin, Policy, ProposalNumber, Stamp, Term};

/// What an operation may know besides the state and its own arguments.
#[derive(Clone, Debug)]
pub(super) struct Context {
    /// The term of the leader that put the command into the log.
    term: Term,
    zxid: Zxid,
    now_ms: i64,
    session: SessionId,
    attachment: ProposalNumber,
    policy: Policy,
    /// The feature level of the command, which decides what it may mean.
    level: FeatureLevel,
    identities: Arc<[Id]>,
    /// The verdicts of the permission checks; `None` outside a multi.
    verdicts: Option<Box<Verdicts>>,
    changes: Vec<Change>,
    /// How many parts of a long command were done since it was interrupted.
    work: usize,
    /// The cost of paths and ACLs since then, in nanoseconds.
    cost_ns: usize,
}

impl Context {
    /// Charges an operation for its path and for the ACL that it stores.
    fn charge(&mut self, path: &str, acl: Option<&[Acl]>) {
        let entries = acl.unwrap_or_default().len();
        self.cost_ns += 3 * cost::of_path(path) + access::STORED_ENTRY_NS * entries;
    }

    fn check_access(&mut self, tree: &Tree, node: ZnodeId, wanted: i32) -> Result<(), ErrorCode> {
        let (acl, skip_acl) = (tree.acl(node), self.policy.skip_acl);
        let (allowed, cost) = match &mut self.verdicts {
            Some(verdicts) => verdicts.judge(acl, wanted, &self.identities, skip_acl),
            None => access::judge(acl, wanted, &self.identities, skip_acl),
        };
        self.cost_ns += cost;
        if allowed || planted!("acl-ignored") { Ok(()) } else { Err(ErrorCode::NoAuth) }
    }

    /// Whether what a leader decided in `term` got into the log while it still led: its successor
    /// knows things that it did not.
    fn check_term(&self, term: Term) -> Result<(), ErrorCode> {
        if self.term == term { Ok(()) } else { Err(ErrorCode::BadVersion) }
    }
}

/// A command that is half done. The state as a whole is neither that before nor that behind it, so
/// nothing may be read from it until the command is done; its last zxid is still that before.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    context: Context,
    work: Work,
}

impl Pending {
    pub(super) fn zxid(&self) -> Zxid {
        self.context.zxid
    }
}

/// What is left of a command.
#[derive(Clone, Debug)]
enum Work {
    End(session::Ending),
    Multi(multi::Multi),
}

/// What an operation comes to at once.
enum Outcome {
    Done(Result<Reply, ErrorCode>),
    Work(Work),
}

/// Applies a command under its leader's stamp and its zxid, or begins to.
pub(super) fn begin(
    state: &mut State,
    (stamp, zxid): (Stamp, Zxid),
    origin: Origin,
    command: Command,
) -> Step {
    let Stamp { term, now_ms } = stamp;
    let Command { session, attachment, policy, identities, op, .. } = command;
    let is_whole = state.pending.is_none();
    invariant!(
        is_whole,
        "a command begins as {zxid} before the one behind {} is done",
        state.last_zxid
    );
    let is_expiry = matches!(op, Op::ExpireSession { .. });
    state.tree.locks_mut().begin_command(now_ms, is_expiry);
    let mut context = Context {
        term,
        zxid,
        now_ms,
        session,
        attachment,
        policy,
        level: op.level(),
        identities,
        verdicts: None,
        changes: Vec::new(),
        work: 0,
        cost_ns: 0,
    };
    match run(state, &mut context, origin, op) {
        Outcome::Done(result) => Step::done(state, context, result),
        Outcome::Work(work) => {
            state.pending = Some(Box::new(Pending { context, work }));
            go_on(state, STEP_CHANGES)
        }
    }
}

/// How many znodes a command changes, about, before it is interrupted for the first time.
const STEP_CHANGES: usize = 128;

/// A command is interrupted once its paths and ACLs have cost so much, in nanoseconds.
const STEP_COST_NS: usize = 500_000;

/// Goes on with the command that is half done, for about `changes_max` changes of znodes.
pub(super) fn go_on(state: &mut State, changes_max: usize) -> Step {
    let Some(mut pending) = state.pending.take() else { return Step::default() };
    let Pending { context, work, .. } = &mut *pending;
    let done = match work {
        Work::End(ending) => ending.go_on(state, context, changes_max),
        Work::Multi(multi) => multi.go_on(&mut state.tree, context, changes_max),
    };
    if let Some(reply) = done {
        return Step::done(state, pending.context, Ok(reply));
    }
    let changes = match work {
        // What it does cannot be undone.
        Work::End(_) => std::mem::take(&mut context.changes),
        Work::Multi(_) => Vec::new(),
    };
    let work = std::mem::take(&mut context.work);
    let cost_ns = std::mem::take(&mut context.cost_ns);
    state.pending = Some(pending);
    Step { changes, done: None, work, cost_ns }
}

impl Step {
    #[inline]
    fn done(state: &mut State, context: Context, result: Result<Reply, ErrorCode>) -> Self {
        let (last, zxid) = (state.last_zxid, context.zxid);
        // The first configuration has the first zxid of its term, and the numbers may be used up.
        let rises = zxid > last || [0, i64::MAX].contains(&last.0);
        invariant!(rises, "zxid {zxid} comes after zxid {last}");
        let counts = result.is_ok() || !planted!("refused-commands-are-not-counted");
        state.last_zxid = if counts { zxid } else { last };
        let Context { changes, work, cost_ns, .. } = context;
        Self { changes, done: Some(result), work, cost_ns }
    }
}

fn run(state: &mut State, context: &mut Context, origin: Origin, op: Op) -> Outcome {
    let done = match op {
        Op::CreateSession { timeout_ms } => session::create(state, context, origin, timeout_ms),
        Op::ResumeSession { timeout_ms } => session::resume(state, context, origin, timeout_ms),
        Op::CloseSession => {
            let ending = session::close(state, context, origin);
            return Outcome::of(ending.map(Work::End));
        }
        Op::ExpireSession { generation, term } => {
            let may = context.check_term(term);
            let ending = may.and_then(|()| session::expire(state, context, generation));
            return Outcome::of(ending.map(Work::End));
        }
        Op::DeleteContainer { path } => container::delete(&mut state.tree, context, path),
        Op::SetConfig { term, text, .. } => context
            .check_term(term)
            .and_then(|()| set_data::set_config(&mut state.tree, context, text)),
        Op::SetLevel { level, term } => context.check_term(term).map(|()| {
            state.level = level;
            Reply::Empty
        }),
        #[cfg(feature = "made_up")]
        Op::MadeUp(body) => {
            let may = state.sessions.check(context.session, origin, context.attachment);
            let data = Some(bytes::Bytes::from_static(b"made up"));
            let body = zoolet_jute::CreateRequest { data, ..body };
            may.and_then(|()| write(&mut state.tree, context, Request::Create2(body)))
        }
        Op::Write(request) | Op::WriteX509(request) | Op::WriteSasl(request) => {
            let may = if planted!("moved-session-writes") {
                Ok(())
            } else {
                state.sessions.check(context.session, origin, context.attachment)
            };
            match (may, request) {
                (Ok(()), Request::Multi(parts)) => {
                    context.verdicts = Some(Box::default());
                    return Outcome::Work(Work::Multi(multi::Multi::begin(&mut state.tree, parts)));
                }
                (Ok(()), request) => write(&mut state.tree, context, request),
                (Err(code), _) => Err(code),
            }
        }
    };
    Outcome::Done(done)
}

impl Outcome {
    fn of(work: Result<Work, ErrorCode>) -> Self {
        match work {
            Ok(work) => Self::Work(work),
            Err(code) => Self::Done(Err(code)),
        }
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "reads and connection matters change nothing")]
fn write(tree: &mut Tree, context: &mut Context, request: Request) -> Result<Reply, ErrorCode> {
    match request {
        Request::Create(body) => {
            create::apply(tree, context, Create::plain(body)).map(|(path, _)| Reply::Path(path))
        }
        Request::Create2(body) => create_with_stat(tree, context, Create::plain(body)),
        Request::CreateContainer(body) => create_with_stat(tree, context, Create::container(body)),
        Request::CreateTtl(body) => create_with_stat(tree, context, Create::ttl(body)),
        Request::Delete(body) => delete::apply(tree, context, body).map(|()| Reply::Empty),
        Request::SetData(body) => set_data::apply(tree, context, body).map(Reply::Stat),
        Request::SetAcl(body) => set_acl::apply(tree, context, body).map(Reply::Stat),
        // Switched on, it is carried out by the leader, and never gets into the log as a request
        // (docs/decisions/0007-reconfiguration.md).
        Request::Reconfig(_) if context.policy.reconfig => Err(ErrorCode::Unimplemented),
        Request::Reconfig(_) => Err(ErrorCode::ReconfigDisabled),
        _ => Err(ErrorCode::Unimplemented),
    }
}

fn create_with_stat(
    tree: &mut Tree,
    context: &mut Context,
    create: Create,
) -> Result<Reply, ErrorCode> {
    create::apply(tree, context, create).map(|(path, stat)| Reply::PathStat(path, stat))
}

/// A check inside a multi (protocol §2.8).
fn check(tree: &Tree, context: &mut Context, body: &PathVersionRequest) -> Result<(), ErrorCode> {
    context.charge(&body.path, None);
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
