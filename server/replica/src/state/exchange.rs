//! The state as plain znodes and sessions: how one is made of data that comes from another server
//! program, and how it is read to be given to one.
//!
//! Neither takes part in the service: a server's own way is the log and the snapshot.

use std::sync::Arc;

use bytes::Bytes;
use thiserror::Error;
use zoolet_jute::{Acl, SessionId, Zxid};

use super::State;
use super::access::{self, AclId};
use super::names::Names;
use super::sequence::ReplayFilter;
use super::session::{Owner, Session, Sessions};
use super::tree::{Tree, TreeBuilder};
use super::znode::{Kind, Znode, ZnodeId};
use crate::{FeatureLevel, ProposalNumber};

/// What the state keeps about a znode besides its name, data and ACL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZnodeNumbers {
    /// What ends its life.
    pub kind: Kind,
    /// The transaction that created it.
    pub czxid: Zxid,
    /// The transaction that last wrote its data.
    pub mzxid: Zxid,
    /// The transaction that last created or deleted a child.
    pub pzxid: Zxid,
    /// When it was created, milliseconds since 1970.
    pub ctime: i64,
    /// When its data was last written, likewise.
    pub mtime: i64,
    /// How often its data was written.
    pub version: i32,
    /// How often its ACL was written.
    pub aversion: i32,
    /// How many children were ever created: the next sequential number.
    pub created: u32,
}

/// A znode of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZnodeRecord {
    /// Its path; `/` for the root.
    pub path: String,
    /// Its data.
    pub data: Option<Bytes>,
    /// Its ACL.
    pub acl: Arc<[Acl]>,
    /// Everything else.
    pub numbers: ZnodeNumbers,
}

/// An ACL of a [`StateBuilder`].
#[derive(Clone, Copy, Debug)]
pub struct AclNumber(AclId);

/// A znode of a [`StateBuilder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZnodeNumber(ZnodeId);

/// Why znodes and sessions make no state.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BuildError {
    /// The root comes first and has no name; all others have a name without a slash.
    #[error("`{0}` is not a name of a znode")]
    Name(String),
    /// More znodes than a state can hold.
    #[error("there are more than {} znodes", u32::MAX)]
    TooMany,
    /// No session has this id, or the owner of an ephemeral znode is not a session.
    #[error("session {0} does not exist")]
    NoSession(SessionId),
    /// Two siblings have one name, or an ephemeral znode has children.
    #[error("the znodes do not form a tree")]
    NoTree,
    /// No transaction has this number.
    #[error("{0:#x} is not a zxid")]
    Zxid(i64),
}

/// Makes a state of znodes and sessions.
#[derive(Debug)]
pub struct StateBuilder {
    tree: TreeBuilder,
    sessions: Sessions,
    acls: Vec<AclId>,
    next: u32,
    quota: Option<ZnodeNumber>,
    config: Option<ZnodeNumber>,
    zookeeper: Option<ZnodeNumber>,
}

impl Default for StateBuilder {
    fn default() -> Self {
        Self {
            tree: TreeBuilder::new(Tree::empty()),
            sessions: Sessions::default(),
            acls: Vec::new(),
            next: 0,
            quota: None,
            config: None,
            zookeeper: None,
        }
    }
}

impl StateBuilder {
    /// Adds a session that no server of the ensemble has begun: its client resumes it.
    pub fn session(&mut self, id: SessionId, timeout_ms: i32) -> Result<(), BuildError> {
        // The two ids that mean something else (protocol §7.1).
        if id == SessionId::NONE || id.0 == i64::MIN {
            return Err(BuildError::NoSession(id));
        }
        let (generation, owner, attachment) = (0, Owner::default(), ProposalNumber::NONE);
        self.sessions.insert(id, Session { timeout_ms, generation, owner, attachment });
        Ok(())
    }

    /// Adds an ACL. An equal one may be added again.
    pub fn acl(&mut self, acl: &[Acl]) -> AclNumber {
        let id = self.tree.hold_acl(acl);
        self.acls.push(id);
        AclNumber(id)
    }

