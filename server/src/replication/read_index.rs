//! Up to where the log was committed when the leader of the moment was asked.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use zoolet_storage::{LogIndex, LogPosition};

use super::handle::ConsensusHandle;
use crate::peer::{Lane, Links, RpcKind};
use crate::wire::Reader;

/// How long the leader may take for one answer.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_millis(700);

/// Asks the leader of the moment.
#[derive(Clone, Debug)]
pub(super) struct ReadIndex {
    pub handle: ConsensusHandle,
    pub links: Arc<Links>,
    pub applied: watch::Receiver<Option<LogPosition>>,
}

impl ReadIndex {
    /// Everything that was committed before this call is applied when it gives true.
    pub(super) async fn catch_up(&mut self) -> bool {
        let Some(index) = self.ask().await else { return false };
        let index = if planted!("sync-does-not-wait") { LogIndex(0) } else { index };
        let reached =
            |applied: &Option<LogPosition>| applied.is_some_and(|last| last.index >= index);
        self.applied.wait_for(reached).await.is_ok()
    }

    async fn ask(&self) -> Option<LogIndex> {
        let leader = self.handle.leadership()?.leader;
        if leader == self.handle.node() {
            return self.handle.read_index().await;
        }
        let link = self.links.to(leader, Lane::Query)?;
        let answer =
            link.call_within(RpcKind::ReadIndex.code(), Bytes::new(), ANSWER_TIMEOUT).await.ok()?;
        let mut answer = Reader(answer);
        (answer.u8().ok()? == 1).then_some(LogIndex(answer.u64().ok()?))
    }
}
