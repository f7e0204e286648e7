//! Replies with lists of names, and others that are too long to be written under the lock of the
//! state: they hold on to what they show, and are written later.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use zoolet_jute::{Encode, ErrorCode, Id, MultiReadOp, MultiResult, Request, Stat, perms};

use super::access::Verdicts;
use super::chunk::SHARED_BYTES_MIN;
use super::names::{Leaf, Names};
use super::read::{MULTI_READ_BYTES_MAX, StateReader};
use crate::cost::Meter;

/// A reply with fewer bytes is written at once.
const LONG_BYTES_MIN: usize = 4 << 10;

/// Pieces of a list are about this long.
const PIECE_BYTES: usize = 64 << 10;

/// The cost of a part of a multiRead without its path and its ACL, and of a leaf of names that is
/// measured, in nanoseconds.
const PART_NS: usize = 300;
const LEAF_NS: usize = 100;

/// How many bytes are copied in a nanosecond.
const BYTES_PER_NS: usize = 4;

/// The body of a reply that is not written yet: an iterator over the pieces of its bytes. It shows
/// the state at the moment at which it was made.
#[derive(Clone, Debug, Default)]
pub struct LongReply {
    // The next one last.
    parts: Vec<ReplyPart>,
    bytes: usize,
}

#[derive(Clone, Debug)]
enum ReplyPart {
    Written(Bytes),
    /// Data of the state.
    Data(Bytes),
    Names(NameList),
}

/// The names that begin with a prefix, from a leaf on.
#[derive(Clone, Debug)]
struct NameList {
    names: Names,
    prefix: Arc<str>,
    next_leaf: usize,
}

impl PartialEq for LongReply {
    /// Compares the bytes.
    fn eq(&self, other: &Self) -> bool {
        let bytes = |reply: &Self| reply.clone().flat_map(|piece| piece.to_vec());
        bytes(self).eq(bytes(other))
    }
}

impl Eq for LongReply {}

impl LongReply {
    /// The bytes of the body that are left.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The data of the state that it refers to.
    pub fn data_of_state(&self) -> impl Iterator<Item = &Bytes> {
        self.parts.iter().filter_map(|part| match part {
            ReplyPart::Data(data) => Some(data),
            ReplyPart::Written(_) | ReplyPart::Names(_) => None,
        })
    }

    /// The bytes that were copied for it.
    pub fn copied_bytes(&self) -> usize {
        let copied = self.parts.iter().map(|part| match part {
            ReplyPart::Written(bytes) => bytes.len(),
            ReplyPart::Data(_) | ReplyPart::Names(_) => 0,
        });
        copied.sum()
    }
}

impl Iterator for LongReply {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        loop {
            let Some(part) = self.parts.pop() else {
                invariant!(self.bytes == 0, "a list ends {} bytes before its length", self.bytes);
                return None;
            };
            let piece = match part {
                ReplyPart::Written(bytes) | ReplyPart::Data(bytes) => bytes,
                ReplyPart::Names(mut list) => {
                    let Some(piece) = list.next_piece() else { continue };
                    self.parts.push(ReplyPart::Names(list));
                    piece
                }
            };
            let (length, left) = (piece.len(), self.bytes);
            invariant!(length <= left, "a list of {length} bytes more has {left} left");
            self.bytes = left - length;
            return Some(piece);
        }
    }
}

impl NameList {
    fn next_piece(&mut self) -> Option<Bytes> {
        let mut out = BytesMut::new();
        while out.len() < PIECE_BYTES
            && let Some(leaf) = self.names.leaf(self.next_leaf)
        {
            for name in self.matching(leaf) {
                put_name(name, &mut out);
            }
            self.next_leaf = if self.is_behind(leaf) { usize::MAX } else { self.next_leaf + 1 };
        }
        (!out.is_empty()).then(|| out.freeze())
    }

