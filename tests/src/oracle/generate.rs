//! Operations by seed: mostly such as succeed, and some of everything that must be refused.

#![allow(clippy::indexing_slicing, reason = "the index is drawn below the length")]

use bytes::{Bytes, BytesMut};
use fastrand::Rng;
use zoolet_jute::{
    Acl, AddWatchMode, AddWatchRequest, AuthPacket, CreateRequest, CreateTtlRequest, Encode,
    ErrorCode, Id, MultiOp, MultiReadOp, NullablePathRequest, OpCode, Parts, PathRequest,
    PathVersionRequest, PathWatchRequest, ReconfigRequest, Reply, Request, SetAclRequest,
    SetDataRequest, SetWatches2Request, SetWatchesRequest, WatcherType, WatchesRequest, Zxid,
};

use crate::raw::Incoming;

/// One thing that a session does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A request as clients send it.
    Call(Request),
    /// A header with this operation code, and any bytes for a body.
    Payload(i32, Vec<u8>),
    /// Break the connection and resume the session.
    Resume,
}

impl Step {
    /// Whether it ends the session.
    pub(super) fn ends_session(&self) -> bool {
        matches!(self, Self::Call(Request::CloseSession))
    }

    /// Whether the server closes the connection behind this reply (protocol §1.3, §2.12, §2.17).
    pub(super) fn is_last(&self, reply: &Incoming) -> bool {
        let Incoming::Reply(header, _) = reply else { return false };
        match header.err {
            None => self.ends_session(),
            Some(ErrorCode::AuthFailed) => true,
            Some(ErrorCode::Unimplemented) => matches!(self, Self::Payload(..)),
            Some(_) => false,
        }
    }

    /// Whether it registers watches anew, and so can bring catch-up events.
    pub(super) fn is_set_watches(&self) -> bool {
        matches!(self, Self::Call(Request::SetWatches(_) | Request::SetWatches2(_)))
    }

    /// Whether it deletes several znodes in an order that means nothing (protocol §7.7).
    pub(super) fn deletes_in_any_order(&self) -> bool {
        self.ends_session()
    }
}

/// Makes steps.
#[derive(Debug)]
pub(super) struct Generator {
    rng: Rng,
    multis: bool,
    sessions: usize,
    /// Sequential znodes that exist or existed, to be met again.
    met: Vec<String>,
    /// For each session, how often it has authenticated; identities are bounded.
    auths: Vec<u32>,
}

const NAMES: [&str; 3] = ["a", "b", "c-"];
const ODD_PATHS: [&str; 16] = [
    "",
    "/",
    "//",
    "/a/",
    "/a//b",
    "a",
    "/a/./b",
    "/a/..",
    "/a/...",
    "/\u{1}",
    "/a\u{7f}",
    "/\u{1F600}",
    "/\u{FFFD}",
    "/zookeeper",
    "/zookeeper/quota",
    "/zookeeper/config",
];

impl Generator {
    pub(super) fn new(rng: Rng, sessions: usize, multis: bool) -> Self {
        Self { rng, multis, sessions, met: Vec::new(), auths: vec![0; sessions] }
    }

    /// The next step, and the session that does it.
    pub(super) fn next_step(&mut self) -> (usize, Step) {
        let session = self.rng.usize(..self.sessions);
        let step = match self.rng.u32(..1000) {
            690..790 if !self.multis => Step::Call(Request::SetData(self.set_data())),
            0..220 => Step::Call(self.create()),
            220..300 => Step::Call(Request::Delete(self.path_version())),
            300..420 => Step::Call(Request::SetData(self.set_data())),
            420..480 => Step::Call(Request::Exists(self.path_watch())),
            480..540 => Step::Call(Request::GetData(self.path_watch())),
            540..580 => Step::Call(Request::GetChildren(self.path_watch())),
            580..620 => Step::Call(Request::GetChildren2(self.path_watch())),
            620..650 => Step::Call(Request::GetAcl(PathRequest { path: self.path() })),
            650..680 => Step::Call(self.set_acl()),
            680..690 => Step::Call(Request::Sync(NullablePathRequest { path: self.null_path() })),
            690..790 => Step::Call(self.multi()),
            790..810 => Step::Call(self.multi_read()),
            810..850 => Step::Call(self.watches()),
            850..870 => Step::Call(self.add_watch()),
            870..885 => Step::Call(self.set_watches()),
            885..895 => {
                let body = NullablePathRequest { path: self.null_path() };
                Step::Call(Request::GetEphemerals(body))
            }
            895..905 => {
                Step::Call(Request::GetAllChildrenNumber(PathRequest { path: self.path() }))
            }
            905..915 => Step::Call(Request::WhoAmI),
            915..925 => self.auth(session),
            925..932 => Step::Call(Request::CloseSession),
            932..942 => Step::Resume,
            942..950 => self.garbage(),
            950..955 => self.unknown_op(),
            955..960 => Step::Call(reconfig()),
            960..965 => Step::Call(Request::Sasl(Some(Bytes::new()))),
            965..990 => Step::Call(self.quota()),
            _ => Step::Call(Request::Ping),
        };
        (session, step)
    }

