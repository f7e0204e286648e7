//! How a server with an empty log becomes part of its ensemble: the first start founds it with the
//! configured voters; any later one waits until the ensemble's leader takes the directory in.
//!
//! An empty server never takes the place of a directory that was lost by itself: it has forgotten
//! what that one had voted for and acknowledged. See `replacement` for the leader's part, and
//! decision 0004 for the argument.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use zoolet_storage::StorageError;

use super::blocking::blocking;
use super::directory::DirectoryIdentity;
use super::founding::{AcceptorFile, Founding, Reply, Request, ballot, choose, round_of};
use super::handle::ConsensusHandle;
use super::options::ConfiguredMember;
use crate::config::StartMode;
use crate::entropy::Entropy;
use crate::fatal::Fatal;
use crate::node_id::{NodeId, new_founding};
use crate::peer::{Link, Links, PeerIdentity, RpcKind};
use crate::wire::Reader;

/// The pause between two looks at what others do.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// The pause between two rounds of questions to those who have not answered.
const ASK_PAUSE: Duration = Duration::from_millis(100);

/// How long a peer may take for one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// How long a server waits for voters that do not answer, in staggers, before it founds the ensemble
/// with a majority: one of them may have the data of an ensemble that exists.
const GRACE_STAGGERS: u32 = 4;

/// The pause between two lines about what is waited for.
const WAIT_LINE_PAUSE: Duration = Duration::from_secs(10);

/// This server's part in the agreement on a founding, and what it knows of other empty servers.
#[derive(Debug)]
pub(super) struct Agreement {
    identity: DirectoryIdentity,
    acceptor: Arc<Mutex<AcceptorFile>>,
    /// The directories of the empty servers that have called, by their numbers.
    empty_callers: Mutex<BTreeMap<u64, u64>>,
    /// The founding of a server that has called and belongs to one.
    seen: watch::Sender<Option<u64>>,
    /// False for a server that must get the data of an ensemble.
    may_found: bool,
}

impl Agreement {
    pub(super) fn new(
        identity: DirectoryIdentity,
        acceptor: AcceptorFile,
        may_found: bool,
    ) -> Self {
        let (empty_callers, seen) = (Mutex::default(), watch::Sender::new(None));
        let acceptor = Arc::new(Mutex::new(acceptor));
        Self { identity, acceptor, empty_callers, seen, may_found }
    }

    /// Notes what a caller's handshake says about it. Servers that start together ask each other:
    /// the first call may come before this server's own gets through.
    pub(super) fn called_by(&self, caller: &PeerIdentity) {
        if caller.founding == 0 {
            let mut callers = self.empty_callers.lock().unwrap_or_else(PoisonError::into_inner);
            callers.insert(caller.server, caller.directory);
        } else {
            self.has_seen(caller.founding);
        }
    }

    fn has_seen(&self, founding: u64) {
        self.seen.send_replace(Some(founding));
    }

    /// Returns whether this server has helped to decide on a founding, and has seen no other one.
    /// Then it may found the ensemble with the others if the server that was faster is gone.
    fn took_part(&self) -> bool {
        let acceptor = self.acceptor.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = acceptor.accepted().map(|founding| founding.id);
        self.may_found
            && taken.is_some()
            && self.seen.borrow().is_none_or(|seen| Some(seen) == taken)
    }

    /// Returns the answer to a question about the founding.
    pub(super) async fn answer(&self, request: Request) -> Result<Reply, StorageError> {
        if self.identity.founding() != 0 {
            return Ok(Reply::Founded);
        }
        if !self.may_found {
            return Ok(Reply::Refused { promised: 0 });
        }
        let acceptor = Arc::clone(&self.acceptor);
        let step = move || {
            let mut acceptor = acceptor.lock().unwrap_or_else(PoisonError::into_inner);
            acceptor.step(request)
        };
        blocking("founding", step).await
    }

