//! Names in order, each with its znode: the children of a znode, or the ephemeral znodes of a
//! session by their paths.
//!
//! A copy shares everything and costs nothing; what changes later is copied leaf by leaf. So a
//! reply with 100,000 names holds on to a copy and is written without the lock.

use std::sync::Arc;

use super::znode::ZnodeId;

/// A copy of a leaf costs about 2 µs.
const LEAF_NAMES_MAX: usize = 128;

/// A leaf with so few names is joined with the next one, if there is room.
const LEAF_NAMES_FEW: usize = 16;

/// The bytes of the length in front of a name on the wire.
const LENGTH_BYTES: usize = 4;

pub(super) type Leaf = Vec<(Arc<str>, ZnodeId)>;

#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    // Invariant: no leaf is empty, and their names rise from leaf to leaf.
    leaves: Arc<Vec<Part>>,
    len: usize,
    bytes: usize,
}

#[derive(Clone, Debug)]
struct Part {
    /// No name in the leaf is less, and all before it are. The first leaf takes lesser ones, too.
    from: Arc<str>,
    leaf: Arc<Leaf>,
}

impl Names {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes of all names as a list on the wire, without the count.
    pub(super) const fn wire_bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn get(&self, name: &str) -> Option<ZnodeId> {
        let leaf = &self.leaves.get(self.part_of(name))?.leaf;
        let at = search(leaf, name).ok()?;
        leaf.get(at).map(|(_, id)| *id)
    }

    /// Adds a name; false if it is there already.
    pub(super) fn insert(&mut self, name: Arc<str>, id: ZnodeId) -> bool {
        let at = self.part_of(&name);
        let parts = Arc::make_mut(&mut self.leaves);
        let bytes = LENGTH_BYTES + name.len();
        match parts.get_mut(at) {
            None => parts.push(Part::new(vec![(name, id)])),
            Some(part) => {
                let Err(place) = search(&part.leaf, &name) else { return false };
                if let Some(next) = part.insert(place, name, id) {
                    parts.insert(at + 1, next);
                }
            }
        }
        self.len += 1;
        self.bytes += bytes;
        true
    }

    /// Removes a name, and returns its znode.
    pub(super) fn remove(&mut self, name: &str) -> Option<ZnodeId> {
        let at = self.part_of(name);
        let place = search(&self.leaves.get(at)?.leaf, name).ok()?;
        let parts = Arc::make_mut(&mut self.leaves);
        let part = parts.get_mut(at)?;
        let (_, id) = Arc::make_mut(&mut part.leaf).remove(place);
        let (len, bytes) = (self.len, self.bytes);
        let is_counted = len > 0 && bytes >= LENGTH_BYTES + name.len();
        invariant!(is_counted, "{name} is removed from {len} names of {bytes} bytes");
        self.len -= 1;
        self.bytes -= LENGTH_BYTES + name.len();
        let left = part.leaf.len();
        if left == 0 {
            parts.remove(at);
        } else if left < LEAF_NAMES_FEW
            && parts.get(at + 1).is_some_and(|next| next.leaf.len() < LEAF_NAMES_MAX / 2)
        {
            let next = parts.remove(at + 1);
            if let Some(part) = parts.get_mut(at) {
                Arc::make_mut(&mut part.leaf).extend(next.leaf.iter().cloned());
            }
        }
        Some(id)
    }

    /// The leaves in order; each is freed when it was used.
    pub(super) fn into_leaves(self) -> Leaves {
        Leaves(Arc::unwrap_or_clone(self.leaves).into_iter())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, ZnodeId)> {
        self.leaves.iter().flat_map(|part| part.leaf.iter()).map(|(name, id)| (name, *id))
    }

    /// A leaf by its number; `None` behind the last.
    pub(super) fn leaf(&self, number: usize) -> Option<Arc<Leaf>> {
        self.leaves.get(number).map(|part| Arc::clone(&part.leaf))
    }

