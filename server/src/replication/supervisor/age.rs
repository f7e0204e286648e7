//! The consequences of entries that do not arrive: a follower stops serving an old state, and a leader
//! steps down.

use std::collections::BTreeSet;

use tokio::time::Instant;
use zoolet_replica::Term;
use zoolet_storage::LogPosition;

use super::{Supervisor, millis};
use crate::consensus::RaftView;
use crate::node_id::NodeId;
use crate::peer::Lane;
use crate::replication::options::Timing;
use crate::replication::role::Decision;

impl Supervisor {
    /// Records, as leader, which of the entries committed at a moment are applied here.
    pub(super) fn prove_as_leader(
        &self,
        led: (Term, Instant),
        view: &RaftView,
        applied: Option<LogPosition>,
    ) {
        let applied_in = applied.map(|last| Term(last.term));
        let applied = applied.map(|last| last.index);
        // Without other servers, only applied entries are visible to clients.
        let is_alone = view.membership.nodes.len() == 1;
        let committed = if is_alone { applied } else { view.committed.max(applied) };
        self.state_age.leads(led, applied_in == Some(led.0), committed, applied);
    }

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
                "stepping down: no entry was committed although some wait"
            );
        }
    }
}

/// Returns whether another leader could do better, by each set of voters.
///
/// - The voters other than the leader that have answered it lately are a majority: they can elect one
///   of themselves, whatever its own log has.
/// - The voters that are not receiving a snapshot or missed entries are a majority, the leader
///   included. Otherwise no leader could commit before the others have caught up, and each change of the
///   leader would restart that.
pub(super) fn others_can_lead(view: &RaftView, leader: NodeId, timing: &Timing) -> bool {
    let has_answered = |voter: &&NodeId| {
        let silent_for = view.follower(**voter).silent_for;
        **voter != leader && silent_for.is_some_and(|time| time < timing.silence_max())
    };
    let is_ready = |voter: &&NodeId| {
        let follower = view.follower(**voter);
        let advances = follower.idle_for.is_some_and(|time| time < timing.step_down_limit());
        **voter == leader
            || has_answered(voter) && (follower.matching >= view.committed || !advances)
    };
    let are_enough = |voters: &BTreeSet<NodeId>| {
        let majority = voters.len() / 2 + 1;
        voters.iter().filter(has_answered).count() >= majority
            && voters.iter().filter(is_ready).count() >= majority
    };
    let configs = &view.membership.configs;
    !configs.is_empty() && configs.iter().all(are_enough)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zoolet_storage::LogIndex;

    use super::*;
    use crate::consensus::{Follower, Membership};

    /// Servers 1 to `voters`, of which 1 leads and has committed 100.
    fn view(voters: u64, followers: &[(u64, Follower)]) -> RaftView {
        let node = |server| NodeId::new(server, 0);
        let configs = vec![(1..=voters).map(node).collect()];
        RaftView {
            committed: Some(LogIndex(100)),
            followers: Some(followers.iter().map(|(of, known)| (node(*of), *known)).collect()),
            membership: Membership { configs, ..Membership::default() },
            ..RaftView::default()
        }
    }

    fn follower(matching: u64, idle_ms: Option<u64>) -> Follower {
        Follower {
            matching: Some(LogIndex(matching)),
            silent_for: Some(Duration::ZERO),
            idle_for: idle_ms.map(Duration::from_millis),
        }
    }

    /// Two servers received a snapshot for a minute, and each leader stepped down before the end.
    #[test]
    fn a_leader_that_waits_for_servers_to_catch_up_leads_on() {
        let timing = Timing::from_tick(Duration::from_secs(2));
        let can_lead = |view: &RaftView| others_can_lead(view, NodeId::new(1, 0), &timing);
        let current = follower(100, Some(60_000));
        let (receiving, stuck) = (follower(7, Some(300)), follower(7, Some(60_000)));
        let recovery = |last| view(5, &[(2, current), (4, receiving), (5, last)]);
        assert!(!can_lead(&recovery(receiving)));
        assert!(can_lead(&recovery(stuck)), "it receives nothing from this leader");
        assert!(can_lead(&recovery(follower(7, None))));
        assert!(can_lead(&recovery(follower(100, Some(300)))), "it has everything");
        assert!(
            !can_lead(&view(5, &[(2, current), (3, current)])),
            "no majority without the leader"
        );
        assert!(can_lead(&view(3, &[(2, current), (3, receiving)])), "the second is stuck");
        assert!(!can_lead(&view(3, &[(2, receiving), (3, receiving)])));
        let silent = Follower { silent_for: Some(timing.silence_max()), ..current };
        assert!(!can_lead(&view(3, &[(2, current), (3, silent)])));
    }
}
