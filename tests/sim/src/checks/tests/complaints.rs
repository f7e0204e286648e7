//! Errors that servers log, panics, and servers that end by themselves.

use std::time::Duration;

use zoolet_replica::ServerId;

use super::{Story, accepted, refused};
use crate::SimTime;
use crate::faults::Kind;
use crate::history::{History, Strike, Trouble};

const FULL: &str =
    "it has ended by itself: the disk is full: cannot write data/wal/next.tmp: no storage space";
/// As a server on Linux has it.
const NO_SPACE: &str = "ERROR the server has failed: No space left on device (os error 28)";
const REFUSED: &str =
    "ERROR cannot write a snapshot error=cannot sync data/snapshots: injected fault";
const OFF: &str = "ERROR cannot write the log: the disk is switched off";
const ROTTEN: &str = "it has ended by itself: data/wal/1.wal is damaged at byte 512";
const UNREADABLE: &str =
    "it has ended by itself: cannot read data/wal/1.wal: injected fault of a read";
const LOST: &str = "it has ended by itself: the log in data begins behind entry 20, and no snapshot reaches so far";
const MISSING: &str = "it has ended by itself: data has served before, but its log is not in data/wal: a server must not start";
const OF_ANOTHER: &str = "it has ended by itself: data belongs to server 2, but this is server 1";

fn trouble(at_ms: u64, server: u8, text: &str) -> Trouble {
    let server = (server > 0).then_some(ServerId(server));
    Trouble { at: SimTime::from_ms(at_ms), server, text: text.to_owned() }
}

fn strike(kind: Kind, server: u8) -> Strike {
    let from = SimTime::from_ms(2000);
    Strike { kind, server: ServerId(server), from, until: from + Duration::from_secs(1) }
}

fn history(troubles: &[Trouble], strikes: &[Strike]) -> History {
    let mut story = Story::new();
    story.connect(0, 1);
    let mut history = story.end();
    (history.troubles, history.strikes) = (troubles.to_vec(), strikes.to_vec());
    history
}

#[test]
fn trouble_without_a_fault_is_found() {
    for text in [FULL, REFUSED, ROTTEN, "PANIC panicked at server/src/a.rs:1:1: oh"] {
        refused(&history(&[trouble(2500, 1, text)], &[]), "trouble");
        refused(&history(&[trouble(2500, 0, text)], &[]), "trouble");
    }
}

#[test]
fn a_fault_of_a_disk_excuses_what_it_does_and_nothing_else() {
    let kinds = [
        (Kind::Full, FULL),
        (Kind::Full, NO_SPACE),
        (Kind::DiskError, REFUSED),
        (Kind::BitRot, ROTTEN),
        (Kind::EndAt, OFF),
        (Kind::ReadError, UNREADABLE),
        (Kind::LostFile, ROTTEN),
        (Kind::LostFile, LOST),
        (Kind::LostFile, MISSING),
        (Kind::WrongDisk, OF_ANOTHER),
    ];
    for (kind, text) in kinds {
        let counts = accepted(&history(&[trouble(2500, 1, text)], &[strike(kind, 1)]));
        assert_eq!(counts.troubles_excused, 1, "{kind:?}");
        refused(&history(&[trouble(2500, 1, text)], &[strike(kind, 2)]), "trouble");
        refused(&history(&[trouble(1999, 1, text)], &[strike(kind, 1)]), "trouble");
        let other = trouble(2500, 1, "ERROR the state of other servers differs from this one's");
        refused(&history(&[other], &[strike(kind, 1)]), "trouble");
    }
    for (kind, text) in [(Kind::Full, FULL), (Kind::WrongDisk, OF_ANOTHER)] {
        refused(&history(&[trouble(4001, 1, text)], &[strike(kind, 1)]), "trouble");
    }
}

#[test]
fn a_full_disk_does_not_excuse_a_flood() {
    let text = "more than 30 times within 10s: WARN cannot write: no storage space";
    refused(&history(&[trouble(2500, 1, text)], &[strike(Kind::Full, 1)]), "trouble");
}

#[test]
fn a_change_or_a_read_that_is_refused_is_the_reason_of_one_complaint() {
    for (kind, text) in [(Kind::DiskError, REFUSED), (Kind::ReadError, UNREADABLE)] {
        let strikes = [strike(kind, 1)];
        let twice = [trouble(2500, 1, text), trouble(2600, 1, text)];
        refused(&history(&twice, &strikes), "trouble");
        accepted(&history(&twice, &[strikes, strikes].concat()));
        // Neither excuses the other.
        let of_both = [strike(Kind::DiskError, 1), strike(Kind::ReadError, 1)];
        refused(&history(&twice, &of_both), "trouble");
    }
}

/// Seed 51087906: the full disk's complaint was taken for that of the change that is refused later.
#[test]
fn what_a_full_disk_excuses_uses_no_refused_change_up() {
    let strikes = [strike(Kind::DiskError, 1), strike(Kind::Full, 1)];
    accepted(&history(&[trouble(2500, 1, FULL), trouble(2600, 1, REFUSED)], &strikes));
    refused(&history(&[trouble(2500, 1, REFUSED), trouble(2600, 1, REFUSED)], &strikes), "trouble");
}
