//! The leader's part in keeping the membership true to the directories: a replaced disk is a new
//! member under an old number, and takes the old one's place by an ordinary change of the
//! membership, which a majority of the old members has to commit. Until then nothing that the new
//! directory acknowledges counts.
//!
//! The leader learns of another directory when it calls the one that the membership names: the
//! handshake says which one is there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::bootstrap::ask_standing;
use super::members::{is_outsider, node_of, outsider};
use super::reconfig::Reconfigurer;
use crate::consensus::{MemberNode, Membership, MembershipChange};
use crate::node_id::NodeId;

/// The pause between two looks at which directories answer.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// The pause between two looks at whether a new directory has caught up.
const SYNC_PAUSE: Duration = Duration::from_millis(20);

/// How long a new directory may be silent before it is given up.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Takes new directories into the membership, while this server leads. The supervisor begins its
/// looks, and drops the one that is under way when another server leads.
#[derive(Clone, Debug)]
pub(super) struct Replacer {
    pub changes: Arc<Reconfigurer>,
}

/// A change that brings the membership in line with a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Replacement {
    /// The node that is in the membership for the server, if any.
    old: Option<NodeId>,
    new: NodeId,
    member: MemberNode,
    votes: bool,
}

impl Replacer {
    /// Looks once, takes in what the membership lacks, and pauses.
    pub(super) async fn look(self) {
        for replacement in self.wanted().await {
            self.replace(&replacement).await;
        }
        sleep(LOOK_PAUSE).await;
    }

    /// Returns what the membership lacks.
    async fn wanted(&self) -> Vec<Replacement> {
        let membership = self.changes.membership();
        let ours = self.changes.handle.server();
        let is_changed = self.changes.handle.is_ensemble_changed();
        let mut wanted = Vec::new();
        if planted!("replaced-disk-stays-out") {
            return wanted;
        }
        let members = membership.nodes.iter().filter(|(_, member)| !is_outsider(member));
        for (&node, member) in members.filter(|(node, _)| node.server() != ours) {
            let server = node.server();
            let found = self.changes.links.directory(server);
            let new = NodeId::new(server, found.unwrap_or(node.directory()));
            let had_vote = membership.is_voter(node);
            let votes = had_vote || self.configured_vote(server);
            if new != node || votes != had_vote && found.is_some() {
                wanted.push(Replacement { old: Some(node), new, member: member.clone(), votes });
            }
        }
        if !is_changed {
            wanted.extend(self.missing(&membership).await);
        }
        wanted
    }

    /// Returns the configured servers that the membership lacks, as far as they answer: observers
    /// after the founding, and the other servers of an ensemble that was made anew from one.
    async fn missing(&self, membership: &Membership) -> Vec<Replacement> {
        let mut wanted = Vec::new();
        for configured in &self.changes.options.members {
            if node_of(membership, configured.id()).is_some() {
                continue;
            }
            let Some(link) = self.changes.links.ask(configured.id()) else { continue };
            let Some(standing) = ask_standing(&link).await else { continue };
            let member = MemberNode { address: configured.address.clone(), line: String::new() };
            let new = NodeId::new(configured.id(), standing.directory);
            wanted.push(Replacement { old: None, new, member, votes: configured.is_voter });
        }
        wanted
    }

    /// Takes a directory in. What fails is tried again at the next look.
    ///
    /// The directory gets what it lacks beside other changes, which may take long; only the changes
    /// of the membership exclude others.
    async fn replace(&self, wanted: &Replacement) {
        let Replacement { old, new, .. } = *wanted;
        if !self.answers(new).await {
            return;
        }
        let (server, directory) = (new.server(), format!("{:#018x}", new.directory()));
        let _joining = self.changes.joining.begin(new);
        if old != Some(new) && !self.add(wanted).await {
            return;
        }
        let is_synced = self.is_synced_in_time(new).await;
        // A change that a client has asked for may be under way.
        let _busy = self.changes.busy.lock().await;
        let membership = self.changes.membership();
        let current = self.current(wanted, &membership);
        if let Some(current) = current
            && is_synced
            && self.changes.is_synced(new)
            && self.switch(&current, &membership).await
        {
            let votes = current.votes;
            tracing::info!(server, directory, votes, "the directory is part of the ensemble");
        } else if self.changes.handle.is_leader()
            && self.changes.membership().node(new).is_some_and(is_outsider)
        {
            tracing::warn!(server, directory, "the directory is not taken in: it does not answer");
            self.changes.change(MembershipChange::RemoveNodes(BTreeSet::from([new]))).await;
        }
    }

