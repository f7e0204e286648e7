//! Histories made by hand: good ones, which every check accepts, and lies, each of which the right
//! check finds.

mod alone;
mod answers;
mod clients;
mod complaints;
mod locks;
mod locks_by_hand;
mod log;
mod long;
mod losses;
mod recipes;
mod sessions;
mod walks;
mod watches;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zoolet_jute::{
    Acl, CreateRequest, ErrorCode, EventType, KeeperState, PathVersionRequest, PathWatchRequest,
    Reply, Request, SessionId, SetDataRequest, WatcherEvent, Xid, Zxid,
};
use zoolet_replica::{
    Batch, Boot, Command, Op, Origin, Policy, ProposalNumber, ServerId, Stamp, Term,
};

use super::{Counts, Options, Violation, all};
use crate::SimTime;
use crate::history::{
    Applied, CallNumber, ClientNumber, Connection, Digest, History, LockStep, Record, What,
};
use crate::model::{Outcome, Reader, State, Who};

const TIMEOUT_MS: u32 = 4000;

/// A connection of the story.
#[derive(Clone, Copy, Debug)]
struct Client {
    number: ClientNumber,
    connection: Connection,
    server: ServerId,
    session: SessionId,
    attachment: ProposalNumber,
}

/// A run, made step by step, as it goes when all is well.
#[derive(Clone, Debug)]
struct Story {
    history: History,
    now: SimTime,
    term: u64,
    index: u64,
    state: State,
    numbers: BTreeMap<ServerId, u64>,
    xids: BTreeMap<Connection, i32>,
    calls: u64,
    connections: u64,
    sessions: i64,
}

impl Story {
    fn new() -> Self {
        let mut history = History::default();
        for server in 1..=3 {
            history.servers.entry(ServerId(server)).or_default();
        }
        Self {
            history,
            now: SimTime::from_ms(1000),
            term: 1,
            index: 0,
            state: State::default(),
            numbers: BTreeMap::new(),
            xids: BTreeMap::new(),
            calls: 0,
            connections: 0,
            sessions: 0x100,
        }
    }

    fn wait(&mut self, ms: u64) {
        self.now = self.now + Duration::from_millis(ms);
    }

    fn note(&mut self, what: What) {
        self.wait(1);
        self.history.records.push(Record { at: self.now, what });
    }

    fn command(&mut self, server: ServerId, session: SessionId, op: Op) -> Command {
        let number = self.numbers.entry(server).or_default();
        *number += 1;
        Command {
            number: ProposalNumber(*number),
            session,
            attachment: ProposalNumber(*number),
            cxid: Xid(0),
            policy: Policy { extended_types: true, ..Policy::default() },
            identities: Arc::from([]),
            op,
        }
    }

    /// A command comes into the log, and all servers apply it.
    fn apply(&mut self, server: ServerId, command: Command) -> Outcome {
        self.wait(1);
        self.index += 1;
        let origin = Origin { server, boot: Boot(1), stream: 1 };
        let now_ms = i64::try_from(self.now.ms()).unwrap();
        let stamp = Stamp { term: Term(self.term), now_ms };
        let outcome = self.state.apply(stamp, origin, &command);
        let batch = Batch { origin, now_ms, commands: vec![command] }.encode();
        let (at, index, term) = (self.now, self.index, self.term);
        for log in self.history.servers.values_mut() {
            log.applied.push(Applied { at, index, term, batch: batch.clone() });
            let (zxid, digest) = (outcome.zxid, index * 7919);
            log.digests.push(Digest { at, index, zxid, digest });
        }
        outcome
    }

    /// A client begins a session.
    fn connect(&mut self, number: u32, server: u8) -> Client {
        self.sessions += 1;
        let session = SessionId(self.sessions);
        let timeout_ms = i32::try_from(TIMEOUT_MS).unwrap();
        let op = Op::CreateSession { timeout_ms };
        self.attach(ClientNumber(number), ServerId(server), session, op, Zxid(0))
    }

    /// It comes back.
    fn resume(&mut self, client: Client, server: u8, last_seen: Zxid) -> Client {
        self.note(What::Disconnected { connection: client.connection });
        let timeout_ms = i32::try_from(TIMEOUT_MS).unwrap();
        let op = Op::ResumeSession { timeout_ms };
        self.attach(client.number, ServerId(server), client.session, op, last_seen)
    }

    fn attach(
        &mut self,
        number: ClientNumber,
        server: ServerId,
        session: SessionId,
        op: Op,
        last_seen: Zxid,
    ) -> Client {
        let command = self.command(server, session, op);
        let attachment = command.attachment;
        self.apply(server, command);
        let connection = Connection(self.connections);
        self.connections += 1;
        self.note(What::Connected {
            client: number,
            connection,
            server,
            asked: SessionId::NONE,
            session,
            timeout_ms: TIMEOUT_MS,
            last_seen,
        });
        Client { number, connection, server, session, attachment }
    }

