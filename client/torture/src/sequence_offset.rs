//! Sequence numbers that clients see as others than the servers'.
//!
//! A server's counter cannot be brought near 2³¹ in the time of a test: it goes up by one with each
//! child. So a proxy adds a number to each that it passes on, and takes it away again from what it
//! passes back. Clients see a queue that goes on at −2147483648 behind 2147483647, as Apache
//! `ZooKeeper` does, on servers of either kind and under all faults.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};

use bytes::{BufMut, BytesMut};
use zoolet_jute::{
    Decode, DecodeError, MultiOp, MultiReadOp, MultiResult, OpCode, Parts, Reply, ReplyHeader,
    Request, RequestHeader, Xid,
};

use crate::proxy::body;

/// The digits of a number that is not negative, and the fewest of one that is.
pub(crate) const DIGITS: usize = 10;
const DIGITS_BEHIND_MINUS_MIN: usize = 9;

/// What is added to every sequence number on its way to a client; it wraps as the counter does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceOffset(i32);

impl SequenceOffset {
    /// Makes a new queue start at this number for clients.
    pub const fn to(first: i32) -> Self {
        Self(first)
    }

    /// Whether nothing changes.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// A server's path or name as clients see it.
    pub fn shown(self, path: &str) -> String {
        renumbered(path, |number| number.wrapping_add(self.0))
    }

    /// A client's path or name as servers have it.
    pub fn real(self, path: &str) -> String {
        renumbered(path, |number| number.wrapping_sub(self.0))
    }

    /// Makes a client's request one that the servers understand.
    fn request(self, request: &mut Request) {
        match request {
            Request::Create(body) | Request::Create2(body) | Request::CreateContainer(body) => {
                self.back(&mut body.path);
            }
            Request::CreateTtl(body) => self.back(&mut body.path),
            Request::Delete(body) => self.back(&mut body.path),
            Request::Exists(body)
            | Request::GetData(body)
            | Request::GetChildren(body)
            | Request::GetChildren2(body) => self.back(&mut body.path),
            Request::SetData(body) => self.back(&mut body.path),
            Request::GetAcl(body) | Request::GetAllChildrenNumber(body) => {
                self.back(&mut body.path);
            }
            Request::SetAcl(body) => self.back(&mut body.path),
            Request::Sync(body) | Request::GetEphemerals(body) => {
                if let Some(path) = &mut body.path {
                    self.back(path);
                }
            }
            Request::Multi(Parts(parts)) => {
                for part in parts {
                    self.part(part);
                }
            }
            Request::MultiRead(Parts(parts)) => {
                for MultiReadOp::GetChildren(body) | MultiReadOp::GetData(body) in parts {
                    self.back(&mut body.path);
                }
            }
            Request::CheckWatches(body) | Request::RemoveWatches(body) => {
                self.back(&mut body.path);
            }
            Request::AddWatch(body) => self.back(&mut body.path),
            Request::SetWatches(body) => {
                let lists =
                    [&mut body.data_watches, &mut body.exist_watches, &mut body.child_watches];
                for path in lists.into_iter().flatten() {
                    self.back(path);
                }
            }
            Request::SetWatches2(body) => {
                let lists = [
                    &mut body.data_watches,
                    &mut body.exist_watches,
                    &mut body.child_watches,
                    &mut body.persistent_watches,
                    &mut body.persistent_recursive_watches,
                ];
                for path in lists.into_iter().flatten() {
                    self.back(path);
                }
            }
            Request::Reconfig(_)
            | Request::Auth(_)
            | Request::Sasl(_)
            | Request::Ping
            | Request::WhoAmI
            | Request::CloseSession => {}
        }
    }

    fn part(self, part: &mut MultiOp) {
        let path = match part {
            MultiOp::Create(body) | MultiOp::Create2(body) | MultiOp::CreateContainer(body) => {
                &mut body.path
            }
            MultiOp::CreateTtl(body) => &mut body.path,
            MultiOp::Delete(body) | MultiOp::Check(body) => &mut body.path,
            MultiOp::SetData(body) => &mut body.path,
        };
        self.back(path);
    }

    /// Makes a server's reply, or its event, one for clients.
    fn reply(self, reply: &mut Reply) {
        match reply {
            Reply::Path(path) | Reply::PathStat(path, _) | Reply::Sync(Some(path)) => {
                self.forth(path);
            }
            Reply::Children(names) | Reply::ChildrenStat(names, _) => {
                self.forth_all(names);
            }
            Reply::Multi(Parts(results)) => {
                for result in results {
                    match result {
                        MultiResult::Create { path } | MultiResult::Create2 { path, .. } => {
                            self.forth(path);
                        }
                        MultiResult::Children(names) => {
                            self.forth_all(names);
                        }
                        MultiResult::Delete
                        | MultiResult::SetData(_)
                        | MultiResult::Check
                        | MultiResult::Data { .. }
                        | MultiResult::Error(_) => {}
                    }
                }
            }
            Reply::Event(event) => self.forth(&mut event.path),
            Reply::Empty
            | Reply::Sync(None)
            | Reply::Stat(_)
            | Reply::Data(..)
            | Reply::Acl(..)
            | Reply::Count(_)
            | Reply::AddWatch(_)
            | Reply::WhoAmI(_)
            | Reply::Sasl(_) => {}
        }
    }

    fn back(self, path: &mut String) {
        *path = self.real(path);
    }

    fn forth_all(self, names: &mut [String]) {
        for name in names {
            self.forth(name);
        }
    }

    fn forth(self, path: &mut String) {
        *path = self.shown(path);
    }
}

