//! A connection's requests: each gets its place in the queue, and is answered when it is its turn.

use std::sync::Arc;

use zoolet_jute::{ErrorCode, Id, MultiReadOp, Reply, Request, Xid, Zxid};

use super::client::{CommandReply, PendingRequest, Ready, RequestState};
use super::reply_to::ReplyTo;
use crate::proposals::{CommandDraft, ProposalOwner};
use crate::size;
use crate::state::{LongReply, PartsLeft, ReadReply};
use crate::watch::WatchesLeft;
use crate::{BadRequest, ConnectionId, Op, Output, Replica, SaslStep};

/// What a short reply has in bytes, about.
const REPLY_BYTES: usize = 100;

/// A read with more paths, or with more bytes of paths, may take several steps.
const SHORT_PATHS_MAX: usize = 64;
const SHORT_BYTES_MAX: usize = 16 << 10;

/// How many bytes of a write are looked through in a unit of a step's budget.
const PROPOSED_BYTES: usize = 1 << 10;

/// How many bytes of a reply are copied in such a unit.
const COPIED_BYTES: usize = 2 << 10;

/// Longer data and lists are not copied.
const SHARED_BYTES: usize = 16 << 10;

impl Replica {
    pub(crate) fn on_request(
        &mut self,
        reply_to: ReplyTo,
        request: Result<Request, BadRequest>,
        out: &mut Vec<Output>,
    ) {
        self.enqueue(reply_to, out, |replica, out| {
            if replica.lacks_required_identity(reply_to, &request) {
                let code = ErrorCode::SessionClosedRequireSaslAuth;
                return replica.reply_and_close(reply_to.connection, code, Zxid(0));
            }
            replica.classify(reply_to.connection, reply_to.xid, request, out)
        });
    }

    pub(crate) fn on_sasl(&mut self, reply_to: ReplyTo, step: SaslStep, out: &mut Vec<Output>) {
        self.enqueue(reply_to, out, |replica, _| replica.log_in(reply_to.connection, step));
    }

    /// Gives a request its place in the queue of its connection.
    fn enqueue(
        &mut self,
        reply_to: ReplyTo,
        out: &mut Vec<Output>,
        classify: impl FnOnce(&mut Self, &mut Vec<Output>) -> RequestState,
    ) {
        let connection = reply_to.connection;
        let Some(asking) = self.connections.get(&connection) else { return };
        if asking.ignores_input {
            return;
        }
        let queued = asking.queued();
        self.touch(connection);
        let wait = classify(self, out);
        let pending = PendingRequest { reply_to, wait };
        let is_first = queued == 0 || planted!("read-overtakes-write");
        if is_first && pending.wait.is_due() && self.may_answer(connection) {
            self.answer(pending, out);
        } else if let Some(asking) = self.connections.get_mut(&connection) {
            asking.push(pending);
            self.put_off(connection, out);
            self.ask_reconfig(connection, out);
        }
    }

    /// Whether a request whose turn has come is answered in this step.
    fn may_answer(&self, connection: ConnectionId) -> bool {
        let asking = self.connections.get(&connection);
        !self.reads_wait()
            && self.budget > 0
            && asking.is_some_and(|asking| asking.unread_bytes <= self.options.unread_bytes_max)
    }

    /// Puts a slot back at the front: there is more to do for it than a step allows.
    pub(crate) fn put_back(&mut self, reply_to: ReplyTo, wait: RequestState) {
        let connection = reply_to.connection;
        if let Some(asking) = self.connections.get_mut(&connection) {
            asking.push_front(PendingRequest { reply_to, wait });
            self.rest.due.insert(connection);
        }
    }

    /// Sees to it that what is due at the front of the queue is answered later.
    fn put_off(&mut self, connection: ConnectionId, out: &mut Vec<Output>) {
        let Some(asking) = self.connections.get_mut(&connection) else { return };
        if !asking.has_due(self.synced) {
            return;
        }
        if asking.unread_bytes <= self.options.unread_bytes_max {
            self.rest.due.insert(connection);
        } else if !std::mem::replace(&mut asking.awaits_room, true) {
            out.push(Output::AwaitRoom { connection });
        }
    }

    /// The client has read replies.
    pub(crate) fn on_room(
        &mut self,
        connection: ConnectionId,
        unwritten_bytes: usize,
        out: &mut Vec<Output>,
    ) {
        let Some(asking) = self.connections.get_mut(&connection) else { return };
        asking.unread_bytes = unwritten_bytes;
        asking.awaits_room = false;
        self.drain(connection, out);
    }

