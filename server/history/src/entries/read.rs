//! How entries are read: whole, or only what a filter and a head want of them.

use std::sync::Arc;

use bytes::Bytes;
use zoolet_jute::{Id, SessionId, Xid, Zxid};
use zoolet_replica::{HistoryChange, HistoryEvent, ServerId};

use super::{CAUSES, Context, Known, flag, tag};
use crate::entry::{EntryKind, Gap, GapReason};
use crate::varint;

/// Reads entries.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    context: Context,
    /// How many bytes of the path precede its last slash; none if it has no slash.
    parent: Option<usize>,
}

/// What a head and a filter want of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outline {
    pub(crate) zxid: Zxid,
    pub(crate) time_ms: i64,
    /// Whether it has a path, and not that of the event before it.
    pub(crate) is_new_path: bool,
    /// Whether that path is below another znode than that of the event before it.
    pub(crate) is_new_parent: bool,
    /// The sessions in it that no event before it has named.
    pub(crate) new_sessions: [Option<SessionId>; 2],
}

impl Reader {
    /// Forgets what was read: a block begins.
    pub(crate) fn clear(&mut self) {
        self.context.clear();
        self.parent = None;
    }

    /// The path of the last event that has one.
    pub(crate) fn path(&self) -> &[u8] {
        &self.context.path
    }

    /// The path of the znode above it.
    pub(crate) fn parent(&self) -> Option<&[u8]> {
        let path = &self.context.path;
        match self.parent? {
            0 if path.len() == 1 => None,
            0 => path.get(..1),
            length => path.get(..length),
        }
    }

    fn zxid(&self, flags: u8, input: &mut &[u8]) -> Option<i64> {
        let has_difference = flags & flag::ZXID != 0;
        let difference = if has_difference { varint::take_signed(input)? } else { 1 };
        Some(self.context.zxid.wrapping_add(difference))
    }

    /// Takes an event off the front, and returns what is wanted of it. Allocates nothing, unless it
    /// names identities for the first time.
    pub(crate) fn outline(&mut self, input: &mut &[u8]) -> Option<Outline> {
        let (first, flags) = take_first(input)?;
        let tag = first & 0xf;
        let known = self.context.sessions.len();
        self.take_common(flags, input)?;
        let (mut is_new_path, mut is_new_parent) = (false, false);
        if tag <= tag::ACL_CHANGED {
            (is_new_path, is_new_parent) = self.take_path_bytes(flags, input)?;
        }
        match tag {
            tag::CREATED => drop(self.take_session(input)?),
            tag::DELETED => {
                self.take_session(input)?;
                varint::take(input)?;
            }
            tag::DATA_CHANGED | tag::ACL_CHANGED => drop(take_versions(flags, input)?),
            tag::SESSION_OPENED | tag::SESSION_RESUMED | tag::SESSION_ENDED => {}
            _ => return None,
        }
        take_data_bytes(flags, input)?;
        let new = |place: usize| {
            let session = self.context.sessions.get(known + place)?.session;
            (session != SessionId::NONE).then_some(session)
        };
        let new_sessions = [new(0), new(1)];
        let (zxid, time_ms) = (Zxid(self.context.zxid), self.context.time_ms);
        Some(Outline { zxid, time_ms, is_new_path, is_new_parent, new_sessions })
    }

    /// Takes an entry off the front.
    pub(crate) fn entry(&mut self, input: &mut &[u8]) -> Option<EntryKind> {
        let (tag, upper) = (input.first()? & 0xf, input.first()? >> 4);
        if tag != tag::GAP {
            return self.event(input).map(EntryKind::Event);
        }
        take_u8(input)?;
        let mut zxids = [Zxid(0); 2];
        for zxid in &mut zxids {
            self.context.zxid = self.context.zxid.wrapping_add(varint::take_signed(input)?);
            *zxid = Zxid(self.context.zxid);
        }
        let [after, through] = zxids;
        let reason = GapReason::of(upper)?;
        Some(EntryKind::Gap(Gap { after, through, reason }))
    }

    /// Takes an event off the front.
    pub(crate) fn event(&mut self, input: &mut &[u8]) -> Option<HistoryEvent> {
        let (first, flags) = take_first(input)?;
        let cause = *CAUSES.get(usize::from(first >> 4 & 0x7))?;
        let Known { session, server, cxid, identities } = self.take_common(flags, input)?;
        let identities = Arc::clone(self.context.identities.get(identities)?);
        let change = self.take_change((first & 0xf, flags), input)?;
        let (zxid, time_ms) = (Zxid(self.context.zxid), self.context.time_ms);
        let (server, cxid) = (ServerId(server), Xid(cxid));
        Some(HistoryEvent { zxid, time_ms, server, session, cxid, identities, cause, change })
    }

    /// Takes what all events have, and returns what the session has now.
    fn take_common(&mut self, flags: u8, input: &mut &[u8]) -> Option<Known> {
        let has = |flag| flags & flag != 0;
        self.context.zxid = self.zxid(flags, input)?;
        if has(flag::TIME) {
            self.context.time_ms = self.context.time_ms.wrapping_add(varint::take_signed(input)?);
        }
        let place = self.take_session(input)?;
        let mut known = *self.context.sessions.get(place)?;
        if has(flag::SERVER) {
            known.server = take_u8(input)?;
        }
        let difference = if has(flag::CXID) { varint::take_signed(input)? } else { 1 };
        known.cxid = known.cxid.wrapping_add(i32::try_from(difference).ok()?);
        if has(flag::IDENTITIES) {
            known.identities = self.take_identities(input)?;
        }
        *self.context.sessions.get_mut(place)? = known;
        Some(known)
    }