    /// Learns the names that only the server knows.
    pub(super) fn learn(&mut self, step: &Step, reply: &Incoming) {
        let sequential = matches!(
            step,
            Step::Call(Request::Create(body) | Request::Create2(body)) if body.flags & 2 != 0
        );
        let Incoming::Reply(_, Some(Reply::Path(path) | Reply::PathStat(path, _))) = reply else {
            return;
        };
        if sequential {
            if self.met.len() == 16 {
                self.met.remove(0);
            }
            self.met.push(path.clone());
        }
    }

    pub(super) fn session_reopened(&mut self, session: usize) {
        if let Some(auths) = self.auths.get_mut(session) {
            *auths = 0;
        }
    }

    fn one_in(&mut self, count: u32) -> bool {
        self.rng.u32(..count) == 0
    }

    fn path(&mut self) -> String {
        if self.one_in(60) {
            return ODD_PATHS[self.rng.usize(..ODD_PATHS.len())].to_owned();
        }
        if !self.met.is_empty() && self.one_in(20) {
            return self.met[self.rng.usize(..self.met.len())].clone();
        }
        let depth = 1 + self.rng.usize(..3).min(self.rng.usize(..2));
        (0..depth).flat_map(|_| ["/", NAMES[self.rng.usize(..NAMES.len())]]).collect()
    }

    fn null_path(&mut self) -> Option<String> {
        if self.one_in(4) { None } else { Some(self.path()) }
    }

    fn data(&mut self) -> Option<Bytes> {
        match self.rng.u32(..10) {
            0 => None,
            1 => Some(Bytes::new()),
            2 => Some(vec![self.rng.u8(..); self.rng.usize(..5000)].into()),
            _ => Some(vec![self.rng.u8(..); self.rng.usize(..20)].into()),
        }
    }

    fn version(&mut self) -> i32 {
        match self.rng.u32(..10) {
            0..8 => -1,
            8 => self.rng.i32(..4),
            _ => [-2, i32::MAX, i32::MIN][self.rng.usize(..3)],
        }
    }

    fn acl(&mut self) -> Option<Vec<Acl>> {
        let entry = |perms, scheme: &str, id: &str| Acl { perms, id: Id::new(scheme, id) };
        Some(match self.rng.u32(..150) {
            0 => return None,
            1 => Vec::new(),
            2 => vec![entry(31, "nobody", "x")],
            3 => vec![entry(31, "super", "")],
            4 => vec![entry(31, "world", "someone")],
            5 => vec![Acl { perms: 31, id: Id { scheme: Some("world".into()), id: None } }],
            6 => vec![entry(31, "ip", "127.0.0.1/33")],
            7 => vec![entry(31, "ip", "127.0.0.0/8"), entry(1, "world", "anyone")],
            8 => vec![entry(31, "ip", "127.0.0.1")],
            9 => vec![entry(31, "digest", "nocolon")],
            10 => vec![entry(31, "digest", "u1:"), entry(1, "world", "anyone")],
            11 | 12 => vec![Acl { perms: 31, id: Id { scheme: Some("auth".into()), id: None } }],
            13 => vec![entry(31, "auth", ""), entry(1, "world", "anyone")],
            14 => vec![entry(1, "world", "anyone")],
            15 => vec![entry(3, "world", "anyone"), entry(3, "world", "anyone")],
            16 => vec![entry(64, "world", "anyone"), entry(21, "world", "anyone")],
            17 => vec![entry(31, "digest", "u1:h2FjBvOoJVKHIQkE3HKrpeFoK7k=")],
            _ => Acl::open(),
        })
    }

