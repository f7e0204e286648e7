//! The oracle: the same operations go to a real Apache `ZooKeeper` and to zoolet, and every reply,
//! Stat, error code and watch event must be the same.
//!
//! Both servers start empty. A seeded generator makes operations of several sessions; after each
//! one every session is pinged, so that all the events that it fired are in. Zxids differ between
//! the servers, so they are mapped: each pair that is met must be met again, and the mapping must
//! keep the order. What is meant to differ stands in [`differences`], with its reason.

mod compare;
pub mod differences;
mod generate;

use std::fmt;
use std::io;
use std::net::SocketAddr;

use fastrand::Rng;
use zoolet_jute::{ErrorCode, PathWatchRequest, Request, SessionId, Xid, Zxid};

use crate::raw::{Incoming, RawConnection};
use compare::Mapping;
use generate::{Generator, Step};

/// The sessions that take part at a time.
const SESSIONS: usize = 3;

/// The session timeout, long enough to never expire on a slow machine; in milliseconds.
const SESSION_TIMEOUT_MS: i32 = 40_000;

/// The steps that a disagreement tells of before its own.
const HISTORY_MAX: usize = 12;

/// The characters of a line that say enough: data can be thousands of bytes.
const LINE_CHARS_MAX: usize = 700;

/// What a run has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// The operations that both servers answered.
    pub operations: u64,
    /// The watch events that both servers sent.
    pub events: u64,
    /// The operations that both servers refused.
    pub refused: u64,
    /// The replies that fell under a difference that is meant.
    pub differences: u64,
}

/// Where the two servers disagree.
#[derive(Debug)]
pub struct Disagreement {
    /// The seed that replays it.
    pub seed: u64,
    /// The number of the operation.
    pub step: u64,
    /// What was asked.
    pub asked: String,
    /// What the reference answered.
    pub reference: String,
    /// What the subject answered.
    pub subject: String,
    /// The operations that led there.
    pub history: Vec<String>,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.history {
            writeln!(f, "    {line}")?;
        }
        writeln!(f, "seed {} step {}: {}", self.seed, self.step, self.asked)?;
        writeln!(f, "  reference: {}", self.reference)?;
        write!(f, "  subject:   {}", self.subject)
    }
}

/// Why a run ended early.
#[derive(Debug)]
pub enum OracleError {
    /// The servers disagree.
    Disagreement(Box<Disagreement>),
    /// A server could not be talked to.
    Io(&'static str, io::Error),
}

impl fmt::Display for OracleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disagreement(disagreement) => disagreement.fmt(f),
            Self::Io(side, error) => write!(f, "the {side}: {error}"),
        }
    }
}

/// One server with the sessions on it.
struct Side {
    name: &'static str,
    server: SocketAddr,
    sessions: Vec<RawConnection>,
    last_zxid: Vec<Zxid>,
    time_of: std::collections::BTreeMap<Zxid, i64>,
}

/// What one server did in one step.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    reply: Incoming,
    /// Whether the server has closed the connection.
    closed: bool,
    /// For each session, the events in the order of their coming.
    events: Vec<Vec<Incoming>>,
}

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Decides everything.
    pub seed: u64,
    /// How many operations.
    pub operations: u64,
    /// Whether multis are among them. With hard quotas they must not: see
    /// [`differences::QUOTA_IN_MULTI`].
    pub multis: bool,
}

