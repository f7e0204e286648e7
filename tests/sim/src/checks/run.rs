//! A run, put in order for the checks: its connections, its calls, and which command of the log
//! belongs to which call.

use std::collections::BTreeMap;

use zoolet_jute::{ErrorCode, Reply, Request, SessionId, WatcherEvent, Xid, Zxid};
use zoolet_replica::{Op, ServerId};

use super::Options;
use crate::SimTime;
use crate::history::{CallNumber, ClientNumber, Connection, History, What};
use crate::model::access::identities;
use crate::model::{Attachment, Model, Transaction, Who};

/// A request of a client.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// Its number.
    pub number: CallNumber,
    /// Where it was sent.
    pub connection: Connection,
    /// Its xid.
    pub xid: Xid,
    /// What was asked.
    pub request: &'a Request,
    /// When it was handed to the connection.
    pub at: SimTime,
    /// The place of that among the records.
    pub place: usize,
    /// The reply, if it has arrived.
    pub answer: Option<Answer<'a>>,
    /// Whom the connection had proved to be.
    pub who: Who,
    /// The places of its commands among the model's transactions: none or one, if all is well.
    pub transactions: Vec<usize>,
}

/// A reply that has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// When.
    pub at: SimTime,
    /// The place of that among the records.
    pub place: usize,
    /// The zxid of its header.
    pub zxid: Zxid,
    /// Its body, or its error.
    pub result: &'a Result<Reply, ErrorCode>,
}

/// What has arrived on a connection.
#[derive(Clone, Copy, Debug)]
pub enum Arrival<'a> {
    /// The reply to a call.
    Reply(CallNumber),
    /// A watch event.
    Event(Notice<'a>),
}

/// A watch event that has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Notice<'a> {
    /// When.
    pub at: SimTime,
    /// The place of that among the records.
    pub place: usize,
    /// The zxid of its header.
    pub zxid: Zxid,
    /// What it says.
    pub event: &'a WatcherEvent,
}

/// A connection of a client.
#[derive(Clone, Debug, Default)]
pub struct Link<'a> {
    /// What the answer to its handshake says; `None` if there was none, or if the session had expired.
    pub granted: Option<Granted>,
    /// When it has ended.
    pub ended_at: Option<SimTime>,
    /// Its calls, in order.
    pub calls: Vec<CallNumber>,
    /// What has arrived on it, in order.
    pub arrivals: Vec<Arrival<'a>>,
}

/// The answer to a handshake.
#[derive(Clone, Copy, Debug)]
pub struct Granted {
    /// Whose.
    pub client: ClientNumber,
    /// When.
    pub at: SimTime,
    /// The place of that among the records.
    pub place: usize,
    /// The server.
    pub server: ServerId,
    /// The session.
    pub session: SessionId,
    /// Its timeout.
    pub timeout_ms: u32,
    /// The zxid up to which the client had seen all.
    pub last_seen: Zxid,
    /// The place of the command that began or resumed the session, among the model's transactions.
    pub attach: Option<usize>,
}

impl Link<'_> {
    /// The lowest zxid of what has come on it.
    fn first_shown(&self, calls: &BTreeMap<CallNumber, Call<'_>>) -> Option<Zxid> {
        let zxids = self.arrivals.iter().filter_map(|arrival| match arrival {
            Arrival::Event(notice) => Some(notice.zxid),
            Arrival::Reply(number) => Some(calls.get(number)?.answer?.zxid),
        });
        zxids.filter(|zxid| zxid.0 > 0).min()
    }
}

/// A run, put in order.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// What has happened.
    pub history: &'a History,
    /// What the log says.
    pub model: &'a Model,
    /// What the checks have to know.
    pub options: &'a Options,
    /// All calls.
    pub calls: BTreeMap<CallNumber, Call<'a>>,
    /// All connections.
    pub links: BTreeMap<Connection, Link<'a>>,
    /// Commands for which no such request was sent.
    pub foreign: Vec<usize>,
    /// How many commands were asked for on connections whose handshake had no answer.
    pub unattributed: u64,
}

/// Whether a request goes through the log as a command of its own.
pub fn is_write(request: &Request) -> bool {
    matches!(
        request,
        Request::Create(_)
            | Request::Create2(_)
            | Request::CreateContainer(_)
            | Request::CreateTtl(_)
            | Request::Delete(_)
            | Request::SetData(_)
            | Request::SetAcl(_)
            | Request::Multi(_)
            | Request::CloseSession
    )
}

