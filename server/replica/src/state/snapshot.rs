//! The state as bytes, and back.
//!
//! ```text
//! version u8 · last zxid · feature level u32
//! ACLs     count u32 { number u32 · vector<ACL> }
//! sessions count u32 { id · timeout i32 · generation u64 · server u8 · boot u64 · attachment u64 }
//! fence    count u32 { server u8 · boot u64 · stream u64 · last u64 }
//! znodes   count u32 { parent u32 · name · data · ACL u32 · czxid mzxid pzxid ctime mtime ·
//!                      version aversion i32 · created u32 · kind u8 · argument i64 }
//! digest   u64
//! ```
//! All big-endian, texts and data as jute writes them. Znodes are numbered as they come, the root
//! first with itself as parent; apart from that a parent may come behind its child. Where the
//! bytes are cut into pieces means nothing.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use thiserror::Error;
use zoolet_jute::{Acl, Encode, SessionId, Zxid};

use super::State;
use super::chunk::{CHUNK_NODES, SHORT_BYTES_MAX, ZnodeChunk};
use super::sequence::{Admitted, ReplayFilter};
use super::session::{Owner, Session, Sessions};
use super::tree::{Tree, TreeBuilder};
use super::znode::{Kind, Znode, ZnodeId};
use crate::{Boot, FeatureLevel, ProposalNumber, ServerId};

const SNAPSHOT_VERSION: u8 = 2;
/// Pieces are about this long.
const PIECE_BYTES: usize = 64 << 10;
const NULL: i32 = -1;
/// What a znode has behind its data.
const NUMBERS_BYTES: usize = 4 + 5 * 8 + 3 * 4 + 1 + 8;

/// Why bytes are not a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RestoreError {
    /// The pieces could not be read.
    #[error("reading the snapshot: {0}")]
    Source(String),
    /// It ends too early.
    #[error("the snapshot ends inside {0}")]
    UnexpectedEnd(&'static str),
    /// It was written by another version of this program.
    #[error("the snapshot has format version {0}, not {SNAPSHOT_VERSION}")]
    Version(u8),
    /// A value that no snapshot has.
    #[error("the snapshot has a wrong {0}")]
    Invalid(&'static str),
    /// The content is not what was written.
    #[error("the snapshot's state has the digest {computed:#x}, not {stored:#x}")]
    Digest {
        /// The digest at the snapshot's end.
        stored: u64,
        /// The digest of its content.
        computed: u64,
    },
}

/// The state at one moment, as it can be written while the state goes on: an iterator over the
/// pieces of its bytes.
#[derive(Clone, Debug)]
pub struct SnapshotView {
    chunks: Vec<Arc<ZnodeChunk>>,
    acls: Vec<(u32, Arc<[Acl]>)>,
    sessions: Sessions,
    filter: ReplayFilter,
    last_zxid: Zxid,
    level: FeatureLevel,
    digest: u64,
    progress: WriteStage,
    buffer: BytesMut,
}

#[derive(Clone, Debug)]
enum WriteStage {
    Head,
    /// The next slot to write, and for each chunk the number of its first znode.
    Nodes {
        pending: usize,
        first: Vec<u32>,
    },
    Done,
}

impl SnapshotView {
    pub(super) fn of(state: &State) -> Self {
        Self {
            chunks: state.tree.chunks(),
            acls: state.tree.acls().iter().map(|(id, acl)| (id.0, Arc::clone(acl))).collect(),
            sessions: state.sessions.clone(),
            filter: state.filter.clone(),
            last_zxid: state.last_zxid,
            level: state.level,
            digest: state.digest(),
            progress: WriteStage::Head,
            buffer: BytesMut::new(),
        }
    }

    /// The last command that it holds.
    pub fn last_zxid(&self) -> Zxid {
        self.last_zxid
    }

    /// The digest of what it holds.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    fn write_head(&mut self) -> WriteStage {
        let out = &mut self.buffer;
        out.put_u8(SNAPSHOT_VERSION);
        self.last_zxid.encode(out);
        out.put_u32(self.level.0);
        out.put_u32(narrow(self.acls.len()));
        for (id, acl) in &self.acls {
            out.put_u32(*id);
            acl.to_vec().encode(out);
        }
        out.put_u32(narrow(self.sessions.len()));
        for (id, session) in self.sessions.iter() {
            id.encode(out);
            out.put_i32(session.timeout_ms);
            out.put_u64(session.generation);
            out.put_u8(session.owner.server.0);
            out.put_u64(session.owner.boot.0);
            out.put_u64(session.attachment.0);
        }
        out.put_u32(narrow(self.filter.iter().count()));
        for (server, admitted) in self.filter.iter() {
            out.put_u8(server.0);
            out.put_u64(admitted.boot.0);
            out.put_u64(admitted.stream);
            out.put_u64(admitted.last.0);
        }
        let mut total = 0;
        let mut first = Vec::with_capacity(self.chunks.len());
        for chunk in &self.chunks {
            first.push(total);
            total += narrow(chunk.count(CHUNK_NODES));
        }
        out.put_u32(total);
        WriteStage::Nodes { pending: 0, first }
    }

    /// The number of a znode among those that are written.
    fn number(&self, first: &[u32], id: ZnodeId) -> u32 {
        let (chunk, pending) = (id.0 as usize / CHUNK_NODES, id.0 as usize % CHUNK_NODES);
        let before = self.chunks.get(chunk).map_or(0, |nodes| nodes.count(pending));
        first.get(chunk).copied().unwrap_or_default() + narrow(before)
    }

    fn write_slot(&mut self, pending: usize, first: Vec<u32>) -> WriteStage {
        let Some(chunk) = self.chunks.get(pending / CHUNK_NODES).cloned() else {
            self.buffer.put_u64(self.digest);
            return WriteStage::Done;
        };
        let place = pending % CHUNK_NODES;
        if let (Some(node), Some(name)) = (chunk.get(place), chunk.name(place)) {
            let parent = self.number(&first, node.parent);
            self.buffer.put_u32(parent);
            name.encode(&mut self.buffer);
            write_data(chunk.data(place), &mut self.buffer);
            write_numbers(node, &mut self.buffer);
        }
        WriteStage::Nodes { pending: pending + 1, first }
    }
}

