//! A tree of znodes behind scripted connections.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{sleep, timeout};
use zoolet_client::{Client, ErrorCode, SessionId, Stat, Zxid};
use zoolet_jute::{
    AddWatchMode, CreateMode, CreateRequest, EventType, MultiOp, MultiResult, OpCode, Parts,
    PathVersionRequest, Reply, Request, Xid,
};

use crate::script::{Connection, SESSION, Servers};

/// How long requests are on their way: those that are under way together arrive together.
const LATENCY: Duration = Duration::from_millis(1);

/// How many requests arrive together at most.
const ARRIVALS_MAX: usize = 10_000;

/// How long something may take, in paused time.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// The servers and their tree.
pub(crate) struct Ensemble {
    pub(crate) servers: Servers,
    pub(crate) tree: Tree,
}

/// The tree; clones share it.
#[derive(Clone, Default)]
pub(crate) struct Tree(Arc<Mutex<State>>);

#[derive(Default)]
pub(crate) struct State {
    nodes: BTreeMap<String, Node>,
    zxid: i64,
    /// Every request that has come.
    pub(crate) requests: Vec<(OpCode, String)>,
    /// Whether the server only reads.
    pub(crate) is_read_only: bool,
    /// Below which paths nothing may be created.
    pub(crate) closed: Vec<String>,
    /// The next request of this kind is carried out, and the connection breaks before its reply.
    pub(crate) loses_reply_of: Option<OpCode>,
    /// The data of a znode at a server that is behind, until it is asked to sync.
    pub(crate) stale: BTreeMap<String, Bytes>,
    /// The znodes that had children and were without after a transaction.
    emptied: BTreeSet<String>,
    /// What may not be deleted.
    pub(crate) undeletable: BTreeSet<String>,
    /// The znodes whose data may not be read.
    pub(crate) unreadable: BTreeSet<String>,
    watches: BTreeSet<String>,
    recursive: BTreeSet<String>,
    events: Vec<(Zxid, EventType, String)>,
}

#[derive(Clone, Default)]
struct Node {
    data: Bytes,
    stat: Stat,
    next: i32,
}

impl Ensemble {
    pub(crate) fn new() -> Self {
        Self { servers: Servers::new(), tree: Tree::default() }
    }

    /// A client that is served.
    pub(crate) async fn client(&mut self) -> Client {
        self.client_with(self.servers.options()).await
    }

    pub(crate) async fn client_with(&mut self, options: zoolet_client::ClientOptions) -> Client {
        let (client, connection) = self.servers.start(options).await;
        self.serve(connection);
        client
    }

    /// Serves a connection until it breaks.
    pub(crate) fn serve(&self, connection: Connection) -> tokio::task::JoinHandle<()> {
        tokio::spawn(self.tree.clone().serve(connection))
    }

    /// Serves the next connection.
    pub(crate) async fn serve_next(&mut self) -> tokio::task::JoinHandle<()> {
        let connection = self.servers.serve().await;
        self.serve(connection)
    }
}

impl Tree {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Does what another client does.
    fn other(&self, op: &MultiOp) -> Result<MultiResult, ErrorCode> {
        let mut state = self.state();
        state.zxid += 1;
        state.carry_out(op, SessionId(7))
    }

    /// Creates a znode as another client.
    pub(crate) fn create(&self, path: &str, data: &[u8]) {
        let mode = CreateMode::Persistent;
        let data = Some(Bytes::copy_from_slice(data));
        let body = CreateRequest { path: path.to_owned(), data, acl: None, flags: mode as i32 };
        self.other(&MultiOp::Create2(body)).unwrap();
    }

    /// Waits until a watch is on a znode.
    pub(crate) async fn watched(&self, path: &str) {
        while !self.state().watches.contains(path) {
            sleep(LATENCY).await;
        }
    }

    /// Deletes a znode as another client.
    pub(crate) fn delete(&self, path: &str) {
        let body = PathVersionRequest { path: path.to_owned(), version: -1 };
        self.other(&MultiOp::Delete(body)).unwrap();
    }

