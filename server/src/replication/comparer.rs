//! Asks the other voters for the digests of their states.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{MissedTickBehavior, interval};

use super::codec::Reader;
use super::divergence::{Divergence, Questions, decode_answer, encode_questions};
use super::handle::RaftHandle;
use super::network::Links;
use super::rpc_kind::RpcKind;
use super::transfer::transfer_leadership;
use crate::peer::Lane;

/// Compares this server's state with the others'.
#[derive(Clone, Debug)]
pub(super) struct Comparer {
    pub handle: RaftHandle,
    pub links: Arc<Links>,
    pub divergence: Arc<Divergence>,
}

impl Comparer {
    /// Compares at this pace for as long as the server runs.
    pub(super) async fn run(self, pace: Duration) {
        let mut ticks = interval(pace);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.compare(pace).await;
            if self.divergence.is_found() {
                self.handle.raft().runtime_config().elect(false);
                transfer_leadership(&self.handle, &self.links).await;
            }
        }
    }

    /// Asks each other voter once. Those without a reply within `answer_timeout` are left out of the
    /// comparison.
    pub(super) async fn compare(&self, answer_timeout: Duration) {
        let Questions { generation, asked } = self.divergence.questions();
        let voters: Vec<u64> = self.handle.metrics().membership_config.voter_ids().collect();
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
