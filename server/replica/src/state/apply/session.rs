//! Opening, resuming and ending sessions (protocol §7).

use zoolet_jute::{ErrorCode, Reply, SessionId};

use super::{Context, STEP_COST_NS, delete};
use crate::Origin;
use crate::state::State;
use crate::state::change::Change;
use crate::state::names::{Leaves, Names, text};
use crate::state::session::{Owner, Session};

pub(super) fn create(
    state: &mut State,
    context: &mut Context,
    origin: Origin,
    timeout_ms: i32,
) -> Result<Reply, ErrorCode> {
    let id = context.session;
    if id == SessionId::NONE {
        return Err(ErrorCode::BadArguments);
    }
    if state.sessions.get(id).is_some() {
        return Err(ErrorCode::NodeExists);
    }
    let (owner, attachment) = (Owner::from(origin), context.attachment);
    state.sessions.insert(id, Session { timeout_ms, generation: 0, owner, attachment });
    context.changes.push(Change::SessionOpened(id));
    Ok(Reply::Empty)
}

pub(super) fn resume(
    state: &mut State,
    context: &mut Context,
    origin: Origin,
    timeout_ms: i32,
) -> Result<Reply, ErrorCode> {
    let id = context.session;
    let session = *state.sessions.get(id).ok_or(ErrorCode::SessionExpired)?;
    let (owner, attachment) = (Owner::from(origin), context.attachment);
    let generation = session.generation.saturating_add(1);
    state.sessions.insert(id, Session { timeout_ms, generation, owner, attachment });
    context.changes.push(Change::SessionResumed { session: id, owner });
    Ok(Reply::Empty)
}

pub(super) fn close(
    state: &mut State,
    context: &Context,
    origin: Origin,
) -> Result<Ending, ErrorCode> {
    state.sessions.check(context.session, origin, context.attachment)?;
    Ok(Ending::begin(state, context))
}

/// Ends a session without signs of life, unless it was resumed after that was decided.
pub(super) fn expire(
    state: &mut State,
    context: &Context,
    generation: u64,
) -> Result<Ending, ErrorCode> {
    let session = *state.sessions.get(context.session).ok_or(ErrorCode::SessionExpired)?;
    if session.generation != generation && !planted!("expiry-ignores-resume") {
        return Err(ErrorCode::BadVersion);
    }
    Ok(Ending::begin(state, context))
}

/// The end of a session that is under way: its ephemeral znodes are deleted in the order of their
/// paths (protocol §7.7), and then the session itself.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    leaves: Leaves,
}

impl Ending {
    fn begin(state: &mut State, context: &Context) -> Self {
        Self { leaves: state.tree.take_ephemerals(context.session).into_leaves() }
    }

    /// Goes on until `work` znodes are deleted, or a few more.
    pub(super) fn go_on(
        &mut self,
        state: &mut State,
        context: &mut Context,
        deletes_max: usize,
    ) -> Option<Reply> {
        let mut deleted = 0;
        while deleted < deletes_max && context.cost_ns < STEP_COST_NS {
            let leaf = self.leaves.next().filter(|_| !planted!("ephemerals-outlive-session"));
            let Some(leaf) = leaf else {
                let session = context.session;
                let left = state.tree.ephemerals(session).map_or(0, Names::len);
                invariant!(left == 0, "session {session} has ended and owns {left} znodes");
                state.sessions.remove(session);
                context.changes.push(Change::SessionClosed(context.session));
                return Some(Reply::Empty);
            };
            deleted += leaf.len();
            context.work += leaf.len();
            for (path, id) in leaf.iter() {
                context.charge(text(path), None);
                delete::remove(&mut state.tree, context, *id, text(path).to_owned());
            }
        }
        None
    }
}
