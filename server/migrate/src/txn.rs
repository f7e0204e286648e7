//! Transactions, as they are in a log: what a request has changed, not the request.

use bytes::Bytes;
use zoolet_jute::{Acl, Zxid};

use crate::MigrateError;
use crate::digest::DIGEST_VERSION;
use crate::owner::ttl_owner;
use crate::source::Source;

/// Says that the parent's counter goes up by one: transactions of old servers do not have it.
pub(crate) const CVERSION_UNKNOWN: i32 = -1;

/// The bytes of a digest: its version and the digest.
const DIGEST_BYTES: usize = 4 + 8;

/// The kinds of transactions, by the operation codes of Apache `ZooKeeper`.
mod kind {
    pub(super) const ERROR: i32 = -1;
    pub(super) const CREATE_SESSION: i32 = -10;
    pub(super) const CLOSE_SESSION: i32 = -11;
    pub(super) const CREATE: i32 = 1;
    pub(super) const DELETE: i32 = 2;
    pub(super) const SET_DATA: i32 = 5;
    pub(super) const SET_ACL: i32 = 7;
    pub(super) const CHECK: i32 = 13;
    pub(super) const MULTI: i32 = 14;
    pub(super) const CREATE2: i32 = 15;
    pub(super) const RECONFIG: i32 = 16;
    pub(super) const CREATE_CONTAINER: i32 = 19;
    pub(super) const DELETE_CONTAINER: i32 = 20;
    pub(super) const CREATE_TTL: i32 = 21;
}

/// A transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Txn {
    /// The session that asked for it.
    pub(crate) session: i64,
    pub(crate) zxid: Zxid,
    pub(crate) time: i64,
    pub(crate) change: Change,
    /// The digest of the tree behind it.
    pub(crate) digest: Option<u64>,
}

/// What a transaction changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    CreateSession { timeout_ms: i32 },
    CloseSession { paths: Vec<String> },
    Create(Create),
    Delete { path: String },
    SetData { path: String, data: Option<Bytes>, version: i32 },
    SetAcl { path: String, acl: Vec<Acl>, version: i32 },
    Multi(Vec<Change>),
    Nothing,
}

/// A new znode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Create {
    pub(crate) path: String,
    pub(crate) data: Option<Bytes>,
    pub(crate) acl: Vec<Acl>,
    pub(crate) owner: i64,
    pub(crate) parent_cversion: i32,
    /// Whether it corrects the parent's counter if the znode is there already.
    pub(crate) corrects_parent: bool,
}

/// Reads a transaction, which begins at `offset` of its file.
pub(crate) fn decode(source: &mut Source<&[u8]>) -> Result<Txn, MigrateError> {
    let session = source.i64("a transaction's session")?;
    let _cxid = source.i32("a transaction's request number")?;
    let offset = source.offset();
    let zxid = Zxid(source.i64("a transaction's zxid")?);
    if zxid.0 < 0 {
        return Err(source.damaged(offset, format!("{:#x} is not a zxid", zxid.0)));
    }
    let time = source.i64("a transaction's time")?;
    let offset = source.offset();
    let kind = source.i32("a transaction's type")?;
    let change = match kind {
        kind::CREATE_SESSION => {
            Change::CreateSession { timeout_ms: source.i32("a session's timeout")? }
        }
        kind::CLOSE_SESSION => Change::CloseSession { paths: closed_paths(source)? },
        kind::MULTI => multi(source, session)?,
        kind => simple(source, kind, session, offset)?,
    };
    let digest = if source.is_at_end()? {
        None
    } else {
        let version = source.i32("a digest's version")?;
        let digest = source.i64("a digest")?.cast_unsigned();
        (version == DIGEST_VERSION).then_some(digest)
    };
    if !source.is_at_end()? {
        return Err(source.damaged(source.offset(), "bytes follow the transaction's last field"));
    }
    Ok(Txn { session, zxid, time, change, digest })
}

