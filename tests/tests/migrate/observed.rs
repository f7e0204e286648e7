//! What a client does before the move, and what it sees before and after.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bytes::Bytes;
use zoolet_jute::{
    Acl, CreateMode, CreateRequest, CreateTtlRequest, Id, MultiOp, Parts, PathRequest,
    PathVersionRequest, PathWatchRequest, Reply, Request, SetAclRequest, SetDataRequest, Stat, Xid,
    Zxid, perms,
};
use zoolet_tests::raw::{Incoming, RawConnection};

/// A client with a session that goes on from server to server.
pub(crate) struct Client {
    connection: RawConnection,
    xid: i32,
    pub(crate) last_zxid: Zxid,
}

/// Everything that the wire says about a znode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Observed {
    data: Option<Bytes>,
    acl: Vec<Acl>,
    pub(crate) stat: Stat,
    children: Vec<String>,
}

impl Client {
    pub(crate) fn of(connection: RawConnection) -> Self {
        Self { connection, xid: 0, last_zxid: Zxid(0) }
    }

    /// The same session on another server.
    pub(crate) fn resumed(self, server: SocketAddr) -> Self {
        let request = self.connection.resume_request(self.last_zxid);
        let connection = RawConnection::handshake(server, &request).unwrap();
        assert_eq!(connection.session.session_id, request.session_id, "the session goes on");
        assert_ne!(connection.session.timeout_ms, 0, "the session goes on");
        Self { connection, ..self }
    }

    /// The reply; `None` for an error.
    fn try_call(&mut self, request: &Request) -> Option<Reply> {
        self.xid += 1;
        let (_, incoming) = self.connection.call(Xid(self.xid), request).unwrap();
        let Incoming::Reply(header, reply) = incoming else { panic!("{request:?}: {incoming:?}") };
        self.last_zxid = self.last_zxid.max(header.zxid);
        reply
    }

    fn call(&mut self, request: &Request) -> Reply {
        self.try_call(request).unwrap_or_else(|| panic!("{request:?} is refused"))
    }

    pub(crate) fn create(&mut self, path: &str, mode: CreateMode) -> String {
        let reply = self.call(&Request::Create(create_request(path, mode)));
        let Reply::Path(path) = reply else { panic!("{reply:?}") };
        path
    }

    pub(crate) fn delete(&mut self, path: &str) {
        self.call(&Request::Delete(PathVersionRequest { path: path.to_owned(), version: -1 }));
    }

    fn set_data(&mut self, path: &str, data: Option<Bytes>) {
        self.call(&Request::SetData(SetDataRequest { path: path.to_owned(), data, version: -1 }));
    }

    pub(crate) fn stat(&mut self, path: &str) -> Stat {
        let reply = self.call(&Request::Exists(read_of(path)));
        let Reply::Stat(stat) = reply else { panic!("{reply:?}") };
        stat
    }

    fn observe(&mut self, path: &str) -> Observed {
        let reply = self.call(&Request::GetData(read_of(path)));
        let Reply::Data(data, stat) = reply else { panic!("{reply:?}") };
        let reply = self.call(&Request::GetAcl(PathRequest { path: path.to_owned() }));
        let Reply::Acl(acl, _) = reply else { panic!("{reply:?}") };
        let reply = self.call(&Request::GetChildren(read_of(path)));
        let Reply::Children(mut children) = reply else { panic!("{reply:?}") };
        children.sort();
        Observed { data, acl, stat, children }
    }
}

fn read_of(path: &str) -> PathWatchRequest {
    PathWatchRequest { path: path.to_owned(), watch: false }
}

fn create_request(path: &str, mode: CreateMode) -> CreateRequest {
    let data = Some(Bytes::from(format!("data of {path}")));
    CreateRequest { path: path.to_owned(), data, acl: Some(Acl::open()), flags: mode as i32 }
}

