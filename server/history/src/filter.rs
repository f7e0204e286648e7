//! Which paths and sessions a block may have something of: a Bloom filter.

use zoolet_jute::SessionId;
use zoolet_replica::{HistoryChange, HistoryEvent};

use crate::entries::{Outline, Reader};

/// The bytes of a filter. Of a full block with 800 paths and 800 sessions it passes one in twelve
/// that are not in it.
pub(crate) const FILTER_BYTES: usize = 1024;

/// The bits of a filter, as a mask of their numbers.
const BIT_MASK: u64 = FILTER_BYTES as u64 * 8 - 1;

/// How many bits are set for each key.
const BITS_PER_KEY: u32 = 3;

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(u64);

impl Key {
    /// Everything about a znode itself.
    pub(crate) fn path(path: &[u8]) -> Self {
        Self::of(b'p', path)
    }

    /// Everything about the children of a znode.
    pub(crate) fn parent(path: &[u8]) -> Self {
        Self::of(b'c', path)
    }

    /// Everything that a session did, and what became of its znodes.
    pub(crate) fn session(session: SessionId) -> Self {
        Self::of(b's', &session.0.to_be_bytes())
    }

    /// A gap.
    pub(crate) fn gap() -> Self {
        Self::of(b'g', b"")
    }

    /// Eight bytes at a time, each mixed by a multiplication and a shift. Filters are on disks: it
    /// stays as it is.
    fn of(kind: u8, bytes: &[u8]) -> Self {
        let mut hash = u64::from(kind) << 56 ^ bytes.len() as u64;
        let mut mix = |word: [u8; 8]| {
            hash = (hash ^ u64::from_be_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash ^= hash >> 29;
        };
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().copied().for_each(&mut mix);
        if !rest.is_empty() {
            let mut word = [0; 8];
            for (byte, from) in word.iter_mut().zip(rest) {
                *byte = *from;
            }
            mix(word);
        }
        // The high bits depend on all of the input.
        Self(hash.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20)
    }

    /// Byte and bit of the places of the key.
    fn places(self) -> impl Iterator<Item = (usize, u8)> {
        (0..BITS_PER_KEY).map(move |round| {
            let bit = self.0 >> (13 * round) & BIT_MASK;
            let byte = usize::try_from(bit / 8).unwrap_or(0);
            (byte, 1 << (bit % 8))
        })
    }
}

/// The filter of one block that is being filled.
#[derive(Debug)]
pub(crate) struct Filter<'a>(pub(crate) &'a mut [u8]);

impl Filter<'_> {
    /// Adds what an event may be looked for by.
    pub(crate) fn add(&mut self, event: &HistoryEvent) {
        if let Some(path) = event.change.path() {
            self.add_key(Key::path(path.as_bytes()));
            if let Some(parent) = parent_of(path) {
                self.add_key(Key::parent(parent.as_bytes()));
            }
        }
        if event.session != SessionId::NONE {
            self.add_key(Key::session(event.session));
        }
        let owner = HistoryChange::owner(&event.change);
        if owner != SessionId::NONE && owner != event.session {
            self.add_key(Key::session(owner));
        }
    }

    /// Adds what an event may be looked for by that is being read; all before it in the block were
    /// added.
    pub(crate) fn add_outline(&mut self, reader: &Reader, outline: &Outline) {
        if outline.is_new_path {
            self.add_key(Key::path(reader.path()));
        }
        if let Some(parent) = reader.parent().filter(|_| outline.is_new_parent) {
            self.add_key(Key::parent(parent));
        }
        for session in outline.new_sessions.into_iter().flatten() {
            self.add_key(Key::session(session));
        }
    }

    /// Adds that there is a gap.
    pub(crate) fn add_gap(&mut self) {
        self.add_key(Key::gap());
    }

    fn add_key(&mut self, key: Key) {
        for (byte, bit) in key.places() {
            if let Some(byte) = self.0.get_mut(byte) {
                *byte |= bit;
            }
        }
    }
}

/// Whether a filter's bytes say that something of the key may be in its block.
pub(crate) fn may_have(filter: &[u8], key: Key) -> bool {
    key.places().all(|(byte, bit)| filter.get(byte).is_some_and(|set| set & bit != 0))
}

/// The path of the znode above; none above the root.
pub(crate) fn parent_of(path: &str) -> Option<&str> {
    match path.rsplit_once('/')? {
        ("", "") => None,
        ("", _) => Some("/"),
        (parent, _) => Some(parent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_found_and_little_else() {
        let mut bytes = [0; FILTER_BYTES];
        let mut filter = Filter(&mut bytes);
        for number in 0..800 {
            filter.add_key(Key::path(format!("/app/lock/place-{number:010}").as_bytes()));
            filter.add_key(Key::session(SessionId(0x100_0000_0000 + number)));
        }
        let passes = |key| may_have(&bytes, key);
        assert!(
            (0..800).all(|number| passes(Key::path(
                format!("/app/lock/place-{number:010}").as_bytes()
            )))
        );
        let wrong = (0..10_000)
            .filter(|number| passes(Key::path(format!("/other/{number}").as_bytes())))
            .count();
        assert!(wrong < 2000, "{wrong} of 10,000");
    }

    #[test]
    fn parents_are_the_paths_above() {
        for (path, parent) in [("/", None), ("/a", Some("/")), ("/a/b", Some("/a"))] {
            assert_eq!(parent_of(path), parent, "{path}");
        }
    }
}