    fn call(&mut self, client: Client, request: Request) -> (CallNumber, Xid) {
        let call = CallNumber(self.calls);
        self.calls += 1;
        let xid = if request == Request::Ping {
            Xid::PING
        } else {
            let last = self.xids.entry(client.connection).or_default();
            *last += 1;
            Xid(*last)
        };
        self.note(What::Called { call, connection: client.connection, xid, request });
        (call, xid)
    }

    fn returned(&mut self, call: CallNumber, zxid: Zxid, result: Result<Reply, ErrorCode>) {
        self.note(What::Returned { call, zxid, result });
    }

    /// The command of a call comes into the log.
    fn commit(&mut self, client: Client, xid: Xid, request: Request) -> Outcome {
        let is_close = request == Request::CloseSession;
        let op = if is_close { Op::CloseSession } else { Op::Write(request) };
        let command = self.command(client.server, client.session, op);
        let command = Command { attachment: client.attachment, cxid: xid, ..command };
        self.apply(client.server, command)
    }

    /// A write, with its reply.
    fn write(&mut self, client: Client, request: Request) -> (CallNumber, Outcome) {
        let (call, xid) = self.call(client, request.clone());
        let outcome = self.commit(client, xid, request);
        self.returned(call, outcome.zxid, outcome.result.clone());
        (call, outcome)
    }

    fn create(&mut self, client: Client, path: &str, flags: i32) -> Zxid {
        self.write(client, create(path, flags)).1.zxid
    }

    /// A read of the newest state, with its reply.
    fn read(&mut self, client: Client, request: Request) -> CallNumber {
        let who = Who::default();
        let reader = Reader { session: client.session, who: &who };
        let result = self.state.tree.read(&request, reader).unwrap();
        let (call, _) = self.call(client, request);
        self.returned(call, self.state.last_zxid, result);
        call
    }

    fn answered(&mut self, client: Client, request: Request, reply: Reply) -> CallNumber {
        let (call, _) = self.call(client, request);
        self.returned(call, self.state.last_zxid, Ok(reply));
        call
    }

    fn ping(&mut self, client: Client) -> CallNumber {
        self.answered(client, Request::Ping, Reply::Empty)
    }

    fn event(&mut self, client: Client, zxid: Zxid, event_type: EventType, path: &str) {
        let state = KeeperState::SyncConnected;
        let event = WatcherEvent { event_type, state, path: path.to_owned() };
        self.note(What::Notified { connection: client.connection, zxid, event });
    }

    fn expire(&mut self, session: SessionId) -> Outcome {
        let generation = self.state.sessions[&session].generation;
        let op = Op::ExpireSession { generation, term: Term(self.term) };
        let command = self.command(ServerId(1), session, op);
        self.apply(ServerId(1), command)
    }

    fn lock(&mut self, client: u32, lock: &str, step: LockStep) {
        self.note(What::Lock { client: ClientNumber(client), lock: lock.to_owned(), step });
    }

    /// The end of the run.
    fn end(mut self) -> History {
        self.history.healed_at = self.now;
        self.wait(100);
        self.history.ended_at = self.now;
        self.history
    }

    /// The same, long behind the last fault and the last sign of life.
    fn end_late(mut self) -> History {
        self.history.healed_at = self.now;
        self.wait(100_000);
        self.history.ended_at = self.now;
        self.history
    }
}

fn create(path: &str, flags: i32) -> Request {
    let data = Some(Bytes::from_static(b"data"));
    Request::Create2(CreateRequest { path: path.to_owned(), data, acl: Some(Acl::open()), flags })
}

fn delete(path: &str) -> Request {
    Request::Delete(PathVersionRequest { path: path.to_owned(), version: -1 })
}

fn set_data(path: &str, data: &'static str) -> Request {
    let data = Some(Bytes::from_static(data.as_bytes()));
    Request::SetData(SetDataRequest { path: path.to_owned(), data, version: -1 })
}

fn look(path: &str, watch: bool) -> PathWatchRequest {
    PathWatchRequest { path: path.to_owned(), watch }
}

fn get_data(path: &str) -> Request {
    Request::GetData(look(path, false))
}

fn checked(history: &History) -> (Vec<Violation>, Counts) {
    let report = all(history, &Options::default());
    (report.violations, report.counts)
}

#[track_caller]
fn accepted(history: &History) -> Counts {
    let (violations, counts) = checked(history);
    assert!(violations.is_empty(), "{}", lines(&violations));
    counts
}

#[track_caller]
fn refused(history: &History, promise: &str) {
    let (violations, _) = checked(history);
    let is_found = violations.iter().any(|violation| violation.promise == promise);
    assert!(is_found, "no violation of {promise}:\n{}", lines(&violations));
}

fn lines(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Changes the reply to a call.
fn lie(
    history: &History,
    call: CallNumber,
    change: impl Fn(&mut Zxid, &mut Result<Reply, ErrorCode>),
) -> History {
    let mut history = history.clone();
    for record in &mut history.records {
        if let What::Returned { call: number, zxid, result } = &mut record.what
            && *number == call
        {
            change(zxid, result);
        }
    }
    history
}

/// Leaves some records out.
fn without(history: &History, is_left_out: impl Fn(&What) -> bool) -> History {
    let mut history = history.clone();
    history.records.retain(|record| !is_left_out(&record.what));
    history
}
