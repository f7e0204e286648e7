//! The tree: how znodes are found, and the few ways in which they change.
//!
//! Every change goes through [`Tree::insert`], [`Tree::remove`] and [`Tree::change`], so the
//! indexes, the digest and a transaction's undo log always agree with the znodes.

mod connect;
mod digest;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use zoolet_jute::{Acl, SessionId, Stat};

pub(super) use self::connect::TreeBuilder;
use super::access::{self, AclId, AclTable};
use super::arena::{Arena, Below};
use super::chunk::ZnodeChunk;
use super::lock_name::LockName;
use super::locks::Locks;
use super::names::Names;
use super::quota::Quotas;
use super::znode::{Kind, Znode, ZnodeId, hash_data, hash_path};

#[derive(Clone, Debug)]
pub(super) struct Tree {
    arena: Arena,
    acls: AclTable,
    /// The ephemeral znodes of each session by their paths: they are deleted in that order.
    ephemerals: BTreeMap<SessionId, Names>,
    // Invariant: the sum of the lengths of `ephemerals`.
    ephemerals_count: usize,
    /// Containers and znodes with a time to live.
    reapable: BTreeSet<ZnodeId>,
    quotas: Quotas,
    locks: Locks,
    /// The sum of all znodes' digests, modulo 2⁶⁴.
    digest: u64,
    data_bytes: u64,
    /// What undoes the transaction that is being applied, the latest step last.
    undo: Option<Vec<Undo>>,
}

/// The way back from one step. A znode in here holds its ACL.
#[derive(Clone, Debug)]
enum Undo {
    Insert(ZnodeId),
    Remove(Znode, Box<str>, Option<Bytes>),
    Change(ZnodeId, Znode, Option<Bytes>),
}

impl Tree {
    /// The built-in znodes (protocol §6.2).
    pub(super) fn new() -> Self {
        let mut tree = Self::empty();
        let open = Acl::open();
        let root = tree.acls.hold(&open);
        tree.insert(Znode::built_in(ZnodeId::ROOT, root), "", Some(Bytes::new()));
        let mut built_in = |parent: ZnodeId, name: &str, acl: &[Acl], aversion: i32| {
            let mut node = Znode::built_in(parent, tree.acls.hold(acl));
            node.aversion = aversion;
            tree.insert(node, name, Some(Bytes::new()))
        };
        let zookeeper = built_in(ZnodeId::ROOT, "zookeeper", &open, 0);
        built_in(zookeeper, "quota", &open, 0);
        built_in(zookeeper, "config", &access::read_only(), -1);
        tree.locks.settle();
        tree
    }

    /// No znode at all: what a snapshot is read into, the root first.
    pub(super) fn empty() -> Self {
        Self {
            arena: Arena::default(),
            acls: AclTable::default(),
            ephemerals: BTreeMap::new(),
            ephemerals_count: 0,
            reapable: BTreeSet::new(),
            quotas: Quotas::default(),
            locks: Locks::default(),
            digest: 0,
            data_bytes: 0,
            undo: None,
        }
    }

    // ---- finding

    /// The znode of a path; the empty path is the root's as well. A path that is not valid finds
    /// nothing, because no segment of it can be empty.
    pub(super) fn find(&self, path: &str) -> Option<ZnodeId> {
        if path.is_empty() || path == "/" {
            return Some(ZnodeId::ROOT);
        }
        let mut segments = path.strip_prefix('/')?.split('/');
        segments.try_fold(ZnodeId::ROOT, |at, name| self.child(at, name))
    }

    pub(super) fn child(&self, parent: ZnodeId, name: &str) -> Option<ZnodeId> {
        probe!();
        self.arena.children(parent)?.get(name)
    }

    pub(super) fn node(&self, id: ZnodeId) -> &Znode {
        self.arena.get(id).expect("an id is kept only as long as its znode")
    }

    /// The last segment of a znode's path; empty for the root.
    pub(super) fn name(&self, id: ZnodeId) -> &str {
        self.arena.name(id).expect("an id is kept only as long as its znode")
    }

    /// The data of a znode.
    pub(super) fn data(&self, id: ZnodeId) -> Option<Bytes> {
        self.arena.shared_data(id)
    }

    pub(super) fn children(&self, id: ZnodeId) -> Option<&Names> {
        self.arena.children(id)
    }

    pub(super) fn child_count(&self, id: ZnodeId) -> usize {
        self.arena.child_count(id)
    }

