//! Some znodes with neighboring places, and what is of variable length in them: names and data.
//!
//! Short names and data are in one buffer for the whole chunk, so a znode needs no allocation of its
//! own; long ones are beside it, and copies of the chunk share them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::names::text;
use super::znode::Znode;

/// Znodes in a chunk.
pub(super) const CHUNK_NODES: usize = 64;

/// Data of at least this many bytes is referred to in a reply instead of being copied: below it a
/// copy is cheaper than another write to the socket.
pub const SHARED_BYTES_MIN: usize = 16 << 10;

/// The most bytes of a name and data in the buffer. With more, a copy of a chunk takes too long.
pub(super) const SHORT_BYTES_MAX: usize = 512;

/// The buffer is not made smaller for less.
const UNUSED_BYTES_FEW: usize = 512;

/// The `start` of a name and data that are not in the buffer, but in `ZnodeChunk::long`.
const LONG: u16 = u16::MAX;

/// The `data_bytes` of a znode without data, which is not the same as empty data.
const NULL: u32 = u32::MAX;

/// Where a znode's name and data are. Only the chunk changes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextPlace {
    /// The name in the chunk's buffer, directly before the data.
    start: u16,
    name_bytes: u16,
    data_bytes: u32,
}

impl TextPlace {
    /// No name and no data.
    pub(super) const EMPTY: Self = Self { start: 0, name_bytes: 0, data_bytes: NULL };

    /// The length of the data.
    pub(super) const fn data_bytes(self) -> u64 {
        if self.data_bytes == NULL { 0 } else { self.data_bytes as u64 }
    }

    fn name_end(self) -> usize {
        usize::from(self.start) + usize::from(self.name_bytes)
    }

    fn end(self) -> usize {
        self.name_end() + usize::try_from(self.data_bytes()).unwrap_or(usize::MAX)
    }

    /// What it has in the buffer.
    fn short_bytes(self) -> usize {
        if self.start == LONG { 0 } else { self.end() - usize::from(self.start) }
    }
}

/// A name and data that are too long for the buffer.
#[derive(Clone, Debug)]
struct LongText {
    name: Arc<str>,
    // Invariant: never a slice of a network buffer, which would keep the whole buffer alive.
    data: Option<Bytes>,
}

/// It is copied when it is written while a snapshot shares it, which costs 7 KiB and the buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct ZnodeChunk {
    nodes: Vec<Option<Znode>>,
    texts: Vec<u8>,
    /// The bytes of the buffer that no znode has any more.
    unused_bytes: usize,
    /// By place in the chunk.
    long: BTreeMap<usize, LongText>,
}

impl ZnodeChunk {
    pub(super) fn new() -> Self {
        Self { nodes: Vec::with_capacity(CHUNK_NODES), ..Self::default() }
    }

    pub(super) fn get(&self, place: usize) -> Option<&Znode> {
        self.nodes.get(place)?.as_ref()
    }

    /// A znode, to change anything but its name and data.
    pub(super) fn get_mut(&mut self, place: usize) -> Option<&mut Znode> {
        self.nodes.get_mut(place)?.as_mut()
    }

    /// The znodes before a place.
    pub(super) fn count(&self, before: usize) -> usize {
        self.nodes.iter().take(before).flatten().count()
    }

    pub(super) fn name(&self, place: usize) -> Option<&str> {
        let at = self.get(place)?.text;
        if at.start == LONG {
            return self.long.get(&place).map(|long| &*long.name);
        }
        self.texts.get(usize::from(at.start)..at.name_end()).map(text)
    }

    /// The data of a znode; `None` for null as well.
    pub(super) fn data(&self, place: usize) -> Option<&[u8]> {
        let at = self.get(place).filter(|node| node.text.data_bytes != NULL)?.text;
        if at.start == LONG {
            return self.long.get(&place)?.data.as_deref();
        }
        self.texts.get(at.name_end()..at.end())
    }

    /// The data of a znode to keep: long data is shared.
    pub(super) fn shared_data(&self, place: usize) -> Option<Bytes> {
        match self.long.get(&place) {
            Some(long) => long.data.clone(),
            None => self.data(place).map(Bytes::copy_from_slice),
        }
    }