    /// Notes what the client has not read, which may have become less.
    pub(crate) fn on_unread(&mut self, connection: ConnectionId, unwritten_bytes: usize) {
        if let Some(asking) = self.connections.get_mut(&connection) {
            asking.unread_bytes = unwritten_bytes;
        }
    }

    /// Finds out what a request waits for; proposes it if it is a write.
    fn classify(
        &mut self,
        connection: ConnectionId,
        xid: Xid,
        request: Result<Request, BadRequest>,
        out: &mut Vec<Output>,
    ) -> RequestState {
        let request = match request {
            Ok(request) => request,
            Err(BadRequest::Body) => return RequestState::error(ErrorCode::MarshallingError),
            Err(BadRequest::Throttled) => return RequestState::error(ErrorCode::ThrottledOp),
            Err(BadRequest::Op) => {
                return self.reply_and_close(connection, ErrorCode::Unimplemented, Zxid::NONE);
            }
        };
        match request {
            Request::Auth(packet) => self.authenticate(connection, &packet),
            // A server without logins by SASL says so (§16.2).
            Request::Sasl(_) => RequestState::Ready(Ready::outside_of_time(Ok(Reply::Sasl(None)))),
            Request::Sync(_)
            | Request::CloseSession
            | Request::Create(_)
            | Request::Create2(_)
            | Request::CreateContainer(_)
            | Request::CreateTtl(_)
            | Request::Delete(_)
            | Request::SetData(_)
            | Request::SetAcl(_)
            | Request::Multi(_)
            | Request::Reconfig(_)
                if self.read_only =>
            {
                self.audit_refusal((connection, xid), &request, ErrorCode::NotReadOnly, out);
                self.refuse_write(connection, &request)
            }
            Request::Sync(body) => {
                self.sync_last += 1;
                let number = self.sync_last;
                self.syncs.push_back((number, connection));
                out.push(Output::Sync { number });
                RequestState::Sync { number, path: body.path }
            }
            Request::CloseSession => {
                let wait = self.write(connection, xid, Op::CloseSession, out);
                self.ignore_input(connection);
                wait
            }
            Request::Reconfig(request) => RequestState::Reconfig {
                number: None,
                request,
                identities: self.identities(connection),
            },
            Request::Create(_)
            | Request::Create2(_)
            | Request::CreateContainer(_)
            | Request::CreateTtl(_)
            | Request::Delete(_)
            | Request::SetData(_)
            | Request::SetAcl(_)
            | Request::Multi(_) => self.write_request(connection, xid, request, out),
            Request::Exists(_)
            | Request::GetData(_)
            | Request::GetAcl(_)
            | Request::GetChildren(_)
            | Request::GetChildren2(_)
            | Request::MultiRead(_)
            | Request::CheckWatches(_)
            | Request::RemoveWatches(_)
            | Request::SetWatches(_)
            | Request::SetWatches2(_)
            | Request::GetEphemerals(_)
            | Request::GetAllChildrenNumber(_)
            | Request::AddWatch(_)
            | Request::Ping
            | Request::WhoAmI => self.read_request(connection, request),
        }
    }

    fn read_request(&self, connection: ConnectionId, request: Request) -> RequestState {
        let (identities, is_long) = (self.identities(connection), is_long(&request));
        RequestState::Read { request, identities, is_long }
    }

    fn write_request(
        &mut self,
        connection: ConnectionId,
        xid: Xid,
        mut request: Request,
        out: &mut Vec<Output>,
    ) -> RequestState {
        self.check_acls(connection, &mut request);
        let op = Op::of_write(request, &self.identities(connection));
        self.write(connection, xid, op, out)
    }

    /// Proposes a write, or holds it back behind a sync.
    fn write(
        &mut self,
        connection: ConnectionId,
        cxid: Xid,
        op: Op,
        out: &mut Vec<Output>,
    ) -> RequestState {
        let Some(asking) = self.connections.get(&connection) else {
            return RequestState::error(ErrorCode::SessionExpired);
        };
        let (session, attachment) = (asking.session, asking.attachment);
        let identities = self.identities(connection);
        #[cfg(feature = "made_up")]
        let op = made_up(op, self.level_max());
        let all = Arc::clone(&identities);
        let mut draft = CommandDraft { session, attachment, cxid, identities, op };
        let lowered = draft.lower_to(self.level_max());
        let bytes = draft.op.encoded_bytes() + size::of_identities(&draft.identities);
        // It would not get to the other servers, and everything behind it would wait.
        let is_too_long = bytes > self.options.command_bytes_max;
        let refusal = lowered.err().or(is_too_long.then_some(ErrorCode::BadArguments));
        if let Some(code) = refusal {
            draft.identities = all;
            self.audit_refused_draft(&draft, code, out);
            return RequestState::error(code);
        }
        let is_held = asking.holds_writes();
        self.spend(bytes / PROPOSED_BYTES);
        if is_held {
            return RequestState::Held { op: draft.op, identities: draft.identities };
        }
        let answer = CommandReply::of(&draft.op);
        let number = self.propose(ProposalOwner::Connection(connection), draft, out);
        RequestState::Proposed { number, answer }
    }

