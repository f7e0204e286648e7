//! Several reads in one request.

use bytes::Bytes;
use zoolet_jute::{
    ErrorCode, MultiReadOp, MultiResult, Parts, PathWatchRequest, Reply, Request, Stat,
};

use crate::{Client, Error, ErrorKind};

/// Reads under construction; see [`Client::reads`].
#[derive(Debug)]
#[must_use = "nothing is read until it is asked for"]
pub struct Reads<'a> {
    client: &'a Client,
    ops: Vec<MultiReadOp>,
}

/// What one of several reads has found.
#[derive(Clone, Debug, PartialEq, Eq)]
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
        let body = PathWatchRequest { path: path.to_owned(), watch: false };
        self.ops.push(MultiReadOp::GetData(body));
        self
    }

    /// Lists the children of a znode.
    pub fn children(mut self, path: &str) -> Self {
        let body = PathWatchRequest { path: path.to_owned(), watch: false };
        self.ops.push(MultiReadOp::GetChildren(body));
        self
    }

    /// Asks for them all. Each succeeds or fails for itself; they come one after the other, and
    /// writes of others may come between them.
    pub async fn ask(self) -> Result<Vec<Result<Read, Error>>, Error> {
        let (_, reply) = self.client.call(Request::MultiRead(Parts(self.ops))).await?;
        let Reply::Multi(Parts(results)) = reply else {
            return Err(ErrorKind::Protocol("reads were answered otherwise".into()).into());
        };
        Ok(results.into_iter().map(read).collect())
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
            Err(ErrorKind::Protocol("a read was answered as a write".into()).into())
        }
    }
}
