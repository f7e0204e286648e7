//! Some neighboring entries of a map.

use super::{LEAF_BYTES_MAX, LEAF_KEYS_MAX};

#[derive(Clone, Debug)]
pub(crate) struct Leaf<V> {
    /// All keys, one after the other.
    keys: Vec<u8>,
    // Invariant: the ends rise, and the last is the length of `keys`.
    entries: Vec<Entry<V>>,
}

#[derive(Clone, Debug)]
struct Entry<V> {
    /// Where its key ends in the buffer; it begins where the one before ends.
    end: u32,
    value: V,
}

fn narrow(length: usize) -> u32 {
    u32::try_from(length).expect("a key is shorter than a frame")
}

/// Makes room for `more`, and for little beyond that: most leaves are small, or full.
fn reserve<T>(all: &mut Vec<T>, more: usize) {
    if all.capacity() - all.len() < more {
        all.reserve_exact(more.max(all.len() / 4));
    }
}

impl<V> Leaf<V> {
    pub(super) fn of(key: &[u8], value: V) -> Self {
        Self { keys: key.to_vec(), entries: vec![Entry { end: narrow(key.len()), value }] }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn key_bytes(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn get(&self, place: usize) -> Option<(&[u8], &V)> {
        let entry = self.entries.get(place)?;
        Some((self.keys.get(self.start(place)..entry.end as usize)?, &entry.value))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &V)> {
        let mut start = 0;
        self.entries.iter().filter_map(move |entry| {
            let end = entry.end as usize;
            let key = self.keys.get(start..end);
            start = end;
            Some((key?, &entry.value))
        })
    }

    pub(crate) fn last_key(&self) -> Option<&[u8]> {
        self.get(self.len().checked_sub(1)?).map(|(key, _)| key)
    }

    /// The place of a key, or the one at which it would be.
    pub(super) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            let (other, _) = self.get(middle).expect("the middle is in between");
            match other.cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }

    /// Adds an entry at its place; gives back the upper part of a leaf that was full.
    pub(super) fn insert_or_split(&mut self, place: usize, key: &[u8], value: V) -> Option<Self> {
        let len = self.len();
        if len < LEAF_KEYS_MAX && self.keys.len() + key.len() <= LEAF_BYTES_MAX {
            self.insert(place, key, value);
            return None;
        }
        // Names mostly rise: a leaf that was filled in order stays full.
        if place == len {
            self.keys.shrink_to_fit();
            self.entries.shrink_to_fit();
            return Some(Self::of(key, value));
        }
        let middle = len / 2;
        let mut upper = self.split_off(middle);
        if place <= middle {
            self.insert(place, key, value);
        } else {
            upper.insert(place - middle, key, value);
        }
        Some(upper)
    }

    pub(super) fn remove(&mut self, place: usize) -> Option<V> {
        let (start, end) = (self.start(place), self.start(place + 1));
        let key = start..end;
        self.keys.drain(key.clone());
        for entry in self.entries.get_mut(place..)? {
            entry.end -= narrow(key.len());
        }
        Some(self.entries.remove(place).value)
    }

    /// Adds the entries of a leaf whose keys are greater.
    pub(super) fn append(&mut self, next: &Self)
    where
        V: Clone,
    {
        let shift = narrow(self.keys.len());
        reserve(&mut self.keys, next.keys.len());
        self.keys.extend_from_slice(&next.keys);
        reserve(&mut self.entries, next.entries.len());
        let moved = |entry: &Entry<V>| Entry { end: entry.end + shift, value: entry.value.clone() };
        self.entries.extend(next.entries.iter().map(moved));
    }

    /// Where the key of a place begins.
    fn start(&self, place: usize) -> usize {
        let before = place.checked_sub(1).and_then(|before| self.entries.get(before));
        before.map_or(0, |before| before.end as usize)
    }

    fn insert(&mut self, place: usize, key: &[u8], value: V) {
        let start = self.start(place);
        reserve(&mut self.keys, key.len());
        self.keys.extend_from_slice(key);
        if let Some(moved) = self.keys.get_mut(start..) {
            moved.rotate_right(key.len());
        }
        for entry in self.entries.get_mut(place..).into_iter().flatten() {
            entry.end += narrow(key.len());
        }
        reserve(&mut self.entries, 1);
        self.entries.insert(place, Entry { end: narrow(start + key.len()), value });
    }

    fn split_off(&mut self, place: usize) -> Self {
        let start = self.start(place);
        let mut upper =
            Self { keys: self.keys.split_off(start), entries: self.entries.split_off(place) };
        for entry in &mut upper.entries {
            entry.end -= narrow(start);
        }
        self.keys.shrink_to_fit();
        self.entries.shrink_to_fit();
        upper
    }
}
