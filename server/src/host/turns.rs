//! Turns. All tasks of a server share one thread (decision 0016), so a task that has worked for about
//! a millisecond yields to the others before its next hold of the lock (decision 0032).
//!
//! A hold that ends within its budget costs no turn. Most tasks never use one up.

use std::sync::Arc;

use tokio::sync::{Notify, Semaphore};
use tokio::task::yield_now;
use zoolet_replica::Input;

use super::Host;

/// The budget of a task until it yields to others. It bounds one hold of the lock and the sum of
/// several.
#[derive(Debug)]
pub struct Turn {
    left: u64,
}

impl Default for Turn {
    fn default() -> Self {
        Self { left: Self::WORK }
    }
}

impl Turn {
    /// The budget, in units of about a microsecond.
    pub(crate) const WORK: u64 = 1000;

    /// The work of a request in such units, in addition to its decoding and the charges of the replica.
    pub(super) const REQUEST: u64 = 3;

    /// Returns the work that is left.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Returns whether there is enough left for work that cannot be divided. A whole turn is enough for
    /// any.
    pub(crate) fn covers(&self, work: u64) -> bool {
        work <= self.left || self.left == Self::WORK
    }

    /// Charges work.
    pub(crate) fn spend(&mut self, work: u64) {
        self.left = self.left.saturating_sub(work);
    }

    /// Returns whether the budget is used up.
    pub(crate) fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Begins another one: other tasks have run.
    pub fn renew(&mut self) {
        *self = Self::default();
    }
}

/// The queue of tasks with more to do, and the signal for unfinished work.
#[derive(Debug)]
pub(super) struct Turns {
    /// Tasks with more to do resume one by one, in the order of their arrival.
    queue: Semaphore,
    /// Notified when a hold leaves work unfinished.
    pub(super) unfinished: Notify,
}

impl Default for Turns {
    fn default() -> Self {
        Self { queue: Semaphore::new(1), unfinished: Notify::new() }
    }
}

impl Host {
    /// Yields to the other tasks, the thread's timers and sockets included, and begins the next turn.
    pub(crate) async fn next_turn(&self, turn: &mut Turn) {
        // The semaphore is never closed.
        let _place = self.turns.queue.acquire().await;
        yield_now().await;
        turn.renew();
    }

    /// Finishes what holds have left to do (reads of many parts, replies to clients that have read,
    /// deadlines of a new leader's sessions, watches of closed connections), and yields to other
    /// tasks after each hold. Does not end.
    pub(crate) async fn finish_work(self: Arc<Self>) {
        loop {
            self.turns.unfinished.notified().await;
            while self.go_on() {
                yield_now().await;
            }
        }
    }

    /// Does some of that work in one hold. Returns whether there is more.
    pub fn go_on(&self) -> bool {
        let ((), has_more) = self.hold(|inner, _| {
            let begin = inner.replica.work_done();
            while inner.replica.work_done() - begin < Turn::WORK
                && let Some(connection) = inner.full.pop_front()
            {
                self.refill(inner, connection);
            }
            if inner.replica.has_work() && !inner.replica.is_applying() {
                self.step(inner, Input::GoOn);
            }
        });
        has_more
    }

    /// Returns the work of the replica since the start, in units of about a microsecond.
    #[cfg(test)]
    pub(crate) fn work_done(&self) -> u64 {
        self.locked(|inner, _| inner.replica.work_done())
    }
}