/// The same, and reconfigurations, which are there where they are switched off.
fn is_logged(request: &Request) -> bool {
    is_write(request) || matches!(request, Request::Reconfig(_))
}

impl<'a> Run<'a> {
    /// Puts a run in order.
    pub fn of(history: &'a History, model: &'a Model, options: &'a Options) -> Self {
        let (calls, links, foreign) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let unattributed = 0;
        let mut run = Self { history, model, options, calls, links, foreign, unattributed };
        for (place, record) in history.records.iter().enumerate() {
            run.take(place, record.at, &record.what);
        }
        run.find_attachments();
        run.find_commands();
        run.find_identities();
        run
    }

    fn take(&mut self, place: usize, at: SimTime, what: &'a What) {
        match what {
            What::Connected {
                client, connection, server, session, timeout_ms, last_seen, ..
            } => {
                let link = self.links.entry(*connection).or_default();
                let is_granted = *session != SessionId::NONE;
                link.granted = is_granted.then_some(Granted {
                    client: *client,
                    at,
                    place,
                    server: *server,
                    session: *session,
                    timeout_ms: *timeout_ms,
                    last_seen: *last_seen,
                    attach: None,
                });
            }
            What::Disconnected { connection } => {
                self.links.entry(*connection).or_default().ended_at = Some(at);
            }
            What::Called { call: number, connection, xid, request } => {
                let (number, connection, xid) = (*number, *connection, *xid);
                self.links.entry(connection).or_default().calls.push(number);
                let (answer, transactions) = (None, Vec::new());
                let who = Who::default();
                let call =
                    Call { number, connection, xid, request, at, place, answer, who, transactions };
                self.calls.insert(number, call);
            }
            What::Returned { call, zxid, result } => {
                let Some(call) = self.calls.get_mut(call) else { return };
                call.answer = Some(Answer { at, place, zxid: *zxid, result });
                let link = self.links.entry(call.connection).or_default();
                link.arrivals.push(Arrival::Reply(call.number));
            }
            What::Notified { connection, zxid, event } => {
                let link = self.links.entry(*connection).or_default();
                let zxid = *zxid;
                link.arrivals.push(Arrival::Event(Notice { at, place, zxid, event }));
            }
            What::Complained { .. }
            | What::Lock { .. }
            | What::Recipe { .. }
            | What::ClientDied { .. } => {}
        }
    }

    /// Finds out by which command each connection got its session: the last one of this session and
    /// server that the server had applied when the answer arrived, and that is not behind what the
    /// connection has shown. A client has one connection at a time, so all earlier ones are of
    /// handshakes that it has given up; a later one is of a request that came twice.
    fn find_attachments(&mut self) {
        let mut first_applied = BTreeMap::new();
        for (server, log) in &self.history.servers {
            for applied in &log.applied {
                first_applied.entry((*server, applied.index)).or_insert(applied.at);
            }
        }
        let mut attaches: BTreeMap<(SessionId, ServerId), Vec<(SimTime, usize)>> = BTreeMap::new();
        for (at, one) in self.model.transactions.iter().enumerate() {
            let server = one.origin.server;
            if one.command.op.attaches()
                && one.outcome.result.is_ok()
                && let Some(applied) = first_applied.get(&(server, one.index))
            {
                let of_session = attaches.entry((one.command.session, server)).or_default();
                of_session.push((*applied, at));
            }
        }
        for link in self.links.values_mut() {
            let first_shown = link.first_shown(&self.calls);
            let Some(granted) = &mut link.granted else { continue };
            let known = attaches.get(&(granted.session, granted.server));
            let before = known.into_iter().flatten().filter(|(at, _)| *at <= granted.at);
            let places: Vec<usize> = before.map(|(_, transaction)| *transaction).collect();
            let is_shown = |place: &&usize| {
                let zxid = self.model.transactions.get(**place).map(|one| one.zxid);
                !self.options.connects_twice || first_shown.is_none_or(|shown| zxid <= Some(shown))
            };
            let shown = places.iter().filter(is_shown).max();
            granted.attach = shown.or(places.iter().max()).copied();
        }
    }