    fn matching<'a>(&self, leaf: &'a Leaf) -> impl Iterator<Item = &'a [u8]> {
        let names = leaf.iter().map(|(name, _)| name);
        names.filter(|name| {
            probe!();
            name.starts_with(self.prefix.as_bytes())
        })
    }

    /// Returns whether all names of this leaf begin with the prefix: they do if the first and the
    /// last do.
    fn is_all_of(&self, leaf: &Leaf) -> bool {
        let begins =
            |name: Option<&[u8]>| name.is_some_and(|name| name.starts_with(self.prefix.as_bytes()));
        begins(leaf.get(0).map(|(name, _)| name)) && begins(leaf.last_key())
    }

    /// Whether no name behind this leaf can begin with the prefix.
    fn is_behind(&self, leaf: &Leaf) -> bool {
        let prefix = self.prefix.as_bytes();
        leaf.last_key().is_some_and(|name| name > prefix && !name.starts_with(prefix))
    }

    /// How many names there are, and their bytes. Only the first and the last leaf can have names
    /// that do not match, so the others are not looked into.
    fn measure(&self, meter: &Meter) -> (usize, usize) {
        if self.prefix.is_empty() {
            return (self.names.len(), self.names.wire_bytes());
        }
        let (mut count, mut bytes) = (0, 0);
        let mut number = self.next_leaf;
        while let Some(leaf) = self.names.leaf(number) {
            meter.add(LEAF_NS);
            if self.is_all_of(leaf) {
                count += leaf.len();
                bytes += LENGTH_BYTES * leaf.len() + leaf.key_bytes();
            } else {
                for name in self.matching(leaf) {
                    count += 1;
                    bytes += LENGTH_BYTES + name.len();
                }
            }
            if self.is_behind(leaf) {
                break;
            }
            number += 1;
        }
        (count, bytes)
    }
}

/// The bytes of a length on the wire.
const LENGTH_BYTES: usize = 4;

fn put_length(length: usize, out: &mut BytesMut) {
    out.put_i32(i32::try_from(length).unwrap_or(i32::MAX));
}

fn put_name(name: &[u8], out: &mut BytesMut) {
    put_length(name.len(), out);
    out.put_slice(name);
}

/// Puts a long reply together, in order.
#[derive(Debug, Default)]
struct Builder {
    parts: Vec<ReplyPart>,
    bytes: usize,
    open: BytesMut,
}

impl Builder {
    fn close(&mut self) {
        if !self.open.is_empty() {
            self.bytes += self.open.len();
            self.parts.push(ReplyPart::Written(self.open.split().freeze()));
        }
    }

    fn names(&mut self, list: NameList, meter: &Meter) {
        let (count, bytes) = list.measure(meter);
        put_length(count, &mut self.open);
        self.close();
        self.bytes += bytes;
        self.parts.push(ReplyPart::Names(list));
    }

    fn data(&mut self, data: Option<&Bytes>) {
        match data.filter(|data| data.len() >= SHARED_BYTES_MIN) {
            Some(data) => {
                put_length(data.len(), &mut self.open);
                self.close();
                self.bytes += data.len();
                self.parts.push(ReplyPart::Data(data.clone()));
            }
            None => data.cloned().encode(&mut self.open),
        }
    }

    fn bytes(&self) -> usize {
        self.bytes + self.open.len()
    }

    fn stat(&mut self, stat: &Stat) {
        stat.encode(&mut self.open);
    }

    fn finish(mut self) -> LongReply {
        self.close();
        self.parts.reverse();
        LongReply { parts: self.parts, bytes: self.bytes }
    }
}