impl Iterator for SnapshotView {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        while self.buffer.len() < PIECE_BYTES {
            self.progress = match std::mem::replace(&mut self.progress, WriteStage::Done) {
                WriteStage::Head => self.write_head(),
                WriteStage::Nodes { pending, first } => self.write_slot(pending, first),
                WriteStage::Done => break,
            };
        }
        let length = self.buffer.len().min(PIECE_BYTES);
        (length > 0).then(|| self.buffer.split_to(length).freeze())
    }
}

fn narrow(count: usize) -> u32 {
    u32::try_from(count).expect("every table has fewer than 2³² entries")
}

fn write_data(data: Option<&[u8]>, out: &mut BytesMut) {
    let Some(data) = data else { return out.put_i32(NULL) };
    out.put_u32(narrow(data.len()));
    out.put_slice(data);
}

fn write_numbers(node: &Znode, out: &mut BytesMut) {
    out.put_u32(node.acl.0);
    for number in [node.czxid.0, node.mzxid.0, node.pzxid.0, node.ctime, node.mtime] {
        out.put_i64(number);
    }
    out.put_i32(node.version);
    out.put_i32(node.aversion);
    out.put_u32(node.created);
    let (tag, argument) = node.kind.to_parts();
    out.put_u8(tag);
    out.put_i64(argument);
}

