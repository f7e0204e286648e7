//! Creating, reading, writing and deleting znodes.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "a reply of any other kind, new ones too, is one that was not asked for"
)]

use std::time::Duration;

use bytes::Bytes;
use zoolet_jute::{
    Acl, CreateMode, CreateRequest, PathRequest, PathVersionRequest, PathWatchRequest, Reply,
    Request, SetAclRequest, SetDataRequest, Stat,
};

use super::Call;
use super::bodies::{children, create_ttl, data, no_node_is_none, stat};
use crate::{Client, Error, Reads, Transaction, Version};

impl Client {
    /// Creates a znode that is open to all clients; returns its path, with the number of
    /// a sequential mode, and its Stat. Servers refuse a mode with a time to live: see
    /// [`create_with_ttl`](Self::create_with_ttl).
    pub fn create(&self, path: &str, data: &[u8], mode: CreateMode) -> Call<(String, Stat)> {
        self.create_with_acl(path, data, Acl::open(), mode)
    }

    /// Creates a znode with an ACL of its own.
    pub fn create_with_acl(
        &self,
        path: &str,
        data: &[u8],
        acl: Vec<Acl>,
        mode: CreateMode,
    ) -> Call<(String, Stat)> {
        let body = CreateRequest {
            path: self.path(path),
            data: Some(Bytes::copy_from_slice(data)),
            acl: Some(acl),
            flags: mode as i32,
        };
        self.ask_to_create(match mode {
            CreateMode::Container => Request::CreateContainer(body),
            CreateMode::Persistent
            | CreateMode::Ephemeral
            | CreateMode::PersistentSequential
            | CreateMode::EphemeralSequential
            | CreateMode::PersistentWithTtl
            | CreateMode::PersistentSequentialWithTtl => Request::Create2(body),
        })
    }

    /// Creates a znode that servers delete when it has had no child and no write for a time, 1 ms to
    /// 2⁴⁰ − 1 ms; `mode` is one of those with a time to live. Servers refuse it with
    /// [`Unimplemented`](crate::ErrorCode::Unimplemented) unless their extended types are enabled.
    pub fn create_with_ttl(
        &self,
        path: &str,
        data: &[u8],
        acl: Vec<Acl>,
        mode: CreateMode,
        ttl: Duration,
    ) -> Call<(String, Stat)> {
        let body = create_ttl(self.path(path), data, acl, mode, ttl);
        self.ask_to_create(Request::CreateTtl(body))
    }

    fn ask_to_create(&self, request: Request) -> Call<(String, Stat)> {
        let chroot = self.root().clone();
        self.ask_for(request, move |reply| match reply {
            Reply::PathStat(path, stat) => Ok((chroot.to_client_or_as_it_is(path), stat)),
            other => Err(Error::unexpected(&other)),
        })
    }

    /// Deletes a znode of this version.
    pub fn delete(&self, path: &str, version: Version) -> Call<()> {
        let path = self.path(path);
        let body = |version| PathVersionRequest { path, version };
        self.ask_at(version, |version| Request::Delete(body(version)), |_| Ok(()))
    }

    /// The Stat of a znode; `None` if there is none.
    pub fn exists(&self, path: &str) -> Call<Option<Stat>> {
        self.ask(Request::Exists(self.path_watch(path, false)), None, no_node_is_none)
    }

    /// The data and Stat of a znode. Null data is answered as empty.
    pub fn get(&self, path: &str) -> Call<(Bytes, Stat)> {
        self.ask_for(Request::GetData(self.path_watch(path, false)), data)
    }

    /// Writes the data of a znode of this version.
    pub fn set_data(&self, path: &str, data: &[u8], version: Version) -> Call<Stat> {
        let (path, data) = (self.path(path), Some(Bytes::copy_from_slice(data)));
        let body = |version| SetDataRequest { path, data, version };
        self.ask_at(version, |version| Request::SetData(body(version)), stat)
    }

    /// The names of a znode's children, in no order that means anything, and its Stat.
    pub fn children(&self, path: &str) -> Call<(Vec<String>, Stat)> {
        self.ask_for(Request::GetChildren2(self.path_watch(path, false)), children)
    }

    /// How many znodes there are below a znode, at any depth.
    pub fn all_children_number(&self, path: &str) -> Call<u64> {
        let request = Request::GetAllChildrenNumber(PathRequest { path: self.path(path) });
        self.ask_for(request, |reply| match reply {
            Reply::Count(number) => Ok(u64::try_from(number).unwrap_or_default()),
            other => Err(Error::unexpected(&other)),
        })
    }

    /// The ACL of a znode.
    pub fn acl(&self, path: &str) -> Call<(Vec<Acl>, Stat)> {
        let request = Request::GetAcl(PathRequest { path: self.path(path) });
        self.ask_for(request, |reply| match reply {
            Reply::Acl(acl, stat) => Ok((acl, stat)),
            other => Err(Error::unexpected(&other)),
        })
    }

    /// Writes the ACL of a znode whose ACL has this version, [`Stat::aversion`].
    pub fn set_acl(&self, path: &str, acl: Vec<Acl>, version: Version) -> Call<Stat> {
        let path = self.path(path);
        let body = |version| SetAclRequest { path, acl: Some(acl), version };
        self.ask_at(version, |version| Request::SetAcl(body(version)), stat)
    }

    /// Begins a transaction.
    pub fn transaction(&self) -> Transaction<'_> {
        Transaction::new(self)
    }

    /// Begins several reads in one request.
    pub fn reads(&self) -> Reads<'_> {
        Reads::new(self)
    }

    pub(super) fn path_watch(&self, path: &str, watch: bool) -> PathWatchRequest {
        PathWatchRequest { path: self.path(path), watch }
    }
}
