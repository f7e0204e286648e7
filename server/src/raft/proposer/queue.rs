//! What waits to be proposed, and what was seen of it in the log.

use std::collections::{BTreeSet, VecDeque};

use zoolet_jute::SessionId;

use crate::raft::options::BatchLimits;
use crate::raft::reconfig::Asked;
use crate::replica::{Command, Op};

#[derive(Debug, Default)]
pub(super) struct Queue {
    commands: VecDeque<Waiting>,
    // Invariant: the sum over `commands`, each with what it takes in memory besides.
    bytes: usize,
    /// The number of the last command that came in.
    pub(super) last_number: u64,
    pub(super) sync: u64,
    pub(super) touched: BTreeSet<SessionId>,
    /// The number of the last touch in it.
    pub(super) touch: u64,
    pub(super) reconfigs: VecDeque<Asked>,
}

/// A command, and the bytes that it takes in a batch at most.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) command: Command,
    pub(super) bytes: usize,
}

/// This server's row in the state's fence, kept from the entries as they are applied.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) stream: u64,
    pub(super) last: u64,
    /// A batch was dropped because its predecessor has not come.
    pub(super) gap: bool,
    /// A snapshot has replaced the state: what is in it of this server's commands is not known.
    pub(super) replaced: bool,
}

impl Seen {
    /// The rule of the state's fence.
    pub(super) fn apply(&mut self, stream: u64, first: u64, count: u64) {
        let follows = stream == self.stream && first == self.last.wrapping_add(1);
        if stream > self.stream || follows {
            self.stream = stream;
            self.last = first.wrapping_add(count).wrapping_sub(1);
        } else if stream == self.stream && first > self.last {
            self.gap = true;
        }
    }
}

impl Waiting {
    fn memory_bytes(&self) -> usize {
        self.bytes + size_of::<Self>()
    }
}

impl Queue {
    /// What the commands take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push(&mut self, waiting: Waiting) {
        self.bytes += waiting.memory_bytes();
        self.commands.push_back(waiting);
    }

    /// Takes everything.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Waiting> {
        self.bytes = 0;
        self.commands.drain(..)
    }

    /// Takes the effect from what came in, before its connection was closed, behind a lost command
    /// of the same session. The command keeps its place: numbers must not have gaps.
    pub(super) fn void_orphans(&mut self, mut sessions: BTreeSet<SessionId>) {
        for Waiting { command, .. } in &mut self.commands {
            match command.op {
                // From here on it is another connection.
                Op::CreateSession { .. } | Op::ResumeSession { .. } => {
                    sessions.remove(&command.session);
                }
                Op::Write(_) | Op::CloseSession if sessions.contains(&command.session) => {
                    command.session = SessionId::NONE;
                    // There is no such session, so there is nothing to expire.
                    command.op = Op::ExpireSession { generation: 0, term: 0 };
                }
                Op::Write(_)
                | Op::CloseSession
                | Op::ExpireSession { .. }
                | Op::DeleteContainer { .. }
                | Op::SetConfig { .. } => {}
            }
        }
    }

    /// Takes what fits into one batch, beginning with the oldest.
    pub(super) fn take_batch(&mut self, limits: BatchLimits) -> Vec<Command> {
        let (mut count, mut bytes) = (0, 0);
        for waiting in self.commands.iter().take(limits.commands_max) {
            bytes += waiting.bytes;
            if count > 0 && bytes > limits.bytes_max {
                break;
            }
            count += 1;
        }
        let taken = self.commands.drain(..count);
        taken
            .map(|waiting| {
                self.bytes -= waiting.memory_bytes();
                waiting.command
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zoolet_jute::Xid;

    use super::*;
    use crate::replica::Policy;

    fn command(number: u64, session: i64, op: Op) -> Command {
        Command {
            number,
            session: SessionId(session),
            attachment: 0,
            cxid: Xid(1),
            now_ms: 0,
            policy: Policy::default(),
            identities: Arc::from([]),
            op,
        }
    }

    fn sized(command: Command) -> Waiting {
        Waiting { bytes: command.encoded_bytes(), command }
    }

    #[test]
    fn nothing_follows_a_lost_command_of_its_session_until_the_session_is_resumed() {
        let resume = Op::ResumeSession { timeout_ms: 4000 };
        let mut queue = Queue::default();
        let commands = [
            command(5, 1, Op::CloseSession),
            command(6, 2, Op::CloseSession),
            command(7, 1, resume.clone()),
            command(8, 1, Op::CloseSession),
        ];
        for command in commands {
            queue.push(sized(command));
        }
        queue.void_orphans(BTreeSet::from([SessionId(1)]));
        let left: Vec<_> = queue
            .commands
            .into_iter()
            .map(|Waiting { command, .. }| (command.number, command.session.0, command.op))
            .collect();
        let expected = [
            (5, 0, Op::ExpireSession { generation: 0, term: 0 }),
            (6, 2, Op::CloseSession),
            (7, 1, resume),
            (8, 1, Op::CloseSession),
        ];
        assert_eq!(left, expected);
    }

    #[test]
    fn the_mirror_of_the_fence_tells_gaps_from_copies() {
        let mut seen = Seen::default();
        let mut apply = |stream, first, count| {
            seen.gap = false;
            seen.apply(stream, first, count);
            (seen.stream, seen.last, seen.gap)
        };
        assert_eq!(apply(1, 1, 3), (1, 3, false));
        assert_eq!(apply(1, 1, 3), (1, 3, false), "a copy");
        assert_eq!(apply(1, 6, 2), (1, 3, true), "its predecessor is missing");
        assert_eq!(apply(1, 4, 2), (1, 5, false));
        assert_eq!(apply(2, 9, 1), (2, 9, false), "a new stream begins anywhere");
        assert_eq!(apply(1, 6, 2), (2, 9, false), "an old stream is over");
    }

    #[test]
    fn a_batch_is_bounded_but_holds_at_least_one_command() {
        let limits = BatchLimits { commands_max: 512, bytes_max: 1 << 20 };
        let path = "p".repeat(limits.bytes_max);
        let mut queue = Queue::default();
        let mut push = |command| queue.push(sized(command));
        push(command(1, 0, Op::DeleteContainer { path: path.clone() }));
        push(command(2, 0, Op::DeleteContainer { path }));
        for number in 3..2000 {
            push(command(number, 1, Op::CloseSession));
        }
        assert_eq!(queue.take_batch(limits).len(), 1);
        assert_eq!(queue.take_batch(limits).len(), 1);
        assert_eq!(queue.take_batch(limits).len(), limits.commands_max);
        assert!(queue.bytes() > 0);
        while !queue.take_batch(limits).is_empty() {}
        assert_eq!(queue.bytes(), 0);
    }
}
