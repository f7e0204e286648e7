//! The directories that a leader brings up to date before it makes them members.
//!
//! They are in the membership as outsiders, for as long as a large snapshot takes, and other changes
//! go on beside them. Outsiders that are not here were left by a change that did not come to its
//! end, or by another leader: these are removed before anything else is changed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::members::outsiders;
use crate::consensus::Membership;
use crate::node_id::NodeId;

/// The nodes that this leader brings up to date. Clones are the same set.
#[derive(Clone, Debug, Default)]
pub(super) struct Joining {
    nodes: Arc<Mutex<BTreeSet<NodeId>>>,
}

/// A node that is being brought up to date, until this is dropped.
#[derive(Debug)]
pub(super) struct JoiningNode {
    all: Joining,
    node: NodeId,
}

impl Joining {
    /// Adds a node, before it is in the membership.
    pub(super) fn begin(&self, node: NodeId) -> JoiningNode {
        self.lock().insert(node);
        JoiningNode { all: self.clone(), node }
    }

    /// Returns whether a node is being brought up to date.
    pub(super) fn has(&self, node: NodeId) -> bool {
        self.lock().contains(&node)
    }

    /// Returns the outsiders that were left behind.
    pub(super) fn left_behind(&self, membership: &Membership) -> BTreeSet<NodeId> {
        let nodes = self.lock();
        outsiders(membership).into_iter().filter(|node| !nodes.contains(node)).collect()
    }

    /// Returns whether a change is under way, or was left in its middle.
    pub(super) fn is_unfinished(&self, membership: &Membership) -> bool {
        membership.configs.len() > 1 || !self.left_behind(membership).is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<NodeId>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for JoiningNode {
    fn drop(&mut self) {
        self.all.lock().remove(&self.node);
    }
}
