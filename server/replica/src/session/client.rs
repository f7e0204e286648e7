//! One client connection, and the order of its requests.
//!
//! Every request has a slot in its connection's queue, and only the front of the queue is answered.
//!
//! ```text
//!   request ──▶ write ─────────▶ Proposed ── commit ──▶ reply
//!               write after a
//!               sync or a long
//!               read  ──▶ Held ──▶ Proposed
//!               sync ──────────▶ Sync ────── synced ──▶ reply
//!               reconfig ──────▶ Reconfig ─── done ────▶ reply
//!               read ──────────▶ Read ─ at the front ─▶ reply
//!               anything that is
//!               decided already ▶ Ready ─ at the front ▶ reply (and close)
//! ```
//!
//! Invariant: a proposed write has neither a sync nor a held write in front of it. Writes leave in
//! order and come back in order, so a committed write is always at the front of its queue, and a
//! read never sees a later write of its own connection.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use zoolet_jute::{
    ConnectResponse, ErrorCode, Id, ReconfigRequest, Reply, Request, SessionId, Zxid,
};

use super::reply_to::ReplyTo;
use crate::proposals::CommandDraft;
use crate::state::PartsLeft;
use crate::watch::WatchesLeft;
use crate::{Op, ProposalNumber};

/// One client connection.
#[derive(Debug)]
pub(crate) struct Client {
    /// Its session: the one that it has, or that it is waiting for.
    pub(crate) session: SessionId,
    /// The number of the command with which it began or resumed the session.
    pub(crate) attachment: ProposalNumber,
    /// The negotiated timeout in milliseconds.
    pub(crate) timeout_ms: i32,
    /// The client's address.
    pub(crate) peer: IpAddr,
    /// Whom it has proved to be, in the order of the proofs.
    pub(crate) identities: Arc<[Id]>,
    /// What comes from it is ignored: it is about to be closed, or its session is being resumed
    /// on another connection.
    pub(crate) ignores_input: bool,
    /// When its session was last touched, in the unit of the role; see `Replica::touch`.
    pub(crate) touch_mark: u64,
    /// Its last sign of life, in the time of [`super::SilentSessions`].
    pub(crate) active_ms: i64,
    /// Its pings that no leader has counted yet. They are answered out of turn: clients match them
    /// with nothing.
    pings: VecDeque<Ping>,
    /// The bytes of replies that the client had not read when the host said so last, and of those
    /// since.
    pub(crate) unread_bytes: usize,
    /// Whether the host is to say when the client has read.
    pub(crate) awaits_room: bool,
    /// What it has asked for and not got yet.
    pending_requests: VecDeque<PendingRequest>,
    // Invariant: the number of barriers in `pending_requests`.
    barriers: usize,
}

/// A ping whose turn has come, but that is not answered yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ping {
    /// The number of the touch that reports it to the leader.
    pub(crate) touch: u64,
    /// Where the reply goes.
    pub(crate) reply_to: ReplyTo,
}

/// A request that is not answered yet.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    /// Where the reply goes.
    pub(crate) reply_to: ReplyTo,
    /// What it waits for.
    pub(crate) wait: RequestState,
}

/// What a request waits for.
#[derive(Debug)]
pub(crate) enum RequestState {
    /// The command of this number.
    Proposed {
        /// The number.
        number: ProposalNumber,
        /// What the client gets when it is applied.
        answer: CommandReply,
    },
    /// An earlier sync, reconfiguration or long read, before it is proposed.
    Held {
        /// What to propose.
        op: Op,
        /// Whom the connection had proved to be.
        identities: Arc<[Id]>,
    },
    /// The sync of this number.
    Sync {
        /// The number.
        number: u64,
        /// The path, to be echoed.
        path: Option<String>,
    },
    /// Its turn, and then the outcome of a change of the ensemble.
    Reconfig {
        /// The number; `None` until its turn has come: it is judged behind everything in front
        /// of it.
        number: Option<u64>,
        /// What to change.
        request: ReconfigRequest,
        /// Whom the connection had proved to be.
        identities: Arc<[Id]>,
    },
    /// Its place in the queue, to read the state as it is then.
    Read {
        /// The request.
        request: Request,
        /// Whom the connection had proved to be.
        identities: Arc<[Id]>,
        /// Whether it may take several steps. Then later writes are held until it is answered:
        /// the log does not wait for it.
        is_long: bool,
    },
    /// The rest of a setWatches, which is under way.
    Watches(WatchesLeft),
    /// The rest of a multiRead, which is under way.
    Parts(Box<PartsLeft>),
    /// Its place in the queue, to be answered.
    Ready(Ready),
}