/// Renumbers what goes over one connection, frame by frame.
#[derive(Debug)]
pub(crate) struct Renumbering {
    offset: SequenceOffset,
    /// What was asked, by the xids that are not answered.
    asked: Mutex<BTreeMap<i32, OpCode>>,
}

impl Renumbering {
    pub(crate) fn new(offset: SequenceOffset) -> Self {
        Self { offset, asked: Mutex::default() }
    }

    /// A request's frame for the servers.
    pub(crate) fn request(&self, frame: BytesMut) -> io::Result<BytesMut> {
        if self.offset.is_none() {
            return Ok(frame);
        }
        let mut body = body(&frame);
        let header = RequestHeader::decode(&mut body, "header").map_err(malformed)?;
        let op = OpCode::from_i32(header.op).ok_or(DecodeError::UnknownOp(header.op));
        let op = op.map_err(malformed)?;
        let mut request = Request::decode(op, &mut body).map_err(malformed)?;
        self.offset.request(&mut request);
        if header.xid.0 > 0 {
            self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(header.xid.0, op);
        }
        framed(|out| request.encode_with(header.xid, out))
    }

    /// The frame of a reply or an event for the client.
    pub(crate) fn reply(&self, frame: BytesMut) -> io::Result<BytesMut> {
        if self.offset.is_none() {
            return Ok(frame);
        }
        let mut body = body(&frame);
        let header = ReplyHeader::decode(&mut body, "header").map_err(malformed)?;
        let op = if header.xid == Xid::NOTIFICATION {
            Some(OpCode::Notification)
        } else {
            self.asked.lock().unwrap_or_else(PoisonError::into_inner).remove(&header.xid.0)
        };
        let Some(op) = op.filter(|_| header.err.is_none()) else { return Ok(frame) };
        let mut reply = Reply::decode(op, &mut body).map_err(malformed)?;
        self.offset.reply(&mut reply);
        framed(|out| reply.encode_with(header, out))
    }
}

fn framed(encode: impl FnOnce(&mut BytesMut)) -> io::Result<BytesMut> {
    let mut body = BytesMut::new();
    encode(&mut body);
    let mut frame = BytesMut::with_capacity(4 + body.len());
    frame.put_i32(i32::try_from(body.len()).map_err(|_| io::ErrorKind::InvalidData)?);
    frame.extend_from_slice(&body);
    Ok(frame)
}

fn malformed(error: DecodeError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// The path with other numbers behind its names.
fn renumbered(path: &str, number: impl Fn(i32) -> i32) -> String {
    let names = path.split('/').map(|name| match numbered(name) {
        Some((base, old)) => format!("{base}{:010}", number(old)),
        None => name.to_owned(),
    });
    names.collect::<Vec<_>>().join("/")
}

/// Whether a path's last name has a number behind 2147483647.
pub(crate) fn is_behind_the_last(path: &str) -> bool {
    path.rsplit('/').next().and_then(numbered).is_some_and(|(_, number)| number < 0)
}

/// A name of a recipe without its number, and the number: what precedes it ends with `-`
/// or `_`, in all of them.
fn numbered(name: &str) -> Option<(&str, i32)> {
    let rest = name.trim_end_matches(|last: char| last.is_ascii_digit());
    let digits = name.len() - rest.len();
    let ends = |base: &str| base.ends_with(['-', '_']);
    if let Some(base) = rest.strip_suffix('-').filter(|base| ends(base)) {
        let is_number = (DIGITS_BEHIND_MINUS_MIN..=DIGITS).contains(&digits);
        return Some((base, name.get(base.len()..)?.parse().ok().filter(|_| is_number)?));
    }
    if digits != DIGITS || !ends(rest) {
        return None;
    }
    Some((rest, name.get(rest.len()..)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_goes_on_behind_the_last_number() {
        let offset = SequenceOffset::to(i32::MAX - 1);
        for (real, shown) in [
            ("/q/_c_1-lock-0000000000", "/q/_c_1-lock-2147483646"),
            ("/q/_c_1-lock-0000000001", "/q/_c_1-lock-2147483647"),
            ("/q/_c_1-lock-0000000002", "/q/_c_1-lock--2147483648"),
            ("a__lock__0000000003", "a__lock__-2147483647"),
            ("a-__READ__0000000000/b-0000000002", "a-__READ__2147483646/b--2147483648"),
        ] {
            assert_eq!(offset.shown(real), shown);
            assert_eq!(offset.real(shown), real);
        }
        // Negative ones of all lengths.
        for real in ["x-0000000000", "x-0999999999", "x-2147483647", "x--2147483648"] {
            for first in [1, i32::MAX, i32::MIN, -1, -1_000_000_001] {
                let offset = SequenceOffset::to(first);
                assert_eq!(offset.real(&offset.shown(real)), real, "{first}");
            }
        }
    }

    #[test]
    fn what_has_no_number_stays() {
        let offset = SequenceOffset::to(5);
        for name in ["", "/", "/a/lock-", "/a/b-123", "/a/0000000001", "x-00000000001", "x--12"] {
            assert_eq!(offset.shown(name), name);
            assert_eq!(offset.real(name), name);
        }
    }

    #[test]
    fn a_number_behind_the_last_is_known() {
        assert!(is_behind_the_last("/q/_c_1-lock--2147483648"));
        assert!(!is_behind_the_last("/q--2147483648/_c_1-lock-2147483647"));
        assert!(!is_behind_the_last("/q"));
    }

    #[test]
    fn nothing_is_added() {
        assert!(SequenceOffset::default().is_none());
        assert_eq!(SequenceOffset::default().shown("/a/x-0000000007"), "/a/x-0000000007");
    }
}