    pub(crate) fn czxid(&self, path: &str) -> Zxid {
        self.state().nodes[path].stat.czxid
    }

    pub(crate) fn names(&self, dir: &str) -> Vec<String> {
        self.state().children(dir)
    }

    pub(crate) fn data(&self, path: &str) -> Option<Bytes> {
        self.state().nodes.get(path).map(|node| node.data.clone())
    }

    /// Whether a znode had children after every transaction since it had the first.
    pub(crate) fn always_had_children(&self, dir: &str) -> bool {
        !self.names(dir).is_empty() && !self.state().emptied.contains(dir)
    }

    /// How many requests of a kind have come.
    pub(crate) fn count(&self, op: OpCode) -> usize {
        self.state().requests.iter().filter(|(other, _)| *other == op).count()
    }

    /// Waits until something is so.
    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let reached = timeout(SOON, async {
            while !is_so(self) {
                sleep(LATENCY).await;
            }
        });
        assert!(reached.await.is_ok(), "never: {what}; {:?}", self.state().requests);
    }

    async fn serve(self, mut connection: Connection) {
        self.serve_until(&mut connection, |_| false).await;
    }

    /// Serves a connection until something is so, or it breaks.
    pub(crate) async fn serve_until(
        &self,
        connection: &mut Connection,
        is_so: impl Fn(&Self) -> bool,
    ) {
        while !is_so(self) {
            // Events of what others do come between requests.
            let arrived = timeout(LATENCY * 5, connection.any_request()).await;
            let mut batch = Vec::new();
            match arrived {
                Ok(None) => return,
                Ok(Some(first)) => batch.push(first),
                Err(_) => {}
            }
            sleep(LATENCY).await;
            while batch.len() < ARRIVALS_MAX
                && let Ok(Some(next)) =
                    timeout(Duration::from_nanos(1), connection.any_request()).await
            {
                batch.push(next);
            }
            for (xid, request) in batch {
                let (zxid, answer, is_lost) = self.answer(xid, request);
                if is_lost {
                    return;
                }
                self.send_events(connection).await;
                connection.answer_at(xid, zxid, answer).await;
            }
            self.send_events(connection).await;
        }
    }

    async fn send_events(&self, connection: &mut Connection) {
        let events = std::mem::take(&mut self.state().events);
        for (zxid, event_type, path) in events {
            connection.event_at(zxid, event_type, &path).await;
        }
    }

    fn answer(&self, xid: Xid, request: Request) -> (Zxid, Result<Reply, ErrorCode>, bool) {
        let mut state = self.state();
        let op = request.op_code();
        let is_write = xid != Xid::PING;
        if is_write {
            let path = path_of(&request);
            state.requests.push((op, path));
        }
        let answer = state.handle(request);
        if matches!(op, OpCode::Multi | OpCode::Delete) {
            state.note_emptied();
        }
        let is_lost = state.loses_reply_of == Some(op);
        if is_lost {
            state.loses_reply_of = None;
        }
        (Zxid(state.zxid), answer, is_lost)
    }
}

fn path_of(request: &Request) -> String {
    match request {
        Request::Create2(body) | Request::CreateContainer(body) => body.path.clone(),
        Request::Delete(body) => body.path.clone(),
        Request::GetData(body) | Request::Exists(body) | Request::GetChildren2(body) => {
            body.path.clone()
        }
        Request::SetData(body) => body.path.clone(),
        _ => String::new(),
    }
}

impl State {
    fn children(&self, dir: &str) -> Vec<String> {
        let prefix = if dir == "/" { "/".to_owned() } else { format!("{dir}/") };
        let from = self.nodes.range(prefix.clone()..);
        let below = from.map_while(|(path, _)| path.strip_prefix(&prefix));
        below.filter(|name| !name.contains('/')).map(str::to_owned).collect()
    }

    fn stat(&self, path: &str) -> Option<Stat> {
        let node = self.nodes.get(path)?;
        let num_children = i32::try_from(self.children(path).len()).unwrap();
        Some(Stat { num_children, ..node.stat })
    }

