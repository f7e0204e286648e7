//! What a server has written to its log, over all its lives.

use zoolet_replica::ServerId;
use zoolet_sim::SimTime;
use zoolet_sim::floods;
use zoolet_sim::history::Trouble;
use zoolet_sim::trace::Mark;

use super::clock;

/// The begin of what a life of a server writes first.
const STARTS: &str = "starting";
/// What the standard library writes when a thread panics.
const PANIC: &str = "panicked at";

/// A line of a log.
#[derive(Debug)]
struct Line<'a> {
    at: SimTime,
    level: &'a str,
    text: &'a str,
}

/// The lines that begin with a time. Others, such as those of a panic, belong to the one in front.
fn lines(text: &str) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    let mut at = SimTime::default();
    for line in text.lines() {
        let timed = line.split_once(' ').and_then(|(us, rest)| Some((us.parse().ok()?, rest)));
        let (level, text) = match timed {
            Some((us, rest)) => {
                at = clock::of_machine(us);
                rest.trim_start().split_once(' ').unwrap_or((rest, ""))
            }
            None => ("", line),
        };
        lines.push(Line { at, level, text });
    }
    lines
}

/// What should not be in the log of a server: errors, panics, and the same over and over.
pub(super) fn troubles(server: ServerId, log: &str) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    let mut marks = Vec::new();
    for Line { at, level, text } in lines(log) {
        if level == "ERROR" || text.contains(PANIC) {
            let text = format!("{level} {text}").trim_start().to_owned();
            troubles.push(Trouble { at, server: Some(server), text });
        }
        if level == "INFO" && text.starts_with(STARTS) {
            let text = format!("server {server} starts");
            marks.push(Mark { at, who: "nemesis".to_owned(), text });
        }
        if !level.is_empty() {
            marks.push(Mark {
                at,
                who: format!("server {server}"),
                text: format!("{level} {text}"),
            });
        }
    }
    troubles.extend(floods::find(&marks));
    troubles
}

/// The last error of the last life in a log.
pub(super) fn last_error(log: &str) -> Option<String> {
    let lines = lines(log);
    let of_life = lines.iter().rev().take_while(|line| !line.text.starts_with(STARTS));
    let mut errors = of_life.filter(|line| line.level == "ERROR");
    errors.next().map(|line| line.text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
1000000  INFO starting server=1
1000500  WARN it is not changed
1001000 ERROR the server has failed: No space left on device (os error 28)

thread 'main' (7) panicked at server/src/lib.rs:1:2:
it is over
1002000  INFO starting server=1
";

    #[test]
    fn errors_and_panics_are_found_with_their_times() {
        let found = troubles(ServerId(1), LOG);
        let texts: Vec<&str> = found.iter().map(|one| one.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "ERROR the server has failed: No space left on device (os error 28)",
                "thread 'main' (7) panicked at server/src/lib.rs:1:2:",
            ]
        );
        assert!(found.iter().all(|one| one.at == clock::of_machine(1_001_000)));
        assert_eq!(last_error(LOG), None, "the last life has none");
        let last = LOG.rsplit_once("1002000").and_then(|(first_life, _)| last_error(first_life));
        assert_eq!(
            last.as_deref(),
            Some("the server has failed: No space left on device (os error 28)")
        );
    }

    #[test]
    fn what_one_life_says_over_and_over_is_found() {
        let line = |at: u64| format!("{}  WARN it is not changed error=\"{at}\"\n", at * 100_000);
        let once: String = (0..40).map(line).collect();
        assert_eq!(troubles(ServerId(1), &once).len(), 1);
        let lives: String = (0..40).map(|at| line(at) + "7  INFO starting server=1\n").collect();
        assert_eq!(troubles(ServerId(1), &lives), []);
    }
}
