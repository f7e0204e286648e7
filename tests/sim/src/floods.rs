//! Servers that say the same over and over, and fill their logs with it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use zoolet_replica::ServerId;

use crate::SimTime;
use crate::history::Trouble;
use crate::trace::Mark;

/// How often a server may say the same within [`SPAN`]. In usual runs it is 13 times at most.
const REPEATS_MAX: usize = 30;
const SPAN: Duration = Duration::from_secs(10);

/// With what the text of such a trouble begins.
pub(crate) const BEGIN: &str = "more than";

/// Finds what servers say too often, each once. Lines that differ in the values of their fields are the
/// same.
pub fn find(marks: &[Mark]) -> Vec<Trouble> {
    let mut lately: BTreeMap<(ServerId, String), VecDeque<SimTime>> = BTreeMap::new();
    let mut found = BTreeMap::new();
    for mark in marks {
        let Some(server) = mark.server() else {
            // A server that has ended and starts again says some things again.
            if mark.text.ends_with(" starts") {
                lately.retain(|(server, _), _| mark.about() != Some(*server));
            }
            continue;
        };
        let key = (server, message(&mark.text));
        let times = lately.entry(key.clone()).or_default();
        times.push_back(mark.at);
        while times.front().is_some_and(|first| *first + SPAN < mark.at) {
            times.pop_front();
        }
        if times.len() > REPEATS_MAX {
            found.entry(key).or_insert_with(|| Trouble {
                at: mark.at,
                server: Some(server),
                text: format!("{BEGIN} {REPEATS_MAX} times within {SPAN:?}: {}", mark.text),
            });
        }
    }
    found.into_values().collect()
}

/// A line without its fields.
fn message(text: &str) -> String {
    let words = text.split(' ').take_while(|word| !word.contains('='));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(times: u64, apart_ms: u64) -> Vec<Trouble> {
        let mark = |at| Mark {
            at: SimTime::from_ms(at * apart_ms),
            who: "server 2".to_owned(),
            text: format!("WARN it is not changed error=\"attempt {at}\""),
        };
        find(&(0..times).map(mark).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_said_ten_times_a_second_is_found_once() {
        let found = said(100, 100);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].at, found[0].server), (SimTime::from_ms(3000), Some(ServerId(2))));
        assert!(found[0].text.contains("more than 30 times within 10s: WARN it is"), "{found:?}");
    }

    #[test]
    fn what_is_said_at_each_start_is_not() {
        let mark = |at, who: &str, text: &str| Mark {
            at: SimTime::from_ms(at),
            who: who.to_owned(),
            text: text.to_owned(),
        };
        let lives = (0..100).flat_map(|life| {
            [
                mark(life * 50, "nemesis", "server 1 starts"),
                mark(life * 50, "server 1", "INFO server started server=1"),
            ]
        });
        assert_eq!(find(&lives.collect::<Vec<_>>()), []);
    }

    #[test]
    fn what_is_said_now_and_then_is_not() {
        assert_eq!(said(1000, 400), []);
        assert_eq!(said(30, 1), []);
    }
}
