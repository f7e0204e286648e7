//! Everything that is measured, by name: loads, losses of the leader, and cases of other kinds.

use std::fmt;

use super::loads::{LOADS, Load};
use super::results::Figure;

/// What a table is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    Loads,
    Failovers,
    /// Acquire and release by several clients of one lock.
    Locks,
    /// From the release of a lock to its next holder.
    HandOver,
    /// A server with a million znodes.
    Million,
    /// A server with ten thousand connections.
    Clients,
    /// Ten thousand connections against a hundred.
    Connections,
    /// Ten million znodes against ten thousand.
    Znodes,
    /// The start of an empty ensemble.
    Up,
    /// How long requests hold the server's lock, by its own count in the other groups.
    Holds,
    /// Three servers that are short of processor time.
    Busy,
    /// The build of the program.
    Build,
    /// The disk without a server.
    Disk,
}

/// All groups, in the order in which they are shown.
pub(super) const GROUPS: [Group; 13] = [
    Group::Loads,
    Group::Failovers,
    Group::Locks,
    Group::HandOver,
    Group::Million,
    Group::Clients,
    Group::Connections,
    Group::Znodes,
    Group::Up,
    Group::Holds,
    Group::Busy,
    Group::Build,
    Group::Disk,
];

impl Group {
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Loads => "Loads",
            Self::Failovers => "Failover",
            Self::Locks => "Locks: 8 clients of one lock, acquire and release",
            Self::HandOver => "Hand-over of a lock: release to next holder",
            Self::Million => "One server with 1,000,000 znodes of 100 bytes",
            Self::Clients => "One server with 10,000 connections",
            Self::Connections => "Three servers with 100 and with 10,000 connections",
            Self::Znodes => "One server with 10,000 and with 10,000,000 znodes",
            Self::Up => "Start of an empty ensemble of three",
            Self::Holds => "Longest hold of the server's lock",
            Self::Busy => "Three servers that are short of processor time",
            Self::Build => "The build of the program",
            Self::Disk => "The disk",
        }
    }
}

/// What happens to the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// `kill -9`.
    Killed,
    /// SIGSTOP: its connections stay open, and nothing comes.
    Stopped,
    /// SIGTERM: a planned end.
    Terminated,
}

pub(super) const FAULTS: [Fault; 3] = [Fault::Killed, Fault::Stopped, Fault::Terminated];

impl Fault {
    pub(super) const fn signal(self) -> &'static str {
        match self {
            Self::Killed => "KILL",
            Self::Stopped => "STOP",
            Self::Terminated => "TERM",
        }
    }

    /// Returns the fault and what is measured, in words.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Killed => "kill -9, to the first write",
            Self::Stopped => "SIGSTOP, to the first write",
            Self::Terminated => "SIGTERM, longest gap",
        }
    }
}

/// A measurement that is neither a load of `zkload` alone nor the loss of a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) group: Group,
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) figures: &'static [Figure],
}

const fn case(
    group: Group,
    name: &'static str,
    title: &'static str,
    figures: &'static [Figure],
) -> Case {
    Case { group, name, title, figures }
}

const CYCLES: &[Figure] = &[Figure::CyclesPerSecond];
const LATENCY: &[Figure] = &[Figure::P50, Figure::P99];
const MILLISECONDS: &[Figure] = &[Figure::Milliseconds];
const BYTES: &[Figure] = &[Figure::Bytes];
const HOLD: &[Figure] = &[Figure::LongestHold];
const SECONDS: &[Figure] = &[Figure::Seconds];
const BUSY_FIGURES: &[Figure] = &[Figure::Elections, Figure::OperationsPerSecond];
const WRITES_PER_SECOND: &[Figure] = &[Figure::OperationsPerSecond];
const WRITES: &[Figure] = &[Figure::OperationsPerSecond, Figure::P50, Figure::P99];

pub(super) const HAND_OVER_1: Case = case(Group::HandOver, "hand-over:1", "1 waiter", LATENCY);
pub(super) const HAND_OVER_100: Case =
    case(Group::HandOver, "hand-over:100", "100 waiters", LATENCY);
pub(super) const MEMORY_ZNODE: Case =
    case(Group::Million, "memory:znode", "RSS for each znode", BYTES);
pub(super) const RESTART: Case =
    case(Group::Million, "restart", "kill -9, start, to the first write", MILLISECONDS);
pub(super) const WITHOUT_SNAPSHOT: Case =
    case(Group::Million, "snapshot:without", "set 16×8, without a snapshot", WRITES);
pub(super) const WITH_SNAPSHOT: Case =
    case(Group::Million, "snapshot:with", "set 16×8, beside snapshots", WRITES);
pub(super) const MEMORY_SESSION: Case =
    case(Group::Clients, "memory:session", "RSS for each idle session", BYTES);
pub(super) const MEMORY_WATCH: Case =
    case(Group::Clients, "memory:watch", "RSS for each watch", BYTES);
pub(super) const WATCHERS: Case = case(
    Group::Clients,
    "watchers",
    "10,000 watchers of one znode: write to the last event",
    MILLISECONDS,
);
pub(super) const FEW_ZNODES: Case =
    case(Group::Znodes, "znodes:10k", "set of any of 10,000 znodes", WRITES_PER_SECOND);
pub(super) const MANY_ZNODES: Case =
    case(Group::Znodes, "znodes:10m", "set of any of 10,000,000 znodes", WRITES_PER_SECOND);
pub(super) const FEW_CONNECTIONS: Case =
    case(Group::Connections, "connections:100", "set 100×1", WRITES_PER_SECOND);
pub(super) const MANY_CONNECTIONS: Case =
    case(Group::Connections, "connections:10k", "set 10,000×1", WRITES_PER_SECOND);
