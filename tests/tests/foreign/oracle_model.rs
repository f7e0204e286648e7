//! The simulator's model of the service beside Apache `ZooKeeper`: the oracle's operations go to both,
//! and every reply, Stat, error code and watch event must be the same. So what the simulator's checks
//! hold servers against is itself held against Apache.
//!
//! The model gets a client port here, as small as the oracle needs it: one server, whose log is the
//! order in which requests come.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use zoolet_jute::{
    AddWatchMode, ClientInfo, ConnectRequest, ConnectResponse, Decode, DecodeError, Encode,
    ErrorCode, Id, KeeperState, OpCode, Reply, ReplyHeader, Request, RequestHeader, SessionId,
    WatcherEvent, WatchesRequest, Xid, Zxid, frame, perms,
};
use zoolet_replica::{Boot, Command, Op, Origin, Policy, ProposalNumber, ServerId, Stamp, Term};
use zoolet_sim::history::Connection;
use zoolet_sim::model::access::identities;
use zoolet_sim::model::watches::{Modes, WatchTable, set_watches, watch_lists};
use zoolet_sim::model::{Outcome, Reader, State, Who};
use zoolet_tests::oracle::{self, Plan};
use zoolet_tests::servers::Servers;
use zoolet_tests::tools::{self, announce, require_foreign};

const OPERATIONS: u64 = 10_000;

const ORIGIN: Origin = Origin { server: ServerId(1), boot: Boot(1), stream: 1 };

/// A connection of a client.
struct Peer {
    stream: TcpStream,
    session: SessionId,
    attachment: ProposalNumber,
    ids: Vec<Id>,
}

/// The model, as a server.
#[derive(Default)]
struct Service {
    state: State,
    watches: WatchTable,
    peers: BTreeMap<Connection, Peer>,
    numbers: u64,
    enforces_quota: bool,
}

/// What becomes of a connection behind a reply.
#[derive(PartialEq, Eq)]
enum Next {
    Stays,
    Ends,
}

impl Service {
    fn apply(&mut self, session: SessionId, attachment: Option<ProposalNumber>, op: Op) -> Outcome {
        self.numbers += 1;
        let number = ProposalNumber(self.numbers);
        let ids = self.peers.values().find(|peer| peer.session == session);
        let ids = ids.map_or(Vec::new(), |peer| peer.ids.clone());
        let enforce_quota = self.enforces_quota;
        let policy = Policy { extended_types: true, enforce_quota, ..Policy::default() };
        let command = Command {
            number,
            session,
            attachment: attachment.unwrap_or(number),
            cxid: Xid(0),
            policy,
            identities: ids.into(),
            op,
        };
        let now_ms = 1_700_000_000_000 + i64::try_from(self.numbers).unwrap();
        let outcome = self.state.apply(Stamp { term: Term(1), now_ms }, ORIGIN, &command);
        self.fire(&outcome);
        outcome
    }

    /// Sends the events of what has changed.
    fn fire(&mut self, outcome: &Outcome) {
        for change in &outcome.changes {
            for fired in self.watches.fire(change) {
                let acl = if fired.is_of_parent { &change.parent_acl } else { &change.acl };
                for connection in &fired.to {
                    let may = self.who(*connection).may(acl, perms::READ);
                    if may == Some(true) {
                        self.notify(*connection, outcome.zxid, fired.event_type, &fired.path);
                    }
                }
            }
        }
    }

    fn who(&self, connection: Connection) -> Who {
        let ids = self.peers.get(&connection).map_or(Vec::new(), |peer| peer.ids.clone());
        Who { ids, has_no_other: true, skips_acl: false }
    }

    fn send(&mut self, connection: Connection, write: impl FnOnce(&mut BytesMut)) {
        let mut out = BytesMut::new();
        frame::put(&mut out, write);
        if let Some(peer) = self.peers.get_mut(&connection) {
            // A client that is gone gets no more.
            let _ = peer.stream.write_all(&out);
        }
    }