    fn flags(&mut self) -> i32 {
        match self.rng.u32(..20) {
            0..9 => 0,
            9..13 => 1,
            13..15 => 2,
            15..17 => 3,
            17 | 18 => 4,
            _ => [5, 6, 7, -1, i32::MAX][self.rng.usize(..5)],
        }
    }

    fn create_body(&mut self) -> CreateRequest {
        CreateRequest { path: self.path(), data: self.data(), acl: self.acl(), flags: self.flags() }
    }

    /// Flags 0 and 1 with the time to live −1 crash Apache's applier (protocol §11.2), so they are
    /// never sent: op 21 comes with the flags 5 and 6 only.
    fn create_ttl_body(&mut self) -> CreateTtlRequest {
        let CreateRequest { path, data, acl, .. } = self.create_body();
        let ttls = [1, 60_000, 0xff_ffff_ffff, 0x100_0000_0000, 0, -1, i64::MIN];
        let ttl_ms = ttls[self.rng.usize(..ttls.len())];
        CreateTtlRequest { path, data, acl, flags: self.rng.i32(5..=6), ttl_ms }
    }

    fn create(&mut self) -> Request {
        match self.rng.u32(..10) {
            0..4 => Request::Create(self.create_body()),
            4..8 => Request::Create2(self.create_body()),
            8 => Request::CreateContainer(self.create_body()),
            _ => Request::CreateTtl(self.create_ttl_body()),
        }
    }

    fn path_version(&mut self) -> PathVersionRequest {
        PathVersionRequest { path: self.path(), version: self.version() }
    }

    fn set_data(&mut self) -> SetDataRequest {
        SetDataRequest { path: self.path(), data: self.data(), version: self.version() }
    }

    fn path_watch(&mut self) -> PathWatchRequest {
        PathWatchRequest { path: self.path(), watch: !self.one_in(3) }
    }

    fn set_acl(&mut self) -> Request {
        let (acl, version) = (self.acl(), self.version());
        Request::SetAcl(SetAclRequest { path: self.path(), acl, version })
    }

    fn multi(&mut self) -> Request {
        let ops = (0..self.rng.usize(..5)).map(|_| self.multi_op()).collect();
        Request::Multi(Parts(ops))
    }

    fn multi_op(&mut self) -> MultiOp {
        match self.rng.u32(..12) {
            0 | 1 => MultiOp::Create(self.create_body()),
            2 | 3 => MultiOp::Create2(self.create_body()),
            4 => MultiOp::CreateContainer(self.container_in_multi()),
            5 => MultiOp::CreateTtl(self.create_ttl_body()),
            6 | 7 => MultiOp::Delete(self.path_version()),
            8..11 => MultiOp::SetData(self.set_data()),
            _ => MultiOp::Check(self.path_version()),
        }
    }

    /// Without the ephemeral flags: [`super::differences::CONTAINER_WITH_EPHEMERAL_FLAG`].
    fn container_in_multi(&mut self) -> CreateRequest {
        let mut body = self.create_body();
        if body.flags == 1 || body.flags == 3 {
            body.flags -= 1;
        }
        body
    }

    fn multi_read(&mut self) -> Request {
        let count = self.rng.usize(..5);
        let ops = (0..count)
            .map(|_| {
                if self.rng.bool() {
                    MultiReadOp::GetChildren(self.path_watch())
                } else {
                    MultiReadOp::GetData(self.path_watch())
                }
            })
            .collect();
        Request::MultiRead(Parts(ops))
    }

    fn watches(&mut self) -> Request {
        let types = [
            WatcherType::Children,
            WatcherType::Data,
            WatcherType::Any,
            WatcherType::Persistent,
            WatcherType::PersistentRecursive,
        ];
        let watcher_type = types[self.rng.usize(..types.len())];
        let body = WatchesRequest { path: self.path(), watcher_type };
        if self.rng.bool() { Request::CheckWatches(body) } else { Request::RemoveWatches(body) }
    }

