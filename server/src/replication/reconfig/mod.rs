//! Changes of the ensemble at run time (protocol §15.4): a client's request goes to the leader,
//! which checks it, changes the log's membership, and has the new members written to
//! `/zookeeper/config`.
//!
//! Once the membership was changed it holds the `server.N=` line of every server, and rules over
//! the configuration files: a leader that dies in the middle leaves behind a membership from which
//! the next one writes the znode. `docs/decisions/` has the reasoning.

mod message;
mod refusals;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use zoolet_jute::{ErrorCode, Id, ReconfigRequest};
use zoolet_replica::{Input, Written};

use self::message::{Verdict, decode, encode};
pub(super) use self::refusals::{Denials, Refusals};
use super::bootstrap::ask_standing;
use super::handle::ConsensusHandle;
use super::joining::Joining;
use super::machine::Machine;
use super::members::{
    is_outsider, is_quorum, members_of, node_of, nodes_of, outsider, render, version_of, voters_of,
};
use super::options::ReplicationOptions;
use super::proposer::Proposer;
use super::read_index::ReadIndex;
use super::transfer::transfer_leadership_to;
use crate::config::{MemberList, MemberRole, change_members, parse_members};
use crate::consensus::{MemberNode, Membership, MembershipChange};
use crate::fatal::caught;
use crate::host::ConfigView;
use crate::node_id::NodeId;
use crate::peer::{CallError, Lane, Links, RpcKind};

pub(super) use self::message::Asked;

/// How long a change may take, from the client's request on.
const CHANGE_MAX: Duration = Duration::from_secs(30);

/// How many requests of one server's clients are with the leader at a time; the others wait.
pub(super) const ASKING_MAX: usize = 16;

/// How long joining servers may take to get all the data.
const CATCH_UP_MAX: Duration = Duration::from_secs(10);

/// How long a server that wants to join may take to show that it runs.
const PROBE_MAX: Duration = Duration::from_millis(700);

/// How long members may take to run and have the data, if the new ensemble needs them.
const VOTERS_WAIT_MAX: Duration = Duration::from_secs(3);

/// The pause between two looks at what others do.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// The pause before the leader is asked again, and before a change of the membership is followed again
/// that could not be followed to its end.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// The highest number of a server (protocol §11.2).
const SERVER_MAX: u64 = 255;

/// Changes the ensemble, as leader, and follows its changes, as every server.
#[derive(Debug)]
pub(super) struct Reconfigurer {
    pub handle: ConsensusHandle,
    pub links: Arc<Links>,
    pub machine: Arc<dyn Machine>,
    pub read_index: ReadIndex,
    pub options: Arc<ReplicationOptions>,
    /// Held by the change that is under way.
    pub busy: Mutex<()>,
    /// The directories that are brought up to date beside other changes.
    pub joining: Joining,
    pub refusals: Refusals,
    pub denials: Denials,
    /// Permits for requests of this server's clients that are with the leader.
    pub asking: Semaphore,
}

/// Serves this server's clients.
pub(super) async fn serve_reconfigs(proposer: Arc<Proposer>, changes: Arc<Reconfigurer>) {
    let mut running = JoinSet::new();
    loop {
        let asked = tokio::select! {
            asked = proposer.take_reconfig() => asked,
            Some(_) = running.join_next() => continue,
        };
        let changes = Arc::clone(&changes);
        running.spawn(async move {
            let number = asked.number;
            if let Err(panic) = caught(changes.serve(asked)).await {
                tracing::error!(panic, "a reconfiguration has panicked");
                changes.machine.input(Input::ReconfigLost { number });
            }
        });
    }
}

impl Reconfigurer {
    async fn serve(&self, asked: Asked) {
        let number = asked.number;
        let give_up_at = Instant::now() + CHANGE_MAX;
        let Ok(_asking) = timeout_at(give_up_at, self.asking.acquire()).await else {
            return self.machine.input(Input::ReconfigLost { number });
        };
        let body = encode(&asked);
        loop {
            match self.ask_leader(&asked, &body).await {
                Verdict::Refused(code) => return self.report(number, Err(code)),
                // It gets no more of the log, so it cannot show what was written there.
                Verdict::Done(written) if !self.is_listed(&written.text) => {
                    return self.report(number, Ok(Some(written)));
                }
                Verdict::Done(_) if self.has_caught_up().await => {
                    return self.report(number, Ok(None));
                }
                Verdict::Again if Instant::now() < give_up_at => sleep(RETRY_PAUSE).await,
                Verdict::Done(_) | Verdict::Again | Verdict::Unknown => {
                    return self.machine.input(Input::ReconfigLost { number });
                }
            }
        }
    }

    fn report(&self, number: u64, result: Result<Option<Written>, ErrorCode>) {
        self.machine.input(Input::Reconfigured { number, result });
    }

