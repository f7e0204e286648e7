//! The inputs and outputs of the replica's `step`.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use zoolet_jute::{
    ConnectRequest, ConnectResponse, ErrorCode, Id, ReconfigRequest, Reply, Request, SessionId,
    WatcherEvent, Xid, Zxid,
};

use super::audit_event::AuditEvent;
use super::command::Command;
use super::entry::DecodedEntry;
use super::level::FeatureLevel;
use super::session::{InFlight, ReplyTo, Silence};
use super::state::{LongReply, QuotaExceeded, State};
use super::written::Written;
use crate::{Boot, ProposalNumber, Term};

/// One client connection of this server, numbered from 1 since its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Everything that can happen to a replica. A new kind of input is a variant here and an arm of
/// [`super::Replica::step`].
#[derive(Clone, Debug)]
pub enum Input {
    /// A client has sent its `ConnectRequest`.
    Connect {
        /// The connection, new to the replica.
        connection: ConnectionId,
        /// The client's address, its first identity.
        peer: IpAddr,
        /// What the connection itself has proved, by a certificate for example.
        proved: Arc<[Id]>,
        /// The handshake.
        request: ConnectRequest,
    },
    /// A client has sent a request. They come in the order of the connection.
    Request {
        /// The connection.
        connection: ConnectionId,
        /// The client's number.
        xid: Xid,
        /// The request, or what was wrong with it.
        request: Result<Request, BadRequest>,
        /// What flow control counts of it; comes back with the reply.
        in_flight: InFlight,
    },
    /// A client has sent a token of a SASL login. In order with its requests.
    Sasl {
        /// The connection.
        connection: ConnectionId,
        /// The client's number.
        xid: Xid,
        /// What the token has led to.
        step: SaslStep,
        /// What flow control counts of it; comes back with the reply.
        in_flight: InFlight,
    },
    /// A connection is gone. Its session lives on.
    Disconnect {
        /// The connection.
        connection: ConnectionId,
    },
    /// A log entry is committed, the next one in the log.
    Commit {
        /// The term of the leader that put it into the log.
        term: Term,
        /// The entry.
        entry: DecodedEntry,
    },
    /// Proposals whose outcome is unknown: all unanswered ones up to this number.
    Lost {
        /// The last of them.
        through: ProposalNumber,
    },
    /// Everything is applied that was committed before this server started, and it goes on under a
    /// number that no earlier start has had. If that is another number than before, what it has
    /// proposed is lost, and its clients come back.
    Started {
        /// The number.
        boot: Boot,
    },
    /// Everything that was committed before these syncs were asked for is applied here.
    Synced {
        /// The last of them; see [`Output::Sync`].
        through: u64,
    },
    /// These syncs failed; their connections are closed.
    SyncLost {
        /// The last of them.
        through: u64,
    },
    /// Clients of other servers gave a sign of life. Only the leader gets this.
    Touched {
        /// Their sessions.
        sessions: Vec<SessionId>,
    },
    /// Other servers know for how long these sessions have been silent.
    Silences {
        /// The silences.
        silences: Vec<Silence>,
    },
    /// A leader has counted signs of life of these sessions; see [`Output::Touch`]. Those that it has
    /// not counted are not among them.
    Counted {
        /// The number of the last of the touches that the leader has received.
        through: u64,
        /// The sessions.
        sessions: Vec<SessionId>,
    },
    /// This server no longer belongs to the ensemble.
    Removed,
    /// This server's state differs from the majority's: nothing is served from it any more, not
    /// even reads.
    Diverged,
    /// A reconfiguration is done or refused; see [`Output::Reconfig`].
    Reconfigured {
        /// Its number.
        number: u64,
        /// What it has written, if it has removed this server; otherwise it is applied here. Or
        /// why it is refused.
        result: Result<Option<Written>, ErrorCode>,
    },
    /// The outcome of a reconfiguration is unknown; its connection is closed.
    ReconfigLost {
        /// Its number.
        number: u64,
    },
    /// The members of the ensemble, when they are no longer those of the configuration file.
    Members {
        /// What a leader writes to `/zookeeper/config`, without the version line.
        text: String,
        /// Whether it must be written even if it is there already: it gets a new version.
        write: bool,
    },
    /// All servers of the ensemble have this feature level. Only the leader takes note of it.
    Level {
        /// The level.
        level: FeatureLevel,
    },
    /// The server's part in the ensemble has changed.
    Role {
        /// What it is now.
        role: Role,
        /// The term in which it leads, if it does.
        term: Option<Term>,
    },
    /// A majority has lately answered this server as its leader, or its leader has sent to it. Comes
    /// before the role of a leader, a follower or an observer, and again and again while it has that.
    Lease {
        /// Until when that holds, on the monotonic clock. So long a leader may count signs of life: no
        /// later leader grants the sessions less (`Options::takeover_grace_ms`). For
        /// `Options::leader_loss_limit_ms` more the state is served (P9).
        until_ms: u64,
    },
    /// A session is to end now as if its timeout were over, whether or not its client is alive: for
    /// tests of programs. Only the leader does it.
    Expire {
        /// The session.
        session: SessionId,
    },
    /// Time has passed; comes several times in each tick.
    Tick,
    /// A client has given a sign of life whose request is not read yet.
    Alive {
        /// The connection.
        connection: ConnectionId,
    },
    /// What a client has not read yet; comes before its requests.
    Unread {
        /// The connection.
        connection: ConnectionId,
        /// The bytes of its replies.
        unwritten_bytes: usize,
    },
    /// A client has read replies; see [`Output::AwaitRoom`].
    Room {
        /// The connection.
        connection: ConnectionId,
        /// What it has not read yet.
        unwritten_bytes: usize,
    },
    /// A newer state, from a snapshot, replaces the one so far. Watches fire as if their clients had
    /// reconnected, and connections that cannot be served on without a gap are closed; where there
    /// are many, that is left for [`Input::GoOn`].
    Restore {
        /// The state.
        state: Box<State>,
    },
    /// To go on with what the last step has left; see [`super::Replica::has_work`].
    GoOn,
}