    /// Returns the founding that this server has taken and belongs to.
    fn own_founding(&self) -> Option<Founding> {
        let acceptor = self.acceptor.lock().unwrap_or_else(PoisonError::into_inner);
        acceptor.accepted().filter(|founding| founding.id == self.identity.founding()).cloned()
    }

    fn empty_callers(&self) -> BTreeMap<u64, u64> {
        self.empty_callers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Founds the ensemble, or waits until this server is part of it.
#[derive(Debug)]
pub(super) struct Bootstrap {
    pub handle: ConsensusHandle,
    pub links: Arc<Links>,
    pub members: Vec<ConfiguredMember>,
    pub identity: DirectoryIdentity,
    pub agreement: Arc<Agreement>,
    pub entropy: Arc<dyn Entropy>,
    pub start_mode: StartMode,
    /// Receives the reason why this server cannot go on.
    pub fatal: Fatal,
    /// Voters found the ensemble one after the other, so that the first can win its election.
    pub stagger: Duration,
}

/// What an empty server has found out about the others.
#[derive(Debug, PartialEq, Eq)]
enum Others {
    /// They are empty too; their directories by their numbers, this server's included.
    AreEmpty(BTreeMap<u64, u64>),
    /// There is an ensemble.
    HaveEnsemble,
}

impl Bootstrap {
    pub(super) async fn run(self) {
        let joined = async {
            self.join_or_found().await?;
            self.wait_for_membership().await
        };
        match joined.await {
            Ok(()) => self.warn_of_differences(),
            Err(error) => self.fatal.report(error.to_string()),
        }
    }

    async fn join_or_found(&self) -> Result<(), StorageError> {
        let voters: Vec<u64> = self.voters().keys().copied().collect();
        let rank = voters.iter().position(|voter| *voter == self.handle.server());
        let rank = rank.and_then(|rank| u32::try_from(rank).ok());
        let Some(rank) = rank.filter(|_| self.handle.log_is_empty()) else { return Ok(()) };
        if self.start_mode == StartMode::ForceNew {
            let voters = self.voters().into_iter();
            let own = voters.filter(|(voter, _)| *voter == self.handle.server());
            let directory = self.handle.node().directory();
            let voters = own.map(|(voter, address)| (voter, (directory, address)));
            let founding = Founding { id: self.identity.founding(), voters: voters.collect() };
            self.initialize(0, &founding).await;
        } else if self.identity.founding() == 0 && self.start_mode == StartMode::FoundOrJoin {
            if let Others::AreEmpty(directories) = self.ask_around(&voters).await {
                self.found(rank, &directories).await?;
            }
        } else if let Some(founding) = self.agreement.own_founding() {
            // An earlier start ended before the first entry was written.
            self.initialize(rank, &founding).await;
        }
        Ok(())
    }

    /// Asks the other voters until one of them is part of an ensemble, or all are empty, or a
    /// majority is and the rest has had its time.
    async fn ask_around(&self, voters: &[u64]) -> Others {
        let ours = self.handle.server();
        let mut known = BTreeMap::from([(ours, self.handle.node().directory())]);
        let (since, mut line_at) = (Instant::now(), Instant::now() + WAIT_LINE_PAUSE);
        loop {
            let unknown = voters.iter().copied().filter(|voter| !known.contains_key(voter));
            let unknown: Vec<u64> = unknown.collect();
            for (server, status) in self.ask(&unknown).await {
                if status.founding != 0 {
                    self.agreement.has_seen(status.founding);
                    return Others::HaveEnsemble;
                }
                known.insert(server, status.directory);
            }
            let callers = self.agreement.empty_callers().into_iter();
            known.extend(callers.filter(|(caller, _)| unknown.contains(caller)));
            if self.is_founded() || self.agreement.seen.borrow().is_some() {
                return Others::HaveEnsemble;
            }
            let has_waited = since.elapsed() >= self.stagger * GRACE_STAGGERS;
            if known.len() == voters.len() || has_waited && known.len() > voters.len() / 2 {
                return Others::AreEmpty(known);
            }
            if Instant::now() >= line_at {
                line_at = Instant::now() + WAIT_LINE_PAUSE;
                tracing::warn!(
                    ?unknown,
                    "no data here, and no majority of the voters answers: waiting for these servers"
                );
            }
            sleep(LOOK_PAUSE).await;
        }
    }

    /// Asks these servers for their state, all at once.
    async fn ask(&self, servers: &[u64]) -> Vec<(u64, PeerStanding)> {
        let mut asked = JoinSet::new();
        for &server in servers {
            let Some(link) = self.links.ask(server) else { continue };
            asked
                .spawn(async move { ask_standing(&link).await.map(|standing| (server, standing)) });
        }
        asked.join_all().await.into_iter().flatten().collect()
    }

    fn is_founded(&self) -> bool {
        self.identity.founding() != 0 || !self.handle.log_is_empty()
    }

    async fn found(&self, rank: u32, directories: &BTreeMap<u64, u64>) -> Result<(), StorageError> {
        let found_at = Instant::now() + self.stagger * rank;
        while Instant::now() < found_at {
            if self.is_founded() {
                return Ok(());
            }
            sleep(LOOK_PAUSE).await;
        }
        let Some(founding) = self.agree(directories).await? else { return Ok(()) };
        match self.identity.join(founding.id).await {
            Ok(()) => self.initialize(0, &founding).await,
            // The leader of another founding has called in the meantime.
            Err(StorageError::WrongFounding { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Agrees with a majority on the founding. `None` if there is one.
    async fn agree(
        &self,
        directories: &BTreeMap<u64, u64>,
    ) -> Result<Option<Founding>, StorageError> {
        let voters = self.voters();
        let new = || Founding {
            id: new_founding(self.entropy.number()),
            voters: voters
                .iter()
                .map(|(server, address)| {
                    let directory = directories.get(server).copied().unwrap_or(0);
                    (*server, (directory, address.clone()))
                })
                .collect(),
        };
        let mut round = 1;
        while !self.is_founded() {
            let ballot = ballot(round, self.handle.server());
            let promises = self.decide(&voters, Request::Prepare { ballot }).await?;
            let founding = choose(&promises, voters.len(), new);
            let mut replies = promises;
            if let Some(founding) = founding {
                let accept = Request::Accept { ballot, founding: founding.clone() };
                replies = self.decide(&voters, accept).await?;
                let taken = replies.iter().filter(|reply| **reply == Reply::Accepted).count();
                if taken > voters.len() / 2 {
                    return Ok(Some(founding));
                }
            }
            let newer = replies.iter().map(|reply| match reply {
                Reply::Refused { promised } => round_of(*promised),
                Reply::Promised { .. } | Reply::Accepted | Reply::Founded => 0,
            });
            let newest = newer.max().unwrap_or(0);
            // A server that belongs to a founding makes no more promises. The others may still be a
            // majority, so they go on above what they have promised.
            let was_refused = newest > 0;
            if replies.contains(&Reply::Founded) && !(was_refused && self.agreement.took_part()) {
                return Ok(None);
            }
            round = newest.max(round) + 1;
            // The others wait for other times, so that one of them gets through.
            let part = u32::try_from(self.entropy.number() % 8).unwrap_or(0);
            sleep(self.stagger * (part + 1) / 8).await;
        }
        Ok(None)
    }

    /// Asks all voters, this server included.
    async fn decide(
        &self,
        voters: &BTreeMap<u64, String>,
        request: Request,
    ) -> Result<Vec<Reply>, StorageError> {
        let mut asked = JoinSet::new();
        for server in voters.keys().filter(|server| **server != self.handle.server()) {
            let Some(link) = self.links.ask(*server) else { continue };
            let body = request.encode();
            asked.spawn(async move {
                let answer =
                    link.call_within(RpcKind::Found.code(), body, ANSWER_TIMEOUT).await.ok()?;
                Reply::decode(answer).ok()
            });
        }
        let own = self.agreement.answer(request).await?;
        let mut replies: Vec<Reply> = asked.join_all().await.into_iter().flatten().collect();
        replies.push(own);
        Ok(replies)
    }

    /// Writes the first entry, if no other server is faster.
    async fn initialize(&self, rank: u32, founding: &Founding) {
        let start_at = Instant::now() + self.stagger * rank;
        while Instant::now() < start_at {
            if !self.handle.log_is_empty() {
                return;
            }
            sleep(LOOK_PAUSE).await;
        }
        match self.handle.initialize(founding.members()).await {
            Ok(()) => {
                let founding = format_args!("{:#018x}", founding.id).to_string();
                tracing::info!(founding, "founded the ensemble");
            }
            // The leader's entries have come in the meantime.
            Err(error) => tracing::debug!(%error, "did not found the ensemble"),
        }
    }

    /// Waits until this server's directory is in the membership, and says what that waits for.
    async fn wait_for_membership(&self) -> Result<(), StorageError> {
        let mut line_at = Instant::now() + ANSWER_TIMEOUT;
        let mut found_at = Instant::now() + self.stagger * GRACE_STAGGERS;
        while !self.handle.is_in_membership() {
            sleep(ASK_PAUSE).await;
            if Instant::now() >= found_at && !self.is_founded() && self.agreement.took_part() {
                // The server that wrote the first entry may have ended before any other had it.
                self.found(0, &BTreeMap::new()).await?;
                found_at = Instant::now() + self.stagger * GRACE_STAGGERS;
            }
            if Instant::now() < line_at {
                continue;
            }
            line_at = Instant::now() + WAIT_LINE_PAUSE;
            let others = self.voters().into_keys().filter(|voter| *voter != self.handle.server());
            let others: Vec<u64> = others.collect();
            let answered = self.ask(&others).await;
            let foundings = answered.iter().map(|(_, standing)| standing.founding);
            for founding in foundings.filter(|founding| *founding != 0) {
                self.agreement.has_seen(founding);
            }
            let answered: BTreeSet<u64> = answered.into_iter().map(|(server, _)| server).collect();
            let missing: Vec<u64> =
                others.into_iter().filter(|server| !answered.contains(server)).collect();
            let directory = format!("{:#018x}", self.handle.node().directory());
            tracing::warn!(
                directory,
                ?missing,
                "this directory is not part of the ensemble: waiting until a leader, elected by a \
                 majority of the voters without this server, takes it in; `missing` do not answer"
            );
        }
        Ok(())
    }

    fn warn_of_differences(&self) {
        let in_log = self.handle.view().membership.voters();
        let in_log: BTreeSet<u64> = in_log.into_iter().map(NodeId::server).collect();
        let configured: BTreeSet<u64> = self.voters().into_keys().collect();
        if !in_log.is_empty() && in_log != configured && !self.handle.is_ensemble_changed() {
            tracing::warn!(
                ?in_log,
                ?configured,
                "the configured voters are not those of the ensemble: it takes in those that it \
                 lacks when they answer its leader, and keeps the others"
            );
        }
    }

    /// The configured voters, with the addresses of their peer ports.
    fn voters(&self) -> BTreeMap<u64, String> {
        let voters = self.members.iter().filter(|member| member.is_voter);
        voters.map(|member| (member.id(), member.address.clone())).collect()
    }
}

/// The state of a peer, by its own report.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerStanding {
    /// The founding that it belongs to, or zero.
    pub founding: u64,
    pub directory: u64,
}

/// Asks a peer for its state.
pub(super) async fn ask_standing(link: &Link) -> Option<PeerStanding> {
    let answer =
        link.call_within(RpcKind::Status.code(), Bytes::new(), ANSWER_TIMEOUT).await.ok()?;
    let mut answer = Reader(answer);
    Some(PeerStanding { founding: answer.u64().ok()?, directory: answer.u64().ok()? })
}
