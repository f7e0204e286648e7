//! Situations that are worth coming into: a night counts in how many of its seeds each came up, and
//! says which did not.
//!
//! They show in what servers log, in the plan of the faults, and in what clients saw.

mod facts;
mod list;
mod votes;

pub use self::facts::Facts;
use self::list::SITUATIONS;
use crate::checks::Counts;
use crate::run::Outcome;

/// Their names.
pub fn names() -> impl Iterator<Item = &'static str> {
    SITUATIONS.iter().map(|(name, _)| *name)
}

/// Those that came up in a run.
pub fn met(outcome: &Outcome, counts: &Counts) -> Vec<String> {
    let facts = Facts::of(outcome, counts);
    let came_up = SITUATIONS.iter().filter(|(_, is_met)| is_met(&facts));
    came_up.map(|(name, _)| (*name).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_has_a_name_of_its_own() {
        let all: BTreeSet<&str> = names().collect();
        assert_eq!(all.len(), names().count());
        assert!(all.len() >= 60, "{}", all.len());
    }
}