/// Runs a plan against both servers.
pub fn run(reference: SocketAddr, subject: SocketAddr, plan: Plan) -> Result<Summary, OracleError> {
    let Plan { seed, operations, multis } = plan;
    let mut reference = Side::open("reference", reference)?;
    let mut subject = Side::open("subject", subject)?;
    let mut mapping = Mapping::default();
    mapping.sessions(&reference.session_ids(), &subject.session_ids());
    let mut generator = Generator::new(Rng::with_seed(seed), SESSIONS, multis);
    let mut summary = Summary::default();
    let mut history = Vec::new();
    for step in 0..operations {
        let (session, asked) = generator.next_step();
        let xid = Xid(i32::try_from(step % 0x7fff_0000).unwrap_or(0) + 1);
        let left = reference.perform(session, xid, &asked)?;
        let right = subject.perform(session, xid, &asked)?;
        let described = format!("session {session}: {asked:?}");
        let agreed = reference
            .check_times(&left)
            .and_then(|()| subject.check_times(&right))
            .and_then(|()| mapping.agree(&asked, &left, &right));
        let agreed = match agreed {
            Ok(verdict) => {
                reference.check_withheld(session, xid, mapping.take_withheld(), verdict)?
            }
            Err(why) => Err(why),
        };
        match agreed {
            Ok(verdict) => summary.count(&left, verdict),
            Err(why) => {
                return Err(OracleError::Disagreement(Box::new(Disagreement {
                    seed,
                    step,
                    asked: format!("{}: {}", short(&described), short(&why)),
                    reference: short(&format!("{left:?}")),
                    subject: short(&format!("{right:?}")),
                    history,
                })));
            }
        }
        generator.learn(&asked, &left.reply);
        let ended = asked.ends_session();
        if left.closed {
            reference.reopen(session, ended)?;
            subject.reopen(session, ended)?;
        }
        if left.closed || asked == Step::Resume {
            generator.session_reopened(session);
            mapping.sessions(&reference.session_ids(), &subject.session_ids());
        }
        if history.len() == HISTORY_MAX {
            history.remove(0);
        }
        history.push(short(&format!("{step} {described} -> {:?}", left.reply)));
    }
    reference.close();
    subject.close();
    Ok(summary)
}

fn short(line: &str) -> String {
    line.chars().take(LINE_CHARS_MAX).collect()
}

impl Summary {
    fn count(&mut self, outcome: &Outcome, verdict: compare::Verdict) {
        self.operations += 1;
        self.events += outcome.events.iter().map(|events| events.len() as u64).sum::<u64>();
        if matches!(&outcome.reply, Incoming::Reply(header, _) if header.err.is_some()) {
            self.refused += 1;
        }
        if verdict == compare::Verdict::MeantDifference {
            self.differences += 1;
        }
    }
}

impl Side {
    fn open(name: &'static str, server: SocketAddr) -> Result<Self, OracleError> {
        let mut side = Self {
            name,
            server,
            sessions: Vec::new(),
            last_zxid: vec![Zxid(0); SESSIONS],
            time_of: std::collections::BTreeMap::new(),
        };
        for _ in 0..SESSIONS {
            let session = RawConnection::open(server, SESSION_TIMEOUT_MS)
                .map_err(|error| OracleError::Io(name, error))?;
            side.sessions.push(session);
        }
        Ok(side)
    }

    fn session_ids(&self) -> Vec<SessionId> {
        self.sessions.iter().map(|session| session.session.session_id).collect()
    }

    fn perform(&mut self, session: usize, xid: Xid, step: &Step) -> Result<Outcome, OracleError> {
        let name = self.name;
        self.try_perform(session, xid, step).map_err(|error| OracleError::Io(name, error))
    }

