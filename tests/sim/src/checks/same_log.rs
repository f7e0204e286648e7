//! P1: all servers apply the same commands in the same order, and reach the same states.

use std::collections::BTreeMap;

use zoolet_jute::Zxid;
use zoolet_replica::ServerId;

use super::{Counts, Run, Violation};
use crate::history::{Applied, Digest};

const P1: &str = "P1 same log";

/// Compares what the servers have applied, and what states they had.
pub(super) fn check(run: &Run<'_>, counts: &mut Counts) -> Vec<Violation> {
    counts.entries = u64::try_from(run.model.entries.len()).unwrap_or(u64::MAX);
    counts.transactions = u64::try_from(run.model.transactions.len()).unwrap_or(u64::MAX);
    counts.dropped = run.model.dropped;
    let mut found = Vec::new();
    for (index, at, why) in &run.model.unreadable {
        let what = format!("entry {index} of the log cannot be read: {why}");
        found.push(Violation { promise: P1, at: *at, what });
    }
    entries(run, &mut found);
    order(run, counts, &mut found);
    digests(run, counts, &mut found);
    found
}

/// The same entry at the same place, and terms that do not fall.
fn entries(run: &Run<'_>, found: &mut Vec<Violation>) {
    let mut known: BTreeMap<u64, (ServerId, &Applied)> = BTreeMap::new();
    for (server, log) in &run.history.servers {
        for applied in &log.applied {
            let (other, first) = *known.entry(applied.index).or_insert((*server, applied));
            if first.term != applied.term || first.batch != applied.batch {
                let what = format!(
                    "at index {} server {server} has applied {} bytes of term {}, server {other} {} \
                     bytes of term {} at {}: {}",
                    applied.index,
                    applied.batch.len(),
                    applied.term,
                    first.batch.len(),
                    first.term,
                    first.at,
                    if first.batch == applied.batch { "the same" } else { "others" },
                );
                found.push(Violation { promise: P1, at: applied.at, what });
            }
        }
    }
    let mut before: Option<&Applied> = None;
    for (_, applied) in known.values() {
        if let Some(before) = before.filter(|before| before.term > applied.term) {
            let what = format!(
                "index {} has term {}, and index {} before it term {}",
                applied.index, applied.term, before.index, before.term
            );
            found.push(Violation { promise: P1, at: applied.at, what });
        }
        before = Some(applied);
    }
}

/// Each server goes on from one entry to the next, but for a restart, which takes time: behind it the
/// server begins again with what its snapshot lacks.
fn order(run: &Run<'_>, counts: &mut Counts, found: &mut Vec<Violation>) {
    for (server, log) in &run.history.servers {
        let mut before: Option<&Applied> = None;
        for applied in &log.applied {
            let is_restart = before.is_some_and(|before| applied.index <= before.index);
            if let Some(before) = before
                && is_restart
                && applied.at == before.at
            {
                let what = format!(
                    "server {server} applies index {} behind index {} in one moment",
                    applied.index, before.index
                );
                found.push(Violation { promise: P1, at: applied.at, what });
            }
            if before.is_some_and(|before| jumps(run, before.index, applied.index)) {
                counts.snapshots += 1;
            }
            before = Some(applied);
        }
    }
}

/// Whether entries that others have applied are between two that a server has applied.
pub(super) fn jumps(run: &Run<'_>, before: u64, behind: u64) -> bool {
    let entries = &run.model.entries;
    let at = entries.partition_point(|(index, _)| *index <= before);
    entries.get(at).is_some_and(|(next, _)| *next < behind)
}

/// The same state at the same place, and with it the zxid that the model has there.
fn digests(run: &Run<'_>, counts: &mut Counts, found: &mut Vec<Violation>) {
    let mut known: BTreeMap<u64, (ServerId, Digest, u64)> = BTreeMap::new();
    for (server, log) in &run.history.servers {
        for digest in &log.digests {
            let entry = known.entry(digest.index).or_insert((*server, *digest, 0));
            let (other, first, seen) = entry;
            *seen += 1;
            if (first.zxid, first.digest) != (digest.zxid, digest.digest) {
                let what = format!(
                    "behind index {} server {server} has zxid {} and digest {:016x}, server {other} \
                     {} and {:016x}",
                    digest.index, digest.zxid, digest.digest, first.zxid, first.digest
                );
                found.push(Violation { promise: P1, at: digest.at, what });
            }
            let expected = run.model.zxid_at(digest.index);
            if digest.zxid != expected && digest.zxid != Zxid::NONE {
                let what = format!(
                    "behind index {} server {server} has zxid {}, where the log makes it {expected}",
                    digest.index, digest.zxid
                );
                found.push(Violation { promise: "P5 zxids", at: digest.at, what });
            }
        }
    }
    for (_, _, seen) in known.values() {
        if *seen > 1 {
            counts.digests += seen;
        } else {
            counts.digests_alone += 1;
        }
    }
}
