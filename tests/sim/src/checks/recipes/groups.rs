//! When all is quiet, a member of a group has its znode, with its data.

use super::Noted;
use super::caches::FOLLOWS_WITHIN;
use crate::checks::{Counts, Run, Violation};
use crate::history::RecipeStep;

const K8: &str = "K8 group";

/// Looks for the znode of each member that says that it is one.
pub(super) fn check(
    run: &Run<'_>,
    path: &str,
    steps: &[Noted<'_>],
    counts: &mut Counts,
    found: &mut Vec<Violation>,
) {
    for noted in steps {
        let RecipeStep::IsMember { id, session, data } = noted.step else { continue };
        if run.history.healed_at + FOLLOWS_WITHIN > noted.at {
            continue;
        }
        let known = run.model.transactions.iter().filter(|one| one.first_at <= noted.at);
        let zxid = known.map(|one| one.zxid).max().unwrap_or_default();
        let mut replay = run.model.replay();
        let state = replay.to(zxid);
        // A client may learn of the end of its session a moment later.
        if !state.sessions.contains_key(session) {
            continue;
        }
        counts.members += 1;
        let znode = state.tree.get(&format!("{path}/{id}"));
        let is_right = znode.is_some_and(|znode| {
            znode.kind.owner() == *session && znode.data.as_ref() == Some(data)
        });
        if !is_right {
            let what = format!(
                "client {} is member {id} of {path} with {data:?} by session {session}, and the tree has \
                 {znode:?}",
                noted.client.0
            );
            found.push(Violation { promise: K8, at: noted.at, what });
        }
    }
}