impl StateReader<'_> {
    /// The reply to a read whose reply is long; `None` for all others, and for errors that are
    /// found at once.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the others have short replies")]
    pub(super) fn read_long(self, request: &Request) -> Result<Option<LongReply>, ErrorCode> {
        Ok(match request {
            Request::GetChildren(body) => self.long_children(&body.path, false),
            Request::GetChildren2(body) => self.long_children(&body.path, true),
            Request::MultiRead(body) => return self.long_parts(&body.0),
            Request::GetEphemerals(body) => self.long_ephemerals(body.path.as_deref()),
            _ => None,
        })
    }

    fn long_children(self, path: &str, with_stat: bool) -> Option<LongReply> {
        let id = self.find(path, perms::READ).ok()?;
        let children = self.tree.children(id)?;
        if children.wire_bytes() < LONG_BYTES_MIN {
            return None;
        }
        let mut reply = Builder::default();
        reply.names(all(children), self.meter);
        if with_stat {
            reply.stat(&self.tree.stat(id));
        }
        Some(reply.finish())
    }

    fn long_ephemerals(self, prefix: Option<&str>) -> Option<LongReply> {
        let names = self.tree.ephemerals(self.session)?;
        if names.wire_bytes() < LONG_BYTES_MIN {
            return None;
        }
        let prefix = Self::prefix(prefix);
        let list = NameList {
            next_leaf: names.part_of(prefix),
            names: names.clone(),
            prefix: Arc::from(prefix),
        };
        let mut reply = Builder::default();
        reply.names(list, self.meter);
        Some(reply.finish())
    }

    fn long_parts(self, ops: &[MultiReadOp]) -> Result<Option<LongReply>, ErrorCode> {
        let (mut reply, mut verdicts) = (Builder::default(), Verdicts::default());
        for op in ops {
            self.long_part(op, &mut reply, &mut verdicts)?;
        }
        MultiResult::put_end(&mut reply.open);
        Ok((reply.bytes() >= LONG_BYTES_MIN).then(|| reply.finish()))
    }

    /// Goes on with a multiRead for about `units` of work; `None` if parts are left then.
    pub(super) fn some_parts(
        self,
        left: &mut PartsLeft,
        units: usize,
    ) -> Option<Result<LongReply, ErrorCode>> {
        while self.meter.units() < units || planted!("parts-are-not-charged") {
            let Some(op) = left.ops.next() else {
                let mut reply = std::mem::take(&mut left.reply);
                MultiResult::put_end(&mut reply.open);
                return Some(Ok(reply.finish()));
            };
            if let Err(code) = self.long_part(&op, &mut left.reply, &mut left.verdicts) {
                return Some(Err(code));
            }
        }
        None
    }

    /// Adds the result of a part. A reply that no client could take is an error.
    fn long_part(
        self,
        op: &MultiReadOp,
        reply: &mut Builder,
        verdicts: &mut Verdicts,
    ) -> Result<(), ErrorCode> {
        let before = reply.bytes();
        self.put_part(op, reply, verdicts);
        let added = reply.bytes() - before;
        self.meter.add(PART_NS + added.min(SHARED_BYTES_MIN) / BYTES_PER_NS);
        if reply.open.len() >= PIECE_BYTES {
            reply.close();
        }
        let is_too_long = reply.bytes() > MULTI_READ_BYTES_MAX;
        if is_too_long { Err(ErrorCode::MarshallingError) } else { Ok(()) }
    }

    fn put_part(self, op: &MultiReadOp, reply: &mut Builder, verdicts: &mut Verdicts) {
        probe!();
        let (MultiReadOp::GetChildren(body) | MultiReadOp::GetData(body)) = op;
        let id = match self.find_of_part(&body.path, verdicts) {
            Ok(id) => id,
            Err(code) => return MultiResult::Error(Some(code)).put_part(&mut reply.open),
        };
        match op {
            MultiReadOp::GetChildren(_) => {
                MultiResult::put_children_head(&mut reply.open);
                match self.tree.children(id) {
                    Some(children) => reply.names(all(children), self.meter),
                    None => put_length(0, &mut reply.open),
                }
            }
            MultiReadOp::GetData(_) => {
                MultiResult::put_data_head(&mut reply.open);
                reply.data(self.tree.data(id).as_ref());
                reply.stat(&self.tree.stat(id));
            }
        }
    }
}

/// The rest of a multiRead that takes several steps.
#[derive(Debug)]
pub(crate) struct PartsLeft {
    ops: std::vec::IntoIter<MultiReadOp>,
    identities: Arc<[Id]>,
    /// The results so far.
    reply: Builder,
    verdicts: Verdicts,
}

impl PartsLeft {
    pub(crate) fn new(ops: Vec<MultiReadOp>, identities: &Arc<[Id]>) -> Self {
        let identities = Arc::clone(identities);
        let (reply, verdicts) = (Builder::default(), Verdicts::default());
        Self { ops: ops.into_iter(), identities, reply, verdicts }
    }

    /// Whom the connection had proved to be.
    pub(super) fn identities(&self) -> Arc<[Id]> {
        Arc::clone(&self.identities)
    }
}

fn all(names: &Names) -> NameList {
    NameList { names: names.clone(), prefix: Arc::from(""), next_leaf: 0 }
}