    /// The transaction by which a connection got its session.
    pub fn attach(&self, link: &Link<'_>) -> Option<&'a Transaction> {
        self.model.transactions.get(link.granted?.attach?)
    }

    /// Finds for each command the call that it belongs to: the one with its xid on the connection
    /// that has its attachment. An xid alone says little, since they begin anew.
    fn find_commands(&mut self) {
        let mut by_xid: BTreeMap<(Attachment, Xid), CallNumber> = BTreeMap::new();
        let mut attached = std::collections::BTreeSet::new();
        for link in self.links.values() {
            let Some(attach) = self.attach(link) else { continue };
            let attachment = Attachment::of(attach.origin, &attach.command);
            attached.insert(attachment);
            for number in &link.calls {
                if let Some(call) = self.calls.get(number).filter(|call| is_logged(call.request)) {
                    by_xid.insert((attachment, call.xid), *number);
                }
            }
        }
        let mut unattached = Vec::new();
        for (place, one) in self.model.transactions.iter().enumerate() {
            if !one.command.op.needs_attachment() {
                continue;
            }
            let attachment = Attachment::of(one.origin, &one.command);
            match by_xid.get(&(attachment, one.command.cxid)) {
                Some(number) => {
                    if let Some(call) = self.calls.get_mut(number) {
                        call.transactions.push(place);
                    }
                }
                None if attached.contains(&attachment) => self.foreign.push(place),
                None => unattached.push((place, one)),
            }
        }
        for (place, one) in unattached {
            if self.is_asked_for(one) {
                self.unattributed += 1;
            } else {
                self.foreign.push(place);
            }
        }
    }

    /// Whether a client has sent the request of a command before, on a connection of this session or on
    /// one whose session it never learned, and no other command is of this call.
    fn is_asked_for(&self, one: &Transaction) -> bool {
        let of_session = |call: &Call<'_>| {
            let granted = self.links.get(&call.connection).and_then(|link| link.granted);
            granted.is_none_or(|granted| granted.session == one.command.session)
        };
        let is_free = |call: &&Call<'_>| {
            call.xid == one.command.cxid && call.at <= one.first_at && call.transactions.is_empty()
        };
        let mut calls = self.calls.values().filter(is_free);
        calls.any(|call| Self::is_of(call, one) && of_session(call))
    }

    /// Gives each call the identities that its connection had proved before it.
    fn find_identities(&mut self) {
        for link in self.links.values() {
            let mut who = self.options.stranger(link.granted);
            for number in &link.calls {
                let Some(call) = self.calls.get_mut(number) else { continue };
                call.who = who.clone();
                if let (Request::Auth(packet), Some(Answer { result: Ok(_), .. })) =
                    (call.request, call.answer)
                {
                    let proved = identities(packet, self.options.super_digest.as_deref());
                    let new = proved.into_iter().filter(|id| !who.ids.contains(id));
                    let new: Vec<_> = new.collect();
                    who.ids.extend(new);
                }
            }
        }
    }

    /// The transactions of a call.
    pub fn transactions_of(&self, call: &Call<'_>) -> impl Iterator<Item = &'a Transaction> {
        let all = &self.model.transactions;
        let places = call.transactions.clone();
        places.into_iter().filter_map(move |place| all.get(place))
    }

    /// Whether a command is the one that a call asks for.
    pub fn is_of(call: &Call<'_>, one: &Transaction) -> bool {
        match (&one.command.op, call.request) {
            (Op::CloseSession, Request::CloseSession) => true,
            (Op::Write(asked) | Op::WriteX509(asked) | Op::WriteSasl(asked), request) => {
                asked == request
            }
            _ => false,
        }
    }

    /// What a call says of itself in a violation.
    pub fn describe(&self, call: &Call<'_>) -> String {
        let session = self
            .links
            .get(&call.connection)
            .and_then(|link| link.granted)
            .map_or_else(|| "a session unknown".to_owned(), |granted| granted.session.to_string());
        let asked = format!("{:?}", call.request);
        let asked: String = asked.chars().take(300).collect();
        format!(
            "call {} of session {session} on connection {}, xid {}, at {}: {asked}",
            call.number.0, call.connection.0, call.xid, call.at
        )
    }
}
