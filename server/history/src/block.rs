//! The bytes of a block: what sled keeps.
//!
//! A head (version, number of the first entry, count, zxids, times), the filter, and the entries.
//! Each entry holds what differs from the one before; sessions and identities are numbered in the
//! order in which the block first names them.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version, 1 |
//! | 8 | number of the first entry |
//! | 4 | number of entries |
//! | 8, 8 | first and last zxid |
//! | 4 | how many events of the last zxid there are, in blocks before as well |
//! | 8, 8 | first and last time, milliseconds since 1970 |
//! | 512 | filter |
//! | the rest | entries |

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use thiserror::Error;
use zoolet_jute::{Id, SessionId, Xid, Zxid};
use zoolet_replica::{HistoryCause, HistoryChange, HistoryEvent, ServerId};

use crate::entry::{Entry, EntryKind, Gap, GapReason};
use crate::filter::{FILTER_BYTES, Filter};
use crate::varint;

const VERSION: u8 = 1;
const HEAD_BYTES: usize = 1 + 8 + 4 + 8 + 8 + 4 + 8 + 8;

/// The bytes of entries with which a block is full. sled keeps values of this size in its log; of
/// values above 12 KiB it makes files of their own, which are not synced with it.
pub(crate) const BLOCK_BYTES: usize = 8 << 10;

/// What a path may have in a block; the rest of a longer one is cut off.
const PATH_BYTES_MAX: usize = 2000;

/// What an identity may have in a block.
const ID_BYTES_MAX: usize = 256;

/// The identities of one connection that are kept.
const IDS_MAX: usize = 8;

/// How many of the identities that a block has named last are compared with those of an entry.
const IDENTITIES_COMPARED: usize = 16;

/// A block cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a block of the history is damaged: {0}")]
pub(crate) struct BlockError(&'static str);

/// The head of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// The number of the first entry.
    pub(crate) first: u64,
    /// How many entries there are.
    pub(crate) count: u32,
    pub(crate) first_zxid: Zxid,
    pub(crate) last_zxid: Zxid,
    /// How many events of the last zxid there are, in blocks before as well.
    pub(crate) at_last: u32,
    pub(crate) first_ms: i64,
    pub(crate) last_ms: i64,
}

impl Head {
    /// The number behind that of the last entry.
    pub(crate) fn end(&self) -> u64 {
        self.first.saturating_add(u64::from(self.count))
    }

    /// Reads the head of a block, and returns it with the filter and the bytes of the entries.
    pub(crate) fn read(mut block: &[u8]) -> Result<(Self, &[u8], &[u8]), BlockError> {
        if block.len() < HEAD_BYTES + FILTER_BYTES {
            return Err(BlockError("it is too short"));
        }
        if block.get_u8() != VERSION {
            return Err(BlockError("its version is unknown"));
        }
        let head = Self {
            first: block.get_u64(),
            count: block.get_u32(),
            first_zxid: Zxid(block.get_i64()),
            last_zxid: Zxid(block.get_i64()),
            at_last: block.get_u32(),
            first_ms: block.get_i64(),
            last_ms: block.get_i64(),
        };
        let (filter, entries) = block.split_at(FILTER_BYTES);
        Ok((head, filter, entries))
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_u8(VERSION);
        out.put_u64(self.first);
        out.put_u32(self.count);
        out.put_i64(self.first_zxid.0);
        out.put_i64(self.last_zxid.0);
        out.put_u32(self.at_last);
        out.put_i64(self.first_ms);
        out.put_i64(self.last_ms);
    }
}

/// What an entry is written or read against: the one before it, and what the block has named.
#[derive(Debug, Default)]
struct Context {
    zxid: i64,
    time_ms: i64,
    cxid: i64,
    path: Vec<u8>,
    sessions: Vec<SessionId>,
    identities: Vec<Arc<[Id]>>,
}

/// A block that is being filled.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    head: Head,
    filter: Filter,
    entries: Vec<u8>,
    context: Context,
}

impl BlockBuilder {
    /// A block whose first entry has this number, behind one that ends at this time.
    pub(crate) fn new(first: u64, last_ms: i64) -> Self {
        Self {
            head: Head { first, last_ms, ..Head::default() },
            filter: Filter::new(),
            entries: Vec::with_capacity(BLOCK_BYTES + BLOCK_BYTES / 4),
            context: Context::default(),
        }
    }

