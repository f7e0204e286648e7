//! A sorted map for millions of small entries: leaves that are full where keys only rise. The nodes
//! of a `BTreeMap` are half empty there.

use std::borrow::Borrow;
use std::ops::Bound;

/// A change moves half of them.
const LEAF_ENTRIES_MAX: usize = 64;

/// A leaf with so few entries is joined with the next one, if there is room.
const LEAF_ENTRIES_FEW: usize = 8;

#[derive(Debug)]
pub(crate) struct SortedMap<K, V> {
    // Invariant: no leaf is empty, and their keys rise from leaf to leaf.
    leaves: Vec<Vec<(K, V)>>,
}

/// The number of a leaf, and a place in it.
type Position = (usize, usize);

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        Self { leaves: Vec::new() }
    }
}

impl<K: Ord, V> SortedMap<K, V> {
    pub(crate) fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }

    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.get_key_value(key).map(|(_, value)| value)
    }

    pub(crate) fn get_key_value<Q: Ord + ?Sized>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        let (leaf, place) = self.search(key).ok()?;
        self.leaves.get(leaf)?.get(place).map(|(key, value)| (key, value))
    }

    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let (leaf, place) = self.search(key).ok()?;
        self.leaves.get_mut(leaf)?.get_mut(place).map(|(_, value)| value)
    }

    /// Adds an entry; false, and the old value stays, if the key is there already.
    pub(crate) fn insert(&mut self, key: K, value: V) -> bool {
        let Err((number, place)) = self.search(&key) else { return false };
        let Some(leaf) = self.leaves.get_mut(number) else {
            self.leaves.push(vec![(key, value)]);
            return true;
        };
        let len = leaf.len();
        if len < LEAF_ENTRIES_MAX {
            put(leaf, place, (key, value));
        } else if place == len {
            self.leaves.insert(number + 1, vec![(key, value)]);
        } else {
            let middle = len / 2;
            let mut upper = leaf.split_off(middle);
            leaf.shrink_to_fit();
            if place <= middle {
                put(leaf, place, (key, value));
            } else {
                put(&mut upper, place - middle, (key, value));
            }
            self.leaves.insert(number + 1, upper);
        }
        true
    }

    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (number, place) = self.search(key).ok()?;
        let leaf = self.leaves.get_mut(number)?;
        let (_, value) = leaf.remove(place);
        let left = leaf.len();
        if left == 0 {
            self.leaves.remove(number);
        } else if left < LEAF_ENTRIES_FEW {
            self.join(number);
        }
        Some(value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.leaves.iter().flatten().map(|(key, value)| (key, value))
    }

    /// The entries from a key on, in order.
    pub(crate) fn range<'a, Q: Ord + ?Sized>(
        &'a self,
        from: Bound<&Q>,
    ) -> impl Iterator<Item = (&'a K, &'a V)> + use<'a, K, V, Q>
    where
        K: Borrow<Q>,
    {
        let (number, place) = match from {
            Bound::Unbounded => (0, 0),
            Bound::Included(key) => self.search(key).unwrap_or_else(|position| position),
            Bound::Excluded(key) => match self.search(key) {
                Ok((number, place)) => (number, place + 1),
                Err(position) => position,
            },
        };
        let leaves = self.leaves.get(number..).unwrap_or_default();
        leaves.iter().flatten().skip(place).map(|(key, value)| (key, value))
    }

    /// Where a key is, or else where it would be.
    fn search<Q: Ord + ?Sized>(&self, key: &Q) -> Result<Position, Position>
    where
        K: Borrow<Q>,
    {
        let begins_before =
            |leaf: &Vec<(K, V)>| leaf.first().is_some_and(|(first, _)| first.borrow() <= key);
        let number = self.leaves.partition_point(begins_before).saturating_sub(1);
        let Some(leaf) = self.leaves.get(number) else { return Err((number, 0)) };
        match leaf.binary_search_by(|(other, _)| other.borrow().cmp(key)) {
            Ok(place) => Ok((number, place)),
            Err(place) => Err((number, place)),
        }
    }

    /// Joins a leaf with the next one, if there is room.
    fn join(&mut self, number: usize) {
        let rest = self.leaves.get_mut(number..).and_then(|rest| rest.first_chunk_mut());
        if let Some([leaf, next]) = rest
            && next.len() < LEAF_ENTRIES_MAX / 2
        {
            leaf.append(next);
            leaf.shrink_to_fit();
            self.leaves.remove(number + 1);
        }
    }
}

/// Makes room for an entry, and for few beyond that.
fn put<T>(leaf: &mut Vec<T>, place: usize, entry: T) {
    if leaf.len() == leaf.capacity() {
        let room = LEAF_ENTRIES_MAX.saturating_sub(leaf.len());
        leaf.reserve_exact((leaf.len() / 4).clamp(1, room.max(1)));
    }
    leaf.insert(place, entry);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn check(map: &SortedMap<String, u32>, expected: &BTreeMap<String, u32>) {
        assert!(map.iter().eq(expected.iter()));
        for number in (0..3000).step_by(7) {
            let key = format!("n{number}");
            assert_eq!(map.get_key_value(&*key), expected.get_key_value(&key));
            for from in [Bound::Unbounded, Bound::Included(&*key), Bound::Excluded(&*key)] {
                let wanted = expected.range::<str, _>((from, Bound::Unbounded));
                assert!(map.range(from).take(200).eq(wanted.take(200)), "{from:?}");
            }
        }
    }

    #[test]
    fn it_is_a_sorted_map_whatever_comes_and_goes() {
        let (mut map, mut expected) = (SortedMap::default(), BTreeMap::new());
        let mut seed = 7_u32;
        for round in 0..30_000_u32 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let key = format!("n{}", (seed >> 8) % 3000);
            // It grows at first and shrinks in the end.
            if seed >> 28 < 11 - round / 3000 {
                assert_eq!(map.insert(key.clone(), round), !expected.contains_key(&key));
                expected.entry(key).or_insert(round);
            } else {
                assert_eq!(map.remove(&*key), expected.remove(&key));
            }
            if round % 3000 == 0 {
                check(&map, &expected);
            }
        }
        check(&map, &expected);
    }

    #[test]
    fn keys_that_rise_fill_their_leaves() {
        let mut map = SortedMap::default();
        (0..640).for_each(|key| assert!(map.insert(key, ())));
        let sizes: Vec<_> = map.leaves.iter().map(|leaf| (leaf.len(), leaf.capacity())).collect();
        assert_eq!(sizes, [(LEAF_ENTRIES_MAX, LEAF_ENTRIES_MAX); 10]);
    }
}
