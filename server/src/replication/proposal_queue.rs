//! What waits to be proposed, and what was seen of it in the log.

use std::collections::{BTreeSet, VecDeque};

use zoolet_jute::SessionId;
use zoolet_replica::state::Admitted;
use zoolet_replica::{BatchHead, Command, Op, ProposalNumber};

use super::options::BatchLimits;
use super::reconfig::Asked;

#[derive(Debug, Default)]
pub(super) struct Queue {
    commands: VecDeque<Waiting>,
    // Invariant: the sum over `commands`, each with what it takes in memory besides.
    bytes: usize,
    /// The number of the last command that came in.
    pub(super) last_number: ProposalNumber,
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

/// What was seen in the log of this server's batches.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// This server's row of the state's fence, as the state has it.
    pub(super) admitted: Admitted,
    /// A batch was dropped because its predecessor has not come.
    pub(super) gap: bool,
    /// A snapshot has replaced the state: what is in it of this server's commands is not known.
    pub(super) replaced: bool,
}

impl Seen {
    /// Notes what has become of batches of this server, of which these are the heads: the fence's
    /// row is `admitted` behind the last of them.
    pub(super) fn apply(&mut self, heads: impl Iterator<Item = BatchHead>, admitted: Admitted) {
        self.admitted = admitted;
        let is_of_stream = |head: &BatchHead| {
            (head.origin.boot, head.origin.stream) == (admitted.boot, admitted.stream)
        };
        self.gap |= heads.filter(is_of_stream).any(|head| head.first > admitted.last);
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

    pub(super) fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Drops the commands up to this number.
    pub(super) fn drop_through(&mut self, number: ProposalNumber) {
        while let Some(waiting) = self.commands.pop_front_if(|it| it.command.number <= number) {
            self.bytes -= waiting.memory_bytes();
        }
    }

    /// Takes the effect from what came in, before its connection was closed, behind a lost command
    /// of the same session. The command keeps its place: numbers must not have gaps.
    pub(super) fn void_orphans(&mut self, mut sessions: BTreeSet<SessionId>) {
        for Waiting { command, .. } in &mut self.commands {
            if command.op.attaches() {
                // From here on it is another connection.
                sessions.remove(&command.session);
            } else if command.op.needs_attachment() && sessions.contains(&command.session) {
                command.void();
            }
        }
    }

    /// Takes what fits into one batch, beginning with the oldest. One that agrees on a feature level
    /// has a batch of its own.
    pub(super) fn take_batch(&mut self, limits: BatchLimits) -> Vec<Command> {
        let (mut count, mut bytes) = (0, 0);
        for waiting in self.commands.iter().take(limits.commands_max) {
            bytes += waiting.bytes;
            let is_alone = matches!(waiting.command.op, Op::SetLevel { .. });
            if count > 0 && (bytes > limits.bytes_max || is_alone) {
                break;
            }
            count += 1;
            if is_alone {
                break;
            }
        }
        let taken = self.commands.drain(..count).map(|waiting| {
            self.bytes -= waiting.memory_bytes();
            waiting.command
        });
        let mut batch: Vec<Command> = taken.collect();
        if planted!("commands-change-places")
            && let [_, one, next, _, ..] = batch.as_mut_slice()
        {
            std::mem::swap(one, next);
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zoolet_jute::Xid;
    use zoolet_replica::{Boot, FeatureLevel, Origin, Policy, ServerId, Term};

    use super::*;

    fn command(number: u64, session: i64, op: Op) -> Command {
        Command {
            number: ProposalNumber(number),
            session: SessionId(session),
            attachment: ProposalNumber::NONE,
            cxid: Xid(1),
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
            .map(|Waiting { command, .. }| (command.number.0, command.session.0, command.op))
            .collect();
        let expected = [
            (5, 0, Op::CloseSession),
            (6, 2, Op::CloseSession),
            (7, 1, resume),
            (8, 1, Op::CloseSession),
        ];
        assert_eq!(left, expected);
    }

    #[test]
    fn a_batch_behind_a_missing_one_is_a_gap_and_a_copy_is_not() {
        let heads = |firsts: &[(u64, u64)]| {
            let head = |&(stream, first): &(u64, u64)| {
                let origin = Origin { server: ServerId(1), boot: Boot(7), stream };
                BatchHead { origin, first: ProposalNumber(first), count: 2 }
            };
            firsts.iter().map(head).collect::<Vec<_>>()
        };
        let gap = |firsts: &[(u64, u64)], stream, last| {
            let mut seen = Seen::default();
            let last = ProposalNumber(last);
            seen.apply(heads(firsts).into_iter(), Admitted { boot: Boot(7), stream, last });
            seen.gap
        };
        assert!(!gap(&[(1, 1)], 1, 2));
        assert!(!gap(&[(1, 1), (1, 1)], 1, 2), "a copy");
        assert!(gap(&[(1, 5)], 1, 2), "its predecessor is missing");
        assert!(gap(&[(1, 3), (1, 1)], 1, 2), "its predecessor came behind it");
        assert!(!gap(&[(1, 3), (1, 1), (1, 3)], 1, 4), "and then itself again");
        assert!(!gap(&[(1, 5), (2, 9)], 2, 10), "an old stream is over");
    }

    #[test]
    fn a_command_that_agrees_on_a_level_has_a_batch_of_its_own() {
        let limits = BatchLimits { commands_max: 512, bytes_max: 1 << 20 };
        let level = Op::SetLevel { level: FeatureLevel::FIRST, term: Term(1) };
        let mut queue = Queue::default();
        for (number, op) in [(1, Op::CloseSession), (2, level), (3, Op::CloseSession)] {
            queue.push(sized(command(number, 1, op)));
        }
        let mut numbers = || -> Vec<u64> {
            queue.take_batch(limits).iter().map(|command| command.number.0).collect()
        };
        assert_eq!([numbers(), numbers(), numbers()], [[1], [2], [3]]);
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
