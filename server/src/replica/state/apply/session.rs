//! Opening, resuming and ending sessions (protocol §7).

use zoolet_jute::{ErrorCode, Reply, SessionId};

use super::{Context, delete};
use crate::replica::Origin;
use crate::replica::state::State;
use crate::replica::state::change::Change;
use crate::replica::state::session::{Owner, Session};

pub(super) fn create(
    state: &mut State,
    context: &mut Context<'_>,
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
    context: &mut Context<'_>,
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
    context: &mut Context<'_>,
    origin: Origin,
) -> Result<Reply, ErrorCode> {
    state.sessions.check(context.session, origin, context.attachment)?;
    end(state, context);
    Ok(Reply::Empty)
}

/// Ends a session that was not heard of, unless it was resumed after that was decided.
pub(super) fn expire(
    state: &mut State,
    context: &mut Context<'_>,
    generation: u64,
) -> Result<Reply, ErrorCode> {
    let session = *state.sessions.get(context.session).ok_or(ErrorCode::SessionExpired)?;
    if session.generation != generation && !planted!("expiry-ignores-resume") {
        return Err(ErrorCode::BadVersion);
    }
    end(state, context);
    Ok(Reply::Empty)
}

/// Deletes the session and its ephemeral znodes, in the order of their paths (protocol §7.7).
fn end(state: &mut State, context: &mut Context<'_>) {
    let tree = &mut state.tree;
    let mut ephemerals: Vec<_> =
        tree.ephemerals(context.session).map(|id| (tree.path_of(id), id)).collect();
    ephemerals.sort_unstable();
    for (path, id) in ephemerals {
        if planted!("ephemerals-outlive-session") {
            break;
        }
        delete::remove(tree, context, id, path);
    }
    state.sessions.remove(context.session);
    context.changes.push(Change::SessionClosed(context.session));
}
