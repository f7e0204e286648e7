//! What takes long is done in steps: batches of many commands, commands with many changes, changes
//! with many watchers, replies that wait for a client to read, the look at the watches behind a
//! snapshot, the watches of a connection that is gone, and the deadlines of a new leader's sessions.
//!
//! Each step has a budget. While a command, or the look behind a snapshot, is half done, no request
//! reads the state: it waits for its turn, and gets it when that is done. So the steps cannot be
//! seen from outside, and no reply overtakes a notification. The same holds while the state may be
//! too old to be served.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use zoolet_jute::{ErrorCode, Reply, Zxid};

use super::audit::AuditDraft;
use super::cost;
use super::history::HistoryHead;
use super::session::{Client, Expiry};
use super::state::{Change, State, Step};
use super::{Command, ConnectionId, Origin, Output, ProposalNumber, Replica, Stamp};

/// The work of one step, in units of about a microsecond.
const STEP_WORK: usize = 1000;

/// How many changes of znodes a long command makes in one go.
const CHANGES_AT_ONCE: usize = 64;

/// The memory of the watches of a closed connection that are removed at once, in bytes.
const REMOVED_BYTES: usize = 24 << 10;

/// How many bytes of watches are removed in a unit of a step's budget.
const REMOVED_BYTES_PER_UNIT: usize = 160;

/// The work of closing a connection, in units of about a microsecond.
pub(super) const CLOSE_WORK: usize = 3;

/// The rest of a batch that is being applied.
#[derive(Debug)]
pub(super) struct Applying {
    pub(super) stamp: Stamp,
    pub(super) origin: Origin,
    /// Whether this server has proposed it.
    pub(super) ours: bool,
    pub(super) commands: std::vec::IntoIter<Command>,
    /// The last transaction before it, and the digest of the state then.
    pub(super) before: (Zxid, u64),
    /// The command that is half done.
    pub(super) current: Option<Current>,
}

/// A command that is half done.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) number: ProposalNumber,
    /// The last transaction before it.
    before: Zxid,
    /// Its changes for which no notification was sent yet.
    changes: std::vec::IntoIter<Change>,
    /// What has become of sessions.
    pub(super) sessions: Vec<Change>,
    pub(super) result: Option<Result<Reply, ErrorCode>>,
    /// What the audit log receives of it.
    pub(super) audit: Option<Box<AuditDraft>>,
    /// What the history receives with each of its changes.
    history: Option<HistoryHead>,
}

/// What was replaced, and takes long to free.
#[derive(Debug, Default)]
pub struct Garbage {
    pub(super) state: Option<State>,
    pub(super) deadlines: Option<Expiry>,
}

/// Connections and sessions for which something is left to do.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// Those with an answer that is due.
    pub(super) due: BTreeSet<ConnectionId>,
    /// The one of them whose turn it was last: they take turns.
    last: Option<ConnectionId>,
    /// Those that are to be closed. They are not served any more.
    pub(super) closing: BTreeMap<ConnectionId, Box<Client>>,
    /// Those that are gone and whose watches are not.
    pub(super) gone: VecDeque<ConnectionId>,
    /// The first part of the sessions that a new leader has not given their timeouts yet.
    pub(super) ungranted: Option<usize>,
}

impl Rest {
    /// Takes the connection whose turn it is.
    fn next_due(&mut self) -> Option<ConnectionId> {
        let after = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let next =
            self.due.range((after, Bound::Unbounded)).next().or(self.due.first()).copied()?;
        self.due.remove(&next);
        self.last = Some(next);
        Some(next)
    }
}

impl Replica {
    /// Whether the last step has left something to do, which [`super::Input::GoOn`] does.
    pub fn has_work(&self) -> bool {
        self.is_applying()
            || (!self.reads_wait() && !self.rest.due.is_empty())
            || !self.rest.closing.is_empty()
            || !self.rest.gone.is_empty()
            || self.rest.ungranted.is_some()
    }

    /// Whether entries of the log, or a snapshot, are half done. Who gave them sees to the rest.
    pub fn is_applying(&self) -> bool {
        self.applying.is_some() || self.jump.is_some()
    }

    /// The work that was done since the start, in units of about a microsecond.
    pub fn work_done(&self) -> u64 {
        self.work_done
    }

    /// The last transaction and the digest of the state at it. While a batch is being applied these
    /// are those before it: in between, no other server has the same.
    pub fn digest(&self) -> (Zxid, u64) {
        let now = || (self.state.last_zxid(), self.state.digest());
        self.applying.as_ref().map_or_else(now, |applying| applying.before)
    }

    /// Whether nothing may be read from the state.
    pub(super) fn reads_wait(&self) -> bool {
        (self.is_out_of_date() && !planted!("old-state-is-served-at-once"))
            || self.jump.is_some()
            || self.applying.as_ref().is_some_and(|applying| applying.current.is_some())
    }

    /// The last transaction that clients may know of.
    pub(super) fn visible_zxid(&self) -> Zxid {
        let current = self.applying.as_ref().and_then(|applying| applying.current.as_ref());
        current.map_or_else(|| self.state.last_zxid(), |current| current.before)
    }

    pub(super) fn begin_step(&mut self) {
        self.budget = STEP_WORK;
    }

    pub(super) fn spend(&mut self, work: usize) {
        self.budget = self.budget.saturating_sub(work);
        self.work_done += work as u64;
    }

    /// Goes on with what is left, within the budget of the step.
    pub(super) fn go_on(&mut self, out: &mut Vec<Output>) {
        while self.budget > 0 {
            let went_on = self.close_next(out)
                || self.catch_up_some(out)
                || self.apply_some(out)
                || self.drain_some(out)
                || self.forget_some()
                || self.grant_some();
            if !went_on {
                return;
            }
        }
    }

