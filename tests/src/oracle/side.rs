//! One of the two servers, and the sessions on it.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

use zoolet_jute::{ErrorCode, PathWatchRequest, Request, SessionId, Xid, Zxid};

use super::generate::Step;
use super::{KEEPER, OracleError, SESSION_TIMEOUT_MS, SESSIONS, compare};
use crate::raw::{Incoming, RawConnection};

/// One server with the sessions on it.
pub(super) struct Side {
    name: &'static str,
    server: SocketAddr,
    sessions: Vec<RawConnection>,
    last_zxid: Vec<Zxid>,
    time_of: BTreeMap<Zxid, i64>,
}

/// What one server did in one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) reply: Incoming,
    /// Whether the server has closed the connection.
    pub(super) closed: bool,
    /// For each session, the events in the order of their coming.
    pub(super) events: Vec<Vec<Incoming>>,
}

impl Side {
    pub(super) fn open(name: &'static str, server: SocketAddr) -> Result<Self, OracleError> {
        let mut side = Self {
            name,
            server,
            sessions: Vec::new(),
            last_zxid: vec![Zxid(0); SESSIONS + 1],
            time_of: BTreeMap::new(),
        };
        for _ in 0..=KEEPER {
            let session = RawConnection::open(server, SESSION_TIMEOUT_MS)
                .map_err(|error| OracleError::Io(name, error))?;
            side.sessions.push(session);
        }
        Ok(side)
    }

    pub(super) fn session_ids(&self) -> Vec<SessionId> {
        self.sessions.iter().map(|session| session.session.session_id).collect()
    }

    pub(super) fn perform(
        &mut self,
        session: usize,
        xid: Xid,
        step: &Step,
    ) -> Result<Outcome, OracleError> {
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
    pub(super) fn check_withheld(
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
    pub(super) fn check_times(&mut self, outcome: &Outcome) -> Result<(), String> {
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
    pub(super) fn reopen(&mut self, session: usize, ended: bool) -> Result<(), OracleError> {
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
    pub(super) fn close(&mut self) {
        for session in &mut self.sessions {
            // The run is over: a server that is gone by now has lost nothing.
            let _ = session.call(Xid(1), &Request::CloseSession);
        }
    }
}

fn connection(sessions: &mut [RawConnection], index: usize) -> io::Result<&mut RawConnection> {
    sessions.get_mut(index).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}