/// Reads a state. Whatever the bytes are, it returns a state whose digest is the one that was
/// written, or what is wrong.
pub(super) fn restore<E: std::fmt::Display>(
    pieces: impl Iterator<Item = Result<Bytes, E>>,
) -> Result<State, RestoreError> {
    let mut source = PieceReader { pieces, buffer: Bytes::new() };
    let version = source.u8("version")?;
    if version != SNAPSHOT_VERSION {
        return Err(RestoreError::Version(version));
    }
    let last_zxid = Zxid(source.i64("zxid")?);
    if last_zxid.0 < 0 {
        return Err(RestoreError::Invalid("zxid"));
    }
    let level = FeatureLevel(source.u32("feature level")?);
    let mut tree = Tree::empty();
    let acls = read_acls(&mut source, &mut tree)?;
    let sessions = read_sessions(&mut source)?;
    let filter = read_filter(&mut source)?;
    let count = source.u32("znode count")?;
    let mut znodes = TreeBuilder::new(tree);
    for number in 0..count {
        let (node, name, data) = read_node(&mut source, number, &acls)?;
        if let Kind::Ephemeral(owner) = node.kind
            && sessions.get(owner).is_none()
        {
            return Err(RestoreError::Invalid("ephemeral owner"));
        }
        let name = std::str::from_utf8(&name).map_err(|_| RestoreError::Invalid("name"))?;
        if !znodes.add(node, name, data) {
            return Err(RestoreError::Invalid("tree"));
        }
    }
    let mut tree = znodes.finish().ok_or(RestoreError::Invalid("tree"))?;
    for acl in acls.values() {
        tree.release_acl(*acl);
    }
    let stored = source.u64("digest")?;
    source.end()?;
    let state = State { tree, sessions, filter, last_zxid, level, pending: None };
    let computed = state.digest();
    if computed == stored { Ok(state) } else { Err(RestoreError::Digest { stored, computed }) }
}

/// The numbers of ACLs in the snapshot, and their places here.
type AclNumbers = std::collections::BTreeMap<u32, super::access::AclId>;

fn read_acls<I, E>(source: &mut PieceReader<I>, tree: &mut Tree) -> Result<AclNumbers, RestoreError>
where
    I: Iterator<Item = Result<Bytes, E>>,
    E: std::fmt::Display,
{
    let mut numbers = AclNumbers::new();
    for _ in 0..source.u32("ACL count")? {
        let number = source.u32("ACL number")?;
        let mut acl = Vec::new();
        for _ in 0..source.u32("ACL length")? {
            let perms = source.i32("permissions")?;
            let scheme = source.text("scheme")?;
            let id = source.text("id")?;
            acl.push(Acl { perms, id: zoolet_jute::Id { scheme, id } });
        }
        if numbers.insert(number, tree.hold_acl(&acl)).is_some() {
            return Err(RestoreError::Invalid("ACL number"));
        }
    }
    Ok(numbers)
}

fn read_sessions<I, E>(source: &mut PieceReader<I>) -> Result<Sessions, RestoreError>
where
    I: Iterator<Item = Result<Bytes, E>>,
    E: std::fmt::Display,
{
    let mut sessions = Sessions::default();
    for _ in 0..source.u32("session count")? {
        let id = SessionId(source.i64("session")?);
        let timeout_ms = source.i32("timeout")?;
        let generation = source.u64("generation")?;
        let server = ServerId(source.u8("owner")?);
        let owner = Owner { server, boot: Boot(source.u64("boot")?) };
        let attachment = ProposalNumber(source.u64("attachment")?);
        sessions.insert(id, Session { timeout_ms, generation, owner, attachment });
    }
    Ok(sessions)
}

fn read_filter<I, E>(source: &mut PieceReader<I>) -> Result<ReplayFilter, RestoreError>
where
    I: Iterator<Item = Result<Bytes, E>>,
    E: std::fmt::Display,
{
    let mut filter = ReplayFilter::default();
    for _ in 0..source.u32("fence count")? {
        let server = ServerId(source.u8("fence")?);
        let (boot, stream) = (Boot(source.u64("boot")?), source.u64("stream")?);
        let last = ProposalNumber(source.u64("number")?);
        filter.insert(server, Admitted { boot, stream, last });
    }
    Ok(filter)
}

