//! A long answer, put together in turns: a list has as many lines as there are sessions, connections or
//! watches, and all tasks of a server share one thread.

use std::fmt::Arguments;

use super::put;
use crate::host::{Host, Turn};

/// How many bytes are copied in a unit of a turn's budget.
const COPIED_BYTES: usize = 2 << 10;

/// The answer so far, and the turn of the task that puts it together.
pub(super) struct List<'a> {
    host: &'a Host,
    text: String,
    turn: Turn,
}

impl<'a> List<'a> {
    pub(super) fn new(host: &'a Host) -> Self {
        Self { host, text: String::new(), turn: Turn::default() }
    }

    /// Appends a line, or a few.
    pub(super) fn put(&mut self, lines: Arguments<'_>) {
        let before = self.text.len();
        put(&mut self.text, lines);
        self.spend(1 + (self.text.len() - before) / COPIED_BYTES);
    }

    /// Charges work to the turn.
    pub(super) fn spend(&mut self, work: usize) {
        self.turn.spend(work as u64);
    }

    /// Yields to other tasks if the turn is over.
    pub(super) async fn pause(&mut self) {
        if self.turn.is_over() {
            self.host.next_turn(&mut self.turn).await;
        }
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}