    /// Adds a directory to the receivers of the log, without making it a member.
    async fn add(&self, wanted: &Replacement) -> bool {
        let Ok(_busy) = self.changes.busy.try_lock() else { return false };
        if !self.changes.is_settled() {
            return false;
        }
        let membership = self.changes.membership();
        let current = self.current(wanted, &membership);
        let Some(current) = current.filter(|_| !self.changes.joining.is_unfinished(&membership))
        else {
            return false;
        };
        if membership.node(current.new).is_some() {
            // An earlier leader has added it.
            return true;
        }
        let (server, directory) = (current.new.server(), current.new.directory());
        let directory = format!("{directory:#018x}");
        let added = BTreeMap::from([(current.new, outsider(&current.member))]);
        let is_added = self.changes.change(MembershipChange::AddNodes(added)).await;
        // A refusal is tried again at the next look, and is logged by itself.
        if is_added {
            tracing::info!(server, directory, "taking a directory into the ensemble");
        }
        is_added
    }

    /// Returns what is wanted in this membership, which other changes may have made another one;
    /// `None` if the directory is wanted no more.
    fn current(&self, wanted: &Replacement, membership: &Membership) -> Option<Replacement> {
        let server = wanted.new.server();
        let Some(old) = wanted.old else {
            let is_missing = node_of(membership, server).is_none();
            let is_wanted = is_missing && !self.changes.handle.is_ensemble_changed();
            return is_wanted.then(|| wanted.clone());
        };
        let member = membership.node(old).filter(|member| !is_outsider(member))?.clone();
        let votes = membership.is_voter(old) || self.configured_vote(server);
        Some(Replacement { member, votes, ..wanted.clone() })
    }

    /// Returns whether the configuration, while it counts, gives a server a vote.
    fn configured_vote(&self, server: u64) -> bool {
        let mut configured = self.changes.options.members.iter();
        !self.changes.handle.is_ensemble_changed()
            && configured.any(|member| member.id() == server && member.is_voter)
    }

    /// Returns whether the directory that was found is still there: one that is gone must not hold
    /// up the changes that clients ask for.
    async fn answers(&self, node: NodeId) -> bool {
        let Some(link) = self.changes.links.ask(node.server()) else { return false };
        let standing = ask_standing(&link).await;
        standing.is_some_and(|standing| standing.directory == node.directory())
    }

    /// Waits until the new node has what is committed. False if it falls silent, or turns out to be
    /// yet another directory, or this server no longer leads.
    async fn is_synced_in_time(&self, node: NodeId) -> bool {
        let server = node.server();
        let mut answered_at = Instant::now();
        loop {
            if self.changes.is_synced(node) {
                return true;
            }
            if self.changes.has_answered_lately(node) {
                answered_at = Instant::now();
            }
            let found = self.changes.links.directory(server);
            if !self.changes.handle.is_leader()
                || answered_at.elapsed() >= SILENCE_MAX
                || found.is_some_and(|found| found != node.directory())
            {
                return false;
            }
            sleep(SYNC_PAUSE).await;
        }
    }

    /// Puts the new node in the place of the old one, in one step.
    async fn switch(&self, replacement: &Replacement, membership: &Membership) -> bool {
        let Replacement { old, new, member, votes } = replacement;
        let replaced = old.filter(|old| old != new);
        let mut nodes = BTreeMap::from([(*new, member.clone())]);
        // A leader that dies in the middle leaves it as one that is to be removed.
        nodes.extend(replaced.map(|old| (old, outsider(member))));
        let mut steps = vec![MembershipChange::SetNodes(nodes)];
        if *votes {
            let mut voters = membership.voters();
            voters.retain(|voter| Some(*voter) != replaced);
            voters.insert(*new);
            steps.push(MembershipChange::ReplaceAllVoters(voters));
        }
        let gone: BTreeSet<NodeId> = replaced.into_iter().collect();
        self.changes.change(MembershipChange::Batch(steps)).await
            && (gone.is_empty() || self.changes.change(MembershipChange::RemoveNodes(gone)).await)
    }
}