    /// See [`Arena::take_replaced`].
    pub(super) fn take_replaced(&mut self) -> Vec<Bytes> {
        self.arena.take_replaced()
    }

    /// What is below this one, at any depth.
    pub(super) fn below(&self, id: ZnodeId) -> Below {
        self.arena.below(id)
    }

    pub(super) fn stat(&self, id: ZnodeId) -> Stat {
        self.node(id).stat(self.arena.child_count(id))
    }

    pub(super) fn acl(&self, id: ZnodeId) -> &Arc<[Acl]> {
        self.acls.get(self.node(id).acl)
    }

    /// The path of a znode.
    pub(super) fn path_of(&self, id: ZnodeId) -> String {
        let mut names = Vec::new();
        let mut at = id;
        while at != ZnodeId::ROOT {
            names.push(self.name(at));
            at = self.node(at).parent;
        }
        if names.is_empty() {
            return "/".to_owned();
        }
        let length = names.iter().map(|name| name.len() + 1).sum();
        let mut path = String::with_capacity(length);
        for name in names.iter().rev() {
            path.push('/');
            path.push_str(name);
        }
        path
    }

    /// Calls `visit` with a znode and everything below it, parents first.
    #[cfg(test)]
    pub(super) fn walk(&self, top: ZnodeId, mut visit: impl FnMut(ZnodeId, &Znode)) {
        let mut waiting = vec![top];
        while let Some(id) = waiting.pop() {
            visit(id, self.node(id));
            let children = self.arena.children(id).into_iter().flat_map(Names::iter);
            waiting.extend(children.map(|(_, child)| child));
        }
    }

    // ---- changing

    /// Puts a znode below its parent, which exists and has none of that name. The znode comes
    /// with its ACL held.
    pub(super) fn insert(&mut self, mut node: Znode, name: &str, data: Option<Bytes>) -> ZnodeId {
        node.data_hash = hash_data(data.as_deref());
        let id = self.link(node, name, data);
        if let Some(undo) = &mut self.undo {
            undo.push(Undo::Insert(id));
        }
        id
    }

    /// Takes out a znode without children.
    pub(super) fn remove(&mut self, id: ZnodeId) {
        let kept = self.undo.is_some().then(|| (Box::from(self.name(id)), self.data(id)));
        let node = self.unlink(id);
        if let (Some(undo), Some((name, data))) = (&mut self.undo, kept) {
            undo.push(Undo::Remove(node, name, data));
        } else {
            self.acls.release(node.acl);
        }
    }

    /// Changes a znode in place. Its parent, name, data, kind and ACL stay.
    pub(super) fn change(&mut self, id: ZnodeId, change: impl FnOnce(&mut Znode)) {
        self.remember(id);
        let acl_hash = self.acls.hash(self.node(id).acl);
        let node = self.arena.get_mut(id).expect("an id is kept only as long as its znode");
        self.digest = self.digest.wrapping_sub(node.digest(acl_hash));
        change(node);
        self.digest = self.digest.wrapping_add(node.digest(acl_hash));
    }

    /// Replaces a znode's data, and changes what goes with it. Its parent, name, kind and ACL stay.
    pub(super) fn change_data(
        &mut self,
        id: ZnodeId,
        data: Option<Bytes>,
        change: impl FnOnce(&mut Znode),
    ) {
        self.remember(id);
        let acl_hash = self.acls.hash(self.node(id).acl);
        let node = self.node(id);
        let (parent, before, hash) = (node.parent, node.data_bytes(), hash_data(data.as_deref()));
        self.digest = self.digest.wrapping_sub(node.digest(acl_hash));
        self.arena.set_data(id, data);
        let node = self.arena.get_mut(id).expect("an id is kept only as long as its znode");
        node.data_hash = hash;
        change(node);
        let after = node.data_bytes();
        self.digest = self.digest.wrapping_add(node.digest(acl_hash));
        self.resized(id, parent, before, after);
    }

    /// Notes that a znode's data has another length now.
    fn resized(&mut self, id: ZnodeId, parent: ZnodeId, before: u64, after: u64) {
        let sum = self.data_bytes;
        invariant!(before <= sum, "a znode has {before} of the {sum} bytes of all data");
        self.data_bytes = sum - before + after;
        if id != ZnodeId::ROOT && before != after {
            let change = after.cast_signed().wrapping_sub(before.cast_signed());
            self.arena.count_below(parent, 0, change);
        }
    }

