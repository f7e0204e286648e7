//! Several writes that happen all together or not at all.

use bytes::Bytes;
use zoolet_jute::{
    Acl, CreateMode, CreateRequest, ErrorCode, MultiOp, MultiResult, Parts, PathVersionRequest,
    Reply, Request, SetDataRequest, Zxid,
};

use crate::{Client, Error, ErrorKind};

/// A transaction under construction; see [`Client::transaction`].
#[derive(Debug)]
#[must_use = "a transaction does nothing until it is committed"]
pub struct Transaction<'a> {
    client: &'a Client,
    ops: Vec<MultiOp>,
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self { client, ops: Vec::new() }
    }

    /// Creates a znode.
    pub fn create(mut self, path: &str, data: &[u8], acl: Vec<Acl>, mode: CreateMode) -> Self {
        self.ops.push(MultiOp::Create2(CreateRequest {
            path: path.to_owned(),
            data: Some(Bytes::copy_from_slice(data)),
            acl: Some(acl),
            flags: mode as i32,
        }));
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
        let Reply::Multi(Parts(results)) = reply else {
            return Err(ErrorKind::Protocol("a multi was answered otherwise".into()).into());
        };
        let failure = results.iter().find_map(|result| match result {
            MultiResult::Error(Some(code)) if *code != ErrorCode::RuntimeInconsistency => {
                Some(*code)
            }
            MultiResult::Error(_)
            | MultiResult::Create { .. }
            | MultiResult::Create2 { .. }
            | MultiResult::Delete
            | MultiResult::SetData(_)
            | MultiResult::Check
            | MultiResult::Children(_)
            | MultiResult::Data { .. } => None,
        });
        match failure {
            Some(code) => Err(code.into()),
            None => Ok((zxid, results)),
        }
    }
}
