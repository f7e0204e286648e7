//! Which of many paths lie above another one.

use std::ops::Bound;

/// The members of a sorted set that are `path` or lie above it, the deepest first, each as a part
/// of `path`. `last` returns the last member up to a bound.
///
/// It is asked once for each member that is found and for each that shares some of the path: not
/// for each level of a path that may have a hundred thousand.
pub(super) fn at_or_above<'p, 's>(
    path: &'p str,
    last: impl Fn(Bound<&str>) -> Option<&'s str>,
) -> impl Iterator<Item = &'p str> {
    let mut bound = Bound::Included(path);
    std::iter::from_fn(move || {
        loop {
            // What lies above the path is no later than it, and a beginning of all in between.
            let member = last(bound)?;
            let shared = common_start(path, member);
            if shared.len() < member.len() {
                bound = Bound::Included(shared);
                continue;
            }
            bound = Bound::Excluded(shared);
            let rest = path.get(shared.len()..).unwrap_or_default();
            // Above the root, and above a path that is not absolute, there is nothing.
            let is_above = shared == "/" || shared.starts_with('/') && rest.starts_with('/');
            if is_above || rest.is_empty() {
                return Some(shared);
            }
        }
    })
}

/// What two texts begin with, as a part of the first.
fn common_start<'a>(text: &'a str, other: &str) -> &'a str {
    let both = text.bytes().zip(other.bytes());
    let bytes = both.take_while(|(one, other)| one == other).count();
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;

    use super::*;

    fn found<'p>(set: &BTreeSet<String>, path: &'p str) -> Vec<&'p str> {
        at_or_above(path, |bound| {
            set.range::<str, _>((Bound::Unbounded, bound)).next_back().map(String::as_str)
        })
        .collect()
    }

    /// The same, level by level.
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
            let set: BTreeSet<String> = (0..6).map(|_| path()).collect();
            let path = path();
            let climbed = climbed(&set, &path);
            assert_eq!(found(&set, &path), climbed, "{path} in {set:?}");
            hits += climbed.len();
        }
        assert!(hits > 5_000, "{hits}");
    }

    #[test]
    fn what_is_not_absolute_lies_above_nothing() {
        let set: BTreeSet<String> = ["", "a", "/"].map(str::to_owned).into();
        assert_eq!(found(&set, "/a"), ["/"]);
        assert_eq!(found(&set, "a/b"), [""; 0]);
        assert_eq!((found(&set, "a"), found(&set, "")), (vec!["a"], vec![""]));
    }

    #[test]
    fn the_depth_of_a_path_costs_nothing() {
        let path = "/a".repeat(10_000);
        let set: BTreeSet<String> = ["/", "/a/a", "/a/b", "/z"].map(str::to_owned).into();
        let asked = Cell::new(0);
        let found: Vec<&str> = at_or_above(&path, |bound| {
            asked.set(asked.get() + 1);
            set.range::<str, _>((Bound::Unbounded, bound)).next_back().map(String::as_str)
        })
        .collect();
        assert_eq!(found, ["/a/a", "/"]);
        assert!(asked.get() <= 4, "{}", asked.get());
    }
}
