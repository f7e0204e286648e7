//! Several writes that happen all together or not at all.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use zoolet_jute::{
    Acl, CreateMode, CreateRequest, ErrorCode, MultiOp, MultiResult, Parts, PathVersionRequest,
    Reply, Request, SetDataRequest, Xid, Zxid,
};

use super::bodies::create_ttl;
use super::{Call, Client};
use crate::error::Concerning;
use crate::session::pending::Answer;
use crate::{Error, ErrorKind, Version};

/// A transaction under construction; see [`Client::transaction`].
#[derive(Debug)]
#[must_use = "a transaction does nothing until it is committed"]
pub struct Transaction<'a> {
    client: &'a Client,
    ops: Vec<MultiOp>,
    /// How many parts at the front check that a lock is held.
    lock_checks: usize,
    /// Why it cannot be sent, by the first part that cannot.
    refusal: Option<Error>,
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self { client, ops: Vec::new(), lock_checks: 0, refusal: None }
    }

    /// Makes the transaction fail with [`ErrorKind::LockLost`] unless these znodes exist. Comes
    /// first.
    pub(crate) fn while_held(mut self, paths: &[String]) -> Self {
        for path in paths {
            self = self.check(path, Version::Any);
        }
        self.lock_checks = self.ops.len();
        self
    }

    /// Returns how many parts the caller has added.
    pub(crate) fn parts(&self) -> usize {
        self.ops.len().saturating_sub(self.lock_checks)
    }

    /// Returns the length of the request in bytes, as it counts for
    /// [`request_bytes_max`](crate::ClientOptions::request_bytes_max).
    pub(crate) fn request_bytes(&self) -> usize {
        let mut frame = BytesMut::new();
        Request::Multi(Parts(self.ops.clone())).encode_with(Xid(0), &mut frame);
        frame.len()
    }

    /// Creates a znode. Servers refuse a mode with a time to live: see
    /// [`create_with_ttl`](Self::create_with_ttl).
    pub fn create(mut self, path: &str, data: &[u8], acl: Vec<Acl>, mode: CreateMode) -> Self {
        let body = CreateRequest {
            path: self.client.path(path),
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
        self.ops.push(MultiOp::CreateTtl(create_ttl(self.client.path(path), data, acl, mode, ttl)));
        self
    }

    /// Deletes a znode of this version.
    pub fn delete(self, path: &str, version: Version) -> Self {
        let path = self.client.path(path);
        self.push_at(version, |version| MultiOp::Delete(PathVersionRequest { path, version }))
    }

    /// Writes the data of a znode of this version.
    pub fn set_data(self, path: &str, data: &[u8], version: Version) -> Self {
        let (path, data) = (self.client.path(path), Some(Bytes::copy_from_slice(data)));
        self.push_at(version, |version| MultiOp::SetData(SetDataRequest { path, data, version }))
    }

    /// Makes the transaction fail unless the znode exists and has this version.
    pub fn check(self, path: &str, version: Version) -> Self {
        let path = self.client.path(path);
        self.push_at(version, |version| MultiOp::Check(PathVersionRequest { path, version }))
    }

    /// Adds a part that expects a version. One that cannot be asked for fails the commit.
    fn push_at(mut self, version: Version, op: impl FnOnce(i32) -> MultiOp) -> Self {
        match version.number() {
            Ok(version) => self.ops.push(op(version)),
            Err(kind) => {
                let part = self.parts();
                let concerning = Concerning::write(&op(-1), self.client.root());
                let refusal = Error::of_part(kind, part).concerning(|| concerning);
                self.refusal.get_or_insert(refusal);
            }
        }
        self
    }

    /// Commits. If a part fails nothing happens: the error holds the part's code, and says
    /// [which](Error::part) it is.
    pub fn commit(self) -> Call<(Zxid, Vec<MultiResult>)> {
        let Self { client, ops, lock_checks, refusal } = self;
        let chroot = client.root().clone();
        let asked: Vec<_> = ops.iter().map(|op| Concerning::write(op, &chroot)).collect();
        let read = move |answer: Answer| {
            let (zxid, reply) = answer?;
            let Reply::Multi(Parts(mut results)) = reply else {
                return Err(Error::unexpected(&reply));
            };
            refuse_failed(&results, lock_checks, asked)?;
            results.drain(..lock_checks.min(results.len()));
            for result in &mut results {
                if let MultiResult::Create { path } | MultiResult::Create2 { path, .. } = result {
                    *path = chroot.to_client_or_as_it_is(std::mem::take(path));
                }
            }
            Ok((zxid, results))
        };
        match refusal {
            Some(error) => Call::new(Err(error), Concerning::default(), read),
            None => client.ask(Request::Multi(Parts(ops)), None, read),
        }
    }
}

/// Fails if a part has; the others were undone for it, or not tried.
fn refuse_failed(
    results: &[MultiResult],
    lock_checks: usize,
    asked: Vec<Concerning>,
) -> Result<(), Error> {
    for ((position, result), concerning) in results.iter().enumerate().zip(asked) {
        if let MultiResult::Error(Some(code)) = result
            && *code != ErrorCode::RuntimeInconsistency
        {
            let error = match position.checked_sub(lock_checks) {
                None if *code == ErrorCode::NoNode => {
                    let path = concerning.path.unwrap_or_default();
                    return Err(Error::from(ErrorKind::LockLost).at(&path));
                }
                None => (*code).into(),
                Some(part) => Error::of_part(ErrorKind::Server(*code), part),
            };
            return Err(error.concerning(|| concerning));
        }
    }
    Ok(())
}
