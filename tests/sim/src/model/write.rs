//! What a client's write does to the tree (protocol §2, §10): the checks in their order, then the
//! change.

use std::collections::BTreeSet;

use bytes::Bytes;
use zoolet_jute::{
    Acl, CreateMode, CreateRequest, CreateTtlRequest, ErrorCode, MultiOp, MultiResult, Parts,
    PathVersionRequest, Reply, Request, SessionId, SetAclRequest, SetDataRequest, Stat, Zxid,
    perms,
};
use zoolet_replica::Policy;

use super::access::{Schemes, Who, fix_up};
use super::change::{Change, ChangeKind};
use super::path::{self, CONFIG};
use super::quota::{self, Delta};
use super::tree::Tree;
use super::znode::{Kind, Znode};

const TTL_MS_MAX: i64 = (1 << 40) - 1;

/// What a write depends on besides the tree and its own arguments.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub(super) zxid: Zxid,
    pub(super) now_ms: i64,
    pub(super) session: SessionId,
    pub(super) policy: Policy,
    pub(super) who: Who,
    pub(super) schemes: Schemes,
}

/// A write that is under way.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    pub(super) tree: &'a mut Tree,
    pub(super) context: &'a Context,
    pub(super) changes: Vec<Change>,
}

/// What the operation says about the kind of the znode; the flags say the rest.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Plain,
    Container,
    Ttl(i64),
}

fn next_version(version: i32) -> i32 {
    // −1 as expected version means any, so no znode has it behind a write.
    if version == -2 { 0 } else { version.wrapping_add(1) }
}

fn check_version(version: i32, expected: i32) -> Result<(), ErrorCode> {
    if expected == -1 || expected == version { Ok(()) } else { Err(ErrorCode::BadVersion) }
}

fn bytes_of(data: Option<&Bytes>) -> i64 {
    data.map_or(0, |data| i64::try_from(data.len()).unwrap_or(i64::MAX))
}

