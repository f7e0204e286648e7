//! Values by path, of which those at all ancestors of a path are found together.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};

/// Values by path.
///
/// A search for the ancestors of a path reads the path once, whatever else is in the table: the hash of
/// each ancestor is computed from that of the one above it.
#[derive(Clone, Debug)]
pub(crate) struct PathTable<P, V> {
    /// The paths of each hash: one, unless hashes collide.
    slots: BTreeMap<u64, Vec<(P, V)>>,
}

impl<P, V> Default for PathTable<P, V> {
    fn default() -> Self {
        Self { slots: BTreeMap::new() }
    }
}

impl<P: Borrow<str>, V> PathTable<P, V> {
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(crate) fn get(&self, path: &str) -> Option<&V> {
        self.in_slot(hash(path), path)
    }

    pub(crate) fn get_mut(&mut self, path: &str) -> Option<&mut V> {
        let slot = self.slots.get_mut(&hash(path))?.iter_mut();
        slot.map(|(known, value)| (&*known, value))
            .find_map(|(known, value)| (known.borrow() == path).then_some(value))
    }

    /// Inserts a value, and drops an earlier one.
    pub(crate) fn insert(&mut self, path: P, value: V) {
        self.remove(path.borrow());
        self.slots.entry(hash(path.borrow())).or_default().push((path, value));
    }

    pub(crate) fn remove(&mut self, path: &str) {
        let hash = hash(path);
        let Some(slot) = self.slots.get_mut(&hash) else { return };
        slot.retain(|(known, _)| known.borrow() != path);
        if slot.is_empty() {
            self.slots.remove(&hash);
        }
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.slots.values().flatten().map(|(_, value)| value)
    }

    /// Returns the ancestors of `path` in the table and the path itself, each as a part of `path`, the
    /// deepest first. Nothing is above the root, or above a path that is not absolute.
    pub(crate) fn at_or_above<'p>(
        &self,
        path: &'p str,
    ) -> impl DoubleEndedIterator<Item = (&'p str, &V)> {
        let mut found = Vec::new();
        let (mut hasher, mut hashed) = (DefaultHasher::new(), 0);
        let separators = path.match_indices('/').map(|(at, _)| at).filter(|at| *at > 1);
        let root = path.starts_with('/').then_some(1);
        let ends = root.into_iter().chain(separators.filter(|_| root.is_some()));
        for end in ends.filter(|end| *end < path.len()).chain([path.len()]) {
            let (Some(ancestor), Some(rest)) = (path.get(..end), path.get(hashed..end)) else {
                break;
            };
            hasher.write(rest.as_bytes());
            hashed = end;
            probe!();
            found.extend(self.in_slot(hasher.finish(), ancestor).map(|value| (ancestor, value)));
        }
        found.into_iter().rev()
    }

    fn in_slot(&self, hash: u64, path: &str) -> Option<&V> {
        let mut slot = self.slots.get(&hash)?.iter();
        slot.find(|(known, _)| known.borrow() == path).map(|(_, value)| value)
    }
}

fn hash(path: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(path.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::probe;

    fn table<'s>(paths: impl IntoIterator<Item = &'s str>) -> PathTable<String, ()> {
        let mut table = PathTable::default();
        paths.into_iter().for_each(|path| table.insert(path.to_owned(), ()));
        table
    }

    fn found<'p>(table: &PathTable<String, ()>, path: &'p str) -> Vec<&'p str> {
        table.at_or_above(path).map(|(path, ())| path).collect()
    }

    /// Returns the same, level by level.
    fn climbed<'p>(set: &BTreeSet<String>, path: &'p str) -> Vec<&'p str> {
        let above = path.rmatch_indices('/').map(|(end, _)| path.get(..end.max(1)).unwrap());
        let mut prefixes: Vec<&str> = std::iter::once(path).chain(above).collect();
        prefixes.dedup();
        prefixes.retain(|prefix| set.contains(*prefix));
        prefixes
    }

    #[test]
    fn it_finds_what_a_climb_finds() {
        let mut random = 7_u64;
        let mut below = |end: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % end
        };
        let mut hits = 0;
        for _ in 0..20_000 {
            let mut path = || {
                let mut path = String::new();
                for _ in 0..below(5) {
                    // Names that begin with each other, and sort on both sides of the slash.
                    let names = ["a", "ab", "a-", "a.", "é", "è", "b"];
                    path.push('/');
                    path.push_str(names[usize::try_from(below(7)).unwrap()]);
                }
                if path.is_empty() { "/".to_owned() } else { path }
            };
            let mut set: BTreeSet<String> = (0..8).map(|_| path()).collect();
            let mut table = table(set.iter().map(String::as_str));
            let removed = path();
            set.remove(&removed);
            table.remove(&removed);
            let path = path();
            let climbed = climbed(&set, &path);
            assert_eq!(found(&table, &path), climbed, "{path} in {set:?}");
            assert_eq!(table.get(&path).is_some(), set.contains(&path));
            assert_eq!(table.values().count(), set.len());
            hits += climbed.len();
        }
        assert!(hits > 5_000, "{hits}");
    }

    #[test]
    fn what_is_not_absolute_lies_above_nothing() {
        let table = table(["", "a", "/"]);
        assert_eq!(found(&table, "/a"), ["/"]);
        assert_eq!(found(&table, "/"), ["/"]);
        assert_eq!(found(&table, "a/b"), [""; 0]);
        assert_eq!((found(&table, "a"), found(&table, "")), (vec!["a"], vec![""]));
    }

    /// Each sibling whose name begins with the same letters was compared with the whole path: with
    /// 11,000 of them one change took 60 ms.
    #[test]
    fn siblings_and_levels_that_are_not_ancestors_cost_nothing() {
        let mut paths: Vec<String> =
            (1..1000).map(|length| format!("/{}a", "b".repeat(length))).collect();
        paths.extend((1..1000).map(|length| format!("/{}", "b".repeat(length))));
        paths.extend((1..1000).map(|depth| format!("{}/d", "/c".repeat(depth))));
        let table = table(paths.iter().map(String::as_str));
        let lookups = |path: &str| {
            probe::take();
            assert_eq!(found(&table, path), [""; 0]);
            probe::take()
        };
        assert_eq!(lookups(&format!("/{}", "b".repeat(2000))), 2);
        assert_eq!(lookups(&"/c".repeat(1000)), 1001);
    }
}
