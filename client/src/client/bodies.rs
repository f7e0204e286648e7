//! The bodies of requests and replies.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "a reply of any other kind, new ones too, is one that was not asked for"
)]

use std::time::Duration;

use bytes::Bytes;
use zoolet_jute::{Acl, CreateMode, CreateTtlRequest, ErrorCode, Reply, Stat};

use crate::Error;
use crate::session::pending::Answer;

/// The body of a create with a time to live.
pub(super) fn create_ttl(
    path: String,
    data: &[u8],
    acl: Vec<Acl>,
    mode: CreateMode,
    ttl: Duration,
) -> CreateTtlRequest {
    CreateTtlRequest {
        path,
        data: Some(Bytes::copy_from_slice(data)),
        acl: Some(acl),
        flags: mode as i32,
        ttl_ms: i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX),
    }
}

pub(super) fn no_node_is_none(answer: Answer) -> Result<Option<Stat>, Error> {
    match answer {
        Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(None),
        answer => stat(answer?.1).map(Some),
    }
}

pub(super) fn data(reply: Reply) -> Result<(Bytes, Stat), Error> {
    match reply {
        Reply::Data(data, stat) => Ok((data.unwrap_or_default(), stat)),
        other => Err(Error::unexpected(&other)),
    }
}

pub(super) fn children(reply: Reply) -> Result<(Vec<String>, Stat), Error> {
    match reply {
        Reply::ChildrenStat(children, stat) => Ok((children, stat)),
        other => Err(Error::unexpected(&other)),
    }
}

pub(super) fn stat(reply: Reply) -> Result<Stat, Error> {
    match reply {
        Reply::Stat(stat) => Ok(stat),
        other => Err(Error::unexpected(&other)),
    }
}