    pub(crate) fn head(&self) -> &Head {
        &self.head
    }

    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= BLOCK_BYTES
    }

    /// Adds an event.
    pub(crate) fn event(&mut self, event: &HistoryEvent) {
        self.filter.add(event);
        self.count(event.zxid, event.time_ms);
        self.context.put_event(event, &mut self.entries);
    }

    /// Adds a gap, at the time of the entry before it.
    pub(crate) fn gap(&mut self, gap: Gap) {
        self.filter.add_gap();
        self.count(gap.through, self.head.last_ms);
        self.context.put_gap(gap, &mut self.entries);
    }

    fn count(&mut self, zxid: Zxid, time_ms: i64) {
        let head = &mut self.head;
        if head.count == 0 {
            (head.first_zxid, head.first_ms) = (zxid, time_ms);
        }
        (head.last_zxid, head.last_ms) = (zxid, time_ms);
        head.count += 1;
    }

    /// Notes up to where the log was handed over, and how many events of that transaction there are.
    pub(crate) fn reached(&mut self, zxid: Zxid, events: u32) {
        (self.head.last_zxid, self.head.at_last) = (zxid, events);
    }

    /// The bytes of the block, as it is now.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES + FILTER_BYTES + self.entries.len());
        self.head.put(&mut out);
        out.extend_from_slice(self.filter.bytes());
        out.extend_from_slice(&self.entries);
        out
    }
}

/// Reads the entries of a block.
pub(crate) fn entries(head: &Head, mut bytes: &[u8]) -> Result<Vec<Entry>, BlockError> {
    let mut context = Context::default();
    let mut entries = Vec::new();
    for offset in 0..head.count {
        let kind = context.take(&mut bytes).ok_or(BlockError("an entry is damaged"))?;
        entries.push(Entry { number: head.first.saturating_add(u64::from(offset)), kind });
    }
    Ok(entries)
}

/// What the lower half of the first byte of an entry says.
mod tag {
    pub(super) const CREATED: u8 = 0;
    pub(super) const DELETED: u8 = 1;
    pub(super) const DATA_CHANGED: u8 = 2;
    pub(super) const ACL_CHANGED: u8 = 3;
    pub(super) const SESSION_OPENED: u8 = 4;
    pub(super) const SESSION_RESUMED: u8 = 5;
    pub(super) const SESSION_ENDED: u8 = 6;
    pub(super) const GAP: u8 = 7;
}

/// What the upper half says of an event.
const CAUSES: [HistoryCause; 5] = [
    HistoryCause::Request,
    HistoryCause::SessionClosed,
    HistoryCause::SessionExpired,
    HistoryCause::Reaped,
    HistoryCause::Ensemble,
];

impl Context {
    fn put_event(&mut self, event: &HistoryEvent, out: &mut Vec<u8>) {
        let HistoryEvent { zxid, time_ms, server, session, cxid, identities, cause, change } =
            event;
        let cause = CAUSES.iter().position(|known| known == cause).unwrap_or(0);
        out.push(tag_of(change) | u8::try_from(cause).unwrap_or(0) << 4);
        put_difference(&mut self.zxid, zxid.0, out);
        put_difference(&mut self.time_ms, *time_ms, out);
        out.push(server.0);
        self.put_session(*session, out);
        put_difference(&mut self.cxid, i64::from(cxid.0), out);
        self.put_identities(identities, out);
        match change {
            HistoryChange::Created { path, owner, data } => {
                self.put_path(path, out);
                self.put_session(*owner, out);
                put_data(data.as_ref(), out);
            }
            HistoryChange::Deleted { path, owner, version } => {
                self.put_path(path, out);
                self.put_session(*owner, out);
                varint::put_signed(out, i64::from(*version));
            }
            HistoryChange::DataChanged { path, old_version, version, data } => {
                self.put_path(path, out);
                put_versions(*old_version, *version, out);
                put_data(data.as_ref(), out);
            }
            HistoryChange::AclChanged { path, old_version, version } => {
                self.put_path(path, out);
                put_versions(*old_version, *version, out);
            }
            HistoryChange::SessionOpened
            | HistoryChange::SessionResumed
            | HistoryChange::SessionEnded => {}
        }
    }

    fn put_gap(&mut self, gap: Gap, out: &mut Vec<u8>) {
        let reason = match gap.reason {
            GapReason::Snapshot => 0,
            GapReason::Overload => 1,
        };
        out.push(tag::GAP | reason << 4);
        put_difference(&mut self.zxid, gap.after.0, out);
        put_difference(&mut self.zxid, gap.through.0, out);
    }

