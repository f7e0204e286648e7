//! Asks the other voters for the digests of their states.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::divergence::{Divergence, Questions, decode_answer, encode_questions};
use super::handle::ConsensusHandle;
use crate::node_id::NodeId;
use crate::peer::{Lane, Links, RpcKind};
use crate::wire::Reader;

/// Compares this server's state with the others'.
#[derive(Clone, Debug)]
pub(super) struct Comparer {
    pub handle: ConsensusHandle,
    pub links: Arc<Links>,
    pub divergence: Arc<Divergence>,
}

impl Comparer {
    /// Asks each other voter once. Those without a reply within `answer_timeout` are left out of the
    /// comparison.
    pub(super) async fn compare(&self, answer_timeout: Duration) {
        let Questions { generation, asked } = self.divergence.questions();
        let voters: Vec<NodeId> = self.handle.view().membership.voters().into_iter().collect();
        let server = self.handle.node();
        let body = encode_questions(&asked);
        let others = voters.iter().filter(|voter| **voter != server && !asked.is_empty());
        let asking = others.map(|&peer| {
            let (link, body) = (self.links.to(peer, Lane::Query), body.clone());
            async move {
                let answer =
                    link?.call_within(RpcKind::Digest.code(), body, answer_timeout).await.ok()?;
                Some((peer, Reader(answer)))
            }
        });
        for (peer, mut answer) in join_all(asking).await.into_iter().flatten() {
            let version = self.divergence.version();
            let known = decode_answer(&mut answer, version, asked.len()).unwrap_or_default();
            for (&ours, known) in asked.iter().zip(known) {
                self.divergence.compare(peer, generation, ours, known);
            }
        }
        self.divergence.conclude(server, &voters);
    }
}