    /// Adds a znode: the root first, without a parent, and each parent before its children.
    pub fn znode(
        &mut self,
        parent: Option<ZnodeNumber>,
        name: &str,
        data: Option<Bytes>,
        acl: AclNumber,
        numbers: &ZnodeNumbers,
    ) -> Result<ZnodeNumber, BuildError> {
        let is_root = self.next == 0;
        let fits = parent.is_none() == is_root && name.is_empty() == is_root;
        if !fits || name.contains('/') {
            return Err(BuildError::Name(name.to_owned()));
        }
        if let Kind::Ephemeral(owner) = numbers.kind
            && self.sessions.get(owner).is_none()
        {
            return Err(BuildError::NoSession(owner));
        }
        let at = parent.map_or(ZnodeId::ROOT, |parent| parent.0);
        let number = ZnodeNumber(ZnodeId(self.next));
        self.next = self.next.checked_add(1).ok_or(BuildError::TooMany)?;
        if !self.tree.add(with_numbers(Znode::built_in(at, acl.0), numbers), name, data) {
            return Err(BuildError::NoTree);
        }
        let is_below = |above: Option<ZnodeNumber>| above.is_some() && parent == above;
        match name {
            "zookeeper" if at == ZnodeId::ROOT => self.zookeeper = Some(number),
            "quota" if is_below(self.zookeeper) => self.quota = Some(number),
            "config" if is_below(self.zookeeper) => self.config = Some(number),
            _ => {}
        }
        Ok(number)
    }

    /// Ends the state with its last transaction. The built-in znodes (protocol §6.2) that it lacks
    /// are added, with all numbers zero.
    pub fn finish(mut self, last_zxid: Zxid) -> Result<State, BuildError> {
        if last_zxid.0 < 0 {
            return Err(BuildError::Zxid(last_zxid.0));
        }
        self.add_built_in()?;
        let mut tree = self.tree.finish().ok_or(BuildError::NoTree)?;
        for acl in self.acls {
            tree.release_acl(acl);
        }
        Ok(State {
            tree,
            sessions: self.sessions,
            filter: ReplayFilter::default(),
            last_zxid,
            level: FeatureLevel::FIRST,
            pending: None,
        })
    }

    fn add_built_in(&mut self) -> Result<(), BuildError> {
        let open = self.acl(&Acl::open());
        let (empty, zero) = (Some(Bytes::new()), ZnodeNumbers::default());
        if self.next == 0 {
            self.znode(None, "", empty.clone(), open, &zero)?;
        }
        let root = Some(ZnodeNumber(ZnodeId::ROOT));
        if self.zookeeper.is_none() {
            self.znode(root, "zookeeper", empty.clone(), open, &zero)?;
        }
        let zookeeper = self.zookeeper;
        if self.quota.is_none() {
            self.znode(zookeeper, "quota", empty.clone(), open, &zero)?;
        }
        if self.config.is_none() {
            let read_only = self.acl(&access::read_only());
            let numbers = ZnodeNumbers { aversion: -1, ..zero };
            self.znode(zookeeper, "config", empty, read_only, &numbers)?;
        }
        Ok(())
    }
}

fn with_numbers(mut node: Znode, numbers: &ZnodeNumbers) -> Znode {
    let ZnodeNumbers { kind, czxid, mzxid, pzxid, ctime, mtime, version, aversion, created } =
        *numbers;
    node.kind = kind;
    (node.czxid, node.mzxid, node.pzxid) = (czxid, mzxid, pzxid);
    (node.ctime, node.mtime) = (ctime, mtime);
    (node.version, node.aversion, node.created) = (version, aversion, created);
    node
}

impl State {
    /// All znodes, each parent before its children.
    pub fn znodes(&self) -> impl Iterator<Item = ZnodeRecord> {
        let mut waiting = vec![ZnodeId::ROOT];
        std::iter::from_fn(move || {
            let id = waiting.pop()?;
            let children = self.tree.children(id).into_iter().flat_map(Names::iter);
            waiting.extend(children.map(|(_, child)| child));
            Some(self.record(id))
        })
    }

    fn record(&self, id: ZnodeId) -> ZnodeRecord {
        let node = self.tree.node(id);
        let numbers = ZnodeNumbers {
            kind: node.kind,
            czxid: node.czxid,
            mzxid: node.mzxid,
            pzxid: node.pzxid,
            ctime: node.ctime,
            mtime: node.mtime,
            version: node.version,
            aversion: node.aversion,
            created: node.created,
        };
        let acl = Arc::clone(self.tree.acl(id));
        ZnodeRecord { path: self.tree.path_of(id), data: self.tree.data(id), acl, numbers }
    }
}