    /// Gives a znode another ACL.
    pub(super) fn change_acl(&mut self, id: ZnodeId, acl: &[Acl], aversion: i32) {
        self.remember(id);
        let new = self.acls.hold(acl);
        let old = self.node(id).acl;
        let (old_hash, new_hash) = (self.acls.hash(old), self.acls.hash(new));
        let node = self.arena.get_mut(id).expect("an id is kept only as long as its znode");
        self.digest = self.digest.wrapping_sub(node.digest(old_hash));
        node.acl = new;
        node.aversion = aversion;
        self.digest = self.digest.wrapping_add(node.digest(new_hash));
        self.acls.release(old);
    }

    /// Interns the ACL of a znode to be inserted.
    pub(super) fn hold_acl(&mut self, acl: &[Acl]) -> AclId {
        self.acls.hold(acl)
    }

    /// Gives up what [`Tree::hold_acl`] held.
    pub(super) fn release_acl(&mut self, id: AclId) {
        self.acls.release(id);
    }

    fn remember(&mut self, id: ZnodeId) {
        if self.undo.is_none() {
            return;
        }
        let (before, data) = (*self.node(id), self.data(id));
        self.acls.hold_again(before.acl);
        if let Some(undo) = &mut self.undo {
            undo.push(Undo::Change(id, before, data));
        }
    }

    fn link(&mut self, mut node: Znode, name: &str, data: Option<Bytes>) -> ZnodeId {
        let is_root = self.arena.len() == 0;
        node.path_hash =
            if is_root { 0 } else { hash_path(self.node(node.parent).path_hash, name) };
        let parent = node.parent;
        let bytes =
            0_i64.saturating_add_unsigned(data.as_ref().map_or(0, |data| data.len() as u64));
        let id = self.arena.insert(node, name, data);
        if !is_root {
            let is_new = self.arena.adopt(id);
            invariant!(is_new, "znode {} has two children of one name", parent.0);
            self.arena.count_below(parent, 1, bytes);
        }
        self.index(id);
        id
    }

    /// Enters a znode that has its place into the digest and the indexes.
    fn index(&mut self, id: ZnodeId) {
        let node = self.node(id);
        let (kind, bytes) = (node.kind, node.data_bytes());
        let digest = node.digest(self.acls.hash(node.acl));
        let is_limit = Quotas::is_limit(self.name(id));
        self.digest = self.digest.wrapping_add(digest);
        self.data_bytes = self.data_bytes.wrapping_add(bytes);
        if let Kind::Ephemeral(session) = kind {
            let path = self.path_of(id);
            let of_session = self.ephemerals.entry(session).or_default();
            let is_new = of_session.insert(&path, id);
            invariant!(is_new, "session {session} owns znode {} twice", id.0);
            self.ephemerals_count += 1;
            if let Some(name) = LockName::parse(self.name(id)) {
                let node = self.node(id);
                let (lock, created_ms) = (node.parent, node.ctime);
                self.locks.come(lock, name, created_ms);
            }
        }
        if kind.is_reapable() {
            self.reapable.insert(id);
        }
        if is_limit {
            let path = self.path_of(id);
            self.quotas.limit_created(&path);
        }
    }

    fn unlink(&mut self, id: ZnodeId) -> Znode {
        let node = self.node(id);
        let (kind, children) = (node.kind, self.arena.child_count(id));
        invariant!(children == 0, "znode {} is deleted over {children} children", id.0);
        if Quotas::is_limit(self.name(id)) {
            let path = self.path_of(id);
            self.quotas.limit_deleted(&path);
        }
        if let Kind::Ephemeral(session) = kind
            && self.ephemerals.contains_key(&session)
        {
            let path = self.path_of(id);
            self.disown_ephemeral(session, &path, id);
        }
        if let (Kind::Ephemeral(_), Some(name)) = (kind, LockName::parse(self.name(id))) {
            let lock = self.node(id).parent;
            self.locks.go(lock, name);
        }
        let listed = self.arena.disown(id);
        let node = self.arena.remove(id).expect("an id is kept only as long as its znode");
        invariant!(listed == Some(id), "znode {} is in its parent's list as {listed:?}", id.0);
        let (bytes, sum) = (node.data_bytes(), self.data_bytes);
        invariant!(bytes <= sum, "a znode had {bytes} of the {sum} bytes of all data");
        self.arena.count_below(node.parent, -1, 0_i64.saturating_sub_unsigned(node.data_bytes()));
        self.digest = self.digest.wrapping_sub(node.digest(self.acls.hash(node.acl)));
        self.data_bytes = sum - bytes;
        if kind.is_reapable() {
            self.reapable.remove(&id);
        }
        node
    }