    fn handle(&mut self, request: Request) -> Result<Reply, ErrorCode> {
        let is_read = matches!(
            request,
            Request::Exists(_)
                | Request::GetData(_)
                | Request::GetChildren2(_)
                | Request::Ping
                | Request::SetWatches(_)
                | Request::SetWatches2(_)
                | Request::AddWatch(_)
                | Request::RemoveWatches(_)
        );
        if self.is_read_only && !is_read {
            return Err(ErrorCode::NotReadOnly);
        }
        if let Request::GetData(read) = &request
            && self.unreadable.contains(&read.path)
        {
            return Err(ErrorCode::NoAuth);
        }
        match request {
            Request::Create2(body) => self.write(&MultiOp::Create2(body)),
            Request::CreateContainer(body) => self.write(&MultiOp::CreateContainer(body)),
            Request::Delete(body) => self.write(&MultiOp::Delete(body)),
            Request::SetData(body) => self.write(&MultiOp::SetData(body)),
            Request::Multi(Parts(ops)) => Ok(self.multi(&ops)),
            Request::Sync(body) => {
                self.stale.clear();
                Ok(Reply::Sync(body.path))
            }
            Request::Exists(body) => {
                if body.watch {
                    self.watches.insert(body.path.clone());
                }
                self.stat(&body.path).map(Reply::Stat).ok_or(ErrorCode::NoNode)
            }
            Request::GetData(body) => {
                let stat = self.stat(&body.path).ok_or(ErrorCode::NoNode)?;
                if body.watch {
                    self.watches.insert(body.path.clone());
                }
                let data = self.stale.get(&body.path).unwrap_or(&self.nodes[&body.path].data);
                Ok(Reply::Data(Some(data.clone()), stat))
            }
            Request::GetChildren2(body) => {
                if body.path != "/" && !self.nodes.contains_key(&body.path) {
                    return Err(ErrorCode::NoNode);
                }
                let stat = self.stat(&body.path).unwrap_or_default();
                if body.watch {
                    self.watches.insert(format!("{}/", body.path));
                }
                Ok(Reply::ChildrenStat(self.children(&body.path), stat))
            }
            Request::AddWatch(body) => {
                assert_eq!(body.mode, AddWatchMode::PersistentRecursive);
                self.recursive.insert(body.path);
                Ok(Reply::AddWatch(0))
            }
            Request::Ping
            | Request::SetWatches(_)
            | Request::SetWatches2(_)
            | Request::RemoveWatches(_)
            | Request::CloseSession => Ok(Reply::Empty),
            other => panic!("{other:?}"),
        }
    }

    fn note_emptied(&mut self) {
        let is_empty = |path: &&String| self.children(path).is_empty();
        let had = |node: &Node| node.next > 0;
        let dirs = self.nodes.iter().filter(|(_, node)| had(node)).map(|(path, _)| path);
        let emptied: Vec<String> = dirs.filter(is_empty).cloned().collect();
        self.emptied.extend(emptied);
    }

    fn write(&mut self, op: &MultiOp) -> Result<Reply, ErrorCode> {
        self.zxid += 1;
        Ok(match self.carry_out(op, SESSION)? {
            MultiResult::Create2 { path, stat } => Reply::PathStat(path, stat),
            MultiResult::SetData(stat) => Reply::Stat(stat),
            _ => Reply::Empty,
        })
    }

    fn multi(&mut self, ops: &[MultiOp]) -> Reply {
        let before = (self.nodes.clone(), self.events.clone());
        self.zxid += 1;
        let mut results = Vec::new();
        for (at, op) in ops.iter().enumerate() {
            match self.carry_out(op, SESSION) {
                Ok(result) => results.push(result),
                Err(code) => {
                    (self.nodes, self.events) = before;
                    let code_of = |part| match part {
                        part if part < at => None,
                        part if part == at => Some(code),
                        _ => Some(ErrorCode::RuntimeInconsistency),
                    };
                    results =
                        (0..ops.len()).map(|part| MultiResult::Error(code_of(part))).collect();
                    break;
                }
            }
        }
        Reply::Multi(Parts(results))
    }