    /// An error that is the last thing that the connection gets.
    pub(super) fn reply_and_close(
        &mut self,
        connection: ConnectionId,
        code: ErrorCode,
        zxid: Zxid,
    ) -> RequestState {
        self.ignore_input(connection);
        RequestState::Ready(Ready { result: Err(code), zxid: Some(zxid), close: true })
    }

    pub(super) fn ignore_input(&mut self, connection: ConnectionId) {
        if let Some(asking) = self.connections.get_mut(&connection) {
            asking.ignores_input = true;
        }
    }

    /// Whom a connection has proved to be.
    pub(crate) fn identities(&self, connection: ConnectionId) -> Arc<[Id]> {
        let known = self.connections.get(&connection);
        known.map_or_else(|| Arc::from([]), |known| Arc::clone(&known.identities))
    }

    /// Answers everything at the front of the queue that waits for nothing but its turn.
    pub(crate) fn drain(&mut self, connection: ConnectionId, out: &mut Vec<Output>) {
        loop {
            let synced = self.synced;
            while self.may_answer(connection)
                && let Some(pending) =
                    self.connections.get_mut(&connection).and_then(|asking| asking.pop_due(synced))
            {
                self.spend(2);
                self.answer(pending, out);
            }
            if !self.release(connection, out) {
                break;
            }
        }
        self.put_off(connection, out);
        self.ask_reconfig(connection, out);
    }

    /// Proposes the held writes that have nothing in front of them any more but writes. Returns whether
    /// any of them is refused: that one may be at the front.
    fn release(&mut self, connection: ConnectionId, out: &mut Vec<Output>) -> bool {
        // Hardly ever: the connection is taken out of the map only if it holds something.
        let holds = self.connections.get(&connection).is_some_and(|asking| asking.holds_writes());
        let Some(mut asking) = holds.then(|| self.connections.remove(&connection)).flatten() else {
            return false;
        };
        let (level, mut refuses) = (self.level_max(), false);
        asking.release(|mut draft| {
            // The level may have fallen while it was held.
            let lowered = draft.lower_to(level);
            if let Err(code) = lowered {
                self.audit_refused_draft(&draft, code, out);
                refuses = true;
                return Err(code);
            }
            Ok(self.propose(ProposalOwner::Connection(connection), draft, out))
        });
        self.connections.insert(connection, asking);
        refuses
    }

    /// Replies to a request whose turn has come.
    pub(super) fn answer(&mut self, pending: PendingRequest, out: &mut Vec<Output>) {
        let PendingRequest { reply_to, wait } = pending;
        match wait {
            RequestState::Read { request, identities, is_long } => {
                self.serve(reply_to, request, (&identities, is_long), out);
            }
            RequestState::Sync { path, .. } => self.reply(reply_to, Ok(Reply::Sync(path)), out),
            RequestState::Watches(left) => self.set_watches(reply_to, left, out),
            RequestState::Parts(left) => self.read_parts(reply_to, left, out),
            RequestState::Ready(Ready { result, zxid, close }) => {
                let zxid = zxid.unwrap_or_else(|| self.state.last_zxid());
                out.push(Output::Reply { to: reply_to, zxid, result });
                if close {
                    self.close(reply_to.connection, out);
                }
            }
            // These wait for the log.
            RequestState::Proposed { .. }
            | RequestState::Held { .. }
            | RequestState::Reconfig { .. } => {}
        }
    }