impl Input {
    /// The most sessions that one step looks up.
    pub const SESSIONS_MAX: usize = 1000;

    /// Cuts an input that would make a step long: leaves the first part, and returns the rest.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the others are one short step")]
    pub fn split_off(&mut self) -> Option<Self> {
        let rest = |sessions: &mut Vec<SessionId>| {
            let is_long = sessions.len() > Self::SESSIONS_MAX;
            is_long.then(|| sessions.split_off(Self::SESSIONS_MAX))
        };
        match self {
            Self::Silences { silences } => {
                let is_long = silences.len() > Self::SESSIONS_MAX;
                is_long.then(|| Self::Silences { silences: silences.split_off(Self::SESSIONS_MAX) })
            }
            Self::Touched { sessions } => rest(sessions).map(|sessions| Self::Touched { sessions }),
            Self::Counted { through, sessions } => {
                rest(sessions).map(|sessions| Self::Counted { through: *through, sessions })
            }
            _ => None,
        }
    }
}

/// What a token of a SASL login has led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaslStep {
    /// The login goes on, or has failed and the client is served all the same: the next token, or
    /// none.
    Token(Option<Bytes>),
    /// The login is done.
    LoggedIn {
        /// The last token.
        token: Bytes,
        /// What it has proved.
        proved: Vec<Id>,
    },
    /// The login has failed: the client gets this error, and the connection is closed.
    Refused(ErrorCode),
}

/// Why a request cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadRequest {
    /// The body does not decode: −5, and the connection goes on (protocol §1.3).
    Body,
    /// The operation does not exist, or is not for clients: −6, and the connection is closed.
    Op,
    /// It has waited too long for its turn: −127, nothing is done, and the connection goes on.
    Throttled,
}

/// The server's part in the ensemble. These are the parts that there are in Raft, so the enum is
/// closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// It leads, and a majority has lately said so.
    Leader,
    /// It follows a leader with which it has lately been in contact, with a vote.
    Follower,
    /// The same, without a vote.
    Observer,
    /// It knows of no leader that is alive.
    #[default]
    Looking,
}

/// Everything that a replica can want done, in the order in which it must be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Reply to the handshake. A refused one is followed by a `Close`.
    Accept {
        /// The connection.
        connection: ConnectionId,
        /// The answer.
        response: ConnectResponse,
    },
    /// Reply to a request.
    Reply {
        /// The request.
        to: ReplyTo,
        /// The last transaction applied.
        zxid: Zxid,
        /// The answer, or why there is none.
        result: Result<Reply, ErrorCode>,
    },
    /// Reply to a request with a long reply, which is to be written without the lock.
    ReplyLong {
        /// The request.
        to: ReplyTo,
        /// The last transaction applied.
        zxid: Zxid,
        /// The body.
        body: LongReply,
    },
    /// Say [`Input::Room`] once the client has read most of its replies: further ones are due.
    AwaitRoom {
        /// The connection.
        connection: ConnectionId,
    },
    /// Tell a client that a watch has fired.
    Notify {
        /// The connection.
        connection: ConnectionId,
        /// The transaction that fired it; [`Zxid::NONE`] when a setWatches made it up.
        zxid: Zxid,
        /// What happened.
        event: Arc<WatcherEvent>,
    },
    /// Close the connection once everything before is written. The replica has forgotten it.
    Close {
        /// The connection.
        connection: ConnectionId,
    },
    /// Stop the server: it cannot follow the log, and must not serve what it has.
    Fail {
        /// Why, for an operator.
        why: String,
    },
    /// Tell the operator that a write goes past a quota. Only the leader says so.
    QuotaExceeded(QuotaExceeded),
    /// Report what a command has done, or was not allowed to do. Only if [`super::Options::audit`] says
    /// so.
    Audit(Box<AuditEvent>),
    /// Put a command into the log. Numbers rise by one from output to output.
    Propose(Command),
    /// Find out up to where the log is committed now, apply up to there, and say
    /// [`Input::Synced`]. Numbers rise by one from output to output.
    Sync {
        /// The sync's number, from 1.
        number: u64,
    },
    /// Have the leader change the ensemble, and say [`Input::Reconfigured`] when that is done and
    /// applied here. Numbers rise by one from output to output.
    Reconfig {
        /// The reconfiguration's number, from 1.
        number: u64,
        /// What to change.
        request: ReconfigRequest,
        /// Who asks.
        identities: Arc<[Id]>,
    },
    /// Report to the leader that these sessions' clients gave a sign of life, and step with
    /// [`Input::Counted`] when it has counted that. What gets lost is reported again. Numbers rise by
    /// one from output to output.
    Touch {
        /// The touch's number, from 1.
        number: u64,
        /// The sessions.
        sessions: Vec<SessionId>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step of a hundred thousand sessions held the host's lock for as long as all took.
    #[test]
    fn sessions_of_one_input_are_cut_into_short_steps() {
        let all: Vec<_> = (0..2500).map(SessionId).collect();
        let mut next = Some(Input::Counted { through: 7, sessions: all.clone() });
        let mut parts = Vec::new();
        while let Some(mut input) = next {
            next = input.split_off();
            let Input::Counted { through: 7, sessions } = input else { panic!("{input:?}") };
            parts.push(sessions);
        }
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [1000, 1000, 500]);
        assert_eq!(parts.concat(), all);
        assert!(Input::Tick.split_off().is_none());
    }
}
