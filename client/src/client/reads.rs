//! Several reads in one request.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "a reply of any other kind, new ones too, is one that was not asked for"
)]

use bytes::Bytes;
use zoolet_jute::{
    ErrorCode, MultiReadOp, MultiResult, Parts, PathWatchRequest, Reply, Request, Stat,
};

use super::{Call, Client};
use crate::error::Concerning;
use crate::{Error, ErrorKind};

/// Reads under construction; see [`Client::reads`].
#[derive(Debug)]
#[must_use = "nothing is read until it is asked for"]
pub struct Reads<'a> {
    client: &'a Client,
    ops: Vec<MultiReadOp>,
}

/// What one of several reads has found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Read {
    /// Of [`get`](Reads::get): the data, null as empty, and the Stat.
    Data(Bytes, Stat),
    /// Of [`children`](Reads::children): their names, in no order that means anything.
    Children(Vec<String>),
}

impl<'a> Reads<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self { client, ops: Vec::new() }
    }

    /// Reads the data and Stat of a znode.
    pub fn get(mut self, path: &str) -> Self {
        let body = PathWatchRequest { path: self.client.path(path), watch: false };
        self.ops.push(MultiReadOp::GetData(body));
        self
    }

    /// Lists the children of a znode.
    pub fn children(mut self, path: &str) -> Self {
        let body = PathWatchRequest { path: self.client.path(path), watch: false };
        self.ops.push(MultiReadOp::GetChildren(body));
        self
    }

    /// Asks for them all. Each succeeds or fails for itself; they come one after the other, and
    /// writes of others may come between them.
    pub fn ask(self) -> Call<Vec<Result<Read, Error>>> {
        let chroot = self.client.root();
        let asked: Vec<_> = self.ops.iter().map(|op| Concerning::read(op, chroot)).collect();
        self.client.ask_for(Request::MultiRead(Parts(self.ops)), |reply| match reply {
            Reply::Multi(Parts(results)) => {
                let mut asked = asked.into_iter();
                let answer = |result| {
                    let concerning = asked.next().unwrap_or_default();
                    read(result).map_err(|error| error.concerning(|| concerning))
                };
                Ok(results.into_iter().map(answer).collect())
            }
            other => Err(Error::unexpected(&other)),
        })
    }
}

fn read(result: MultiResult) -> Result<Read, Error> {
    match result {
        MultiResult::Data { data, stat } => Ok(Read::Data(data.unwrap_or_default(), stat)),
        MultiResult::Children(names) => Ok(Read::Children(names)),
        MultiResult::Error(code) => Err(code.unwrap_or(ErrorCode::SystemError).into()),
        MultiResult::Create { .. }
        | MultiResult::Create2 { .. }
        | MultiResult::Delete
        | MultiResult::SetData(_)
        | MultiResult::Check => {
            Err(ErrorKind::Protocol("a read got the reply of a write".into()).into())
        }
    }
}
