//! What the checks have to know, and what they say.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use zoolet_jute::{Id, SessionId};
use zoolet_replica::ServerId;

use super::Granted;
use crate::SimTime;
use crate::history::ClientNumber;
use crate::model::Who;

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub promise: &'static str,
    /// When, in true time.
    pub at: SimTime,
    /// What has happened, and what should have.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.at, self.promise, self.what)
    }
}

/// What the checks have to know of a run beside its history.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much too fast clocks may go, in thousandths. Times that servers measure are believed within
    /// it.
    pub clock_fast_permille: u32,
    /// And how much too slow.
    pub clock_slow_permille: u32,
    /// How long behind the timeout of a silent session a leader may be elected when no fault is under
    /// way any more.
    pub expires_within: Duration,
    /// How long after its timeout a silent session may live under a leader: the tick, and the way into
    /// the log.
    pub expires_under_leader_within: Duration,
    /// How long after the last fault all servers have the same state and calls have come back.
    pub converges_within: Duration,
    /// How long a server may serve that has lost its ensemble: until it misses its leader, and
    /// `syncLimit`, by a slow clock.
    pub serves_alone_within: Duration,
    /// How long a walk over the tree and a write through one server take at the end.
    pub walks_within: Duration,
    /// How long after a grant the loss of the holder before may be reported, if its session had ended.
    /// Zero, unless clocks are wrong by more than the client allows for.
    pub loss_slack: Duration,
    /// How soon a holder whose znode was deleted by another client is notified, if no fault is under
    /// way.
    pub loss_reported_within: Duration,
    /// How long a waiter waits at the end for a lock that no one holds.
    pub grants_within: Duration,
    /// How long behind the last fault elections, resumes and sessions that end are over.
    pub calm_after: Duration,
    /// How soon a waiter whose turn has come is granted the lock from then on.
    pub grants_in_calm_within: Duration,
    /// How old a znode in the queue of a lock must be for its owner to be missed.
    pub orphans_after: Duration,
    /// Sessions that an operator has ended.
    pub ended_by_hand: BTreeSet<SessionId>,
    /// The servers that must have the whole log at the end; all that have applied something, without
    /// this.
    pub members: Option<BTreeSet<ServerId>>,
    /// `skipACL`.
    pub skips_acl: bool,
    /// The superuser's digest.
    pub super_digest: Option<String>,
    /// The address of each client's machine, which is one of its identities; without this it is not
    /// known.
    pub address_of: Option<fn(ClientNumber) -> IpAddr>,
    /// The longest command, in bytes on the wire; a server refuses longer ones by itself.
    pub command_bytes_max: usize,
    /// Whether requests for sessions may come twice.
    pub connects_twice: bool,
    /// Whether servers may refuse requests because too many wait, or watches because there are too
    /// many.
    pub may_throttle: bool,
}

impl Options {
    /// Whom a connection is before it has proved anything.
    pub(super) fn stranger(&self, granted: Option<Granted>) -> Who {
        let client = granted.map(|granted| granted.client);
        let address = client.zip(self.address_of).map(|(client, of)| of(client).to_string());
        let ids: Vec<Id> = address.iter().map(|address| Id::new("ip", address)).collect();
        Who { has_no_other: !ids.is_empty(), ids, skips_acl: self.skips_acl }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock_fast_permille: 0,
            clock_slow_permille: 0,
            expires_within: Duration::from_secs(10),
            expires_under_leader_within: Duration::from_secs(3),
            converges_within: Duration::from_secs(30),
            serves_alone_within: Duration::from_secs(15),
            walks_within: Duration::from_secs(15),
            loss_slack: Duration::ZERO,
            loss_reported_within: Duration::from_secs(5),
            grants_within: Duration::from_secs(30),
            calm_after: Duration::from_secs(10),
            grants_in_calm_within: Duration::from_secs(1),
            orphans_after: Duration::from_secs(30),
            ended_by_hand: BTreeSet::new(),
            members: None,
            skips_acl: false,
            super_digest: None,
            address_of: None,
            command_bytes_max: 512 << 10,
            connects_twice: false,
            may_throttle: false,
        }
    }
}

