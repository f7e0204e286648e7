//! Servers that cannot get commands into the log though nothing fails any more.

use std::time::Duration;

use crate::SimTime;
use crate::history::Trouble;
use crate::trace::Mark;

/// How long behind the last fault servers may lose commands: elections, and what was lost with a disk,
/// are over by then.
const SETTLED_WITHIN: Duration = Duration::from_secs(10);

/// What a server says that has lost commands because no leader has committed them.
const LOST: [&str; 2] = ["proposals are lost", "in time"];

/// Finds each such loss in a time without faults, which begins at `healed_at`.
pub(crate) fn find(marks: &[Mark], healed_at: SimTime) -> Vec<Trouble> {
    let settled_at = healed_at + SETTLED_WITHIN;
    let lost = marks.iter().filter(|mark| {
        mark.at > settled_at && LOST.into_iter().all(|text| mark.text.contains(text))
    });
    lost.map(|mark| Trouble {
        at: mark.at,
        server: mark.server(),
        text: format!("{}, more than {SETTLED_WITHIN:?} behind the last fault", mark.text),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_are_lost_though_nothing_fails_are_found() {
        let found = |at_ms, why: &str| {
            let text = format!("WARN proposals are lost through=17 why=\"{why}\"");
            let mark = Mark { at: SimTime::from_ms(at_ms), who: "server 2".to_owned(), text };
            find(&[mark], SimTime::from_ms(5000)).len()
        };
        let why = "no leader has committed them in time";
        assert_eq!((found(15_000, why), found(15_001, why)), (0, 1));
        assert_eq!(found(15_001, "a snapshot has replaced the state"), 0);
    }
}