    fn try_perform(&mut self, session: usize, xid: Xid, step: &Step) -> io::Result<Outcome> {
        let mut events = vec![Vec::new(); self.sessions.len()];
        let own = connection(&mut self.sessions, session)?;
        let (first, reply) = match step {
            Step::Call(request) => own.call(xid, request)?,
            Step::Payload(op, body) => {
                let mut payload = Vec::new();
                payload.extend_from_slice(&xid.0.to_be_bytes());
                payload.extend_from_slice(&op.to_be_bytes());
                payload.extend_from_slice(body);
                own.send_payload(&payload, zoolet_jute::OpCode::Ping)?;
                own.until_reply()?
            }
            Step::Resume => {
                let request = own.resume_request(Zxid(0));
                *own = RawConnection::handshake(self.server, &request)?;
                let granted = own.session.clone();
                let header = zoolet_jute::ReplyHeader {
                    xid,
                    zxid: Zxid(0),
                    err: (granted.timeout_ms == 0).then_some(ErrorCode::SessionExpired),
                };
                (Vec::new(), Incoming::Reply(header, None))
            }
        };
        if let Some(own) = events.get_mut(session) {
            own.extend(first);
        }
        if let Incoming::Reply(header, _) = &reply {
            self.check_monotone(session, header.zxid)?;
        }
        let mut closed = reply == Incoming::Closed;
        if !closed && step.is_last(&reply) {
            // The server closes behind its reply, but a ping might still be answered in between.
            let (more, end) = connection(&mut self.sessions, session)?.until_reply()?;
            closed = end == Incoming::Closed;
            if let Some(own) = events.get_mut(session) {
                own.extend(more);
            }
        }
        for (index, connection) in self.sessions.iter_mut().enumerate() {
            if closed && index == session {
                continue;
            }
            let (more, gone) = match connection.call(Xid::PING, &Request::Ping) {
                Ok((more, end)) => (more, end == Incoming::Closed),
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => (Vec::new(), true),
                Err(error) => return Err(error),
            };
            if let Some(list) = events.get_mut(index) {
                list.extend(more);
            }
            if gone && index != session {
                let why = format!("session {index} was closed by an operation of {session}");
                return Err(io::Error::new(io::ErrorKind::ConnectionReset, why));
            }
            closed |= gone;
        }
        Ok(Outcome { reply, closed, events })
    }

    /// Sees that the session may not read the znodes whose events were withheld from it.
    fn check_withheld(
        &mut self,
        session: usize,
        xid: Xid,
        paths: Vec<String>,
        verdict: compare::Verdict,
    ) -> Result<Result<compare::Verdict, String>, OracleError> {
        let mut verdict = verdict;
        for path in paths {
            let request = PathWatchRequest { path: path.clone(), watch: false };
            let asked = Step::Call(Request::Exists(request));
            let reply = self.perform(session, xid, &asked)?.reply;
            let denied = matches!(&reply, Incoming::Reply(header, _) if header.err == Some(ErrorCode::NoAuth));
            if !denied {
                return Ok(Err(format!("the event of {path} is missing, but it may be read")));
            }
            verdict = compare::Verdict::MeantDifference;
        }
        Ok(Ok(verdict))
    }

    /// A connection's zxids never go back; zero and minus one stand for none.
    fn check_monotone(&mut self, session: usize, zxid: Zxid) -> io::Result<()> {
        let Some(last) = self.last_zxid.get_mut(session) else { return Ok(()) };
        if zxid.0 > 0 {
            if zxid < *last {
                let why = format!("session {session}: zxid {zxid} behind {last}");
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            *last = zxid;
        }
        Ok(())
    }

    /// A transaction has one time, wherever it shows.
    fn check_times(&mut self, outcome: &Outcome) -> Result<(), String> {
        let Incoming::Reply(_, Some(reply)) = &outcome.reply else { return Ok(()) };
        for stat in compare::stats(reply) {
            for (zxid, time) in [(stat.czxid, stat.ctime), (stat.mzxid, stat.mtime)] {
                if zxid.0 > 0 && *self.time_of.entry(zxid).or_insert(time) != time {
                    return Err(format!("{}: transaction {zxid} has two times", self.name));
                }
            }
        }
        Ok(())
    }

    /// Connects again: with a new session if the old one was closed, else with the same.
    fn reopen(&mut self, session: usize, ended: bool) -> Result<(), OracleError> {
        let (name, server) = (self.name, self.server);
        let reopened = connection(&mut self.sessions, session).and_then(|old| {
            *old = if ended {
                RawConnection::open(server, SESSION_TIMEOUT_MS)?
            } else {
                RawConnection::handshake(server, &old.resume_request(Zxid(0)))?
            };
            Ok(())
        });
        reopened.map_err(|error| OracleError::Io(name, error))
    }

    /// Ends the sessions, as far as they still answer.
    fn close(&mut self) {
        for session in &mut self.sessions {
            // The run is over: a server that is gone by now has lost nothing.
            let _ = session.call(Xid(1), &Request::CloseSession);
        }
    }
}

fn connection(sessions: &mut [RawConnection], index: usize) -> io::Result<&mut RawConnection> {
    sessions.get_mut(index).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}