/// What a client gets when its command is applied.
#[derive(Debug)]
pub(crate) enum CommandReply {
    /// The result.
    Result,
    /// The result, and the end of the connection.
    ReplyThenClose,
    /// The handshake's answer, unless the client has seen more than this server.
    Handshake {
        /// The answer.
        response: ConnectResponse,
        /// The newest transaction that the client has seen.
        last_zxid_seen: Zxid,
    },
}

/// An answer that needs nothing but its turn.
#[derive(Debug)]
pub(crate) struct Ready {
    /// The answer.
    pub(crate) result: Result<Reply, ErrorCode>,
    /// What the header tells, when it is not the last transaction applied.
    pub(crate) zxid: Option<Zxid>,
    /// Whether the connection ends with it.
    pub(crate) close: bool,
}

impl Client {
    pub(crate) fn new(
        session: SessionId,
        timeout_ms: i32,
        peer: IpAddr,
        identities: Arc<[Id]>,
        handshake: PendingRequest,
    ) -> Self {
        let mut opened = Self::with_session(session, timeout_ms, peer, identities);
        opened.push(handshake);
        opened
    }

    /// A connection whose handshake is answered already.
    pub(crate) fn with_session(
        session: SessionId,
        timeout_ms: i32,
        peer: IpAddr,
        identities: Arc<[Id]>,
    ) -> Self {
        Self {
            session,
            attachment: ProposalNumber::NONE,
            timeout_ms,
            peer,
            identities,
            ignores_input: false,
            touch_mark: u64::MAX,
            active_ms: i64::MAX,
            pings: VecDeque::new(),
            unread_bytes: 0,
            awaits_room: false,
            pending_requests: VecDeque::new(),
            barriers: 0,
        }
    }

    /// How many requests are not answered yet.
    pub(crate) fn queued(&self) -> usize {
        self.pending_requests.len()
    }

    /// Whether a write must wait for an earlier request before it is proposed.
    pub(crate) fn holds_writes(&self) -> bool {
        self.barriers > 0
    }

    /// Whether everything that it has asked for is answered.
    pub(crate) fn awaits_nothing(&self) -> bool {
        self.pending_requests.is_empty() && self.pings.is_empty()
    }

    /// Keeps a ping until a leader has counted it.
    pub(crate) fn hold_ping(&mut self, ping: Ping) {
        let (last, next) = (self.pings.back().map_or(0, |ping| ping.touch), ping.touch);
        invariant!(last <= next, "touch {next} reports a ping behind one of touch {last}");
        self.pings.push_back(ping);
    }

    /// All held pings are reported to the leader once more, by this touch.
    pub(crate) fn report_pings(&mut self, touch: u64) {
        self.pings.iter_mut().for_each(|ping| ping.touch = touch);
    }

    /// Takes the oldest held ping, if this touch or an earlier one reported it.
    pub(crate) fn pop_ping(&mut self, through: u64) -> Option<Ping> {
        let ping = self.pings.pop_front_if(|ping| ping.touch <= through);
        if self.pings.is_empty() {
            self.pings = VecDeque::new();
        }
        ping
    }

    pub(crate) fn holds_pings(&self) -> bool {
        !self.pings.is_empty()
    }

    pub(crate) fn push(&mut self, pending: PendingRequest) {
        if let RequestState::Proposed { number, .. } = pending.wait {
            let barriers = self.barriers;
            invariant!(
                barriers == 0,
                "command {number} was proposed behind {barriers} held requests"
            );
        }
        self.barriers += usize::from(pending.wait.is_barrier());
        self.make_place();
        self.pending_requests.push_back(pending);
    }

