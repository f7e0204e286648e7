//! What followers do when their leader's process is gone.
//!
//! A leader that is silent may only be slow, so followers wait for its lease and longer before they
//! elect another. A process that ends says more: the system closes its connections, and its port
//! refuses new ones. Followers that see both vote for another server at once.
//!
//! It may be wrong: a firewall may answer in the place of a leader that goes on. Then there are
//! two for a moment, of which only the new one can commit anything. The old one may count signs of
//! life of sessions for as long as it trusts the last answers of a majority, so a new leader gives
//! all sessions that much time more (`Options::takeover_grace_ms`).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::handle::ConsensusHandle;
use crate::consensus::Leadership;
use crate::entropy::Entropy;
use crate::peer::Links;

/// The pauses before the looks at whether the port refuses connections: the system closes a
/// process's connections and its port one after the other.
const LOOK_PAUSES: [Duration; 3] =
    [Duration::ZERO, Duration::from_millis(5), Duration::from_millis(25)];

/// How often a follower stands for election. After that, only the timeouts of the consensus count.
const ATTEMPTS_MAX: u32 = 5;

/// How long other followers may take to notice as well; a server that has not noticed votes for no
/// other.
const NOTICE_TIME: Duration = Duration::from_millis(5);

/// Returns whether the process of a server that has closed its connections is gone.
pub(super) async fn is_gone(links: &Links, server: u64) -> bool {
    if planted!("any-hang-up-is-an-end") {
        return true;
    }
    for pause in LOOK_PAUSES {
        sleep(pause).await;
        if links.is_refused(server).await {
            return true;
        }
    }
    false
}

/// How a follower stands for election in the place of a leader that is gone.
#[derive(Debug)]
pub(super) struct Campaign {
    pub handle: ConsensusHandle,
    pub entropy: Arc<dyn Entropy>,
    /// The range of the pauses, which differ from server to server, so that mostly one is first.
    pub spread: Duration,
}

impl Campaign {
    /// Stands for election until there is a leader, or until it has tried often enough.
    pub(super) async fn run(self, gone: Leadership) {
        let mut least = NOTICE_TIME;
        for attempt in 0..ATTEMPTS_MAX {
            // Each pause is longer: on slow disks an election takes some time, and another attempt
            // would end it.
            let spread = self.spread * 2_u32.pow(attempt);
            sleep(least + self.any_part_of(spread)).await;
            least = spread;
            let is_succeeded = self.handle.leadership().is_some_and(|known| known != gone);
            if is_succeeded || !self.handle.campaign().await {
                return;
            }
        }
        tracing::warn!(leader = gone.leader.server(), "no leader is elected in its place yet");
    }

    fn any_part_of(&self, spread: Duration) -> Duration {
        let spread_us = u64::try_from(spread.as_micros()).unwrap_or(u64::MAX).max(1);
        Duration::from_micros(self.entropy.number() % spread_us)
    }
}
