//! Several writes that happen all together or not at all.

use std::time::Duration;

use bytes::Bytes;
use zoolet_jute::{
    Acl, CreateMode, CreateRequest, ErrorCode, MultiOp, MultiResult, Parts, PathVersionRequest,
    Reply, Request, SetDataRequest, Zxid,
};

use crate::client::create_ttl;
use crate::{Client, Error, ErrorKind};

/// A transaction under construction; see [`Client::transaction`].
#[derive(Debug)]
#[must_use = "a transaction does nothing until it is committed"]
pub struct Transaction<'a> {
    client: &'a Client,
    ops: Vec<MultiOp>,
    /// How many parts at the front check that a lock is held.
    lock_checks: usize,
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self { client, ops: Vec::new(), lock_checks: 0 }
    }

    /// Makes the transaction fail with [`ErrorKind::LockLost`] unless these znodes exist. Comes
    /// first.
    pub(crate) fn while_held(mut self, paths: &[String]) -> Self {
        for path in paths {
            self = self.check(path, -1);
        }
        self.lock_checks = self.ops.len();
        self
    }

    /// Creates a znode.
    pub fn create(mut self, path: &str, data: &[u8], acl: Vec<Acl>, mode: CreateMode) -> Self {
        let body = CreateRequest {
            path: path.to_owned(),
            data: Some(Bytes::copy_from_slice(data)),
            acl: Some(acl),
            flags: mode as i32,
        };
        self.ops.push(match mode {
            CreateMode::Container => MultiOp::CreateContainer(body),
            CreateMode::Persistent
            | CreateMode::Ephemeral
            | CreateMode::PersistentSequential
            | CreateMode::EphemeralSequential
            | CreateMode::PersistentWithTtl
            | CreateMode::PersistentSequentialWithTtl => MultiOp::Create2(body),
        });
        self
    }

    /// Creates a znode with a time to live; see [`Client::create_with_ttl`].
    pub fn create_with_ttl(
        mut self,
        path: &str,
        data: &[u8],
        acl: Vec<Acl>,
        mode: CreateMode,
        ttl: Duration,
    ) -> Self {
        self.ops.push(MultiOp::CreateTtl(create_ttl(path, data, acl, mode, ttl)));
        self
    }

    /// Deletes a znode of this version; −1 for any.
    pub fn delete(mut self, path: &str, version: i32) -> Self {
        self.ops.push(MultiOp::Delete(PathVersionRequest { path: path.to_owned(), version }));
        self
    }

    /// Writes the data of a znode of this version; −1 for any.
    pub fn set_data(mut self, path: &str, data: &[u8], version: i32) -> Self {
        self.ops.push(MultiOp::SetData(SetDataRequest {
            path: path.to_owned(),
            data: Some(Bytes::copy_from_slice(data)),
            version,
        }));
        self
    }

    /// Makes the transaction fail unless the znode has this version; −1 for any.
    pub fn check(mut self, path: &str, version: i32) -> Self {
        self.ops.push(MultiOp::Check(PathVersionRequest { path: path.to_owned(), version }));
        self
    }

    /// Commits. If a part fails nothing happens, and the error holds that part's code.
    pub async fn commit(self) -> Result<(Zxid, Vec<MultiResult>), Error> {
        let (zxid, reply) = self.client.call(Request::Multi(Parts(self.ops))).await?;
        let Reply::Multi(Parts(mut results)) = reply else {
            return Err(ErrorKind::Protocol("a multi was answered otherwise".into()).into());
        };
        for (position, result) in results.iter().enumerate() {
            if let MultiResult::Error(Some(code)) = result
                && *code != ErrorCode::RuntimeInconsistency
            {
                let lost = position < self.lock_checks && *code == ErrorCode::NoNode;
                return Err(if lost { ErrorKind::LockLost.into() } else { (*code).into() });
            }
        }
        results.drain(..self.lock_checks.min(results.len()));
        Ok((zxid, results))
    }
}
