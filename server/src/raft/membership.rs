//! Who belongs to the ensemble. The first start founds it with the configured voters; from then
//! on the log knows.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::admission::Admission;
use super::core::Core;
use super::network::{Links, STATUS, standing};
use super::options::ConfiguredMember;
use super::rebuild::RebuildMark;
use super::sync::ReadIndex;
use super::types::Member;
use crate::peer::Lane;
use crate::storage::StorageError;

/// The pause between two looks at what others do.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// The pause before a server that is being rebuilt asks around again.
const TELL_PAUSE: Duration = Duration::from_millis(500);

/// How long a peer may take to say what it knows.
const STATUS_TIMEOUT: Duration = Duration::from_millis(500);

/// Founds the ensemble, or joins it, and keeps the observers in it.
#[derive(Debug)]
pub(super) struct Founder {
    pub core: Core,
    pub links: Arc<Links>,
    pub members: Vec<ConfiguredMember>,
    pub read_index: ReadIndex,
    pub admission: Arc<Admission>,
    pub mark: RebuildMark,
    /// Told why this server cannot go on.
    pub fatal: watch::Sender<Option<String>>,
    /// Voters found the ensemble one after the other, so that the first can win its election in
    /// peace.
    pub stagger: Duration,
}

impl Founder {
    /// An empty server needs to know whether it is new, or has lost its disk: in the second case
    /// its vote could make a leader of a server that lacks what this one had acknowledged.
    pub(super) async fn run(self) {
        if !self.admission.may_vote()
            && let Err(error) = self.settle_in().await
        {
            self.fatal.send_replace(Some(error.to_string()));
            return;
        }
        self.warn_of_differences();
        self.add_observers().await;
    }

    async fn is_empty(&self) -> bool {
        matches!(self.core.raft().is_initialized().await, Ok(false))
    }

    async fn settle_in(&self) -> Result<(), StorageError> {
        let ours = self.core.server();
        let voters: Vec<u64> = self.voters().collect();
        let (mut standing, told) = self.ask_around(&voters).await;
        if self.admission.returns() {
            // What it has may be all that is left of the ensemble, which is not founded again.
            standing = Standing::Returning;
        }
        if standing == Standing::Returning {
            self.admission.return_to_data();
            tracing::warn!("this server lacks data that its ensemble has: it is rebuilt");
            self.marked(RebuildMark::set).await?;
            self.be_rebuilt(&voters, told).await;
            self.marked(RebuildMark::clear).await?;
            tracing::info!("this server has all of the ensemble's data now");
        }
        self.admission.complete();
        self.core.raft().runtime_config().elect(true);
        let rank = voters.iter().position(|voter| *voter == ours);
        // An observer waits until the leader adds it.
        if let (Standing::New, Some(rank)) = (standing, rank) {
            self.found(u32::try_from(rank).unwrap_or(u32::MAX)).await;
        }
        Ok(())
    }

    async fn marked<T: Send + 'static>(
        &self,
        work: impl FnOnce(&RebuildMark) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, StorageError> {
        let mark = self.mark.clone();
        // It ends early only with the runtime.
        spawn_blocking(move || work(&mark)).await.unwrap_or(Err(StorageError::Closed))
    }

    /// Waits until this server has everything that was committed when it asked. Meanwhile it asks
    /// those again who have not answered: whoever leads may not know yet that it begins anew.
    async fn be_rebuilt(&self, voters: &[u64], mut told: BTreeSet<u64>) {
        let mut read_index = self.read_index.clone();
        let caught_up = async {
            while !read_index.catch_up().await {
                sleep(LOOK_PAUSE).await;
            }
        };
        let telling = async {
            loop {
                let others = voters.iter().copied().filter(|voter| *voter != self.core.server());
                let untold: Vec<u64> = others.filter(|voter| !told.contains(voter)).collect();
                self.admission.take_from_all_but(untold.iter().copied().collect());
                if untold.is_empty() {
                    return pending().await;
                }
                sleep(TELL_PAUSE).await;
                told.extend(self.ask_around(&untold).await.1);
            }
        };
        tokio::select! {
            () = caught_up => {}
            () = telling => {}
        }
    }