    fn put_session(&mut self, session: SessionId, out: &mut Vec<u8>) {
        let known = self.sessions.iter().rposition(|known| *known == session);
        let place = known.unwrap_or(self.sessions.len());
        varint::put(out, place as u64);
        if known.is_none() {
            out.put_i64(session.0);
            self.sessions.push(session);
        }
    }

    fn put_identities(&mut self, identities: &Arc<[Id]>, out: &mut Vec<u8>) {
        let compared = self.identities.len().saturating_sub(IDENTITIES_COMPARED);
        let recent = self.identities.get(compared..).unwrap_or_default();
        let same = |known: &Arc<[Id]>| Arc::ptr_eq(known, identities) || known == identities;
        let known = recent.iter().rposition(same).map(|place| compared + place);
        let place = known.unwrap_or(self.identities.len());
        varint::put(out, place as u64);
        if known.is_none() {
            let kept = identities.len().min(IDS_MAX);
            varint::put(out, kept as u64);
            for Id { scheme, id } in identities.iter().take(kept) {
                let (scheme, id) = (scheme.as_deref(), id.as_deref().unwrap_or_default());
                // The rest is the hash of a password.
                let name = id.split(':').next().filter(|_| scheme == Some("digest"));
                put_text(scheme.unwrap_or_default(), ID_BYTES_MAX, out);
                put_text(name.unwrap_or(id), ID_BYTES_MAX, out);
            }
            self.identities.push(Arc::clone(identities));
        }
    }

    fn put_path(&mut self, path: &str, out: &mut Vec<u8>) {
        let path = cut(path, PATH_BYTES_MAX).as_bytes();
        let pairs = self.path.iter().zip(path);
        let shared = pairs.take_while(|(before, now)| before == now).count();
        let rest = path.get(shared..).unwrap_or_default();
        varint::put(out, shared as u64);
        varint::put(out, rest.len() as u64);
        out.extend_from_slice(rest);
        self.path.truncate(shared);
        self.path.extend_from_slice(rest);
    }

    fn take(&mut self, input: &mut &[u8]) -> Option<EntryKind> {
        let first = take_u8(input)?;
        let (tag, upper) = (first & 0xf, first >> 4);
        if tag == tag::GAP {
            let reason = if upper == 0 { GapReason::Snapshot } else { GapReason::Overload };
            let after = Zxid(take_difference(&mut self.zxid, input)?);
            let through = Zxid(take_difference(&mut self.zxid, input)?);
            return Some(EntryKind::Gap(Gap { after, through, reason }));
        }
        let cause = *CAUSES.get(usize::from(upper))?;
        let zxid = Zxid(take_difference(&mut self.zxid, input)?);
        let time_ms = take_difference(&mut self.time_ms, input)?;
        let server = ServerId(take_u8(input)?);
        let session = self.take_session(input)?;
        let cxid = Xid(i32::try_from(take_difference(&mut self.cxid, input)?).ok()?);
        let identities = self.take_identities(input)?;
        let change = self.take_change(tag, input)?;
        let event =
            HistoryEvent { zxid, time_ms, server, session, cxid, identities, cause, change };
        Some(EntryKind::Event(event))
    }

    fn take_change(&mut self, tag: u8, input: &mut &[u8]) -> Option<HistoryChange> {
        Some(match tag {
            tag::CREATED => HistoryChange::Created {
                path: self.take_path(input)?,
                owner: self.take_session(input)?,
                data: take_data(input)?,
            },
            tag::DELETED => HistoryChange::Deleted {
                path: self.take_path(input)?,
                owner: self.take_session(input)?,
                version: take_version(input)?,
            },
            tag::DATA_CHANGED => {
                let (path, version) = (self.take_path(input)?, take_version(input)?);
                let old_version = take_old_version(version, input)?;
                HistoryChange::DataChanged { path, old_version, version, data: take_data(input)? }
            }
            tag::ACL_CHANGED => {
                let (path, version) = (self.take_path(input)?, take_version(input)?);
                let old_version = take_old_version(version, input)?;
                HistoryChange::AclChanged { path, old_version, version }
            }
            tag::SESSION_OPENED => HistoryChange::SessionOpened,
            tag::SESSION_RESUMED => HistoryChange::SessionResumed,
            tag::SESSION_ENDED => HistoryChange::SessionEnded,
            _ => return None,
        })
    }