/// How much was checked, and how much was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Entries of the log.
    pub entries: u64,
    /// Commands that took a zxid.
    pub transactions: u64,
    /// Commands that the rule of origins dropped: they came twice, or out of order.
    pub dropped: u64,
    /// States of servers that were compared with that of another.
    pub digests: u64,
    /// States of servers that no other server's could be compared with.
    pub digests_alone: u64,
    /// How often a server took a state over from a snapshot of another one.
    pub snapshots: u64,
    /// Writes whose replies were compared with the model.
    pub writes: u64,
    /// Writes that a server refused by itself, before the log.
    pub writes_refused: u64,
    /// Writes with a reply whose connection's place in the log is not known.
    pub writes_unchecked: u64,
    /// Calls without a reply that are in the log, and that are not.
    pub lost: (u64, u64),
    /// Commands that were asked for on connections whose handshake was given up.
    pub commands_unattributed: u64,
    /// Writes that the log refused because their session had been resumed on another connection.
    pub writes_moved: u64,
    /// Answers to credentials, watches, syncs and pings, which follow from the request alone.
    pub answers: u64,
    /// Reconfigurations that were done, each held against the configurations of the log.
    pub reconfigs: u64,
    /// Those that were refused: of the reasons, the ones that the log shows were looked at.
    pub reconfigs_refused: u64,
    /// Reads that were compared with the model.
    pub reads: u64,
    /// Reads that depend on what is not recorded, or that a limit refused.
    pub reads_unchecked: u64,
    /// Reads whose state was old enough to be too old, or not.
    pub ages: u64,
    /// Syncs whose place in time was checked.
    pub syncs: u64,
    /// Watches that were registered.
    pub watches: u64,
    /// Events that had to come, and came.
    pub events: u64,
    /// Events that may have come or not: their client's right to read is not known, or the connection
    /// ended.
    pub events_unchecked: u64,
    /// Connections whose watches were no longer followed: a setWatches of many paths has no one moment,
    /// or a violation was found.
    pub watchers_given_up: u64,
    /// Sessions whose end was checked.
    pub session_ends: u64,
    /// Sessions that had to be over at the end, and are.
    pub expiries_due: u64,
    /// Answers by which a session has expired.
    pub expired_answers: u64,
    /// Closes with a reply.
    pub closes: u64,
    /// Grants of locks that were found in the log.
    pub grants: u64,
    /// Grants that came when all was calm, and that had to come soon.
    pub grants_in_calm: u64,
    /// Grants whose kind of lock is not known.
    pub grants_unchecked: u64,
    /// Grants that had a holder before, whose end was compared with the grant.
    pub handovers: u64,
    /// Losses that were reported late by clients that had stood still.
    pub losses_slept: u64,
    /// Znodes in queues of locks whose clients had done with them, and that had to go.
    pub leftovers: u64,
    /// Writes to guarded resources.
    pub guarded: u64,
    /// Those that it refused: their locks had been granted to others, who had written.
    pub guarded_refused: u64,
    /// Writes by transactions that commit only while a lock is held.
    pub guarded_in_log: u64,
    /// Holders who were asked for their locks, and heed that.
    pub requests: u64,
    /// Places in queues whose end has woken waiters.
    pub woken: u64,
    /// Items of queues, and those that a take without an outcome may have taken.
    pub items: u64,
    /// See above.
    pub items_in_doubt: u64,
    /// Items that have left queues, each held against what was in front of it then.
    pub departures: u64,
    /// Additions to counters with an outcome.
    pub additions: u64,
    /// Members of double barriers that have entered.
    pub passages: u64,
    /// Waits for a barrier that have ended.
    pub waits: u64,
    /// Members of groups whose znodes were looked for.
    pub members: u64,
    /// Znodes of caches that were compared with the tree.
    pub cached: u64,
    /// Walks over the tree through one server at the end, and the znodes on their way.
    pub walks: u64,
    /// See above.
    pub znodes_walked: u64,
    /// Losses of durable data in logs.
    pub losses: u64,
    /// Errors and ends of servers for which a fault of their disk is the reason.
    pub troubles_excused: u64,
    /// What servers had of things that are limited, and that was compared with the limit.
    pub gauges: u64,
    /// The same, where all clients had ended.
    pub gauges_at_rest: u64,
}

impl Counts {
    /// All of them, by their names. Of two in one the second is that of what is not in the log.
    pub fn named(&self) -> BTreeMap<String, u64> {
        let fields = serde_json::to_value(self).ok();
        let fields = fields.as_ref().and_then(Value::as_object).into_iter().flatten();
        let mut named = BTreeMap::new();
        for (name, value) in fields {
            if let Some(count) = value.as_u64() {
                named.insert(name.clone(), count);
            }
            if let Some([first, second]) = value.as_array().map(Vec::as_slice) {
                named.insert(format!("{name}_in_log"), first.as_u64().unwrap_or(0));
                named.insert(format!("{name}_not_in_log"), second.as_u64().unwrap_or(0));
            }
        }
        named
    }
}

/// What the checks have found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// All that is wrong.
    pub violations: Vec<Violation>,
    /// How much was looked at.
    pub counts: Counts,
}
