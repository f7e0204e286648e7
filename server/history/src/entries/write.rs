//! How entries are written.

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use zoolet_jute::{Id, SessionId};
use zoolet_replica::{HistoryChange, HistoryEvent};

use super::{CAUSES, Context, Known, flag, tag};
use crate::entry::Gap;
use crate::varint;

/// What a path may have in a block; the rest of a longer one is cut off.
const PATH_BYTES_MAX: usize = 2000;

/// What data may have in a block.
const DATA_BYTES_MAX: usize = 2048;

/// What an identity may have in a block.
const ID_BYTES_MAX: usize = 256;

/// The identities of one connection that are kept.
const IDS_MAX: usize = 8;

/// How many of the identities that a block has named last are compared with those of an entry.
const IDENTITIES_COMPARED: usize = 16;

/// The sessions that are found without a search.
const RECENT: usize = 64;

/// Writes entries.
#[derive(Debug)]
pub(crate) struct Writer {
    context: Context,
    /// Sessions that were written a while ago, each at the place that follows from its number.
    recent: Box<[Recent; RECENT]>,
}

/// A session, and one more than its place among those of the block; zero for none.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    session: SessionId,
    place: u32,
}

impl Default for Writer {
    fn default() -> Self {
        Self { context: Context::default(), recent: Box::new([Recent::default(); RECENT]) }
    }
}

impl Writer {
    /// Forgets what was written: a block begins.
    pub(crate) fn clear(&mut self) {
        self.context.clear();
        self.recent.fill(Recent::default());
    }

    /// Appends an event.
    pub(crate) fn event(&mut self, event: &HistoryEvent, out: &mut Vec<u8>) {
        let HistoryEvent { zxid, time_ms, server, session, cxid, identities, cause, change } =
            event;
        let cause = CAUSES.iter().position(|known| known == cause).unwrap_or(0);
        let begin = out.len();
        // The flags are put in at the end.
        let mut flags = 0;
        out.extend([tag_of(change) | u8::try_from(cause).unwrap_or(0) << 4, 0]);
        let Context { zxid: zxid_before, time_ms: time_before, .. } = &mut self.context;
        if zxid.0 != zxid_before.wrapping_add(1) {
            flags |= flag::ZXID;
            varint::put_signed(out, zxid.0.wrapping_sub(*zxid_before));
        }
        if time_ms != time_before {
            flags |= flag::TIME;
            varint::put_signed(out, time_ms.wrapping_sub(*time_before));
        }
        (*zxid_before, *time_before) = (zxid.0, *time_ms);
        let place = self.session(*session, out);
        let Some(mut known) = self.context.sessions.get(place).copied() else { return };
        if known.server != server.0 {
            flags |= flag::SERVER;
            out.push(server.0);
        }
        if cxid.0 != known.cxid.wrapping_add(1) {
            flags |= flag::CXID;
            varint::put_signed(out, i64::from(cxid.0.wrapping_sub(known.cxid)));
        }
        let before = self.context.identities.get(known.identities);
        if !before.is_some_and(|before| is_same(before, identities)) {
            flags |= flag::IDENTITIES;
            known.identities = self.identities(identities, out);
        }
        (known.server, known.cxid) = (server.0, cxid.0);
        if let Some(place) = self.context.sessions.get_mut(place) {
            *place = known;
        }
        flags |= self.change(change, out);
        put_flags(begin, flags, out);
    }

    /// Returns the flags.
    fn change(&mut self, change: &HistoryChange, out: &mut Vec<u8>) -> u8 {
        match change {
            HistoryChange::Created { path, owner, data } => {
                let flags = self.path(path, out);
                self.session(*owner, out);
                flags | put_data(data.as_ref(), out)
            }
            HistoryChange::Deleted { path, owner, version } => {
                let flags = self.path(path, out);
                self.session(*owner, out);
                varint::put_signed(out, i64::from(*version));
                flags
            }
            HistoryChange::DataChanged { path, old_version, version, data } => {
                let flags = self.path(path, out) | put_versions(*old_version, *version, out);
                flags | put_data(data.as_ref(), out)
            }
            HistoryChange::AclChanged { path, old_version, version } => {
                self.path(path, out) | put_versions(*old_version, *version, out)
            }
            HistoryChange::SessionOpened
            | HistoryChange::SessionResumed
            | HistoryChange::SessionEnded => 0,
        }
    }

    /// Appends a gap.
    pub(crate) fn gap(&mut self, gap: Gap, out: &mut Vec<u8>) {
        out.push(tag::GAP | gap.reason.code() << 4);
        for zxid in [gap.after, gap.through] {
            varint::put_signed(out, zxid.0.wrapping_sub(self.context.zxid));
            self.context.zxid = zxid.0;
        }
    }