pub(super) const UP: Case = case(Group::Up, "up", "`zoolet up` to the first write", MILLISECONDS);
pub(super) const HOLD_LOADS: Case = case(Group::Holds, "hold:loads", "in the loads", HOLD);
pub(super) const HOLD_MILLION: Case =
    case(Group::Holds, "hold:million", "with 1,000,000 znodes, in snapshots too", HOLD);
pub(super) const HOLD_CLIENTS: Case =
    case(Group::Holds, "hold:clients", "with 10,000 sessions and watchers", HOLD);
pub(super) const BUSY: Case =
    case(Group::Busy, "busy", "10 minutes with a busy loop for each core", BUSY_FIGURES);
pub(super) const STARVED_LOAD: Case =
    case(Group::Busy, "starved:load", "2 minutes with 60 busy loops", BUSY_FIGURES);
pub(super) const STARVED_QUOTA: Case = case(
    Group::Busy,
    "starved:quota",
    "2 minutes with 15 ms of processor time per second and server",
    BUSY_FIGURES,
);
pub(super) const BUILD: Case =
    case(Group::Build, "build", "`cargo build --release -p zoolet`, cold", SECONDS);
pub(super) const SYNC: Case =
    case(Group::Disk, "disk:sync", "write and sync of 4 KiB of a file", LATENCY);

/// The recipes of both clients, in the order in which they are measured.
pub(super) const RECIPES: [&str; 5] =
    ["mutex", "semaphore-mutex", "read-write", "semaphore", "multi"];

pub(super) const CURATOR: [Case; 5] = [
    case(Group::Locks, "lock:curator:mutex", "Curator, mutex", CYCLES),
    case(Group::Locks, "lock:curator:semaphore-mutex", "Curator, semaphore mutex", CYCLES),
    case(Group::Locks, "lock:curator:read-write", "Curator, read-write lock", CYCLES),
    case(Group::Locks, "lock:curator:semaphore", "Curator, semaphore of 2", CYCLES),
    case(Group::Locks, "lock:curator:multi", "Curator, multi-lock of 2", CYCLES),
];

pub(super) const OWN_LOCKS: [Case; 5] = [
    case(Group::Locks, "lock:client:mutex", "zoolet-client, mutex", CYCLES),
    case(Group::Locks, "lock:client:semaphore-mutex", "zoolet-client, semaphore mutex", CYCLES),
    case(Group::Locks, "lock:client:read-write", "zoolet-client, read-write lock", CYCLES),
    case(Group::Locks, "lock:client:semaphore", "zoolet-client, semaphore of 2", CYCLES),
    case(Group::Locks, "lock:client:multi", "zoolet-client, multi-lock of 2", CYCLES),
];

const OTHERS: [Case; 22] = [
    HAND_OVER_1,
    HAND_OVER_100,
    MEMORY_ZNODE,
    RESTART,
    WITHOUT_SNAPSHOT,
    WITH_SNAPSHOT,
    MEMORY_SESSION,
    MEMORY_WATCH,
    WATCHERS,
    FEW_CONNECTIONS,
    MANY_CONNECTIONS,
    FEW_ZNODES,
    MANY_ZNODES,
    UP,
    HOLD_LOADS,
    HOLD_MILLION,
    HOLD_CLIENTS,
    BUSY,
    STARVED_LOAD,
    STARVED_QUOTA,
    BUILD,
    SYNC,
];

/// A row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    Load(Load),
    Fault(Fault),
    Case(Case),
}

impl Row {
    pub(super) const fn group(self) -> Group {
        match self {
            Self::Load(_) => Group::Loads,
            Self::Fault(_) => Group::Failovers,
            Self::Case(case) => case.group,
        }
    }

    /// Returns the row in words, for tables and plots.
    pub(super) fn title(self) -> String {
        match self {
            Self::Load(load) => load.title(),
            Self::Fault(fault) => fault.title().to_owned(),
            Self::Case(case) => case.title.to_owned(),
        }
    }

    /// Finds a row by its name.
    pub(super) fn find(name: &str) -> Option<Self> {
        all().find(|row| row.to_string() == name)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load(load) => load.fmt(f),
            Self::Fault(fault) => f.write_str(fault.signal()),
            Self::Case(case) => f.write_str(case.name),
        }
    }
}

/// Returns all rows, in the order in which they are shown.
pub(super) fn all() -> impl Iterator<Item = Row> {
    let cases = CURATOR.into_iter().chain(OWN_LOCKS).chain(OTHERS);
    let loads = LOADS.into_iter().map(Row::Load);
    loads.chain(FAULTS.into_iter().map(Row::Fault)).chain(cases.map(Row::Case))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_row_has_a_name_and_within_its_group_a_title_of_its_own() {
        let names: BTreeSet<String> = all().map(|row| row.to_string()).collect();
        let titles: BTreeSet<_> = all().map(|row| (row.group(), row.title())).collect();
        assert_eq!((names.len(), titles.len()), (all().count(), all().count()));
    }

    #[test]
    fn a_row_is_found_by_its_name() {
        assert_eq!(Row::find("KILL"), Some(Row::Fault(Fault::Killed)));
        assert_eq!(Row::find("restart"), Some(Row::Case(RESTART)));
        assert_eq!(Row::find("3:set:16x8").map(Row::title).as_deref(), Some("3 servers, set 16×8"));
        assert_eq!(Row::find("lock"), None);
    }

    #[test]
    fn the_recipes_of_both_clients_are_the_same() {
        for ((curator, own), recipe) in CURATOR.iter().zip(OWN_LOCKS).zip(RECIPES) {
            assert_eq!(curator.name, format!("lock:curator:{recipe}"));
            assert_eq!(own.name, format!("lock:client:{recipe}"));
        }
    }
}