    fn add_watch(&mut self) -> Request {
        let mode = if self.rng.bool() {
            AddWatchMode::Persistent
        } else {
            AddWatchMode::PersistentRecursive
        };
        Request::AddWatch(AddWatchRequest { path: self.path(), mode })
    }

    fn paths(&mut self) -> Vec<String> {
        (0..self.rng.usize(..3)).map(|_| self.path()).collect()
    }

    /// The zxids of the two servers differ, so only the ends of the range mean the same on both:
    /// everything has changed since, or nothing has.
    fn set_watches(&mut self) -> Request {
        let relative_zxid = Zxid([0, i64::MAX][self.rng.usize(..2)]);
        let (data_watches, exist_watches, child_watches) =
            (self.paths(), self.paths(), self.paths());
        if self.rng.bool() {
            return Request::SetWatches(SetWatchesRequest {
                relative_zxid,
                data_watches,
                exist_watches,
                child_watches,
            });
        }
        Request::SetWatches2(SetWatches2Request {
            relative_zxid,
            data_watches,
            exist_watches,
            child_watches,
            persistent_watches: self.paths(),
            persistent_recursive_watches: self.paths(),
        })
    }

    fn auth(&mut self, session: usize) -> Step {
        let count = self.auths.get(session).copied().unwrap_or(0);
        if let Some(auths) = self.auths.get_mut(session) {
            *auths += 1;
        }
        let (scheme, auth) = match self.rng.u32(..8) {
            0 => ("nobody", "x"),
            1 => ("world", "anyone"),
            2 => ("ip", ""),
            3 => ("digest", "nocolon"),
            4 | 5 => ("digest", "u1:p1"),
            _ if count > 20 => ("ip", ""),
            _ => ("digest", "u2:p2"),
        };
        Step::Call(Request::Auth(AuthPacket {
            auth_type: 0,
            scheme: Some(scheme.to_owned()),
            auth: Some(Bytes::from_static(auth.as_bytes())),
        }))
    }

    /// A request whose body is cut off.
    fn garbage(&mut self) -> Step {
        let request = match self.rng.u32(..5) {
            0 => Request::GetData(self.path_watch()),
            1 => Request::SetData(self.set_data()),
            2 => self.set_watches(),
            3 => Request::Delete(self.path_version()),
            _ => self.create(),
        };
        let mut body = BytesMut::new();
        request.encode(&mut body);
        let mut body = body.to_vec();
        body.truncate(self.rng.usize(..body.len().clamp(1, 40)));
        Step::Payload(request.op_code() as i32, body)
    }

    fn unknown_op(&mut self) -> Step {
        let ops = [0, -1, 10, OpCode::Check as i32, 23, 99, 108, 200, i32::MAX, i32::MIN];
        Step::Payload(ops[self.rng.usize(..ops.len())], Vec::new())
    }

    /// Quotas are plain znodes that the server reads and writes (protocol §12).
    fn quota(&mut self) -> Request {
        let name = NAMES[self.rng.usize(..2)];
        let base = format!("/zookeeper/quota/{name}");
        let leaf = ["zookeeper_limits", "zookeeper_stats"][self.rng.usize(..2)];
        let limits = ["count=3,bytes=100", "count=-1,bytes=-1=;countHardLimit=2;byteHardLimit=50"];
        let data = Some(Bytes::from_static(limits[self.rng.usize(..2)].as_bytes()));
        let acl = Some(Acl::open());
        match self.rng.u32(..8) {
            0 | 1 => Request::Create2(CreateRequest { path: base, data, acl, flags: 0 }),
            2..5 => {
                let path = format!("{base}/{leaf}");
                Request::Create2(CreateRequest { path, data, acl, flags: 0 })
            }
            5 => Request::GetData(PathWatchRequest {
                path: format!("{base}/zookeeper_stats"),
                watch: false,
            }),
            6 => {
                Request::Delete(PathVersionRequest { path: format!("{base}/{leaf}"), version: -1 })
            }
            _ => Request::SetData(SetDataRequest {
                path: format!("{base}/zookeeper_limits"),
                data,
                version: -1,
            }),
        }
    }
}

/// Switched off by default, whatever it asks for.
fn reconfig() -> Request {
    Request::Reconfig(ReconfigRequest {
        joining_servers: None,
        leaving_servers: Some(String::new()),
        new_members: None,
        config_id: -1,
    })
}