    /// The number of the leaf in which a name would be.
    pub(super) fn part_of(&self, name: &str) -> usize {
        self.leaves.partition_point(|part| *part.from <= *name).saturating_sub(1)
    }
}

/// The paths of a session's ephemeral znodes at one moment, in order.
#[derive(Clone, Debug, Default)]
pub struct PathList(Names);

impl PathList {
    pub(super) fn of(names: Option<&Names>) -> Self {
        Self(names.cloned().unwrap_or_default())
    }

    /// The paths.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(path, _)| &**path)
    }
}

/// The leaves of a list, in order.
#[derive(Clone, Debug)]
pub(super) struct Leaves(std::vec::IntoIter<Part>);

impl Iterator for Leaves {
    type Item = Arc<Leaf>;

    fn next(&mut self) -> Option<Arc<Leaf>> {
        self.0.next().map(|part| part.leaf)
    }
}

fn search(leaf: &Leaf, name: &str) -> Result<usize, usize> {
    leaf.binary_search_by(|(other, _)| (**other).cmp(name))
}

impl Part {
    fn new(leaf: Leaf) -> Self {
        let from = leaf.first().map_or_else(|| Arc::from(""), |(name, _)| Arc::clone(name));
        Self { from, leaf: Arc::new(leaf) }
    }

    /// Adds a name at its place; gives back the upper half of a leaf that was full.
    fn insert(&mut self, place: usize, name: Arc<str>, id: ZnodeId) -> Option<Self> {
        if self.leaf.len() < LEAF_NAMES_MAX {
            Arc::make_mut(&mut self.leaf).insert(place, (name, id));
            return None;
        }
        // Names mostly rise: a leaf that was filled in order stays full.
        if place == LEAF_NAMES_MAX {
            return Some(Self::new(vec![(name, id)]));
        }
        let leaf = Arc::make_mut(&mut self.leaf);
        let mut upper = leaf.split_off(LEAF_NAMES_MAX / 2);
        match place.checked_sub(leaf.len()) {
            Some(place) => upper.insert(place, (name, id)),
            None => leaf.insert(place, (name, id)),
        }
        Some(Self::new(upper))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn check(names: &Names, expected: &BTreeMap<String, u32>) {
        let found: Vec<_> = names.iter().map(|(name, id)| (name.to_string(), id.0)).collect();
        let wanted: Vec<_> = expected.iter().map(|(name, id)| (name.clone(), *id)).collect();
        assert_eq!(found, wanted);
        assert_eq!(names.len(), expected.len());
        assert_eq!(names.wire_bytes(), expected.keys().map(|name| 4 + name.len()).sum::<usize>());
    }

    #[test]
    fn names_are_a_sorted_map_whatever_comes_and_goes() {
        let (mut names, mut expected) = (Names::default(), BTreeMap::new());
        let mut seed = 7_u32;
        for round in 0..30_000_u32 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let name = format!("n{}", (seed >> 8) % 3000);
            // It grows at first and shrinks in the end.
            if seed >> 28 < 11 - round / 3000 {
                let is_new = names.insert(Arc::from(&*name), ZnodeId(round));
                assert_eq!(is_new, !expected.contains_key(&name));
                expected.entry(name).or_insert(round);
            } else {
                names.remove(&name);
                expected.remove(&name);
            }
            if round % 1000 == 0 {
                check(&names, &expected);
                assert!(expected.iter().all(|(name, id)| names.get(name) == Some(ZnodeId(*id))));
                assert_eq!(names.get("n"), None);
            }
        }
        check(&names, &expected);
    }

    #[test]
    fn a_copy_stays_as_it_was() {
        let mut names = Names::default();
        for number in 0..1000 {
            names.insert(Arc::from(format!("{number:04}")), ZnodeId(number));
        }
        let copy = names.clone();
        for number in 0..1000 {
            names.remove(&format!("{number:04}"));
        }
        assert!(names.is_empty());
        assert_eq!(copy.iter().count(), 1000);
        assert_eq!(copy.get("0999"), Some(ZnodeId(999)));
    }
}