    /// Puts back a slot that was taken from the front and is not answered yet.
    pub(crate) fn push_front(&mut self, pending: PendingRequest) {
        self.barriers += usize::from(pending.wait.is_barrier());
        self.make_place();
        self.pending_requests.push_front(pending);
    }

    /// Takes the front if it waits for nothing but its turn; syncs up to `synced` are done.
    pub(crate) fn pop_due(&mut self, synced: u64) -> Option<PendingRequest> {
        if self.has_due(synced) { self.pop() } else { None }
    }

    /// Whether the front waits for nothing but its turn.
    pub(crate) fn has_due(&self, synced: u64) -> bool {
        self.pending_requests.front().is_some_and(|pending| match &pending.wait {
            RequestState::Proposed { .. }
            | RequestState::Held { .. }
            | RequestState::Reconfig { .. } => false,
            RequestState::Sync { number, .. } => *number <= synced,
            RequestState::Read { .. }
            | RequestState::Watches(_)
            | RequestState::Parts(_)
            | RequestState::Ready(_) => true,
        })
    }

    /// Takes the front if it is the command of this number.
    pub(crate) fn pop_proposed(
        &mut self,
        number: ProposalNumber,
    ) -> Option<(ReplyTo, CommandReply)> {
        let front = self.pending_requests.front()?;
        if !matches!(front.wait, RequestState::Proposed { number: waiting, .. } if waiting == number)
        {
            return None;
        }
        let PendingRequest { reply_to, wait } = self.pop()?;
        match wait {
            RequestState::Proposed { answer, .. } => Some((reply_to, answer)),
            RequestState::Held { .. }
            | RequestState::Sync { .. }
            | RequestState::Reconfig { .. }
            | RequestState::Read { .. }
            | RequestState::Watches(_)
            | RequestState::Parts(_)
            | RequestState::Ready(_) => None,
        }
    }

    /// Numbers the change of the ensemble that is at the front, if it has no number yet.
    pub(crate) fn take_reconfig(&mut self, new: u64) -> Option<(ReconfigRequest, Arc<[Id]>)> {
        match &mut self.pending_requests.front_mut()?.wait {
            RequestState::Reconfig { number, request, identities } if number.is_none() => {
                *number = Some(new);
                Some((request.clone(), Arc::clone(identities)))
            }
            RequestState::Reconfig { .. }
            | RequestState::Proposed { .. }
            | RequestState::Held { .. }
            | RequestState::Sync { .. }
            | RequestState::Read { .. }
            | RequestState::Watches(_)
            | RequestState::Parts(_)
            | RequestState::Ready(_) => None,
        }
    }

    /// Takes the front if it is the change of the ensemble of this number.
    pub(crate) fn pop_reconfig(&mut self, wanted: u64) -> Option<PendingRequest> {
        let is_wanted = matches!(self.pending_requests.front()?.wait, RequestState::Reconfig { number: Some(n), .. } if n == wanted);
        if is_wanted { self.pop() } else { None }
    }

    /// Proposes held writes, up to the next other barrier, if one is at the front. `propose` returns
    /// the number under which it has proposed, or why it has not.
    pub(crate) fn release(
        &mut self,
        mut propose: impl FnMut(CommandDraft) -> Result<ProposalNumber, ErrorCode>,
    ) {
        if !self
            .pending_requests
            .front()
            .is_some_and(|pending| matches!(pending.wait, RequestState::Held { .. }))
        {
            return;
        }
        let (session, attachment) = (self.session, self.attachment);
        for pending in &mut self.pending_requests {
            let is_held = matches!(pending.wait, RequestState::Held { .. });
            if pending.wait.is_barrier() && !is_held {
                return;
            }
            if let RequestState::Held { op, identities } = &mut pending.wait {
                let answer = CommandReply::of(op);
                let op = std::mem::replace(op, Op::CloseSession);
                let identities = Arc::clone(identities);
                let cxid = pending.reply_to.xid;
                let draft = CommandDraft { session, attachment, cxid, identities, op };
                pending.wait = match propose(draft) {
                    Ok(number) => RequestState::Proposed { number, answer },
                    Err(code) => RequestState::error(code),
                };
                self.barriers -= 1;
            }
        }
    }