    /// Ends what entries of the log or a snapshot have left.
    pub(super) fn finish(&mut self, out: &mut Vec<Output>) {
        while self.is_applying() {
            self.begin_step();
            self.go_on(out);
        }
    }

    /// Takes the next bit of the batch that is being applied; false if there is none.
    fn apply_some(&mut self, out: &mut Vec<Output>) -> bool {
        if self.answer_before(out) {
            return true;
        }
        let Some(applying) = &mut self.applying else { return false };
        let Some(current) = &mut applying.current else {
            if let Some(command) = applying.commands.next() {
                self.begin_command(command);
            } else {
                self.applying = None;
                self.begin_serving();
            }
            return true;
        };
        let is_done = current.result.is_some();
        let zxid = self.state.pending_zxid();
        if self.notify_some(zxid, out) || self.note_changes() {
            return true;
        }
        if is_done {
            self.end_command(out);
        } else {
            let step = self.state.go_on(CHANGES_AT_ONCE);
            self.took(step);
        }
        true
    }

    fn begin_command(&mut self, command: Command) {
        let Some(Applying { stamp, origin, ours, .. }) = &self.applying else { return };
        let (stamp, origin, ours, number) = (*stamp, *origin, *ours, command.number);
        let left = self.storm.len();
        invariant!(left == 0, "command {number} begins with {left} changes not notified");
        let before = self.state.last_zxid();
        let audit = if ours { self.audit(&command) } else { None };
        let history = self.options.history;
        let history = history.then(|| HistoryHead::of(stamp, origin.server, &command));
        let step = self.state.begin(stamp, origin, command);
        let (changes, sessions) = (Vec::new().into_iter(), Vec::new());
        let current = Current { number, before, changes, sessions, result: None, audit, history };
        if let Some(applying) = &mut self.applying {
            applying.current = Some(current);
        }
        self.took(step);
    }

    /// Notes what a step of the command has done.
    fn took(&mut self, step: Step) {
        let work = step.work.max(usize::from(!step.changes.is_empty()));
        self.spend(3 + 3 * work + cost::units(step.cost_ns));
        let Some(applying) = &mut self.applying else { return };
        let Some(current) = &mut applying.current else { return };
        (current.result, current.changes) = (step.done, step.changes.into_iter());
        self.note_changes();
    }

    /// Hands some changes of the command on to the watchers and the history; false if there are
    /// none left. All changes of a multi come at its end.
    fn note_changes(&mut self) -> bool {
        let Some(applying) = &mut self.applying else { return false };
        let Some(current) = &mut applying.current else { return false };
        let noted = current.changes.len().min(CHANGES_AT_ONCE);
        let unwatched = self.watches.len() == 0;
        let data_bytes_max = self.options.history_data_bytes_max;
        for change in current.changes.by_ref().take(noted) {
            probe!();
            if let (Some(audit), Change::Deleted { path, .. }) = (&mut current.audit, &change) {
                audit.deleted(path);
            }
            match &change {
                Change::SessionOpened(_)
                | Change::SessionResumed { .. }
                | Change::SessionClosed(_) => current.sessions.push(change.clone()),
                Change::Created { .. } | Change::Deleted { .. } | Change::DataChanged { .. } => {
                    if !unwatched {
                        self.storm.push(change.clone());
                    }
                }
                Change::AclChanged { .. } => {}
            }
            if let Some(head) = &current.history {
                self.history.note((head, &self.state), data_bytes_max, change);
            }
        }
        self.spend(noted / 2);
        noted > 0
    }

    /// Answers everything whose turn has come, on connections for which that was put off.
    fn drain_some(&mut self, out: &mut Vec<Output>) -> bool {
        if self.reads_wait() {
            return false;
        }
        let Some(connection) = self.rest.next_due() else { return false };
        self.spend(1);
        self.drain(connection, out);
        true
    }

    fn forget_some(&mut self) -> bool {
        let Some(connection) = self.rest.gone.pop_front() else { return false };
        self.remove_watches_of(connection);
        true
    }

    /// Removes some watches of a connection that is gone, and leaves the others to
    /// [`Replica::forget_some`].
    pub(super) fn remove_watches_of(&mut self, gone: ConnectionId) {
        if self.budget > 0 {
            let bytes = self.watches.remove_some(gone, REMOVED_BYTES);
            self.spend(bytes / REMOVED_BYTES_PER_UNIT);
            if bytes < REMOVED_BYTES {
                return;
            }
        }
        self.rest.gone.push_front(gone);
    }

    /// Stops serving all connections but some, and closes them in steps.
    pub(super) fn close_all_but(&mut self, kept: &BTreeSet<ConnectionId>, out: &mut Vec<Output>) {
        let connections = &mut self.connections;
        let others = kept.iter().filter_map(|kept| connections.remove_entry(kept)).collect();
        let mut closing = std::mem::replace(connections, others);
        for gone in closing.values() {
            self.note_hang_up(gone);
        }
        self.rest.closing.append(&mut closing);
        self.sessions.retain(|_, connection| kept.contains(connection));
        self.pinging.retain(|connection| kept.contains(connection));
        self.rest.due.retain(|connection| kept.contains(connection));
        while self.budget > 0 && self.close_next(out) {}
    }

    fn close_next(&mut self, out: &mut Vec<Output>) -> bool {
        let Some((connection, _)) = self.rest.closing.first_key_value() else { return false };
        self.close(*connection, out);
        true
    }
}