    fn notify(
        &mut self,
        connection: Connection,
        zxid: Zxid,
        event_type: zoolet_jute::EventType,
        path: &str,
    ) {
        let event =
            WatcherEvent { event_type, state: KeeperState::SyncConnected, path: path.to_owned() };
        self.send(connection, |out| {
            ReplyHeader { xid: Xid::NOTIFICATION, zxid, err: None }.encode(out);
            event.encode(out);
        });
    }

    fn reply(
        &mut self,
        connection: Connection,
        (xid, zxid): (Xid, Zxid),
        result: &Result<Reply, ErrorCode>,
    ) {
        self.send(connection, |out| {
            ReplyHeader { xid, zxid, err: result.as_ref().err().copied() }.encode(out);
            if let Ok(reply) = result {
                reply.encode(out);
            }
        });
    }

    fn close(&mut self, connection: Connection) {
        self.watches.take(connection);
        if let Some(peer) = self.peers.remove(&connection) {
            let _ = peer.stream.shutdown(Shutdown::Both);
        }
    }

    /// Begins or resumes a session; `None` if that is refused.
    fn connect(
        &mut self,
        connection: Connection,
        stream: TcpStream,
        request: &ConnectRequest,
    ) -> Option<()> {
        let timeout_ms = request.timeout_ms;
        let is_new = request.session_id == SessionId::NONE;
        let (session, op) = if is_new {
            let session = SessionId(0x100_0000 + i64::try_from(self.numbers).unwrap());
            (session, Op::CreateSession { timeout_ms })
        } else {
            (request.session_id, Op::ResumeSession { timeout_ms })
        };
        let is_granted = self.apply(session, None, op).result.is_ok();
        if is_granted {
            let older = self.peers.iter().find(|(_, peer)| peer.session == session);
            if let Some(older) = older.map(|(older, _)| *older) {
                self.close(older);
            }
        }
        let attachment = ProposalNumber(self.numbers);
        let ids = vec![Id::new("ip", "127.0.0.1")];
        self.peers.insert(connection, Peer { stream, session, attachment, ids });
        let granted = ConnectResponse {
            protocol_version: 0,
            timeout_ms,
            session_id: session,
            password: Some(Bytes::from_static(&[7; 16])),
            read_only: request.read_only.map(|_| false),
        };
        let response =
            if is_granted { granted } else { ConnectResponse::expired(request.read_only) };
        self.send(connection, |out| response.encode(out));
        is_granted.then_some(())
    }

    /// Carries out a frame.
    fn take(&mut self, connection: Connection, mut payload: Bytes) -> Next {
        let Ok(RequestHeader { xid, op }) = RequestHeader::decode(&mut payload, "header") else {
            return Next::Ends;
        };
        let last = self.state.last_zxid;
        let request = match OpCode::from_i32(op).map(|op| Request::decode(op, &mut payload)) {
            None | Some(Err(DecodeError::UnknownOp(_))) => {
                self.reply(connection, (xid, Zxid::NONE), &Err(ErrorCode::Unimplemented));
                return Next::Ends;
            }
            Some(Err(_)) => {
                self.reply(connection, (xid, last), &Err(ErrorCode::MarshallingError));
                return Next::Stays;
            }
            Some(Ok(request)) => request,
        };
        if let Request::Auth(packet) = &request {
            let proved = identities(packet, Some(oracle::SUPER_DIGEST));
            let is_ip = packet.scheme.as_deref() == Some("ip");
            if proved.is_empty() && !is_ip {
                self.reply(connection, (xid, Zxid(0)), &Err(ErrorCode::AuthFailed));
                return Next::Ends;
            }
            if let Some(peer) = self.peers.get_mut(&connection) {
                let new: Vec<_> = proved.into_iter().filter(|id| !peer.ids.contains(id)).collect();
                peer.ids.extend(new);
            }
            self.reply(connection, (xid, Zxid(0)), &Ok(Reply::Empty));
            return Next::Stays;
        }
        if let Request::Sasl(_) = request {
            self.reply(connection, (xid, Zxid(0)), &Ok(Reply::Sasl(None)));
            return Next::Stays;
        }
        let result = self.carry_out(connection, &request);
        let xid = if request == Request::Ping { Xid::PING } else { xid };
        let zxid = self.state.last_zxid;
        self.reply(connection, (xid, zxid), &result);
        if request == Request::CloseSession { Next::Ends } else { Next::Stays }
    }