    /// Returns the place of the session.
    fn session(&mut self, session: SessionId, out: &mut Vec<u8>) -> usize {
        let sessions = &mut self.context.sessions;
        let mixed = session.0.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let slot = usize::try_from(mixed).unwrap_or(0) % RECENT;
        let Some(recent) = self.recent.get_mut(slot) else { return 0 };
        if recent.place > 0 && recent.session == session {
            let place = recent.place - 1;
            varint::put(out, u64::from(place));
            return place as usize;
        }
        let known = sessions.iter().rposition(|known| known.session == session);
        let place = known.unwrap_or(sessions.len());
        varint::put(out, place as u64);
        if known.is_none() {
            out.put_i64(session.0);
            sessions.push(Known::new(session));
        }
        *recent = Recent { session, place: u32::try_from(place + 1).unwrap_or(0) };
        place
    }

    /// Returns the place of the identities.
    fn identities(&mut self, identities: &Arc<[Id]>, out: &mut Vec<u8>) -> usize {
        let named = &mut self.context.identities;
        let compared = named.len().saturating_sub(IDENTITIES_COMPARED);
        let last = named.get(compared..).unwrap_or_default();
        let known = last.iter().rposition(|known| is_same(known, identities));
        let place = known.map_or(named.len(), |place| compared + place);
        varint::put(out, place as u64);
        if known.is_none() {
            put_identities(identities, out);
            named.push(Arc::clone(identities));
        }
        place
    }

    /// Returns the flags.
    fn path(&mut self, path: &str, out: &mut Vec<u8>) -> u8 {
        let before = &mut self.context.path;
        let path = cut(path, PATH_BYTES_MAX).as_bytes();
        let shared = shared_bytes(before, path);
        let rest = path.get(shared..).unwrap_or_default();
        varint::put(out, shared as u64);
        let is_as_long = path.len() == before.len();
        if !is_as_long {
            varint::put(out, rest.len() as u64);
        }
        out.extend_from_slice(rest);
        before.truncate(shared);
        before.extend_from_slice(rest);
        if is_as_long { 0 } else { flag::LENGTH }
    }
}

/// Puts the flags behind the first byte of an entry, or takes the room for them away.
fn put_flags(begin: usize, flags: u8, out: &mut Vec<u8>) {
    if flags == 0 {
        out.remove(begin + 1);
        return;
    }
    if let Some([first, place]) = out.get_mut(begin..begin + 2) {
        *first |= flag::ANY;
        *place = flags;
    }
}

fn is_same(one: &Arc<[Id]>, other: &Arc<[Id]>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

/// How many bytes at the begin are the same: eight at a time.
fn shared_bytes(before: &[u8], now: &[u8]) -> usize {
    let (words, _) = before.as_chunks::<8>();
    let (now_words, _) = now.as_chunks::<8>();
    let same = words.iter().zip(now_words).take_while(|(before, now)| before == now).count() * 8;
    let rest = before.iter().zip(now).skip(same).take_while(|(before, now)| before == now);
    same + rest.count()
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

/// Returns the flags.
fn put_versions(old_version: i32, version: i32, out: &mut Vec<u8>) -> u8 {
    varint::put_signed(out, i64::from(version));
    let difference = i64::from(version) - i64::from(old_version);
    if difference == 1 {
        return 0;
    }
    varint::put_signed(out, difference);
    flag::VERSIONS
}

/// Returns the flags.
fn put_data(data: Option<&Bytes>, out: &mut Vec<u8>) -> u8 {
    let Some(data) = data else { return 0 };
    let kept = data.get(..data.len().min(DATA_BYTES_MAX)).unwrap_or_default();
    varint::put(out, kept.len() as u64);
    out.extend_from_slice(kept);
    flag::DATA
}

fn put_identities(identities: &[Id], out: &mut Vec<u8>) {
    let kept = identities.len().min(IDS_MAX);
    varint::put(out, kept as u64);
    for Id { scheme, id } in identities.iter().take(kept) {
        let (scheme, id) = (scheme.as_deref(), id.as_deref().unwrap_or_default());
        // The rest is the hash of a password.
        let name = id.split(':').next().filter(|_| scheme == Some("digest"));
        put_text(scheme.unwrap_or_default(), ID_BYTES_MAX, out);
        put_text(name.unwrap_or(id), ID_BYTES_MAX, out);
    }
}

fn put_text(text: &str, bytes_max: usize, out: &mut Vec<u8>) {
    let text = cut(text, bytes_max);
    varint::put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// The longest begin of a text that has at most this number of bytes.
fn cut(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or_default()
}
