//! Random commands to the model and to the servers' state: both must come to the same.

use std::sync::Arc;

use bytes::Bytes;
use zoolet_jute::{
    Acl, CreateRequest, CreateTtlRequest, ErrorCode, Id, MultiOp, NullablePathRequest, Parts,
    PathRequest, PathVersionRequest, PathWatchRequest, Request, SessionId, SetAclRequest,
    SetDataRequest, Xid,
};
use zoolet_replica::state::{Change as ServerChange, State as ServerState};
use zoolet_replica::{Boot, Command, Op, Origin, Policy, ProposalNumber, ServerId, Stamp, Term};

use crate::model::{Change, ChangeKind, Reader, State, Who, in_order};

/// A small generator of chance.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    fn one<T: Clone>(&mut self, all: &[T]) -> T {
        let at = self.below(all.len() as u64);
        all[usize::try_from(at).unwrap()].clone()
    }

    fn path(&mut self) -> String {
        const ODD: [&str; 9] =
            ["", "/", "//a", "/a/", "a", "/zookeeper", "/zookeeper/config", "/a/../b", "/\u{ffff}"];
        const QUOTA: [&str; 5] = [
            "/zookeeper/quota/a",
            "/zookeeper/quota/a/zookeeper_limits",
            "/zookeeper/quota/a/zookeeper_stats",
            "/zookeeper/quota/zookeeper_stats",
            "/zookeeper/quota/a/b",
        ];
        match self.below(20) {
            0 => self.one(&ODD).to_owned(),
            1 | 2 => self.one(&QUOTA).to_owned(),
            _ => {
                let depth = 1 + self.below(3);
                (0..depth).map(|_| self.one(&["/a", "/b", "/c-"])).collect()
            }
        }
    }

    fn data(&mut self) -> Option<Bytes> {
        let limits = "count=5,bytes=-1=;byteHardLimit=40;countHardLimit=4";
        Some(match self.below(6) {
            0 => return None,
            1 => Bytes::from(limits),
            _ => Bytes::from("x".repeat(usize::try_from(self.below(20)).unwrap())),
        })
    }

    fn acl(&mut self) -> Option<Vec<Acl>> {
        let entry = |perms, scheme: &str, id: &str| Acl { perms, id: Id::new(scheme, id) };
        Some(match self.below(40) {
            0 => return None,
            1 => Vec::new(),
            2 => vec![entry(31, "auth", "")],
            3 => vec![entry(31, "digest", "u1:x"), entry(1, "world", "anyone")],
            4 => vec![entry(31, "ip", "10.0.0.0/8")],
            5 => vec![entry(31, "ip", "10.0.0.0/33")],
            6 => vec![entry(5, "world", "anyone"), entry(5, "world", "anyone")],
            7 => vec![entry(31, "x509", "CN=a")],
            8 => vec![entry(31, "sasl", "a@b")],
            9 => vec![entry(31, "digest", "a:b:c")],
            _ => Acl::open(),
        })
    }

    fn version(&mut self) -> i32 {
        self.one(&[-1, -1, -1, -1, 0, 1, 2, -2])
    }

    fn create(&mut self) -> CreateRequest {
        let flags = self.one(&[0, 0, 0, 1, 1, 2, 3, 4, 5, 9]);
        CreateRequest { path: self.path(), data: self.data(), acl: self.acl(), flags }
    }

    fn create_ttl(&mut self) -> CreateTtlRequest {
        let CreateRequest { path, data, acl, .. } = self.create();
        let (flags, ttl_ms) = (self.one(&[0, 5, 5, 6]), self.one(&[1, 50, 0, 1 << 40]));
        CreateTtlRequest { path, data, acl, flags, ttl_ms }
    }

    fn path_version(&mut self) -> PathVersionRequest {
        PathVersionRequest { path: self.path(), version: self.version() }
    }

    fn set_data(&mut self) -> SetDataRequest {
        SetDataRequest { path: self.path(), data: self.data(), version: self.version() }
    }

    fn part(&mut self) -> MultiOp {
        match self.below(8) {
            0 | 1 => MultiOp::Create(self.create()),
            2 => MultiOp::Create2(self.create()),
            3 => MultiOp::CreateContainer(self.create()),
            4 => MultiOp::CreateTtl(self.create_ttl()),
            5 => MultiOp::Delete(self.path_version()),
            6 => MultiOp::SetData(self.set_data()),
            _ => MultiOp::Check(self.path_version()),
        }
    }

    fn write(&mut self) -> Request {
        match self.below(12) {
            0..3 => Request::Create(self.create()),
            3 | 4 => Request::Create2(self.create()),
            5 => Request::CreateContainer(self.create()),
            6 => Request::CreateTtl(self.create_ttl()),
            7 => Request::Delete(self.path_version()),
            8 | 9 => Request::SetData(self.set_data()),
            10 => Request::SetAcl(SetAclRequest {
                path: self.path(),
                acl: self.acl(),
                version: self.version(),
            }),
            _ => {
                let count = self.below(5);
                Request::Multi(Parts((0..count).map(|_| self.part()).collect()))
            }
        }
    }

    fn op(&mut self) -> Op {
        let term = Term(1 + self.below(2));
        match self.below(60) {
            0 | 1 => Op::CreateSession { timeout_ms: 1000 },
            2 => Op::ResumeSession { timeout_ms: 2000 },
            3 => Op::CloseSession,
            4 => Op::ExpireSession { generation: self.below(2), term },
            5 => Op::DeleteContainer { path: self.path() },
            6 => Op::SetConfig { term, text: "server.1=x".into(), is_first: self.below(2) == 0 },
            7 => Op::WriteX509(self.write()),
            8 => Op::WriteSasl(self.write()),
            _ => Op::Write(self.write()),
        }
    }

    fn identities(&mut self) -> Arc<[Id]> {
        let ip = Id::new("ip", "10.1.2.3");
        match self.below(20) {
            0 => Arc::from([ip, Id::new("digest", "u1:x")]),
            1 => Arc::from([Id::new("super", "")]),
            2 => Arc::from([Id::new("sasl", "a@b"), Id::new("x509", "CN=a")]),
            _ => Arc::from([ip]),
        }
    }

    fn command(&mut self) -> (Stamp, Origin, Command) {
        let term = if self.below(50) == 0 { 2 } else { 1 };
        let stamp = Stamp { term: Term(term), now_ms: i64::try_from(self.below(1000)).unwrap() };
        let server = ServerId(u8::try_from(1 + self.below(40) / 39).unwrap());
        let origin = Origin { server, boot: Boot(1), stream: 1 };
        let command = Command {
            number: ProposalNumber(1),
            session: SessionId(i64::try_from(1 + self.below(3)).unwrap()),
            attachment: ProposalNumber(1),
            cxid: Xid(1),
            policy: Policy {
                skip_acl: self.below(50) == 0,
                enforce_quota: self.below(2) == 0,
                extended_types: self.below(10) != 0,
                reconfig: false,
            },
            identities: self.identities(),
            op: self.op(),
        };
        (stamp, origin, command)
    }

    fn read(&mut self) -> Request {
        let look = PathWatchRequest { path: self.path(), watch: false };
        match self.below(6) {
            0 => Request::GetData(look),
            1 => Request::Exists(look),
            2 => Request::GetChildren2(look),
            3 => Request::GetAcl(PathRequest { path: look.path }),
            4 => Request::GetAllChildrenNumber(PathRequest { path: look.path }),
            _ => Request::GetEphemerals(NullablePathRequest { path: Some(look.path) }),
        }
    }
}