    /// The held writes of a connection that is gone.
    pub(crate) fn into_held(self) -> impl Iterator<Item = CommandDraft> {
        let (session, attachment) = (self.session, self.attachment);
        self.pending_requests.into_iter().filter_map(move |pending| match pending.wait {
            RequestState::Held { op, identities } => Some(CommandDraft {
                session,
                attachment,
                cxid: pending.reply_to.xid,
                identities,
                op,
            }),
            RequestState::Proposed { .. }
            | RequestState::Sync { .. }
            | RequestState::Reconfig { .. }
            | RequestState::Read { .. }
            | RequestState::Watches(_)
            | RequestState::Parts(_)
            | RequestState::Ready(_) => None,
        })
    }

    /// Checks the count of barriers, and that commands are in the order of their numbers, before
    /// all barriers.
    pub(crate) fn check(&self) {
        let (mut barriers, mut last) = (0, ProposalNumber::NONE);
        for pending in &self.pending_requests {
            barriers += usize::from(pending.wait.is_barrier());
            if let RequestState::Proposed { number, .. } = pending.wait {
                let is_next = barriers == 0 && last < number;
                invariant!(is_next, "command {number} is behind {last} and {barriers} barriers");
                last = number;
            }
        }
        let counted = self.barriers;
        invariant!(barriers == counted, "{barriers} barriers are counted as {counted}");
        let touches = self.pings.iter().map(|ping| ping.touch);
        invariant!(touches.is_sorted(), "{} held pings are out of order", self.pings.len());
    }

    /// Most clients wait for each reply, so the first request gets a place for itself alone.
    fn make_place(&mut self) {
        if self.pending_requests.is_empty() {
            self.pending_requests.reserve_exact(1);
        }
    }

    /// An empty queue keeps no memory: most sessions are idle, and a request takes more bytes than
    /// all else of its connection.
    fn pop(&mut self) -> Option<PendingRequest> {
        let pending = self.pending_requests.pop_front()?;
        let (barriers, left) = (self.barriers, self.pending_requests.len() + 1);
        if self.pending_requests.is_empty() {
            self.pending_requests = VecDeque::new();
        }
        let is_counted = barriers >= usize::from(pending.wait.is_barrier()) && barriers <= left;
        invariant!(is_counted, "{barriers} of {left} requests are counted as barriers");
        self.barriers -= usize::from(pending.wait.is_barrier());
        Some(pending)
    }
}

impl RequestState {
    fn is_barrier(&self) -> bool {
        match self {
            Self::Held { .. } | Self::Sync { .. } | Self::Reconfig { .. } | Self::Parts(_) => true,
            Self::Read { is_long, .. } => *is_long,
            Self::Watches(left) => left.is_long(),
            Self::Proposed { .. } | Self::Ready(_) => false,
        }
    }
}

impl CommandReply {
    /// What a client's own op is answered with.
    pub(crate) fn of(op: &Op) -> Self {
        if matches!(op, Op::CloseSession) { Self::ReplyThenClose } else { Self::Result }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use zoolet_jute::Xid;

    use super::super::reply_to::InFlight;
    use super::*;
    use crate::ConnectionId;

    #[test]
    fn a_client_that_waits_for_nothing_keeps_no_memory_for_requests() {
        let (peer, identities) = (IpAddr::from(Ipv4Addr::LOCALHOST), Arc::from([]));
        let mut client = Client::with_session(SessionId(1), 1000, peer, identities);
        let (connection, in_flight) = (ConnectionId(1), InFlight::default());
        let reply_to = ReplyTo { connection, xid: Xid(1), since_ms: 0, in_flight };
        for _ in 0..3 {
            let ready = Ready { result: Ok(Reply::Empty), zxid: None, close: false };
            client.push(PendingRequest { reply_to, wait: RequestState::Ready(ready) });
            client.hold_ping(Ping { touch: 1, reply_to });
        }
        while client.pop_due(0).is_some() {}
        while client.pop_ping(1).is_some() {}
        assert_eq!((client.queued(), client.pending_requests.capacity()), (0, 0));
        assert_eq!(client.pings.capacity(), 0);
    }
}
