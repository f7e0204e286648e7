//! What clients, servers and the world have complained of by themselves: all of it is a violation, but
//! for the trouble that a fault of the disk must make, there and then.

use std::time::Duration;

use super::{Counts, Run, Violation};
use crate::faults::{DAMAGED, Kind, LOG_MISSING, OF_ANOTHER, SNAPSHOT_MISSING};
use crate::floods;
use crate::history::{Strike, Trouble, What};

/// How long a server takes to say what a fault has done to it.
const REPORTED_WITHIN: Duration = Duration::from_secs(1);

/// What a simulated disk says that refuses to be read.
const OF_READ: &str = "injected fault of a read";

/// Looks at each complaint, error, panic and end.
pub(super) fn check(run: &Run<'_>, counts: &mut Counts) -> Vec<Violation> {
    let mut found = Vec::new();
    for record in &run.history.records {
        if let What::Complained { client, why } = &record.what {
            let what = format!("client {}: {why}", client.0);
            found.push(Violation { promise: "complaint", at: record.at, what });
        }
    }
    let (mut once, lasting): (Vec<_>, Vec<_>) =
        run.history.strikes.iter().partition(|strike| is_once(strike.kind));
    for trouble in &run.history.troubles {
        if lasting.iter().any(|strike| excuses(strike, trouble)) {
            counts.troubles_excused += 1;
        } else if let Some(used) = once.iter().position(|strike| excuses(strike, trouble)) {
            // A change or a read that is refused is one complaint.
            once.remove(used);
            counts.troubles_excused += 1;
        } else {
            let who = trouble.server.map_or("a client".to_owned(), |id| format!("server {id}"));
            let what = format!("{who}: {}", trouble.text);
            found.push(Violation { promise: "trouble", at: trouble.at, what });
        }
    }
    found
}

/// Whether it strikes once.
const fn is_once(kind: Kind) -> bool {
    matches!(kind, Kind::DiskError | Kind::ReadError)
}

/// Whether it is that a disk has no room: as a simulated disk says it, and as Linux does.
fn is_full(text: &str) -> bool {
    ["no storage space", "No space left on device"].into_iter().any(|full| text.contains(full))
}

/// Whether this fault makes exactly this trouble.
#[allow(clippy::wildcard_enum_match_arm, reason = "servers bear all others without a complaint")]
fn excuses(strike: &Strike, trouble: &Trouble) -> bool {
    let says = |text: &str| trouble.text.contains(text);
    let is_there = trouble.server == Some(strike.server) && strike.from <= trouble.at;
    if trouble.text.starts_with(floods::BEGIN) {
        // However often it fails, once is enough to say so.
        return false;
    }
    is_there
        && match strike.kind {
            Kind::Full => is_full(&trouble.text) && trouble.at <= strike.until + REPORTED_WITHIN,
            // It strikes at a later change.
            Kind::DiskError => {
                (says("injected fault") && !says(OF_READ)) || says("no storage space")
            }
            // It strikes at a later read.
            Kind::ReadError => says(OF_READ),
            // It is found when what is damaged is read.
            Kind::BitRot => says(DAMAGED),
            Kind::LostFile => [DAMAGED, SNAPSHOT_MISSING, LOG_MISSING].into_iter().any(says),
            Kind::WrongDisk => says(OF_ANOTHER) && trouble.at <= strike.until + REPORTED_WITHIN,
            // The program sees its disk fail in the last moment before it ends.
            Kind::EndAt => {
                let texts = ["the disk is switched off", "injected fault", "no storage space"];
                texts.into_iter().any(says) && trouble.at <= strike.until
            }
            _ => false,
        }
}