    fn carry_out(&mut self, op: &MultiOp, session: SessionId) -> Result<MultiResult, ErrorCode> {
        match op {
            MultiOp::Create(body) | MultiOp::Create2(body) | MultiOp::CreateContainer(body) => {
                self.create(body, session)
            }
            MultiOp::Delete(body) => {
                let node = self.nodes.get(&body.path).ok_or(ErrorCode::NoNode)?;
                if session == SESSION && self.undeletable.contains(&body.path) {
                    return Err(ErrorCode::NoAuth);
                }
                if body.version != -1 && body.version != node.stat.version {
                    return Err(ErrorCode::BadVersion);
                }
                self.nodes.remove(&body.path);
                self.child_changed(&body.path);
                self.fire(EventType::NodeDeleted, &body.path);
                Ok(MultiResult::Delete)
            }
            MultiOp::SetData(body) => {
                let zxid = Zxid(self.zxid);
                let node = self.nodes.get_mut(&body.path).ok_or(ErrorCode::NoNode)?;
                if body.version != -1 && body.version != node.stat.version {
                    return Err(ErrorCode::BadVersion);
                }
                node.data = body.data.clone().unwrap_or_default();
                node.stat.version += 1;
                node.stat.mzxid = zxid;
                let stat = node.stat;
                self.fire(EventType::NodeDataChanged, &body.path);
                Ok(MultiResult::SetData(stat))
            }
            MultiOp::Check(body) => match self.nodes.get(&body.path) {
                Some(_) => Ok(MultiResult::Check),
                None => Err(ErrorCode::NoNode),
            },
            MultiOp::CreateTtl(_) => panic!("{op:?}"),
        }
    }

    fn create(
        &mut self,
        body: &CreateRequest,
        session: SessionId,
    ) -> Result<MultiResult, ErrorCode> {
        let mode = CreateMode::from_flags(body.flags).unwrap();
        let (dir, _) = body.path.rsplit_once('/').unwrap();
        if !dir.is_empty() && !self.nodes.contains_key(dir) {
            return Err(ErrorCode::NoNode);
        }
        if session == SESSION && self.closed.iter().any(|closed| closed == dir) {
            return Err(ErrorCode::NoAuth);
        }
        let mut path = body.path.clone();
        if matches!(mode, CreateMode::EphemeralSequential | CreateMode::PersistentSequential) {
            let number = self.nodes.get(dir).map_or(0, |node| node.next);
            path = format!("{path}{number:010}");
        }
        if self.nodes.contains_key(&path) {
            return Err(ErrorCode::NodeExists);
        }
        let is_ephemeral = matches!(mode, CreateMode::Ephemeral | CreateMode::EphemeralSequential);
        let stat = Stat {
            czxid: Zxid(self.zxid),
            mzxid: Zxid(self.zxid),
            ephemeral_owner: if is_ephemeral { session } else { SessionId(0) },
            ..Stat::default()
        };
        let data = body.data.clone().unwrap_or_default();
        self.nodes.insert(path.clone(), Node { data, stat, next: 0 });
        if let Some(parent) = self.nodes.get_mut(dir) {
            parent.next += 1;
        }
        self.child_changed(&path);
        self.fire(EventType::NodeCreated, &path);
        Ok(MultiResult::Create2 { path, stat })
    }

    fn child_changed(&mut self, path: &str) {
        let (dir, _) = path.rsplit_once('/').unwrap();
        if let Some(parent) = self.nodes.get_mut(dir) {
            parent.stat.cversion += 1;
        }
        if self.watches.remove(&format!("{dir}/")) {
            self.events.push((Zxid(self.zxid), EventType::NodeChildrenChanged, dir.to_owned()));
        }
    }

    fn fire(&mut self, event_type: EventType, path: &str) {
        let is_below = |root: &String| path == root || path.starts_with(&format!("{root}/"));
        if self.watches.remove(path) || self.recursive.iter().any(is_below) {
            self.events.push((Zxid(self.zxid), event_type, path.to_owned()));
        }
    }
}
