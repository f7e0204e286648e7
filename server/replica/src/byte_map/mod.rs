//! A sorted map from byte strings that takes little more than their bytes: names and paths.
//!
//! The keys of a leaf are in one buffer, so none has an allocation of its own. A copy shares
//! everything and costs nothing; what changes later is copied leaf by leaf.

mod leaf;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub(crate) use self::leaf::Leaf;

/// A copy of a leaf costs about a microsecond.
const LEAF_KEYS_MAX: usize = 128;

/// A leaf with so few keys is joined with the next one, if there is room.
const LEAF_KEYS_FEW: usize = 16;

/// The most bytes of keys in a leaf, unless one key has more: a change moves the keys behind it.
const LEAF_BYTES_MAX: usize = 16 << 10;

#[derive(Clone, Debug)]
pub(crate) struct ByteMap<V> {
    // Invariant: no leaf is empty, and their keys rise from leaf to leaf.
    parts: Arc<Vec<Part<V>>>,
    len: usize,
    key_bytes: usize,
}

#[derive(Clone, Debug)]
struct Part<V> {
    /// No key in the leaf is less, and all before it are. The first leaf takes lesser ones, too.
    from: Arc<[u8]>,
    leaf: Arc<Leaf<V>>,
}

impl<V> Default for ByteMap<V> {
    fn default() -> Self {
        Self { parts: Arc::default(), len: 0, key_bytes: 0 }
    }
}

impl<V> ByteMap<V> {
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes of all keys.
    pub(crate) const fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&V> {
        let leaf = self.leaf(self.part_of(key))?;
        leaf.get(leaf.search(key).ok()?).map(|(_, value)| value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &V)> {
        self.parts.iter().flat_map(|part| part.leaf.iter())
    }

    /// The leaves in order; each is freed when it was used.
    pub(crate) fn into_leaves(self) -> Leaves<V>
    where
        V: Clone,
    {
        Leaves(Arc::unwrap_or_clone(self.parts).into_iter())
    }

    /// A leaf by its number; `None` behind the last.
    pub(crate) fn leaf(&self, number: usize) -> Option<&Leaf<V>> {
        self.parts.get(number).map(|part| &*part.leaf)
    }

    /// The number of the leaf in which a key would be.
    pub(crate) fn part_of(&self, key: &[u8]) -> usize {
        self.parts.partition_point(|part| *part.from <= *key).saturating_sub(1)
    }
}

impl<V: Clone> ByteMap<V> {
    /// Adds a key; false if it is there already.
    pub(crate) fn insert(&mut self, key: &[u8], value: V) -> bool {
        let number = self.part_of(key);
        let place = match self.leaf(number).map(|leaf| leaf.search(key)) {
            Some(Ok(_)) => return false,
            Some(Err(place)) => place,
            None => 0,
        };
        let parts = Arc::make_mut(&mut self.parts);
        match parts.get_mut(number) {
            None => {
                // Most maps have one leaf.
                parts.reserve_exact(1);
                parts.push(Part { from: Arc::default(), leaf: Arc::new(Leaf::of(key, value)) });
            }
            Some(part) => {
                let upper = Arc::make_mut(&mut part.leaf).insert_or_split(place, key, value);
                if let Some(upper) = upper {
                    let from = upper.get(0).map(|(key, _)| Arc::from(key)).unwrap_or_default();
                    parts.insert(number + 1, Part { from, leaf: Arc::new(upper) });
                }
            }
        }
        self.len += 1;
        self.key_bytes += key.len();
        true
    }

    /// Removes a key, and returns its value.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<V> {
        let number = self.part_of(key);
        let place = self.leaf(number)?.search(key).ok()?;
        let parts = Arc::make_mut(&mut self.parts);
        let leaf = Arc::make_mut(&mut parts.get_mut(number)?.leaf);
        let value = leaf.remove(place)?;
        let (len, bytes) = (self.len, self.key_bytes);
        let is_counted = len > 0 && bytes >= key.len();
        invariant!(is_counted, "a key of {} bytes is one of {len} of {bytes}", key.len());
        self.len -= 1;
        self.key_bytes -= key.len();
        let left = leaf.len();
        if left == 0 {
            parts.remove(number);
        } else if left < LEAF_KEYS_FEW {
            Self::join(parts, number);
        }
        Some(value)
    }

    /// Joins a leaf with the next one, if there is room.
    fn join(parts: &mut Vec<Part<V>>, number: usize) {
        let Some([part, next]) = parts.get_mut(number..).and_then(|rest| rest.first_chunk_mut())
        else {
            return;
        };
        let bytes = part.leaf.key_bytes() + next.leaf.key_bytes();
        if next.leaf.len() < LEAF_KEYS_MAX / 2 && bytes <= LEAF_BYTES_MAX {
            Arc::make_mut(&mut part.leaf).append(&next.leaf);
            parts.remove(number + 1);
        }
    }
}

/// The leaves of a map, in order.
#[derive(Clone, Debug)]
pub(crate) struct Leaves<V>(std::vec::IntoIter<Part<V>>);

impl<V> Iterator for Leaves<V> {
    type Item = Arc<Leaf<V>>;

    fn next(&mut self) -> Option<Arc<Leaf<V>>> {
        self.0.next().map(|part| part.leaf)
    }
}