    /// Puts a znode at a place that is free, or the next one.
    pub(super) fn insert(
        &mut self,
        place: usize,
        mut node: Znode,
        name: &str,
        data: Option<Bytes>,
    ) {
        node.text = self.put_text(place, name, data);
        match self.nodes.get_mut(place) {
            Some(free) => {
                invariant!(free.is_none(), "the free place {place} of a chunk has a znode");
                *free = Some(node);
            }
            None => self.nodes.push(Some(node)),
        }
        if self.nodes.len() == CHUNK_NODES && place + 1 == CHUNK_NODES {
            self.texts.shrink_to_fit();
        }
    }

    /// Takes a znode out; returns its long data, too.
    pub(super) fn remove(&mut self, place: usize) -> Option<(Znode, Option<Bytes>)> {
        let node = self.nodes.get_mut(place)?.take()?;
        let data = self.drop_text(place, node.text);
        Some((node, data))
    }

    /// Replaces the data of a znode; returns the former data if it was long.
    pub(super) fn set_data(&mut self, place: usize, data: Option<Bytes>) -> Option<Bytes> {
        let at = self.get(place)?.text;
        let fits = at.start != LONG
            && data.as_ref().is_some_and(|data| data.len() as u64 == at.data_bytes())
            && at.data_bytes != NULL;
        if fits {
            let old = self.texts.get_mut(at.name_end()..at.end());
            if let (Some(old), Some(data)) = (old, data) {
                old.copy_from_slice(&data);
            }
            return None;
        }
        let name = self.name(place).map(Box::<str>::from)?;
        let former = self.drop_text(place, at);
        if let Some(node) = self.get_mut(place) {
            node.text = TextPlace::EMPTY;
        }
        let text = self.put_text(place, &name, data);
        if let Some(node) = self.get_mut(place) {
            node.text = text;
        }
        former
    }

    fn put_text(&mut self, place: usize, name: &str, data: Option<Bytes>) -> TextPlace {
        let length = data.as_ref().map_or(0, Bytes::len);
        let data_bytes = data.as_ref().map_or(NULL, |data| narrow(data.len()));
        if name.len() + length > SHORT_BYTES_MAX {
            // Short data may be a slice of a network buffer, which would stay.
            let data = data.map(|data| {
                if length > SHORT_BYTES_MAX { data } else { Bytes::copy_from_slice(&data) }
            });
            self.long.insert(place, LongText { name: Arc::from(name), data });
            return TextPlace { start: LONG, name_bytes: 0, data_bytes };
        }
        self.make_room(name.len() + length);
        let start = self.texts.len();
        self.texts.extend_from_slice(name.as_bytes());
        self.texts.extend_from_slice(data.as_deref().unwrap_or_default());
        TextPlace { start: short(start), name_bytes: short(name.len()), data_bytes }
    }

    /// Returns the data if it was long.
    fn drop_text(&mut self, place: usize, at: TextPlace) -> Option<Bytes> {
        if at.start == LONG {
            return self.long.remove(&place)?.data;
        }
        if at.end() == self.texts.len() {
            self.texts.truncate(usize::from(at.start));
        } else {
            self.unused_bytes += at.short_bytes();
        }
        None
    }

    /// Makes room in the buffer, and for little beyond that once the chunk is full.
    fn make_room(&mut self, more: usize) {
        let used = self.texts.len() - self.unused_bytes;
        if self.unused_bytes > UNUSED_BYTES_FEW + used / 4 {
            self.compact(more);
        } else if self.nodes.len() < CHUNK_NODES {
            self.texts.reserve(more);
        } else if self.texts.capacity() - self.texts.len() < more {
            self.texts.reserve_exact(more.max(used / 8));
        }
    }

    /// Closes the gaps in the buffer.
    fn compact(&mut self, more: usize) {
        let used = self.texts.len() - self.unused_bytes;
        let mut texts = Vec::with_capacity(used + more);
        for node in self.nodes.iter_mut().flatten().filter(|node| node.text.start != LONG) {
            let at = usize::from(node.text.start)..node.text.end();
            node.text.start = short(texts.len());
            texts.extend_from_slice(self.texts.get(at).unwrap_or_default());
        }
        invariant!(texts.len() == used, "{} bytes of texts are counted as {used}", texts.len());
        self.texts = texts;
        self.unused_bytes = 0;
    }
}

