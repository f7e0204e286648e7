//! Feature levels: no committed entry is above the level on which the entries in front of it have
//! agreed, so that a server of an older release can read it (`docs/decisions/0012-feature-levels.md`).

use super::{Counts, Run, Violation};

/// Reports each entry that is.
pub(super) fn check(run: &Run<'_>, _: &mut Counts) -> Vec<Violation> {
    let too_high = run.model.too_high.iter();
    too_high
        .map(|entry| Violation {
            promise: "levels",
            at: entry.at,
            what: format!(
                "index {} of the log needs the feature level {}, and {} is agreed on in front of it",
                entry.index, entry.needed, entry.agreed
            ),
        })
        .collect()
}