    /// Asks until a majority, this server counted, has said whether it has data; also who has
    /// answered, and so knows that this server begins anew.
    async fn ask_around(&self, voters: &[u64]) -> (Standing, BTreeSet<u64>) {
        let ours = self.core.server();
        let (mut known, mut told) = (BTreeMap::new(), BTreeSet::new());
        loop {
            for peer in voters.iter().copied().filter(|voter| *voter != ours) {
                let Some(link) = self.links.to(peer, Lane::Request) else { continue };
                let has_data =
                    self.admission.returns() || self.read_index.applied.borrow().is_some();
                let ours = if has_data { standing::RETURNING } else { standing::EMPTY };
                let asked = Bytes::copy_from_slice(&[ours]);
                if let Ok(answer) = link.call_within(STATUS, asked, STATUS_TIMEOUT).await {
                    known.insert(peer, *answer == [1]);
                    told.insert(peer);
                }
            }
            // Servers that start together ask each other: the first question may come before this
            // one's own gets through, and the asker is a server with data soon after.
            let callers = self.admission.callers().into_iter();
            for (caller, has_data) in callers.filter(|(caller, _)| voters.contains(caller)) {
                *known.entry(caller).or_default() |= has_data;
            }
            if known.values().any(|has_data| *has_data) {
                return (Standing::Returning, told);
            }
            if known.len() + 1 > voters.len() / 2 {
                return (Standing::New, told);
            }
            sleep(LOOK_PAUSE).await;
        }
    }

    async fn found(&self, rank: u32) {
        let found_at = Instant::now() + self.stagger * rank;
        while Instant::now() < found_at {
            if !self.is_empty().await {
                return;
            }
            sleep(LOOK_PAUSE).await;
        }
        let member = |member: &ConfiguredMember| Member {
            address: member.address.clone(),
            line: String::new(),
        };
        let voters: BTreeMap<u64, Member> = self
            .members
            .iter()
            .filter(|member| member.is_voter)
            .map(|configured| (u64::from(configured.server.0), member(configured)))
            .collect();
        match self.core.raft().initialize(voters).await {
            Ok(()) => tracing::info!("founded the ensemble"),
            // Somebody else was faster.
            Err(error) => tracing::debug!(%error, "did not found the ensemble"),
        }
    }

    fn warn_of_differences(&self) {
        let metrics = self.core.metrics();
        let membership = metrics.membership_config.membership();
        let in_log: Vec<u64> = membership.voter_ids().collect();
        let configured: Vec<u64> = self.voters().collect();
        if !in_log.is_empty() && in_log != configured && !self.is_changed() {
            tracing::warn!(
                ?in_log,
                ?configured,
                "the configured voters are not those of the ensemble: the ensemble's stay"
            );
        }
    }

    /// Whenever this server leads, it adds the observers that the ensemble lacks.
    async fn add_observers(self) {
        let mut leaderships = self.core.leaderships();
        let observers = self.members.iter().filter(|member| !member.is_voter);
        let observers: Vec<(u64, Member)> = observers
            .map(|member| {
                let address = member.address.clone();
                (u64::from(member.server.0), Member { address, line: String::new() })
            })
            .collect();
        if observers.is_empty() {
            return;
        }
        loop {
            let is_leader = self.core.is_leader();
            let mut lacking = 0;
            for (server, member) in &observers {
                let metrics = self.core.metrics();
                if !is_leader
                    || self.is_changed()
                    || metrics.membership_config.membership().get_node(server).is_some()
                {
                    continue;
                }
                lacking += 1;
                match self.core.raft().add_learner(*server, member.clone(), false).await {
                    Ok(_) => tracing::info!(server, "added an observer"),
                    Err(error) => tracing::debug!(server, %error, "cannot add an observer yet"),
                }
            }
            if lacking > 0 {
                sleep(STATUS_TIMEOUT).await;
            } else if leaderships.changed().await.is_err() {
                return;
            }
        }
    }

    /// Whether the ensemble was ever changed at run time: then the configuration no longer counts.
    fn is_changed(&self) -> bool {
        let metrics = self.core.metrics();
        metrics.membership_config.membership().nodes().any(|(_, member)| !member.line.is_empty())
    }

    fn voters(&self) -> impl Iterator<Item = u64> {
        let mut voters: Vec<u64> = self
            .members
            .iter()
            .filter(|member| member.is_voter)
            .map(|member| u64::from(member.server.0))
            .collect();
        voters.sort_unstable();
        voters.into_iter()
    }
}

/// What an empty server is to its ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Nothing was ever committed.
    New,
    /// The others have data.
    Returning,
}
