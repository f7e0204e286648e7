//! Handing the leadership over to another voter.

use std::cmp::Reverse;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{sleep, timeout};

use super::handle::ConsensusHandle;
use crate::consensus::ConsensusStatus;
use crate::node_id::NodeId;
use crate::peer::{Lane, Links, RpcKind};

/// How long another server may take to take the lead over.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(1);

/// Between two looks at whether the transferee is still there.
const PROBE_INTERVAL: Duration = Duration::from_millis(30);

/// How long the transferee may take to show that, and how long one is looked for.
const PROBE_TIMEOUT: Duration = Duration::from_millis(300);

/// As leader, makes the reachable voter with the longest log the next leader, and waits until it
/// is.
pub(super) async fn transfer_leadership(handle: &ConsensusHandle, links: &Links) {
    let view = handle.view();
    let server = handle.node();
    if view.followers.is_none() || !handle.is_leader() {
        return;
    }
    let voters = view.membership.voters().into_iter().filter(|voter| *voter != server);
    let mut transferees: Vec<NodeId> = voters.collect();
    transferees.sort_by_key(|voter| Reverse(view.follower(*voter).matching));
    let give_up_at = tokio::time::Instant::now() + PROBE_TIMEOUT;
    // A link that could not connect a moment ago fails at once for a while.
    while !transferees.is_empty() && tokio::time::Instant::now() < give_up_at {
        for &transferee in &transferees {
            if is_there(links, transferee).await {
                transfer_leadership_to(handle, links, transferee).await;
                return;
            }
        }
        sleep(PROBE_INTERVAL).await;
    }
}

/// As leader, makes this voter the next one, and waits until another one is, or until it is gone:
/// when all servers stop together, no server is left.
pub(super) async fn transfer_leadership_to(
    handle: &ConsensusHandle,
    links: &Links,
    transferee: NodeId,
) -> bool {
    let server = handle.node();
    handle.give_up();
    if !handle.transfer_to(transferee).await {
        return false;
    }
    let mut statuses = handle.status();
    let is_over =
        |known: &ConsensusStatus| known.leadership.is_some_and(|known| known.leader != server);
    let gone = async {
        while is_there(links, transferee).await {
            sleep(PROBE_INTERVAL).await;
        }
    };
    let is_done = tokio::select! {
        over = timeout(TRANSFER_TIMEOUT, statuses.wait_for(is_over)) => over.is_ok(),
        () = gone => false,
    };
    if is_done {
        tracing::info!(transferee = transferee.server(), "transferred the leadership");
    } else {
        tracing::info!(
            transferee = transferee.server(),
            "gave the leadership up; the transferee has not taken it"
        );
    }
    is_done
}

async fn is_there(links: &Links, node: NodeId) -> bool {
    let Some(link) = links.to(node, Lane::Query) else { return false };
    link.call_within(RpcKind::Status.code(), Bytes::new(), PROBE_TIMEOUT).await.is_ok()
}