    fn take_session(&mut self, input: &mut &[u8]) -> Option<SessionId> {
        let place = usize::try_from(varint::take(input)?).ok()?;
        if let Some(session) = self.sessions.get(place) {
            return Some(*session);
        }
        if place > self.sessions.len() {
            return None;
        }
        let session = SessionId(i64::from_be_bytes(*input.split_off(..8)?.first_chunk()?));
        self.sessions.push(session);
        Some(session)
    }

    fn take_identities(&mut self, input: &mut &[u8]) -> Option<Arc<[Id]>> {
        let place = usize::try_from(varint::take(input)?).ok()?;
        if let Some(identities) = self.identities.get(place) {
            return Some(Arc::clone(identities));
        }
        if place > self.identities.len() {
            return None;
        }
        let mut identities = Vec::new();
        for _ in 0..varint::take(input)? {
            let scheme = take_text(input)?;
            identities.push(Id { scheme: Some(scheme), id: Some(take_text(input)?) });
        }
        let identities: Arc<[Id]> = identities.into();
        self.identities.push(Arc::clone(&identities));
        Some(identities)
    }

    fn take_path(&mut self, input: &mut &[u8]) -> Option<String> {
        let shared = usize::try_from(varint::take(input)?).ok()?;
        let rest = usize::try_from(varint::take(input)?).ok()?;
        if shared > self.path.len() {
            return None;
        }
        self.path.truncate(shared);
        self.path.extend_from_slice(input.split_off(..rest)?);
        String::from_utf8(self.path.clone()).ok()
    }
}

fn tag_of(change: &HistoryChange) -> u8 {
    match change {
        HistoryChange::Created { .. } => tag::CREATED,
        HistoryChange::Deleted { .. } => tag::DELETED,
        HistoryChange::DataChanged { .. } => tag::DATA_CHANGED,
        HistoryChange::AclChanged { .. } => tag::ACL_CHANGED,
        HistoryChange::SessionOpened => tag::SESSION_OPENED,
        HistoryChange::SessionResumed => tag::SESSION_RESUMED,
        HistoryChange::SessionEnded => tag::SESSION_ENDED,
    }
}

fn put_difference(before: &mut i64, now: i64, out: &mut Vec<u8>) {
    varint::put_signed(out, now.wrapping_sub(*before));
    *before = now;
}

fn take_difference(before: &mut i64, input: &mut &[u8]) -> Option<i64> {
    *before = before.wrapping_add(varint::take_signed(input)?);
    Some(*before)
}

fn put_versions(old_version: i32, version: i32, out: &mut Vec<u8>) {
    varint::put_signed(out, i64::from(version));
    varint::put_signed(out, i64::from(version) - i64::from(old_version));
}

fn take_version(input: &mut &[u8]) -> Option<i32> {
    i32::try_from(varint::take_signed(input)?).ok()
}

fn take_old_version(version: i32, input: &mut &[u8]) -> Option<i32> {
    i32::try_from(i64::from(version).checked_sub(varint::take_signed(input)?)?).ok()
}

/// One more than the length; zero for none.
fn put_data(data: Option<&Bytes>, out: &mut Vec<u8>) {
    let kept = data.map(|data| data.get(..data.len().min(BLOCK_BYTES / 4)).unwrap_or_default());
    varint::put(out, kept.map_or(0, |data| data.len() as u64 + 1));
    out.extend_from_slice(kept.unwrap_or_default());
}

#[allow(clippy::option_option, reason = "none of the outer is damage, of the inner a lack of data")]
fn take_data(input: &mut &[u8]) -> Option<Option<Bytes>> {
    let Some(length) = varint::take(input)?.checked_sub(1) else { return Some(None) };
    let data = input.split_off(..usize::try_from(length).ok()?)?;
    Some(Some(Bytes::copy_from_slice(data)))
}

fn put_text(text: &str, bytes_max: usize, out: &mut Vec<u8>) {
    let text = cut(text, bytes_max);
    varint::put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn take_text(input: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(varint::take(input)?).ok()?;
    String::from_utf8(input.split_off(..length)?.to_vec()).ok()
}

fn take_u8(input: &mut &[u8]) -> Option<u8> {
    input.split_off_first().copied()
}

/// The longest begin of a text that has at most this number of bytes.
fn cut(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