impl Writer<'_> {
    /// Carries out a client's write, of a session that may write.
    pub(super) fn write(&mut self, request: &Request) -> Result<Reply, ErrorCode> {
        #[allow(clippy::wildcard_enum_match_arm, reason = "the others are not writes")]
        match request {
            Request::Create(body) => {
                self.create(body, Asked::Plain).map(|(path, _)| Reply::Path(path))
            }
            Request::Create2(body) => self.create2(body, Asked::Plain),
            Request::CreateContainer(body) => self.create2(body, Asked::Container),
            Request::CreateTtl(body) => {
                let (body, asked) = without_ttl(body);
                self.create2(&body, asked)
            }
            Request::Delete(body) => self.delete(body).map(|()| Reply::Empty),
            Request::SetData(body) => self.set_data(body).map(Reply::Stat),
            Request::SetAcl(body) => self.set_acl(body).map(Reply::Stat),
            Request::Multi(parts) => Ok(self.multi(&parts.0)),
            Request::Reconfig(_) if !self.context.policy.reconfig => {
                Err(ErrorCode::ReconfigDisabled)
            }
            _ => Err(ErrorCode::Unimplemented),
        }
    }

    fn may(&self, znode: &Znode, wanted: i32) -> Result<(), ErrorCode> {
        match self.context.who.may(&znode.acl, wanted) {
            Some(true) => Ok(()),
            Some(false) | None => Err(ErrorCode::NoAuth),
        }
    }

    fn create2(&mut self, body: &CreateRequest, asked: Asked) -> Result<Reply, ErrorCode> {
        self.create(body, asked).map(|(path, stat)| Reply::PathStat(path, stat))
    }

    fn kind(&self, mode: CreateMode, asked: Asked) -> Result<Kind, ErrorCode> {
        if mode.is_ttl() && !self.context.policy.extended_types {
            return Err(ErrorCode::Unimplemented);
        }
        match (asked, mode.is_ttl()) {
            (Asked::Ttl(ttl_ms), true) if (1..=TTL_MS_MAX).contains(&ttl_ms) => {
                Ok(Kind::Ttl(ttl_ms))
            }
            (Asked::Ttl(_), _) | (Asked::Plain | Asked::Container, true) => {
                Err(ErrorCode::BadArguments)
            }
            (Asked::Container, false) => Ok(Kind::Container),
            (Asked::Plain, false) if mode.is_ephemeral() => {
                Ok(Kind::Ephemeral(self.context.session))
            }
            (Asked::Plain, false) => Ok(Kind::Persistent),
        }
    }

    fn create(&mut self, body: &CreateRequest, asked: Asked) -> Result<(String, Stat), ErrorCode> {
        let mode = CreateMode::from_flags(body.flags).ok_or(ErrorCode::BadArguments)?;
        let kind = self.kind(mode, asked)?;
        let (parent_path, _) = path::split(&body.path)?;
        let acl = fix_up(body.acl.as_deref(), &self.context.who.ids, self.context.schemes)?;
        let parent = self.tree.get(parent_path).ok_or(ErrorCode::NoNode)?;
        self.may(parent, perms::CREATE)?;
        let mut path = body.path.clone();
        if mode.is_sequential() {
            let number = i32::try_from(parent.created).map_err(|_| ErrorCode::BadArguments)?;
            path = format!("{path}{number:010}");
        }
        path::validate(&path)?;
        if self.tree.get(&path).is_some() {
            return Err(ErrorCode::NodeExists);
        }
        if matches!(parent.kind, Kind::Ephemeral(_)) {
            return Err(ErrorCode::NoChildrenForEphemerals);
        }
        let delta = Delta { count: 1, bytes: bytes_of(body.data.as_ref()) };
        if self.context.policy.enforce_quota {
            quota::check(self.tree, &path, delta)?;
        }
        let parent_acl = parent.acl.clone();
        let znode = self.new_znode(kind, acl, body.data.clone());
        let (acl, stat) = (znode.acl.clone(), znode.stat());
        self.tree.put(&path, Some(znode));
        let zxid = self.context.zxid;
        self.tree.change(parent_path, |parent| {
            parent.children.insert(path::name(&path).to_owned());
            parent.created = parent.created.saturating_add(1);
            parent.pzxid = zxid;
        });
        quota::created(self.tree, &path);
        quota::account(self.tree, &path, delta);
        let (kind, owner) = (ChangeKind::Created, kind.owner());
        self.changes.push(Change { kind, path: path.clone(), acl, parent_acl, owner });
        Ok((path, stat))
    }

    fn new_znode(&self, kind: Kind, acl: Vec<Acl>, data: Option<Bytes>) -> Znode {
        let (zxid, now_ms) = (self.context.zxid, self.context.now_ms);
        Znode {
            data,
            acl: acl.into(),
            kind,
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
            ctime: now_ms,
            mtime: now_ms,
            version: 0,
            aversion: 0,
            created: 0,
            children: BTreeSet::new(),
        }
    }

    fn delete(&mut self, body: &PathVersionRequest) -> Result<(), ErrorCode> {
        let (parent_path, _) = path::split_deletable(&body.path)?;
        let parent = self.tree.get(parent_path).ok_or(ErrorCode::NoNode)?;
        self.may(parent, perms::DELETE)?;
        let znode = self.tree.get(&body.path).ok_or(ErrorCode::NoNode)?;
        check_version(znode.version, body.version)?;
        if !znode.children.is_empty() {
            return Err(ErrorCode::NotEmpty);
        }
        self.remove(&body.path);
        Ok(())
    }

    /// Takes away a znode that has no children.
    pub(super) fn remove(&mut self, path: &str) {
        let (Some(znode), Some(parent_path)) = (self.tree.get(path).cloned(), path::parent(path))
        else {
            return;
        };
        let parent_acl = self.tree.get(parent_path).map(|parent| parent.acl.clone());
        self.tree.put(path, None);
        let zxid = self.context.zxid;
        self.tree.change(parent_path, |parent| {
            parent.children.remove(path::name(path));
            parent.pzxid = zxid;
        });
        let delta = Delta { count: -1, bytes: 0_i64.saturating_sub(znode.data_bytes()) };
        quota::account(self.tree, path, delta);
        self.changes.push(Change {
            kind: ChangeKind::Deleted,
            path: path.to_owned(),
            acl: znode.acl,
            parent_acl: parent_acl.unwrap_or_else(|| Vec::new().into()),
            owner: znode.kind.owner(),
        });
    }

    fn set_data(&mut self, body: &SetDataRequest) -> Result<Stat, ErrorCode> {
        path::validate(&body.path)?;
        let znode = self.tree.get(&body.path).ok_or(ErrorCode::NoNode)?;
        self.may(znode, perms::WRITE)?;
        let bytes = bytes_of(body.data.as_ref()).saturating_sub(znode.data_bytes());
        let delta = Delta { count: 0, bytes };
        if self.context.policy.enforce_quota {
            quota::check(self.tree, &body.path, delta)?;
        }
        check_version(znode.version, body.version)?;
        let version = next_version(znode.version);
        self.put_data(&body.path, body.data.clone(), version);
        quota::account(self.tree, &body.path, delta);
        self.tree.get(&body.path).map(Znode::stat).ok_or(ErrorCode::NoNode)
    }

    fn put_data(&mut self, path: &str, data: Option<Bytes>, version: i32) {
        let (zxid, now_ms) = (self.context.zxid, self.context.now_ms);
        self.tree.change(path, |znode| {
            znode.data = data;
            znode.version = version;
            znode.mzxid = zxid;
            znode.mtime = now_ms;
        });
        if let Some(znode) = self.tree.get(path) {
            self.changes.push(Change {
                kind: ChangeKind::DataChanged,
                path: path.to_owned(),
                acl: znode.acl.clone(),
                parent_acl: znode.acl.clone(),
                owner: znode.kind.owner(),
            });
        }
    }

    /// Writes the list of the ensemble's members (protocol §15.3).
    pub(super) fn set_config(&mut self, text: &str) -> Result<Reply, ErrorCode> {
        let line_end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        let text = format!("{text}{line_end}version={:x}", self.context.zxid.0);
        self.put_data(CONFIG, Some(Bytes::from(text)), -1);
        let config = self.tree.get(CONFIG).ok_or(ErrorCode::NoNode)?;
        Ok(Reply::Data(config.data.clone(), config.stat()))
    }

    fn set_acl(&mut self, body: &SetAclRequest) -> Result<Stat, ErrorCode> {
        path::validate(&body.path)?;
        let acl = fix_up(body.acl.as_deref(), &self.context.who.ids, self.context.schemes)?;
        let znode = self.tree.get(&body.path).ok_or(ErrorCode::NoNode)?;
        self.may(znode, perms::ADMIN)?;
        check_version(znode.aversion, body.version)?;
        self.tree.change(&body.path, |znode| {
            znode.acl = acl.into();
            znode.aversion = next_version(znode.aversion);
        });
        self.tree.get(&body.path).map(Znode::stat).ok_or(ErrorCode::NoNode)
    }

    fn check(&self, body: &PathVersionRequest) -> Result<(), ErrorCode> {
        path::validate(&body.path)?;
        let znode = self.tree.get(&body.path).ok_or(ErrorCode::NoNode)?;
        self.may(znode, perms::READ)?;
        check_version(znode.version, body.version)
    }

    /// The leader's reaper has found a container or a znode whose time is over (protocol §2.11).
    pub(super) fn reap(&mut self, path: &str) -> Result<Reply, ErrorCode> {
        path::split_deletable(path)?;
        let znode = self.tree.get(path).ok_or(ErrorCode::NoNode)?;
        if !znode.children.is_empty() {
            return Err(ErrorCode::NotEmpty);
        }
        let is_due = match znode.kind {
            Kind::Container => true,
            Kind::Ttl(ttl_ms) => self.context.now_ms.saturating_sub(znode.mtime) > ttl_ms,
            Kind::Persistent | Kind::Ephemeral(_) => false,
        };
        if !is_due {
            return Err(ErrorCode::BadVersion);
        }
        self.remove(path);
        Ok(Reply::Empty)
    }

    fn multi(&mut self, parts: &[MultiOp]) -> Reply {
        self.tree.begin();
        let mut results = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            match self.part(part) {
                Ok(result) => results.push(result),
                Err(code) => {
                    self.tree.end(true);
                    self.changes.clear();
                    return Reply::Multi(Parts(refused(at, code, parts.len())));
                }
            }
        }
        self.tree.end(false);
        Reply::Multi(Parts(results))
    }

    fn part(&mut self, part: &MultiOp) -> Result<MultiResult, ErrorCode> {
        // Within a multi the flags of a plain create can ask for a container.
        let asked = |body: &CreateRequest| match CreateMode::from_flags(body.flags) {
            Some(CreateMode::Container) => Asked::Container,
            Some(_) | None => Asked::Plain,
        };
        let path_and_stat = |(path, stat)| MultiResult::Create2 { path, stat };
        match part {
            MultiOp::Create(body) if matches!(asked(body), Asked::Plain) => {
                self.create(body, Asked::Plain).map(|(path, _)| MultiResult::Create { path })
            }
            MultiOp::Create(body) | MultiOp::Create2(body) => {
                self.create(body, asked(body)).map(path_and_stat)
            }
            MultiOp::CreateContainer(body) => {
                self.create(body, Asked::Container).map(path_and_stat)
            }
            MultiOp::CreateTtl(body) => {
                let (body, asked) = without_ttl(body);
                self.create(&body, asked).map(path_and_stat)
            }
            MultiOp::Delete(body) => self.delete(body).map(|()| MultiResult::Delete),
            MultiOp::SetData(body) => self.set_data(body).map(MultiResult::SetData),
            MultiOp::Check(body) => self.check(body).map(|()| MultiResult::Check),
        }
    }
}

fn without_ttl(body: &CreateTtlRequest) -> (CreateRequest, Asked) {
    let CreateTtlRequest { path, data, acl, flags, ttl_ms } = body.clone();
    (CreateRequest { path, data, acl, flags }, Asked::Ttl(ttl_ms))
}

/// The results of a multi of which the part `at` was refused (protocol §10.3).
fn refused(at: usize, code: ErrorCode, count: usize) -> Vec<MultiResult> {
    let before = (0..at).map(|_| MultiResult::Error(None));
    let behind = (at + 1..count).map(|_| MultiResult::Error(Some(ErrorCode::RuntimeInconsistency)));
    before.chain([MultiResult::Error(Some(code))]).chain(behind).collect()
}
