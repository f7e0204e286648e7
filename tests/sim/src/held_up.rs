//! Servers that cannot get commands into the log though nothing fails any more.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::SimTime;
use crate::history::Trouble;
use crate::trace::Mark;

/// How long behind the last fault servers may lose commands: elections, and what was lost with a disk,
/// are over by then.
const SETTLED_WITHIN: Duration = Duration::from_secs(10);

/// What a server says that has lost commands because no leader has committed them.
const LOST: [&str; 2] = ["proposals are lost", "in time"];

/// What a server says that was removed: what is under way there is lost.
const REMOVED: &str = "this server was removed from the ensemble";

/// What a server says that is a member, or a member again.
const SERVES: [&str; 3] = ["to=Leader", "to=Follower", "to=Observer"];

/// Finds each such loss in a time without faults, which begins at `healed_at`.
pub(crate) fn find(marks: &[Mark], healed_at: SimTime) -> Vec<Trouble> {
    let settled_at = healed_at + SETTLED_WITHIN;
    let (mut removed, mut found) = (BTreeSet::new(), Vec::new());
    for mark in marks {
        let Some(server) = mark.server() else { continue };
        let says = |text: &str| mark.text.contains(text);
        if says(REMOVED) {
            removed.insert(server);
        } else if SERVES.into_iter().any(says) {
            removed.remove(&server);
        } else if mark.at > settled_at && LOST.into_iter().all(says) && !removed.contains(&server) {
            found.push(Trouble {
                at: mark.at,
                server: Some(server),
                text: format!("{}, more than {SETTLED_WITHIN:?} behind the last fault", mark.text),
            });
        }
    }
    found
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

    #[test]
    fn a_server_that_was_removed_loses_what_is_under_way() {
        let mark = |at_ms, text: &str| Mark {
            at: SimTime::from_ms(at_ms),
            who: "server 2".to_owned(),
            text: text.to_owned(),
        };
        let lost = "WARN proposals are lost why=\"no leader has committed them in time\"";
        let mut marks = vec![mark(15_001, "INFO this server was removed from the ensemble")];
        marks.push(mark(16_000, lost));
        assert!(find(&marks, SimTime::default()).is_empty());
        marks.push(mark(17_000, "INFO role from=Looking to=Follower"));
        marks.push(mark(18_000, lost));
        assert_eq!(find(&marks, SimTime::default()).len(), 1);
    }
}