    fn disown_ephemeral(&mut self, session: SessionId, path: &str, id: ZnodeId) {
        if let Some(of_session) = self.ephemerals.get_mut(&session) {
            let listed = of_session.remove(path);
            let is_right = listed == Some(id) && self.ephemerals_count > 0;
            invariant!(is_right, "session {session} owned {} as {listed:?}", id.0);
            self.ephemerals_count -= 1;
            if of_session.is_empty() {
                self.ephemerals.remove(&session);
            }
        }
    }

    // ---- transactions

    /// Starts to remember the way back.
    pub(super) fn begin(&mut self) {
        self.undo = Some(Vec::new());
        self.locks.begin();
    }

    /// Keeps what was done since [`Tree::begin`].
    pub(super) fn commit(&mut self) {
        self.locks.commit();
        for step in self.undo.take().into_iter().flatten() {
            match step {
                Undo::Insert(_) => {}
                Undo::Remove(node, ..) | Undo::Change(_, node, _) => self.acls.release(node.acl),
            }
        }
    }

    /// Goes back towards where [`Tree::begin`] was, by `steps_max` steps; true once it is there. Places
    /// are a stack, so a znode that comes back gets its own again, and its children's pointers are
    /// right.
    pub(super) fn roll_back(&mut self, steps_max: usize) -> bool {
        // What is undone is not noted down.
        let Some(mut undo) = self.undo.take() else { return true };
        for _ in 0..steps_max {
            let Some(step) = undo.pop() else {
                self.locks.roll_back();
                return true;
            };
            self.undo_one(step);
        }
        self.undo = Some(undo);
        false
    }

    fn undo_one(&mut self, step: Undo) {
        match step {
            Undo::Insert(id) => {
                let node = self.unlink(id);
                self.acls.release(node.acl);
            }
            Undo::Remove(node, name, data) => {
                self.link(node, &name, data);
            }
            Undo::Change(id, before, data) => {
                let now = *self.node(id);
                let (digest, bytes) = (now.digest(self.acls.hash(now.acl)), now.data_bytes());
                let (acl, parent) = (now.acl, now.parent);
                let restored = before.digest(self.acls.hash(before.acl));
                self.digest = self.digest.wrapping_sub(digest).wrapping_add(restored);
                self.resized(id, parent, bytes, before.data_bytes());
                self.arena.set_data(id, data);
                let node = self.arena.get_mut(id).expect("it was just read");
                *node = Znode { text: node.text, ..before };
                self.acls.release(acl);
            }
        }
    }

    // ---- indexes and figures

    pub(super) fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    pub(super) fn quotas_mut(&mut self) -> &mut Quotas {
        &mut self.quotas
    }

    pub(super) fn locks(&self) -> &Locks {
        &self.locks
    }

    pub(super) fn locks_mut(&mut self) -> &mut Locks {
        &mut self.locks
    }

    /// The ephemeral znodes of a session by their paths.
    pub(super) fn ephemerals(&self, session: SessionId) -> Option<&Names> {
        self.ephemerals.get(&session)
    }

    /// Takes the list of a session that ends. The caller deletes the znodes.
    pub(super) fn take_ephemerals(&mut self, session: SessionId) -> Names {
        let taken = self.ephemerals.remove(&session).unwrap_or_default();
        let (count, all) = (taken.len(), self.ephemerals_count);
        invariant!(count <= all, "session {session} owns {count} of {all} ephemeral znodes");
        self.ephemerals_count -= count;
        taken
    }

    /// The sessions behind `after` that own ephemeral znodes, in order.
    pub(super) fn ephemeral_owners(
        &self,
        after: Option<SessionId>,
    ) -> impl Iterator<Item = SessionId> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.ephemerals.range((from, Bound::Unbounded)).map(|(&session, _)| session)
    }

    /// The number of all ephemeral znodes.
    pub(super) fn ephemerals_count(&self) -> usize {
        self.ephemerals_count
    }

    /// The containers and znodes with a time to live, from this place on.
    pub(super) fn reapable(&self, from: ZnodeId) -> impl Iterator<Item = ZnodeId> {
        self.reapable.range(from..).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.arena.len()
    }

    pub(super) fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    pub(super) fn digest(&self) -> u64 {
        self.digest
    }

    pub(super) fn chunks(&self) -> Vec<Arc<ZnodeChunk>> {
        self.arena.chunks()
    }

    pub(super) fn acls(&self) -> &AclTable {
        &self.acls
    }
}
