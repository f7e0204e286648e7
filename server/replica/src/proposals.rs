//! What this server has proposed and has no outcome of.

use std::collections::VecDeque;
use std::sync::Arc;

use zoolet_jute::{ErrorCode, Id, SessionId, Xid};

use super::session::first_session;
use super::{Command, ConnectionId, Op, Output, Replica};
use crate::{Boot, ProposalNumber};

/// Who waits for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProposalOwner {
    /// A connection, with the slot at the front of its queue.
    Connection(ConnectionId),
    /// A connection that resumes a session, for which the old connection of that session waits
    /// as well.
    Resume {
        /// The new connection.
        connection: ConnectionId,
        /// The session.
        session: SessionId,
    },
    /// The leader, which has decided that a session has expired.
    Expiry(SessionId),
    /// The leader, which reaps a container or an overdue znode.
    Reaper,
    /// The leader, which writes the configuration.
    Config,
    /// The leader, which has found that all servers have a feature level.
    Level,
}

/// What a command is made of, besides what every command gets.
#[derive(Debug)]
pub(crate) struct CommandDraft {
    /// The session that asks, or that the leader decides about.
    pub(crate) session: SessionId,
    /// The connection's; see [`Command::attachment`]. A command that begins or resumes a session
    /// gets its own number instead.
    pub(crate) attachment: ProposalNumber,
    /// The xid of the request.
    pub(crate) cxid: Xid,
    /// Whom the connection had proved to be when the request was received.
    pub(crate) identities: Arc<[Id]>,
    /// What to do.
    pub(crate) op: Op,
}

impl CommandDraft {
    /// What the leader decides by itself.
    pub(crate) fn own(session: SessionId, op: Op) -> Self {
        Self {
            session,
            attachment: ProposalNumber::NONE,
            cxid: Xid(0),
            identities: Arc::from([]),
            op,
        }
    }
}

/// The proposals without an outcome, in the order of their numbers, without a gap.
#[derive(Debug)]
pub(crate) struct OpenProposals {
    waiting: VecDeque<ProposalOwner>,
    /// The number of the front.
    first: ProposalNumber,
    // Invariant: how many in `waiting` are the leader's own.
    background: usize,
}

impl OpenProposals {
    pub(crate) const fn new() -> Self {
        Self { waiting: VecDeque::new(), first: ProposalNumber(1), background: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// How many are the leader's own: expiries and reaping.
    pub(crate) fn background(&self) -> usize {
        self.background
    }

    /// The number of the last one.
    pub(crate) fn last(&self) -> ProposalNumber {
        ProposalNumber((self.first.0 + self.waiting.len() as u64).saturating_sub(1))
    }

    pub(crate) fn push(&mut self, waiting: ProposalOwner) -> ProposalNumber {
        self.background += usize::from(waiting.is_background());
        self.waiting.push_back(waiting);
        self.last()
    }

    /// Checks the count of the leader's own.
    pub(crate) fn check(&self) {
        let own = self.waiting.iter().filter(|waiting| waiting.is_background()).count();
        let counted = self.background;
        invariant!(own == counted, "{own} proposals of the leader are counted as {counted}");
    }

    /// The connection that waits for a command.
    pub(crate) fn connection_of(&self, number: ProposalNumber) -> Option<ConnectionId> {
        let place = usize::try_from(number.0.checked_sub(self.first.0)?).ok()?;
        match self.waiting.get(place)? {
            ProposalOwner::Connection(connection) | ProposalOwner::Resume { connection, .. } => {
                Some(*connection)
            }
            ProposalOwner::Expiry(_)
            | ProposalOwner::Reaper
            | ProposalOwner::Config
            | ProposalOwner::Level => None,
        }
    }

    /// Takes the front, with its number, if that is at most this one.
    pub(crate) fn pop_through(
        &mut self,
        number: ProposalNumber,
    ) -> Option<(ProposalNumber, ProposalOwner)> {
        if self.first > number {
            return None;
        }
        let waiting = self.waiting.pop_front()?;
        let (own, left, first) = (self.background, self.waiting.len() + 1, self.first);
        invariant!(own <= left, "{own} of the {left} proposals from {first} on are the leader's");
        invariant!(own > 0 || !waiting.is_background(), "proposal {first} was not counted");
        self.background -= usize::from(waiting.is_background());
        self.first.0 += 1;
        Some((first, waiting))
    }
}

impl ProposalOwner {
    fn is_background(self) -> bool {
        matches!(self, Self::Expiry(_) | Self::Reaper)
    }
}

impl Replica {
    /// Sends a command on its way into the log; answers its number.
    pub(crate) fn propose(
        &mut self,
        waiting: ProposalOwner,
        draft: CommandDraft,
        out: &mut Vec<Output>,
    ) -> ProposalNumber {
        let number = self.proposals.push(waiting);
        let CommandDraft { session, attachment, cxid, identities, op } = draft;
        let attachment = if op.attaches() { number } else { attachment };
        let policy = self.options.policy;
        let command = Command { number, session, attachment, cxid, policy, identities, op };
        out.push(Output::Propose(command));
        number
    }

    pub(crate) fn on_lost(&mut self, through: ProposalNumber, out: &mut Vec<Output>) {
        while let Some((number, waiting)) = self.proposals.pop_through(through) {
            if let ProposalOwner::Connection(connection) = waiting
                && planted!("lost-writes-are-refused")
            {
                self.answer_write(connection, number, Err(ErrorCode::OperationTimeout), out);
                continue;
            }
            self.lose(number, waiting, out);
        }
    }

    /// Goes on under this number of a start. Sessions of another number have no connection here.
    pub(crate) fn on_started(&mut self, boot: Boot, out: &mut Vec<Output>) {
        self.options.boot_is_certain = true;
        if boot == self.options.boot {
            return;
        }
        self.close_all(out);
        self.on_lost(self.proposals.last(), out);
        self.options.boot = boot;
        self.session_next = first_session(&self.options);
        self.read_only_from = self.session_next;
    }

    /// The outcome of a command is unknown.
    pub(crate) fn lose(
        &mut self,
        number: ProposalNumber,
        waiting: ProposalOwner,
        out: &mut Vec<Output>,
    ) {
        match waiting {
            ProposalOwner::Connection(connection) => self.close_soon(connection, out),
            ProposalOwner::Resume { connection, session } => {
                self.close_soon(connection, out);
                // The old connection was silenced for this one.
                if let Some(old) = self.sessions.get(&session).copied()
                    && self.connections.get(&old).is_some_and(|old| old.ignores_input)
                {
                    self.close_soon(old, out);
                }
            }
            ProposalOwner::Expiry(session) => self.expiry.note_loss(session, number),
            // The next look at the containers, or at the servers, finds it again.
            ProposalOwner::Reaper | ProposalOwner::Level => {}
            ProposalOwner::Config => self.config_proposed = false,
        }
    }
}