/// Writes something of everything that the version has.
pub(crate) fn fill(client: &mut Client, server: SocketAddr, version: &str) {
    use CreateMode::{Container, Ephemeral, Persistent, PersistentSequential, PersistentWithTtl};
    for path in ["/seq", "/e", "/acl", "/acl/empty", "/quota", "/deep"] {
        client.create(path, Persistent);
    }
    for _ in 0..41 {
        let path = client.create("/seq/n-", PersistentSequential);
        client.set_data("/deep", Some(Bytes::from(path.clone())));
        client.delete(&path);
    }
    for name in 1..4 {
        client.create(&format!("/e/{name}"), Ephemeral);
    }
    let digest = Id::new("digest", "user:+Ir5sN1lGJEEs8xBZhZXKvjLJ7c=");
    let acl = vec![
        Acl { perms: perms::READ | perms::ADMIN, id: Id::new("world", "anyone") },
        Acl { perms: perms::ALL, id: digest },
    ];
    let path = "/acl".to_owned();
    client.call(&Request::SetAcl(SetAclRequest { path, acl: Some(acl), version: -1 }));
    client.set_data("/acl/empty", None);
    fill_quota(client);
    let multi = |second: &str| {
        Request::Multi(Parts(vec![
            MultiOp::Create(create_request("/deep/multi", Persistent)),
            MultiOp::SetData(SetDataRequest {
                path: second.to_owned(),
                data: Some(Bytes::new()),
                version: -1,
            }),
        ]))
    };
    client.try_call(&multi("/missing"));
    client.call(&multi("/deep"));
    assert!(client.try_call(&Request::Create(create_request("/deep", Persistent))).is_none());
    if version != "3.4.14" {
        client.call(&Request::CreateContainer(create_request("/container", Container)));
        client.create("/container/child", Persistent);
        let CreateRequest { path, data, acl, flags } = create_request("/ttl", PersistentWithTtl);
        let ttl_ms = 3_600_000;
        client.call(&Request::CreateTtl(CreateTtlRequest { path, data, acl, flags, ttl_ms }));
    }
    // A session that ends before the move, with all that it owns.
    let mut other = Client::of(RawConnection::open(server, 30_000).unwrap());
    other.create("/e/other", Ephemeral);
    other.call(&Request::CloseSession);
    let mut path = String::from("/deep");
    for level in 0..20 {
        path = format!("{path}/{level}");
        client.create(&path, Persistent);
    }
}

fn fill_quota(client: &mut Client) {
    client.create("/zookeeper/quota/quota", CreateMode::Persistent);
    for (leaf, text) in
        [("zookeeper_limits", "count=50,bytes=5000"), ("zookeeper_stats", "count=1,bytes=14")]
    {
        let path = format!("/zookeeper/quota/quota/{leaf}");
        let data = Some(Bytes::from(text));
        let (acl, flags) = (Some(Acl::open()), 0);
        client.call(&Request::Create(CreateRequest { path, data, acl, flags }));
    }
    client.create("/quota/child", CreateMode::Persistent);
}

/// Everything that can be read, by its paths.
pub(crate) fn tree(client: &mut Client) -> BTreeMap<String, Observed> {
    let mut found = BTreeMap::new();
    let mut waiting = vec!["/".to_owned()];
    while let Some(path) = waiting.pop() {
        let observed = client.observe(&path);
        let prefix = if path == "/" { "" } else { &path };
        waiting.extend(observed.children.iter().map(|name| format!("{prefix}/{name}")));
        found.insert(path, observed);
    }
    found
}

/// Compares all but the configuration, which each ensemble writes itself, and which 3.4 lacks.
pub(crate) fn assert_same(
    before: &BTreeMap<String, Observed>,
    after: &BTreeMap<String, Observed>,
    what: &str,
) {
    let is_compared = |path: &&String| !matches!(path.as_str(), "/zookeeper" | "/zookeeper/config");
    let paths = |of: &BTreeMap<String, Observed>| -> Vec<String> {
        of.keys().filter(is_compared).cloned().collect()
    };
    assert_eq!(paths(before), paths(after), "{what}");
    for path in paths(before) {
        assert_eq!(before[&path], after[&path], "{what}: {path}");
    }
    assert!(before.len() > 30, "{what}: the tree has {} znodes", before.len());
}
