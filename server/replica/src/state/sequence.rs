//! The numbers that commands get: zxids, and the fence that admits each command once.

use std::collections::BTreeMap;

use zoolet_jute::Zxid;

use crate::{Boot, Origin, ProposalNumber, ServerId, Term};

/// The largest epoch, so that a zxid is never negative.
const EPOCH_MAX: u32 = i32::MAX as u32;

/// The zxid behind `last` for a command that was put into the log in `term` (protocol §13.1). A
/// leader hands over long before its counter is used up; if it should come to that, the counter
/// carries into the epoch, so that zxids go on rising.
pub(super) fn next_zxid(last: Zxid, term: Term) -> Zxid {
    let term = epoch_of(term);
    if term > last.epoch() {
        return Zxid::new(term, 1);
    }
    match last.counter().checked_add(1) {
        Some(counter) => Zxid::new(last.epoch(), counter),
        None => Zxid::new(last.epoch().saturating_add(1).min(EPOCH_MAX), 1),
    }
}

/// The zxid of the first configuration, which Apache `ZooKeeper` gives to the beginning of a term.
pub(super) fn first_zxid(term: Term) -> Zxid {
    Zxid::new(epoch_of(term), 0)
}

fn epoch_of(term: Term) -> u32 {
    u32::try_from(term.0).unwrap_or(EPOCH_MAX).min(EPOCH_MAX)
}

/// How far one server's commands were admitted: its row of the fence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Admitted {
    /// Its last start of which a command was admitted; zero before the first.
    pub boot: Boot,
    /// The last stream of that start.
    pub stream: u64,
    /// The number of the last command.
    pub last: ProposalNumber,
}

impl Admitted {
    /// The lowest number that a later start may have. The ids of its sessions begin behind those of
    /// this one: a start has room for 2¹⁶, and cannot have begun more sessions than it had commands.
    pub fn next_boot(self) -> Boot {
        Boot(self.boot.0.saturating_add(1).saturating_add(self.last.0 >> 16))
    }
}

/// Keeps each server's commands in order and applies each at most once, whatever the network and
/// changes of leader did to the batches: a batch is admitted only if it goes on where the last
/// one of its stream ended, or begins a later stream.
#[derive(Clone, Debug, Default)]
pub(super) struct ReplayFilter {
    by_server: BTreeMap<ServerId, Admitted>,
}

impl ReplayFilter {
    pub(super) fn admit(&mut self, origin: Origin, first: ProposalNumber, count: u64) -> bool {
        let Some(last) = count.checked_sub(1).and_then(|more| first.checked_add(more)) else {
            return false;
        };
        if let Some(at) = self.by_server.get(&origin.server) {
            let continues = at.last.checked_add(1) == Some(first);
            let admissible = match (origin.boot, origin.stream).cmp(&(at.boot, at.stream)) {
                std::cmp::Ordering::Greater => true,
                std::cmp::Ordering::Equal => continues || planted!("fence-admits-twice"),
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

    pub(super) fn admitted(&self, server: ServerId) -> Admitted {
        self.by_server.get(&server).copied().unwrap_or_default()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ServerId, Admitted)> {
        self.by_server.iter().map(|(&server, &admitted)| (server, admitted))
    }

    pub(super) fn insert(&mut self, server: ServerId, admitted: Admitted) {
        self.by_server.insert(server, admitted);
    }
}
