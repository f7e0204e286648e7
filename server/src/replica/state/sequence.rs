//! The numbers that commands get: zxids, and the fence that admits each command once.

use std::collections::BTreeMap;

use zoolet_jute::Zxid;

use crate::replica::{Origin, ServerId};

/// The largest epoch, so that a zxid is never negative.
const EPOCH_MAX: u32 = i32::MAX as u32;

/// The zxid behind `last` for a command that was put into the log in `term` (protocol §13.1). A
/// leader hands over long before its counter is used up; if it should come to that, the counter
/// carries into the epoch, so that zxids go on rising.
pub(super) fn next_zxid(last: Zxid, term: u64) -> Zxid {
    let term = u32::try_from(term).unwrap_or(EPOCH_MAX).min(EPOCH_MAX);
    if term > last.epoch() {
        return Zxid::new(term, 1);
    }
    match last.counter().checked_add(1) {
        Some(counter) => Zxid::new(last.epoch(), counter),
        None => Zxid::new(last.epoch().saturating_add(1).min(EPOCH_MAX), 1),
    }
}

/// How far one server's commands were admitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Admitted {
    pub(super) boot: u64,
    pub(super) stream: u64,
    pub(super) last: u64,
}

/// Keeps each server's commands in order and applies each at most once, whatever the network and
/// changes of leader did to the batches: a batch is admitted only if it goes on where the last
/// one of its stream ended, or begins a later stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Fence {
    by_server: BTreeMap<ServerId, Admitted>,
}

impl Fence {
    pub(super) fn admit(&mut self, origin: Origin, first: u64, count: u64) -> bool {
        let Some(last) = count.checked_sub(1).and_then(|more| first.checked_add(more)) else {
            return false;
        };
        if let Some(at) = self.by_server.get(&origin.server) {
            let continues = at.last.checked_add(1) == Some(first);
            let admissible = match (origin.boot, origin.stream).cmp(&(at.boot, at.stream)) {
                std::cmp::Ordering::Greater => true,
                std::cmp::Ordering::Equal => continues,
                std::cmp::Ordering::Less => false,
            };
            if !admissible {
                return false;
            }
        }
        let admitted = Admitted { boot: origin.boot, stream: origin.stream, last };
        self.by_server.insert(origin.server, admitted);
        true
    }

    pub(super) fn applied_through(&self, server: ServerId, boot: u64) -> u64 {
        self.by_server.get(&server).filter(|at| at.boot == boot).map_or(0, |at| at.last)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ServerId, Admitted)> {
        self.by_server.iter().map(|(&server, &admitted)| (server, admitted))
    }

    pub(super) fn insert(&mut self, server: ServerId, admitted: Admitted) {
        self.by_server.insert(server, admitted);
    }
}