    /// Whether this server is a member according to the text of `/zookeeper/config`.
    fn is_listed(&self, text: &str) -> bool {
        parse_members(text).is_ok_and(|members| members.contains_key(&self.handle.server()))
    }

    async fn has_caught_up(&self) -> bool {
        let mut read_index = self.read_index.clone();
        let catching_up = async {
            while !read_index.catch_up().await {
                sleep(LOOK_PAUSE).await;
            }
        };
        timeout(self.options.timing.proposal_timeout, catching_up).await.is_ok()
    }

    async fn ask_leader(&self, asked: &Asked, body: &Bytes) -> Verdict {
        let Some(leader) = self.handle.leadership().map(|known| known.leader) else {
            return Verdict::Again;
        };
        if leader == self.handle.node() {
            return self.lead(&asked.request, &asked.identities).await;
        }
        // The one lane whose answers may take this long.
        let Some(link) = self.links.to(leader, Lane::Snapshot) else { return Verdict::Again };
        match link.call_within(RpcKind::Reconfig.code(), body.clone(), CHANGE_MAX).await {
            Ok(answer) => Verdict::decode(answer).unwrap_or(Verdict::Unknown),
            Err(CallError::Unreachable | CallError::Full) => Verdict::Again,
            Err(CallError::Broken | CallError::Timeout) => Verdict::Unknown,
        }
    }

    /// Answers another server.
    pub(super) async fn answer(&self, body: Bytes) -> Option<Bytes> {
        let asked = decode(body).ok()?;
        Some(self.lead(&asked.request, &asked.identities).await.encode())
    }

    /// The leader's part. Nothing that another client or server can notice happens before the
    /// permission is checked: no connection to a server of the request, and no hold of `busy`. The
    /// order of the other checks is Apache's.
    async fn lead(&self, request: &ReconfigRequest, identities: &[Id]) -> Verdict {
        if !self.handle.is_leader() {
            return Verdict::Again;
        }
        if !self.machine.config_view(&[]).enabled {
            return Verdict::Refused(ErrorCode::ReconfigDisabled);
        }
        if self.options.standalone {
            return Verdict::Refused(ErrorCode::Unimplemented);
        }
        let mut read_index = self.read_index.clone();
        let is_current = timeout(self.options.timing.proposal_timeout, read_index.catch_up()).await;
        if !self.handle.is_leader() || is_current != Ok(true) {
            return Verdict::Again;
        }
        let view = self.machine.config_view(identities);
        if !view.permitted {
            self.denials.note();
            return Verdict::Refused(ErrorCode::NoAuth);
        }
        if version_of(&view.text).is_none() {
            // A new leader writes it in a moment.
            return Verdict::Again;
        }
        let Ok(_busy) = self.busy.try_lock() else {
            return Verdict::Refused(ErrorCode::ReconfigInProgress);
        };
        if self.joining.is_unfinished(&self.membership()) {
            // A leader has died in the middle of a change; `follow` comes first.
            return Verdict::Again;
        }
        let wanted = match self.plan(request, &view) {
            Ok(wanted) => wanted,
            Err(code) => return Verdict::Refused(code),
        };
        let running = self.probe(&wanted).await;
        if !self.comes_to_quorum(&wanted, &running).await {
            let is_leader = self.handle.is_leader();
            let refused = Verdict::Refused(ErrorCode::NewConfigNoQuorum);
            return if is_leader { refused } else { Verdict::Again };
        }
        if wanted.keys().any(|server| *server > SERVER_MAX) {
            return Verdict::Refused(ErrorCode::BadArguments);
        }
        tracing::info!(to = %render(&wanted).trim_end().replace('\n', " "), "reconfiguration");
        let verdict = self.execute(&wanted, &running, &view).await;
        tracing::info!(?verdict, "reconfiguration");
        verdict
    }

    /// The members that a request asks for.
    fn plan(&self, request: &ReconfigRequest, view: &ConfigView) -> Result<MemberList, ErrorCode> {
        let is_old = request.config_id != -1 && version_of(&view.text) != Some(request.config_id);
        if is_old && !planted!("old-configurations-are-accepted") {
            return Err(ErrorCode::BadVersion);
        }
        let wanted = match &request.new_members {
            Some(list) => parse_members(list),
            None => parse_members(&view.text).and_then(|current| {
                let (joining, leaving) = (&request.joining_servers, &request.leaving_servers);
                change_members(&current, joining.as_deref(), leaving.as_deref())
            }),
        };
        let wanted = wanted.map_err(|why| {
            tracing::info!(why, "a malformed reconfiguration");
            ErrorCode::BadArguments
        })?;
        if voters_of(&wanted).len() < self.options.voters_min {
            return Err(ErrorCode::BadArguments);
        }
        Ok(wanted)
    }