/// What can also be a part of a multi.
fn simple(
    source: &mut Source<&[u8]>,
    kind: i32,
    session: i64,
    offset: u64,
) -> Result<Change, MigrateError> {
    Ok(match kind {
        kind::CREATE | kind::CREATE2 | kind::CREATE_CONTAINER | kind::CREATE_TTL => {
            Change::Create(create(source, kind, session)?)
        }
        kind::DELETE | kind::DELETE_CONTAINER => Change::Delete { path: path(source)? },
        kind::SET_DATA | kind::RECONFIG => {
            let (path, data) = (path(source)?, source.buffer("a znode's data")?);
            Change::SetData { path, data, version: source.i32("a znode's version")? }
        }
        kind::SET_ACL => {
            let (path, acl) = (path(source)?, source.acl()?);
            Change::SetAcl { path, acl, version: source.i32("an ACL's version")? }
        }
        kind::CHECK => {
            let _path = path(source)?;
            let _version = source.i32("a checked version")?;
            Change::Nothing
        }
        kind::ERROR => {
            let _code = source.i32("an error code")?;
            Change::Nothing
        }
        other => return Err(source.damaged(offset, format!("unknown transaction type {other}"))),
    })
}

fn path(source: &mut Source<&[u8]>) -> Result<String, MigrateError> {
    let offset = source.offset();
    let path = source.text("a path")?;
    if path.starts_with('/') {
        Ok(path)
    } else {
        Err(source.damaged(offset, format!("`{path}` is not a path")))
    }
}

fn create(source: &mut Source<&[u8]>, kind: i32, session: i64) -> Result<Create, MigrateError> {
    let offset = source.offset();
    let path = path(source)?;
    if path.ends_with('/') || path.contains("//") {
        return Err(source.damaged(offset, format!("`{path}` is not a path of a new znode")));
    }
    let (data, acl) = (source.buffer("a znode's data")?, source.acl()?);
    let cversion = "the parent's child version";
    let (owner, parent_cversion) = match kind {
        kind::CREATE_CONTAINER => (i64::MIN, source.i32(cversion)?),
        kind::CREATE_TTL => {
            let parent_cversion = source.i32(cversion)?;
            (ttl_owner(source.i64("a time to live")?), parent_cversion)
        }
        _ => {
            let owner = if source.flag("whether a znode is ephemeral")? { session } else { 0 };
            // Servers before 3.4 end here.
            let is_old = source.is_at_end()?;
            (owner, if is_old { CVERSION_UNKNOWN } else { source.i32(cversion)? })
        }
    };
    let corrects_parent = kind == kind::CREATE;
    Ok(Create { path, data, acl, owner, parent_cversion, corrects_parent })
}

/// The ephemeral znodes that go with their session. Servers before 3.6, and those with
/// `closeSessionTxn.enabled=false`, leave them out; a digest may follow either way.
fn closed_paths(source: &mut Source<&[u8]>) -> Result<Vec<String>, MigrateError> {
    let rest = source.rest();
    if rest.is_empty() {
        return Ok(Vec::new());
    }
    let mut ahead = Source::at(source.path(), rest, source.offset());
    let read = paths(&mut ahead);
    let left = ahead.rest().len();
    if read.is_ok() && (left == 0 || left == DIGEST_BYTES) {
        source.skip(rest.len() - left);
        return read;
    }
    if rest.len() == DIGEST_BYTES { Ok(Vec::new()) } else { read }
}

fn paths(source: &mut Source<&[u8]>) -> Result<Vec<String>, MigrateError> {
    let count = source.count("the number of a session's znodes")?;
    let mut paths = Vec::new();
    for _ in 0..count {
        paths.push(path(source)?);
    }
    Ok(paths)
}

/// The parts of a multi. If one has failed, none has an effect.
fn multi(source: &mut Source<&[u8]>, session: i64) -> Result<Change, MigrateError> {
    let count = source.count("the number of a multi's parts")?;
    let (mut parts, mut has_failed) = (Vec::new(), false);
    for _ in 0..count {
        let offset = source.offset();
        let kind = source.i32("the type of a multi's part")?;
        let body = source.buffer("a multi's part")?.unwrap_or_default();
        has_failed |= kind == kind::ERROR;
        let inside = source.offset() - body.len() as u64;
        let mut part = Source::at(source.path(), &*body, inside);
        // What a failed multi would have done may be anything.
        match simple(&mut part, kind, session, offset) {
            Ok(change) => parts.push(change),
            Err(error) if !has_failed => return Err(error),
            Err(_) => {}
        }
    }
    Ok(if has_failed { Change::Nothing } else { Change::Multi(parts) })
}
