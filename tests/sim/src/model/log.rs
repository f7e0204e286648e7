//! The one log that all servers apply, put together from what each of them has applied.

use std::collections::BTreeMap;

use bytes::Bytes;
use zoolet_replica::{BatchHead, Boot, ProposalNumber, ServerId};

use crate::SimTime;
use crate::history::History;

/// An entry of the log, as the servers that applied it last had it.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// Its place.
    pub index: u64,
    /// The term of its leader.
    pub term: u64,
    /// The batch.
    pub batch: Bytes,
    /// When the first server has applied it.
    pub first_at: SimTime,
    /// When a server has applied it last.
    pub last_at: SimTime,
}

/// Puts the servers' logs together. Where they differ, which a check of its own reports, the entry that
/// was applied last counts: what was applied once and is gone behind a power cut is not in the log.
pub fn merged(history: &History) -> Vec<LogEntry> {
    let mut entries: BTreeMap<u64, LogEntry> = BTreeMap::new();
    for applied in history.servers.values().flat_map(|log| &log.applied) {
        let entry = entries.entry(applied.index).or_insert_with(|| LogEntry {
            index: applied.index,
            term: applied.term,
            batch: applied.batch.clone(),
            first_at: applied.at,
            last_at: applied.at,
        });
        let is_same = entry.term == applied.term && entry.batch == applied.batch;
        if applied.at > entry.last_at && !is_same {
            (entry.term, entry.batch) = (applied.term, applied.batch.clone());
            entry.first_at = applied.at;
        }
        entry.last_at = entry.last_at.max(applied.at);
        entry.first_at = entry.first_at.min(applied.at);
    }
    entries.into_values().collect()
}

/// How far one server's commands were admitted.
#[derive(Clone, Copy, Debug)]
struct Row {
    boot: Boot,
    stream: u64,
    last: ProposalNumber,
}

/// Admits each server's commands once and in their order: a batch goes on where the last one of its
/// stream ended, or begins a later stream or a later start. All others are dropped as a whole.
#[derive(Clone, Debug, Default)]
pub(super) struct Fence {
    rows: BTreeMap<ServerId, Row>,
}

impl Fence {
    pub(super) fn admits(&mut self, head: BatchHead) -> bool {
        let BatchHead { origin, first, count } = head;
        let Some(more) = count.checked_sub(1) else { return false };
        let Some(last) = first.checked_add(more) else { return false };
        if let Some(row) = self.rows.get(&origin.server) {
            let (stream, so_far) = ((origin.boot, origin.stream), (row.boot, row.stream));
            let goes_on = stream == so_far && row.last.checked_add(1) == Some(first);
            if stream <= so_far && !goes_on {
                return false;
            }
        }
        self.rows.insert(origin.server, Row { boot: origin.boot, stream: origin.stream, last });
        true
    }
}