    /// The servers that would join with a vote, and run, with their directories.
    async fn probe(&self, wanted: &MemberList) -> BTreeMap<u64, u64> {
        let membership = self.membership();
        let mut probes = JoinSet::new();
        for (&server, member) in wanted {
            if member.role == MemberRole::Observer || node_of(&membership, server).is_some() {
                continue;
            }
            let link = self.links.try_out(server, member.peer.to_string());
            probes.spawn(async move {
                let standing = timeout(PROBE_MAX, ask_standing(&link)).await.ok().flatten();
                standing.map(|standing| (server, standing.directory))
            });
        }
        probes.join_all().await.into_iter().flatten().collect()
    }

    /// Whether a majority of the wanted voters runs and has the data. Members are waited for:
    /// right after a start they may not listen yet, or be catching up.
    async fn comes_to_quorum(&self, wanted: &MemberList, running: &BTreeMap<u64, u64>) -> bool {
        let counts =
            |server| running.contains_key(&server) || self.is_server_synced(server, running);
        let coming = async {
            while self.handle.is_leader() && !is_quorum(wanted, counts) {
                sleep(LOOK_PAUSE).await;
            }
        };
        let membership = self.membership();
        let may_come = |server| counts(server) || node_of(&membership, server).is_some();
        is_quorum(wanted, may_come)
            && timeout(VOTERS_WAIT_MAX, coming).await.is_ok()
            && self.handle.is_leader()
    }

    async fn execute(
        &self,
        wanted: &MemberList,
        running: &BTreeMap<u64, u64>,
        before: &ConfigView,
    ) -> Verdict {
        let voters = voters_of(wanted);
        let ours = self.handle.server();
        if !voters.contains(&ours) && self.leave_the_lead(&voters).await {
            return Verdict::Again;
        }
        let old = self.membership();
        let nodes = nodes_of(wanted, &old, running);
        let joining: BTreeMap<NodeId, MemberNode> = nodes
            .iter()
            .filter(|(node, _)| old.node(**node).is_none())
            .map(|(node, member)| (*node, outsider(member)))
            .collect();
        let joined: BTreeSet<NodeId> = joining.keys().copied().collect();
        if !joining.is_empty() && !self.change(MembershipChange::AddNodes(joining)).await {
            return Verdict::Again;
        }
        self.wait_until_synced(running).await;
        if !is_quorum(wanted, |server| self.is_server_synced(server, running)) {
            let removed = self.change(MembershipChange::RemoveNodes(joined)).await;
            let refused = Verdict::Refused(ErrorCode::NewConfigNoQuorum);
            return if removed { refused } else { Verdict::Unknown };
        }
        let voters = nodes.keys().copied().filter(|node| voters.contains(&node.server()));
        let is_switched = self.switch(&old, &nodes, voters.collect()).await;
        if is_switched {
            self.dismiss(&old);
        }
        if !is_switched {
            return Verdict::Unknown;
        }
        self.write_down(wanted, before).await.map_or(Verdict::Unknown, Verdict::Done)
    }

    /// Makes the membership what is wanted; who joins is in it already, as an outsider. One entry
    /// turns the old ensemble into the new one: whichever leader comes next finds one of the two.
    async fn switch(
        &self,
        old: &Membership,
        wanted: &BTreeMap<NodeId, MemberNode>,
        voters: BTreeSet<NodeId>,
    ) -> bool {
        let leaving: BTreeMap<NodeId, MemberNode> = old
            .nodes
            .iter()
            .filter(|(node, member)| {
                let catches_up = is_outsider(member) && self.joining.has(**node);
                !wanted.contains_key(node) && !catches_up
            })
            .map(|(node, member)| (*node, outsider(member)))
            .collect();
        let gone: BTreeSet<NodeId> = leaving.keys().copied().collect();
        let change = MembershipChange::Batch(vec![
            MembershipChange::SetNodes(wanted.clone()),
            MembershipChange::SetNodes(leaving),
            MembershipChange::ReplaceAllVoters(voters),
        ]);
        self.change(change).await
            && (gone.is_empty() || self.change(MembershipChange::RemoveNodes(gone)).await)
    }

    /// Tells those who were removed: they get no more of the log, and would go on for a while with
    /// clients whose sessions are not kept alive.
    fn dismiss(&self, old: &Membership) {
        let membership = self.membership();
        let at = membership.index().unwrap_or_default().0;
        let gone = old.nodes.keys().copied();
        for node in gone.filter(|node| membership.node(*node).is_none()) {
            let Some(link) = self.links.to(node, Lane::Request) else { continue };
            let call =
                link.call(RpcKind::Removed.code(), Bytes::copy_from_slice(&at.to_be_bytes()));
            // It may be gone already, which is as good.
            tokio::spawn(timeout(PROBE_MAX, call));
        }
    }