    fn take_change(&mut self, (tag, flags): (u8, u8), input: &mut &[u8]) -> Option<HistoryChange> {
        Some(match tag {
            tag::CREATED => {
                let (path, owner) = (self.take_path(flags, input)?, self.take_owner(input)?);
                HistoryChange::Created { path, owner, data: take_data(flags, input)? }
            }
            tag::DELETED => {
                let (path, owner) = (self.take_path(flags, input)?, self.take_owner(input)?);
                HistoryChange::Deleted { path, owner, version: take_version(input)? }
            }
            tag::DATA_CHANGED => {
                let path = self.take_path(flags, input)?;
                let (old_version, version) = take_versions(flags, input)?;
                let data = take_data(flags, input)?;
                HistoryChange::DataChanged { path, old_version, version, data }
            }
            tag::ACL_CHANGED => {
                let path = self.take_path(flags, input)?;
                let (old_version, version) = take_versions(flags, input)?;
                HistoryChange::AclChanged { path, old_version, version }
            }
            tag::SESSION_OPENED => HistoryChange::SessionOpened,
            tag::SESSION_RESUMED => HistoryChange::SessionResumed,
            tag::SESSION_ENDED => HistoryChange::SessionEnded,
            _ => return None,
        })
    }

    fn take_owner(&mut self, input: &mut &[u8]) -> Option<SessionId> {
        let place = self.take_session(input)?;
        Some(self.context.sessions.get(place)?.session)
    }

    /// Returns the place of the session.
    fn take_session(&mut self, input: &mut &[u8]) -> Option<usize> {
        let place = usize::try_from(varint::take(input)?).ok()?;
        let sessions = &mut self.context.sessions;
        if place > sessions.len() {
            return None;
        }
        if place == sessions.len() {
            let session = SessionId(i64::from_be_bytes(*input.split_off(..8)?.first_chunk()?));
            sessions.push(Known::new(session));
        }
        Some(place)
    }

    /// Returns the place of the identities.
    fn take_identities(&mut self, input: &mut &[u8]) -> Option<usize> {
        let place = usize::try_from(varint::take(input)?).ok()?;
        let known = self.context.identities.len();
        if place > known {
            return None;
        }
        if place == known {
            let mut identities = Vec::new();
            for _ in 0..varint::take(input)? {
                let scheme = take_text(input)?;
                identities.push(Id { scheme: Some(scheme), id: Some(take_text(input)?) });
            }
            self.context.identities.push(identities.into());
        }
        Some(place)
    }

    fn take_path(&mut self, flags: u8, input: &mut &[u8]) -> Option<String> {
        self.take_path_bytes(flags, input)?;
        String::from_utf8(self.context.path.clone()).ok()
    }

    /// Returns whether the path, and the one above it, differ from those before.
    fn take_path_bytes(&mut self, flags: u8, input: &mut &[u8]) -> Option<(bool, bool)> {
        let shared = usize::try_from(varint::take(input)?).ok()?;
        let path = &mut self.context.path;
        let mut rest = path.len().checked_sub(shared)?;
        if flags & flag::LENGTH != 0 {
            rest = usize::try_from(varint::take(input)?).ok()?;
        }
        let rest = input.split_off(..rest)?;
        let is_new = !rest.is_empty() || shared < path.len();
        path.truncate(shared);
        path.extend_from_slice(rest);
        let is_slash = |byte: &u8| *byte == b'/';
        let before = self.parent.filter(|before| *before < shared);
        self.parent = match (rest.iter().rposition(is_slash), before) {
            (Some(place), _) => Some(shared + place),
            (None, Some(before)) => Some(before),
            (None, None) => path.iter().take(shared).rposition(is_slash),
        };
        // The root is above `/a`, and has none above it.
        let is_same_parent =
            before.is_some() && self.parent == before && (before != Some(0) || !is_new);
        Some((is_new, !is_same_parent))
    }
}

/// The first byte of an event, and its flags.
fn take_first(input: &mut &[u8]) -> Option<(u8, u8)> {
    let first = take_u8(input)?;
    Some((first, if first & flag::ANY == 0 { 0 } else { take_u8(input)? }))
}

fn take_version(input: &mut &[u8]) -> Option<i32> {
    i32::try_from(varint::take_signed(input)?).ok()
}

/// The version before, and the version.
fn take_versions(flags: u8, input: &mut &[u8]) -> Option<(i32, i32)> {
    let version = take_version(input)?;
    let has_difference = flags & flag::VERSIONS != 0;
    let difference = if has_difference { varint::take_signed(input)? } else { 1 };
    let old_version = i64::from(version).checked_sub(difference)?;
    Some((i32::try_from(old_version).ok()?, version))
}

#[allow(clippy::option_option, reason = "none of the outer is damage, of the inner a lack of data")]
fn take_data(flags: u8, input: &mut &[u8]) -> Option<Option<Bytes>> {
    Some(take_data_bytes(flags, input)?.map(Bytes::copy_from_slice))
}

#[allow(clippy::option_option, reason = "none of the outer is damage, of the inner a lack of data")]
fn take_data_bytes<'a>(flags: u8, input: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    if flags & flag::DATA == 0 {
        return Some(None);
    }
    let length = usize::try_from(varint::take(input)?).ok()?;
    Some(Some(input.split_off(..length)?))
}

fn take_text(input: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(varint::take(input)?).ok()?;
    String::from_utf8(input.split_off(..length)?.to_vec()).ok()
}

fn take_u8(input: &mut &[u8]) -> Option<u8> {
    input.split_off_first().copied()
}