fn read_node<I, E>(
    source: &mut PieceReader<I>,
    number: u32,
    acls: &AclNumbers,
) -> Result<(Znode, Bytes, Option<Bytes>), RestoreError>
where
    I: Iterator<Item = Result<Bytes, E>>,
    E: std::fmt::Display,
{
    let parent = source.u32("parent")?;
    let name = source.slice("name")?.ok_or(RestoreError::Invalid("name"))?;
    let is_root = number == 0;
    if name.is_empty() != is_root || name.contains(&b'/') || is_root && parent != 0 {
        return Err(RestoreError::Invalid("name"));
    }
    // Short data is copied to where short data is kept.
    let is_long = |data: &Bytes| data.len() > SHORT_BYTES_MAX;
    let data = source.slice("data")?;
    let data = data.map(|data| if is_long(&data) { Bytes::copy_from_slice(&data) } else { data });
    let mut numbers = source.take(NUMBERS_BYTES, "numbers of a znode")?;
    let acl = *acls.get(&numbers.get_u32()).ok_or(RestoreError::Invalid("ACL"))?;
    let mut node = Znode::built_in(ZnodeId(parent), acl);
    node.czxid = Zxid(numbers.get_i64());
    node.mzxid = Zxid(numbers.get_i64());
    node.pzxid = Zxid(numbers.get_i64());
    node.ctime = numbers.get_i64();
    node.mtime = numbers.get_i64();
    node.version = numbers.get_i32();
    node.aversion = numbers.get_i32();
    node.created = numbers.get_u32();
    let kind = Kind::from_parts(numbers.get_u8(), numbers.get_i64());
    node.kind = kind.ok_or(RestoreError::Invalid("kind"))?;
    Ok((node, name, data))
}

/// The pieces as one stream of bytes.
struct PieceReader<I> {
    pieces: I,
    buffer: Bytes,
}

impl<I, E> PieceReader<I>
where
    I: Iterator<Item = Result<Bytes, E>>,
    E: std::fmt::Display,
{
    /// The next bytes. A length is not trusted: the buffer grows only by what really comes.
    fn take(&mut self, length: usize, field: &'static str) -> Result<Bytes, RestoreError> {
        if self.buffer.len() < length {
            let mut joined = BytesMut::from(&*self.buffer);
            while joined.len() < length {
                let piece = self.pieces.next().ok_or(RestoreError::UnexpectedEnd(field))?;
                joined.extend_from_slice(&piece.map_err(|e| RestoreError::Source(e.to_string()))?);
            }
            self.buffer = joined.freeze();
        }
        Ok(self.buffer.split_to(length))
    }

    fn u8(&mut self, field: &'static str) -> Result<u8, RestoreError> {
        Ok(self.take(1, field)?.get_u8())
    }

    fn u32(&mut self, field: &'static str) -> Result<u32, RestoreError> {
        Ok(self.take(4, field)?.get_u32())
    }

    fn i32(&mut self, field: &'static str) -> Result<i32, RestoreError> {
        Ok(self.take(4, field)?.get_i32())
    }

    fn u64(&mut self, field: &'static str) -> Result<u64, RestoreError> {
        Ok(self.take(8, field)?.get_u64())
    }

    fn i64(&mut self, field: &'static str) -> Result<i64, RestoreError> {
        Ok(self.take(8, field)?.get_i64())
    }

    /// A slice, which keeps a whole piece alive.
    fn slice(&mut self, field: &'static str) -> Result<Option<Bytes>, RestoreError> {
        let length = self.i32(field)?;
        if length == NULL {
            return Ok(None);
        }
        let length = usize::try_from(length).map_err(|_| RestoreError::Invalid(field))?;
        self.take(length, field).map(Some)
    }

    fn text(&mut self, field: &'static str) -> Result<Option<String>, RestoreError> {
        let text = self.slice(field)?.map(|bytes| String::from_utf8(bytes.to_vec()));
        text.transpose().map_err(|_| RestoreError::Invalid(field))
    }

    fn end(mut self) -> Result<(), RestoreError> {
        let rest = self.pieces.try_fold(self.buffer.len(), |sum, piece| match piece {
            Ok(piece) => Ok(sum + piece.len()),
            Err(error) => Err(RestoreError::Source(error.to_string())),
        })?;
        if rest == 0 { Ok(()) } else { Err(RestoreError::Invalid("end")) }
    }
}