    /// Has `/zookeeper/config` written, waits until it is, and returns it.
    async fn write_down(&self, wanted: &MemberList, before: &ConfigView) -> Option<Written> {
        let text = render(wanted);
        self.machine.input(Input::Members { text: text.clone(), write: true });
        let written = async {
            loop {
                let ConfigView { text: now, stat, .. } = self.machine.config_view(&[]);
                if now != before.text && now.starts_with(&text) {
                    return Written { text: now, stat };
                }
                sleep(LOOK_PAUSE / 4).await;
            }
        };
        timeout(self.options.timing.proposal_timeout, written).await.ok()
    }

    /// A server that will not vote should not lead through the change: one that stays does.
    async fn leave_the_lead(&self, staying: &BTreeSet<u64>) -> bool {
        let voters = self.membership().voters();
        let mut staying = voters.into_iter().filter(|voter| staying.contains(&voter.server()));
        let transferee = staying.find(|voter| self.is_synced(*voter));
        match transferee {
            Some(transferee) => transfer_leadership_to(&self.handle, &self.links, transferee).await,
            None => false,
        }
    }

    async fn wait_until_synced(&self, servers: &BTreeMap<u64, u64>) {
        let synced = async {
            while !servers.keys().all(|server| self.is_server_synced(*server, servers)) {
                sleep(LOOK_PAUSE).await;
            }
        };
        if timeout(CATCH_UP_MAX, synced).await.is_err() {
            tracing::warn!(?servers, "servers that join do not catch up in time");
        }
    }

    /// Returns whether a server is synced: the node that it is in the membership, or that it is
    /// about to become.
    fn is_server_synced(&self, server: u64, joining: &BTreeMap<u64, u64>) -> bool {
        let joins = joining.get(&server).map(|directory| NodeId::new(server, *directory));
        node_of(&self.membership(), server).or(joins).is_some_and(|node| self.is_synced(node))
    }

    /// Returns whether a node has answered this leader lately.
    pub(super) fn has_answered_lately(&self, node: NodeId) -> bool {
        let silent_for = self.handle.view().follower(node).silent_for;
        silent_for.is_some_and(|silent_for| silent_for < self.options.timing.silence_max())
    }

    /// Returns whether a node is this server, or has answered lately and has all that is
    /// committed.
    pub(super) fn is_synced(&self, node: NodeId) -> bool {
        if node == self.handle.node() {
            return true;
        }
        let view = self.handle.view();
        let has_answered_lately = self.has_answered_lately(node);
        // Under load the last entries are always still on their way.
        let slack = 1000;
        let committed = view.committed.unwrap_or_default().0;
        let has = view.follower(node).matching.unwrap_or_default().0;
        has_answered_lately && has.saturating_add(slack) >= committed && has > 0
    }

    /// Changes the membership. False if it is not changed, or may not be: what is still wanted is done by
    /// the next look, of this leader or of the next one.
    pub(super) async fn change(&self, change: MembershipChange) -> bool {
        match self.handle.change_membership(change).await {
            Ok(()) => {
                self.refusals.end();
                true
            }
            Err(error) => {
                if self.refusals.note(&error) {
                    tracing::warn!(error, "the membership is not changed");
                }
                false
            }
        }
    }

    pub(super) fn membership(&self) -> Membership {
        self.handle.view().membership
    }

    /// Returns whether the last change of the membership is committed: before, another one is refused.
    pub(super) fn is_settled(&self) -> bool {
        let view = self.handle.view();
        view.membership.index() <= view.committed
    }

    /// Notes where the members are.
    pub(super) fn learn(&self, membership: &Membership) {
        for (node, member) in &membership.nodes {
            self.links.learn(*node, &member.address, !member.line.is_empty());
        }
    }

    /// Brings the text of `/zookeeper/config` in step with the membership, and finishes what a leader
    /// that died has begun. False while this server changes the membership: then the change says what
    /// is to be written.
    pub(super) async fn follow(self: Arc<Self>) -> bool {
        let Ok(_busy) = self.busy.try_lock() else { return false };
        self.finish(&self.membership()).await;
        true
    }

    async fn finish(&self, membership: &Membership) {
        let configs = &membership.configs;
        let change = match configs.last() {
            Some(last) if configs.len() > 1 => MembershipChange::ReplaceAllVoters(last.clone()),
            _ => {
                if let Some(members) = members_of(membership, &self.options.members) {
                    self.machine.input(Input::Members { text: render(&members), write: false });
                }
                MembershipChange::RemoveNodes(self.joining.left_behind(membership))
            }
        };
        // Who has given the lead up changes nothing more, and would be refused at each look.
        if self.joining.is_unfinished(membership)
            && self.handle.leads_on()
            && self.is_settled()
            && self.change(change).await
        {
            tracing::info!("an unfinished change of the membership is through");
        }
    }
}