    /// Reads the state as it is now, or changes the connection's watches.
    #[allow(
        clippy::wildcard_enum_match_arm,
        reason = "`classify` makes nothing else wait for its turn"
    )]
    fn serve(
        &mut self,
        reply_to: ReplyTo,
        request: Request,
        (identities, is_long): (&Arc<[Id]>, bool),
        out: &mut Vec<Output>,
    ) {
        let connection = reply_to.connection;
        let result = match request {
            Request::Ping => return self.ping(reply_to, out),
            Request::SetWatches(body) => {
                let left = WatchesLeft::new(body.into(), identities, is_long);
                return self.set_watches(reply_to, left, out);
            }
            Request::SetWatches2(body) => {
                let left = WatchesLeft::new(body, identities, is_long);
                return self.set_watches(reply_to, left, out);
            }
            Request::MultiRead(parts) if is_long => {
                let left = Box::new(PartsLeft::new(parts.0, identities));
                return self.read_parts(reply_to, left, out);
            }
            Request::AddWatch(body) => self.add_watch(connection, &body, out),
            Request::CheckWatches(body) => self.check_watches(connection, &body),
            Request::RemoveWatches(body) => self.remove_watches(connection, &body),
            read => match self.read(connection, &read, identities, out) {
                Ok(ReadReply::Short(reply)) => Ok(reply),
                Ok(ReadReply::Long(body)) => return self.reply_long(reply_to, body, out),
                Err(code) => Err(code),
            },
        };
        self.reply(reply_to, result, out);
    }

    pub(crate) fn reply(
        &mut self,
        reply_to: ReplyTo,
        result: Result<Reply, ErrorCode>,
        out: &mut Vec<Output>,
    ) {
        let bytes = result.as_ref().map_or(0, Reply::bulk_bytes);
        self.charge(reply_to.connection, bytes);
        if let Ok(Reply::Sync(_) | Reply::Multi(_)) = &result {
            // These are copied whatever their length.
            self.spend(bytes / COPIED_BYTES);
        }
        let zxid = self.visible_zxid();
        out.push(Output::Reply { to: reply_to, zxid, result });
    }

    pub(crate) fn reply_long(&mut self, reply_to: ReplyTo, body: LongReply, out: &mut Vec<Output>) {
        self.charge(reply_to.connection, body.bytes());
        let zxid = self.visible_zxid();
        out.push(Output::ReplyLong { to: reply_to, zxid, body });
    }

    /// Counts a reply against what its client may leave unread, and against the step.
    fn charge(&mut self, connection: ConnectionId, bytes: usize) {
        self.spend(bytes.min(SHARED_BYTES) / COPIED_BYTES);
        if let Some(asking) = self.connections.get_mut(&connection) {
            asking.unread_bytes += bytes + REPLY_BYTES;
        }
    }
}

/// Returns whether a read may take several steps.
#[allow(clippy::wildcard_enum_match_arm, reason = "the others look at one path")]
fn is_long(request: &Request) -> bool {
    let (count, bytes) = match request {
        Request::MultiRead(parts) => {
            let path = |op: &MultiReadOp| match op {
                MultiReadOp::GetChildren(body) | MultiReadOp::GetData(body) => body.path.len(),
            };
            (parts.0.len(), parts.0.iter().map(path).sum())
        }
        Request::SetWatches(body) => {
            counted([&body.data_watches, &body.exist_watches, &body.child_watches])
        }
        Request::SetWatches2(body) => {
            let lists = [&body.data_watches, &body.exist_watches, &body.child_watches];
            let lasting = [&body.persistent_watches, &body.persistent_recursive_watches];
            let (lists, lasting) = (counted(lists), counted(lasting));
            (lists.0 + lasting.0, lists.1 + lasting.1)
        }
        _ => return false,
    };
    count > SHORT_PATHS_MAX || bytes > SHORT_BYTES_MAX
}

/// Returns how many paths there are, and their bytes.
fn counted<const N: usize>(lists: [&Vec<String>; N]) -> (usize, usize) {
    let paths = lists.iter().flat_map(|list| list.iter());
    paths.fold((0, 0), |(count, bytes), path| (count + 1, bytes + path.len()))
}

/// A new way to do what an old command does, as a later release could have one: creates below
/// `/made-up` use it as soon as all servers know it.
#[cfg(feature = "made_up")]
fn made_up(op: Op, agreed: crate::FeatureLevel) -> Op {
    let Op::Write(Request::Create2(body)) = &op else { return op };
    let new = Op::MadeUp(body.clone());
    if body.path.starts_with("/made-up") && new.level() <= agreed { new } else { op }
}

impl RequestState {
    /// Whether the request needs nothing but its turn.
    fn is_due(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::Ready(_))
    }

    pub(super) fn error(code: ErrorCode) -> Self {
        Self::Ready(Ready { result: Err(code), zxid: None, close: false })
    }
}

impl Ready {
    /// The answer to credentials: it shows nothing of the state, so its zxid is zero.
    pub(super) fn outside_of_time(result: Result<Reply, ErrorCode>) -> Self {
        Self { result, zxid: Some(Zxid(0)), close: false }
    }
}