fn seen(change: &ServerChange) -> Option<(ChangeKind, &str)> {
    match change {
        ServerChange::Created { path, .. } => Some((ChangeKind::Created, path)),
        ServerChange::Deleted { path, .. } => Some((ChangeKind::Deleted, path)),
        ServerChange::DataChanged { path, .. } => Some((ChangeKind::DataChanged, path)),
        ServerChange::AclChanged { .. }
        | ServerChange::SessionOpened(_)
        | ServerChange::SessionResumed { .. }
        | ServerChange::SessionClosed(_) => None,
    }
}

#[test]
fn the_model_and_the_servers_state_come_to_the_same() {
    for seed in 1..=20 {
        let mut chance = Chance(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        let (mut model, mut server) = (State::default(), ServerState::new());
        let (mut refused, mut done) = (0, 0);
        for number in 0..2000 {
            let (stamp, origin, command) = chance.command();
            let ours = model.apply(stamp, origin, &command);
            let theirs = server.apply(stamp, origin, command.clone());
            let at = format!("seed {seed}, command {number}: {command:?}");
            assert_eq!((ours.zxid, &ours.result), (theirs.zxid, &theirs.result), "{at}");
            let changes: Vec<_> = ours
                .changes
                .iter()
                .map(|Change { kind, path, .. }| (*kind, path.as_str()))
                .collect();
            let expected: Vec<_> = theirs.changes.iter().filter_map(seen).collect();
            assert_eq!(changes, expected, "{at}");
            if matches!(ours.result, Err(code) if code != ErrorCode::SessionExpired) {
                refused += 1;
            } else {
                done += 1;
            }
            let (read, session) = (chance.read(), SessionId(1));
            let ids = chance.identities();
            let who = Who { ids: ids.to_vec(), has_no_other: true, skips_acl: false };
            let ours = model.tree.read(&read, Reader { session, who: &who }).unwrap();
            let theirs = server.read(&read, session, &ids, false);
            assert_eq!(ours.map(in_order), theirs.map(in_order), "seed {seed}: {read:?}");
        }
        assert_eq!(model.tree.iter().count(), server.node_count());
        for (path, znode) in model.tree.iter() {
            assert_eq!(Some(znode.stat()), server.stat(path), "{path}");
            assert_eq!(znode.data, server.data(path), "{path}");
            assert_eq!(Some(Arc::clone(&znode.acl)), server.acl(path), "{path}");
        }
        assert!(done > 400 && refused > 200, "{done} done, {refused} refused");
    }
}
