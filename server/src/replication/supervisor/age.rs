//! The consequences of entries that do not arrive: a follower stops serving an old state, and a leader
//! steps down.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Supervisor, millis};
use crate::consensus::RaftView;
use crate::node_id::NodeId;
use crate::peer::Lane;
use crate::replication::role::Decision;

impl Supervisor {
    /// Holds entries back, or sends them again. Those on their way would keep a follower from voting.
    pub(super) fn hold_entries(&self, holds_entries: bool) {
        self.signals.hold_entries(holds_entries);
        if holds_entries {
            for node in self.handle.view().membership.nodes.keys() {
                self.links.give_up(*node, Lane::Append);
            }
        }
    }

    /// Reports that this server stops serving an old state, or steps down because its entries do not
    /// arrive.
    pub(super) fn report_age(&self, before: &Decision, now: &Decision) {
        if let Some(age) = now.too_old {
            self.state_age.count_stop();
            tracing::warn!(
                age_ms = millis(age),
                limit_ms = millis(self.timing.state_age_max()),
                "no longer serving: the state lacks entries that the leader has committed"
            );
        }
        if let Some(time) = now.stuck_for.filter(|_| before.stuck_for.is_none()) {
            self.signals.count_step_down();
            tracing::warn!(
                after_ms = millis(time),
                "stepping down: no majority has acknowledged the last entries"
            );
        }
    }
}

/// Returns whether the voters other than the leader that have answered it lately are a majority, of
/// each set of voters: they can elect one of themselves, whatever its own log has.
pub(super) fn others_can_elect(view: &RaftView, leader: NodeId, silence_max: Duration) -> bool {
    let has_answered = |voter: &&NodeId| {
        let silent_for = view.follower(**voter).silent_for;
        **voter != leader && silent_for.is_some_and(|silent_for| silent_for < silence_max)
    };
    let configs = &view.membership.configs;
    let is_majority =
        |voters: &BTreeSet<NodeId>| voters.iter().filter(has_answered).count() > voters.len() / 2;
    !configs.is_empty() && configs.iter().all(is_majority)
}
