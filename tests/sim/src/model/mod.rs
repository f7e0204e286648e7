//! A model of the service, to hold the servers against: slow and obvious, written from the protocol
//! (`docs/protocol.md`) and not from the servers' code.
//!
//! It takes the committed log and says what every command must have come to, and what every read at
//! every zxid must return. The rules by which it reads the log are these:
//!
//! - A batch is admitted as a whole or not at all, by its origin: for each server, it must go on where
//!   the last admitted batch of the same start and stream ended, or begin a later stream of the same
//!   start, or be of a later start. What is not admitted has no effect and takes no zxid.
//! - Every command of an admitted batch takes one zxid, refused ones too; a multi takes one. The first
//!   command of a higher term than that of the last zxid begins that term's numbers, at 1. The one
//!   exception is the first configuration, as the first command of all: its zxid has the number 0.
//! - A session is attached by the command that began or last resumed it: a server, its start, and the
//!   number of that command. A write or a close that was asked for on another attachment is refused as
//!   moved, one of a session that is not there as expired.
//! - An expiry, a configuration and a feature level count only if their leader was still leading when
//!   they came into the log; an expiry also only if the session was not resumed since.
//! - Time, identities and switches of the configuration are those in the log.
//! - Which feature level a command needs, the servers' code says. No entry needs more than those in front
//!   of it have agreed on, whether or not it is admitted.

pub mod access;
mod change;
mod level;
mod log;
pub mod path;
mod quota;
mod read;
mod state;
#[cfg(test)]
mod tests;
mod tree;
pub mod watches;
mod write;
mod znode;

pub use access::Who;
pub use change::{Change, ChangeKind};
pub use level::TooHigh;
pub use log::{LogEntry, merged};
pub use read::{Reader, in_order};
pub use state::{Attachment, Outcome, Session, State};
pub use tree::Tree;
pub use znode::{Kind, Znode};

use zoolet_jute::Zxid;
use zoolet_replica::{Batch, BatchHead, Command, Origin, Stamp, Term};

use crate::SimTime;
use crate::history::History;
use log::Fence;

/// A command of the log that took a zxid.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Its zxid.
    pub zxid: Zxid,
    /// The entry that it is in.
    pub index: u64,
    /// What the leader added.
    pub stamp: Stamp,
    /// Who proposed it.
    pub origin: Origin,
    /// The command.
    pub command: Command,
    /// What it must have come to.
    pub outcome: Outcome,
    /// When the first server has applied it.
    pub first_at: SimTime,
}

/// What the log says.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// All that took zxids, in their order.
    pub transactions: Vec<Transaction>,
    /// Entries, in order, each with the last zxid behind it.
    pub entries: Vec<(u64, Zxid)>,
    /// Entries that cannot be read, and why.
    pub unreadable: Vec<(u64, SimTime, String)>,
    /// Entries above the feature level that is agreed on in front of them.
    pub too_high: Vec<TooHigh>,
    /// How many commands were dropped by the rule of origins.
    pub dropped: u64,
    /// The state at the end.
    pub last: State,
}

impl Model {
    /// Carries out the log of a run.
    pub fn of(history: &History) -> Self {
        let mut model = Self::default();
        let mut fence = Fence::default();
        let mut state = State::default();
        for entry in merged(history) {
            model.apply(&mut state, &mut fence, entry);
        }
        model.last = state;
        model
    }

    fn apply(&mut self, state: &mut State, fence: &mut Fence, entry: LogEntry) {
        let LogEntry { index, term, batch, first_at, .. } = entry;
        // What holds no batch is the consensus' own, as the first entry of a term.
        if !batch.is_empty() {
            match Batch::decode(batch) {
                Ok(batch) => {
                    self.too_high.extend(TooHigh::find(&batch, state.level, (index, first_at)));
                    self.take(state, fence, batch, (index, Term(term), first_at));
                }
                Err(why) => self.unreadable.push((index, first_at, why.to_string())),
            }
        }
        self.entries.push((index, state.last_zxid));
    }

    fn take(
        &mut self,
        state: &mut State,
        fence: &mut Fence,
        batch: Batch,
        (index, term, first_at): (u64, Term, SimTime),
    ) {
        let Batch { origin, now_ms, commands } = batch;
        let count = u64::try_from(commands.len()).unwrap_or(u64::MAX);
        let Some(first) = commands.first().map(|command| command.number) else { return };
        if !fence.admits(BatchHead { origin, first, count }) {
            self.dropped += count;
            return;
        }
        let stamp = Stamp { term, now_ms };
        for command in commands {
            let outcome = state.apply(stamp, origin, &command);
            let zxid = outcome.zxid;
            self.transactions.push(Transaction {
                zxid,
                index,
                stamp,
                origin,
                command,
                outcome,
                first_at,
            });
        }
    }

    /// The transaction with this zxid.
    pub fn transaction(&self, zxid: Zxid) -> Option<&Transaction> {
        let at = self.transactions.binary_search_by_key(&zxid, |one| one.zxid).ok()?;
        self.transactions.get(at)
    }

    /// The last zxid behind the entries up to this place in the log.
    pub fn zxid_at(&self, index: u64) -> Zxid {
        let behind = self.entries.partition_point(|(at, _)| *at <= index);
        let last = behind.checked_sub(1).and_then(|at| self.entries.get(at));
        last.map_or(Zxid(0), |(_, zxid)| *zxid)
    }

    /// Whether there was a moment at which this was the last zxid.
    pub fn knows(&self, zxid: Zxid) -> bool {
        zxid == Zxid(0) || self.transaction(zxid).is_some()
    }

    /// Goes through the states, from the first.
    pub fn replay(&self) -> Replay<'_> {
        Replay { left: &self.transactions, state: State::default() }
    }
}

/// The states of a run, one after another.
#[derive(Clone, Debug)]
pub struct Replay<'a> {
    left: &'a [Transaction],
    state: State,
}

impl Replay<'_> {
    /// Goes on to the state at a zxid, and returns it. It never goes back.
    pub fn to(&mut self, zxid: Zxid) -> &State {
        while let Some((next, left)) = self.left.split_first()
            && next.zxid <= zxid
        {
            self.state.apply(next.stamp, next.origin, &next.command);
            self.left = left;
        }
        &self.state
    }
}