    fn carry_out(&mut self, connection: Connection, request: &Request) -> Result<Reply, ErrorCode> {
        let Some(peer) = self.peers.get(&connection) else {
            return Err(ErrorCode::SessionExpired);
        };
        let (session, attachment) = (peer.session, peer.attachment);
        let who = self.who(connection);
        if let Some(result) = self.state.tree.read(request, Reader { session, who: &who }) {
            self.watch(connection, request, &result);
            return result;
        }
        #[allow(clippy::wildcard_enum_match_arm, reason = "the others are writes")]
        match request {
            Request::Ping => Ok(Reply::Empty),
            Request::Sync(body) => Ok(Reply::Sync(body.path.clone())),
            Request::WhoAmI => Ok(Reply::WhoAmI(who.ids.iter().map(client_info).collect())),
            Request::AddWatch(body) => {
                let modes = match body.mode {
                    AddWatchMode::Persistent => Modes::PERSISTENT,
                    AddWatchMode::PersistentRecursive => Modes::RECURSIVE,
                };
                self.watches.add(connection, &body.path, modes);
                Ok(Reply::AddWatch(0))
            }
            Request::CheckWatches(body) => self.find(connection, body).map(|_| Reply::Empty),
            Request::RemoveWatches(body) => {
                let modes = self.find(connection, body)?;
                self.watches.remove(connection, &body.path, modes);
                Ok(Reply::Empty)
            }
            Request::SetWatches(_) | Request::SetWatches2(_) => {
                self.set_watches(connection, request, &who);
                Ok(Reply::Empty)
            }
            Request::CloseSession => self.apply(session, Some(attachment), Op::CloseSession).result,
            write => self.apply(session, Some(attachment), Op::Write(write.clone())).result,
        }
    }

    fn find(&self, connection: Connection, body: &WatchesRequest) -> Result<Modes, ErrorCode> {
        let modes = Modes::of(body.watcher_type);
        let is_there = self.watches.has(connection, &body.path, modes);
        if is_there { Ok(modes) } else { Err(ErrorCode::NoWatcher) }
    }

    /// Registers the watch that a read asks for.
    fn watch(
        &mut self,
        connection: Connection,
        request: &Request,
        result: &Result<Reply, ErrorCode>,
    ) {
        let is_absent = *result == Err(ErrorCode::NoNode);
        #[allow(clippy::wildcard_enum_match_arm, reason = "the others watch nothing")]
        let (body, modes) = match request {
            Request::GetData(body) if result.is_ok() => (body, Modes::DATA),
            Request::Exists(body) if result.is_ok() || is_absent => (body, Modes::DATA),
            Request::GetChildren(body) | Request::GetChildren2(body) if result.is_ok() => {
                (body, Modes::CHILD)
            }
            _ => return,
        };
        if body.watch {
            self.watches.add(connection, &body.path, modes);
        }
    }

    fn set_watches(&mut self, connection: Connection, request: &Request, who: &Who) {
        let Some(body) = set_watches(request) else { return };
        for (path, list) in watch_lists(&body) {
            let Some(event) = list.missed(&self.state.tree, path, body.relative_zxid) else {
                self.watches.add(connection, path, list.modes());
                continue;
            };
            let acl = self.state.tree.get(path).map(|znode| Arc::clone(&znode.acl));
            if acl.is_none_or(|acl| who.may(&acl, perms::READ) == Some(true)) {
                self.notify(connection, Zxid::NONE, event, path);
            }
        }
    }
}

