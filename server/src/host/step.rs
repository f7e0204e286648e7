//! One hold of the lock: steps of the replica, and where their outputs go.

use zoolet_replica::{ConnectionId, Input, Op, Output};

use super::outgoing_reply::{OutgoingReply, ReplyBody};
use super::{HISTORY_AT_ONCE, Host, Inner, OUTPUTS_KEPT_MAX};
use crate::clock::Now;
use crate::process::drop_elsewhere;

impl Host {
    /// Runs `work` under the lock, then wakes the tasks with something to write. Unfinished work is left
    /// to [`Host::finish_work`], except for entries of the log, which the log itself finishes.
    pub(super) fn locked<T>(&self, work: impl FnOnce(&mut Inner, Now) -> T) -> T {
        self.hold(work).0
    }

    /// Does the same. Returns also whether work is left.
    pub(super) fn hold<T>(&self, work: impl FnOnce(&mut Inner, Now) -> T) -> (T, bool) {
        let mut inner = self.inner.lock();
        let since_us = self.clock.mono_us();
        // Read under the lock: the replica's time must not go back.
        let now = self.clock.now();
        let result = work(&mut inner, now);
        let wakers = std::mem::take(&mut inner.wakers);
        inner.shared_event = None;
        let garbage = inner.replica.take_garbage();
        let replica = &inner.replica;
        let has_more = !inner.has_failed
            && (!inner.full.is_empty() || replica.has_work() && !replica.is_applying());
        let is_news = has_more && !inner.has_announced;
        inner.has_announced = has_more;
        let held_us = self.clock.mono_us().saturating_sub(since_us);
        inner.figures.hold_us_max = inner.figures.hold_us_max.max(held_us);
        drop(inner);
        for waker in wakers {
            waker.wake();
        }
        if is_news {
            self.turns.unfinished.notify_one();
        }
        if let Some(garbage) = garbage {
            drop_elsewhere(garbage);
        }
        (result, has_more)
    }

    /// Has the due replies of a connection made, once its client has read enough.
    pub(super) fn refill(&self, inner: &mut Inner, connection: ConnectionId) {
        let Some(entry) = inner.connections.get(&connection) else { return };
        if entry.outbox.want_room() {
            let unwritten_bytes = entry.outbox.unwritten_bytes();
            self.step(inner, Input::Room { connection, unwritten_bytes });
        }
    }

    /// Takes one step of the replica. The clock is read for each one: a hold may have many, and reads
    /// must not be judged by the time at which it began.
    pub(super) fn step(&self, inner: &mut Inner, input: Input) {
        if inner.has_failed {
            return;
        }
        let now = self.clock.now();
        let is_tick = matches!(input, Input::Tick);
        let mut outputs = std::mem::take(&mut inner.outputs);
        inner.replica.step(now, input, &mut outputs);
        let lock_events = inner.replica.take_lock_events();
        inner.times.note_locks(lock_events);
        for refusal in inner.replica.take_refusals() {
            self.limit_table.refuse(refusal.limit, now.mono_ms, refusal);
        }
        self.dispatch(inner, now, outputs);
        // After the replies of this step, which may refer to it, are in their outboxes.
        for data in inner.replica.take_replaced_data() {
            inner.count_replaced(&data);
        }
        if is_tick || inner.replica.history_len() >= HISTORY_AT_ONCE {
            let mut items = inner.replica.drain_history();
            if let Some(history) = &inner.history {
                history.record(&mut items);
                if is_tick {
                    history.tick(now.wall_ms);
                }
            }
        }
    }

    pub(super) fn dispatch(&self, inner: &mut Inner, now: Now, mut outputs: Vec<Output>) {
        for output in outputs.drain(..) {
            match output {
                Output::Accept { connection, response } => {
                    inner.accept(now, connection, &response);
                }
                Output::Reply { to, zxid, result } => {
                    inner.reply(
                        now,
                        OutgoingReply { to, zxid, result: result.map(ReplyBody::Short) },
                    );
                }
                Output::ReplyLong { to, zxid, body } => {
                    inner.reply(now, OutgoingReply { to, zxid, result: Ok(ReplyBody::Long(body)) });
                }
                Output::AwaitRoom { connection } => inner.full.push_back(connection),
                Output::Notify { connection, zxid, event } => {
                    inner.notify(connection, zxid, &event);
                }
                Output::Close { connection } => inner.close(connection),
                Output::Fail { why } => self.fail(inner, why),
                Output::QuotaExceeded(exceeded) => inner.quota_log.log(now.mono_ms, exceeded),
                Output::Audit(event) => {
                    if let Some(audit) = &inner.audit {
                        audit.record(now.wall_ms, *event);
                    }
                }
                Output::Propose(command) => {
                    let is_expiry = matches!(command.op, Op::ExpireSession { .. });
                    inner.figures.sessions_expired += u64::from(is_expiry);
                    self.proposals.propose(command);
                }
                Output::Sync { number } => self.proposals.sync(number),
                Output::Reconfig { number, request, identities } => {
                    self.proposals.reconfig(number, request, identities);
                }
                Output::Touch { number, sessions } => self.proposals.touch(number, sessions),
            }
        }
        // A commit that fires a hundred thousand watches must not leave its megabytes behind.
        if outputs.capacity() <= OUTPUTS_KEPT_MAX {
            inner.outputs = outputs;
        }
    }
}