/// Data as a chunk keeps it: the bytes of a network buffer are not kept by those of long data.
pub(super) fn own(data: Bytes) -> Bytes {
    if data.len() > SHORT_BYTES_MAX { Bytes::copy_from_slice(&data) } else { data }
}

/// A length of data.
fn narrow(length: usize) -> u32 {
    u32::try_from(length).ok().filter(|length| *length != NULL).expect("data fits in a frame")
}

/// A place or length in the buffer.
fn short(length: usize) -> u16 {
    u16::try_from(length).ok().filter(|length| *length != LONG).expect("the buffer is short")
}

#[cfg(test)]
mod tests {
    use super::super::access::AclId;
    use super::super::znode::ZnodeId;
    use super::*;

    type Model = [Option<(String, Option<Bytes>)>; CHUNK_NODES];

    fn check(chunk: &ZnodeChunk, model: &Model) {
        for (place, expected) in model.iter().enumerate() {
            let name = chunk.name(place).map(str::to_owned);
            assert_eq!(name, expected.as_ref().map(|(name, _)| name.clone()));
            let data = expected.as_ref().and_then(|(_, data)| data.clone());
            assert_eq!(chunk.data(place), data.as_deref());
            assert_eq!(chunk.shared_data(place), data);
        }
        assert_eq!(chunk.count(CHUNK_NODES), model.iter().flatten().count());
    }

    fn node() -> Znode {
        Znode::built_in(ZnodeId::ROOT, AclId(0))
    }

    #[test]
    fn texts_stay_with_their_znodes_whatever_comes_and_goes() {
        let (mut chunk, mut model) = (ZnodeChunk::new(), [const { None }; CHUNK_NODES]);
        for (place, expected) in model.iter_mut().enumerate() {
            chunk.insert(place, node(), "first", None);
            *expected = Some(("first".to_owned(), None));
        }
        let (mut seed, mut copies) = (3_u32, Vec::new());
        for round in 0..20_000 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let pick = |below: u32, shift: u32| ((seed >> shift) % below) as usize;
            let (place, length) = (pick(64, 8), [0, 7, 100, 505, 5000][pick(5, 16)]);
            let data = Some(Bytes::from(vec![seed.to_be_bytes()[0]; length]));
            let data = data.filter(|_| pick(9, 5) > 0);
            match &mut model[place] {
                Some(_) if pick(4, 20) == 0 => {
                    assert!(chunk.remove(place).is_some());
                    model[place] = None;
                }
                Some((_, before)) => {
                    chunk.set_data(place, data.clone());
                    *before = data;
                }
                free @ None => {
                    let name = "n".repeat(1 + pick(300, 12) * pick(3, 9));
                    chunk.insert(place, node(), &name, data.clone());
                    *free = Some((name, data));
                }
            }
            if round % 50 == 0 {
                check(&chunk, &model);
            }
            if round % 4000 == 0 {
                copies.push((chunk.clone(), model.clone()));
            }
        }
        for (chunk, model) in &copies {
            check(chunk, model);
        }
    }

    #[test]
    fn the_buffer_does_not_keep_what_was_replaced() {
        let mut chunk = ZnodeChunk::new();
        for place in 0..CHUNK_NODES {
            chunk.insert(place, node(), "name", Some(Bytes::from_static(&[1; 100])));
        }
        assert_eq!(chunk.texts.capacity(), CHUNK_NODES * 104);
        for length in 100..110 {
            for place in 0..CHUNK_NODES {
                chunk.set_data(place, Some(Bytes::from(vec![2; length])));
            }
        }
        let used = CHUNK_NODES * 113;
        let capacity = chunk.texts.capacity();
        assert!(capacity <= used + used / 2 + UNUSED_BYTES_FEW, "{capacity} for {used} bytes");
    }

    #[test]
    fn a_buffer_that_data_came_in_is_not_kept() {
        let frame = Bytes::from(vec![1; 100_000]);
        let (mut chunk, name) = (ZnodeChunk::new(), "n".repeat(SHORT_BYTES_MAX));
        for (place, length) in [10, SHORT_BYTES_MAX, SHORT_BYTES_MAX + 1].into_iter().enumerate() {
            chunk.insert(place, node(), &name, Some(own(frame.slice(..length))));
            chunk.set_data(place, Some(own(frame.slice(1..length))));
        }
        assert!(frame.is_unique());
    }
}