fn client_info(id: &Id) -> ClientInfo {
    let auth_scheme = id.scheme.clone().unwrap_or_default();
    let id = id.id.clone().unwrap_or_default();
    let is_digest = auth_scheme == "digest";
    let user = if is_digest { id.split(':').next().unwrap_or_default().to_owned() } else { id };
    ClientInfo { auth_scheme, user }
}

fn next_frame(stream: &mut TcpStream, input: &mut BytesMut) -> io::Result<Option<Bytes>> {
    let mut some = [0; 4096];
    loop {
        match frame::split(input, frame::FRAME_BYTES_MAX_DEFAULT) {
            Ok(Some(payload)) => return Ok(Some(payload)),
            Ok(None) => {}
            Err(_) => return Ok(None),
        }
        let count = stream.read(&mut some)?;
        if count == 0 {
            return Ok(None);
        }
        input.extend_from_slice(some.get(..count).unwrap_or_default());
    }
}

/// One connection, until it ends.
fn serve(
    service: &Mutex<Service>,
    connection: Connection,
    mut stream: TcpStream,
) -> io::Result<()> {
    let mut input = BytesMut::new();
    let Some(mut payload) = next_frame(&mut stream, &mut input)? else { return Ok(()) };
    let Ok(request) = ConnectRequest::decode(&mut payload, "connect") else { return Ok(()) };
    let is_granted =
        service.lock().unwrap().connect(connection, stream.try_clone()?, &request).is_some();
    while is_granted && let Some(payload) = next_frame(&mut stream, &mut input)? {
        if service.lock().unwrap().take(connection, payload) == Next::Ends {
            break;
        }
    }
    Ok(())
}

/// Starts the model's server; its threads end with the test.
fn start(enforces_quota: bool) -> SocketAddr {
    let listener = TcpListener::bind((IpAddr::V4(Ipv4Addr::LOCALHOST), 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let service = Service { enforces_quota, ..Service::default() };
    let service = Arc::new(Mutex::new(service));
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let (service, stream) = (Arc::clone(&service), stream.unwrap());
            let connection = Connection(u64::try_from(number).unwrap());
            std::thread::spawn(move || {
                // An error is the end of the connection.
                let _ = serve(&service, connection, stream);
                service.lock().unwrap().close(connection);
            });
        }
    });
    address
}

fn setting(name: &'static str, default: u64) -> u64 {
    tools::number(name, default).unwrap()
}

fn compare(enforce_quota: &str, multis: bool) {
    if !require_foreign("oracle_model", &["java", "mvn"]).unwrap() {
        return;
    }
    let apache = Servers::apache()
        .servers(1)
        .super_digest(oracle::SUPER_DIGEST)
        .property("extendedTypesEnabled", "true")
        .property("enforceQuota", enforce_quota)
        .jvm_option("-Dznode.container.checkIntervalMs=100000000")
        .property("tickTime", "2000")
        .start()
        .unwrap();
    let left = apache.client_address(0).unwrap();
    let right = start(enforce_quota == "true");
    let seed = setting("ZOOLET_ORACLE_SEED", 1);
    let operations = setting("ZOOLET_ORACLE_OPERATIONS", OPERATIONS);
    match oracle::run(left, right, Plan { seed, operations, multis }) {
        Ok(summary) => {
            announce(&format!("oracle of the model: seed {seed}, {summary:?}"));
            assert!(summary.events > operations / 20, "too few events: {summary:?}");
            assert!(summary.refused < operations * 3 / 5, "too many refusals: {summary:?}");
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_model_agrees_with_apache() {
    compare("false", true);
}

#[test]
fn the_model_enforces_hard_quotas_as_apache_does() {
    compare("true", false);
}
