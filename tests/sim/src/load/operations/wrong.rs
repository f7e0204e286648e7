//! Requests that break a rule. Each has one right answer: an error, or a closed connection.

use bytes::Bytes;
use zoolet_jute::{
    Acl, AuthPacket, CreateMode, CreateRequest, CreateTtlRequest, Id, MultiOp, Parts,
    PathVersionRequest, PathWatchRequest, Request, SetAclRequest, SetDataRequest,
};

use super::Operations;

/// Texts that are no paths.
const BAD_PATHS: [&str; 9] = [
    "",
    "load",
    "/load/",
    "/load//n1",
    "/load/./n1",
    "/load/../n1",
    "/load/n\u{0}1",
    "/load/\u{1}",
    "//",
];

impl Operations {
    /// A request that no program should send.
    pub(super) fn wrong(&mut self) -> Request {
        match self.chance.between(0..=11) {
            0 => Request::Create(self.wrong_create(None)),
            1 => Request::Create2(self.bad_path_create()),
            2 => Request::GetData(PathWatchRequest { path: self.bad_path(), watch: true }),
            3 => Request::Exists(PathWatchRequest { path: self.bad_path(), watch: false }),
            4 => Request::Delete(PathVersionRequest { path: self.bad_path(), version: -1 }),
            5 => {
                let version = if self.chance.one_in(2) { -2 } else { i32::MIN };
                Request::SetData(SetDataRequest { path: self.path(), data: None, version })
            }
            6 => self.wrong_ttl(),
            7 => self.wrong_acl(),
            8 => Request::Auth(AuthPacket {
                auth_type: 0,
                scheme: Some("unknown".to_owned()),
                auth: Some(Bytes::from_static(b"anything")),
            }),
            9 => Request::Delete(PathVersionRequest { path: "/".to_owned(), version: -1 }),
            // The flags of a part that names no mode: the whole body cannot be decoded.
            10 => {
                let body = self.wrong_create(Some(99));
                Request::Multi(Parts(vec![MultiOp::Create(body)]))
            }
            _ => Request::GetChildren2(PathWatchRequest { path: self.bad_path(), watch: true }),
        }
    }

    fn bad_path(&mut self) -> String {
        self.chance.pick(&BAD_PATHS).map_or_else(String::new, |path| (*path).to_owned())
    }

    /// A create whose flags name no mode of the operation.
    fn wrong_create(&mut self, flags: Option<i32>) -> CreateRequest {
        let any = self.chance.pick(&[-1, 5, 7, i32::MAX]).copied();
        CreateRequest {
            path: self.path(),
            data: None,
            acl: Some(Acl::open()),
            flags: flags.or(any).unwrap_or(-1),
        }
    }

    fn bad_path_create(&mut self) -> CreateRequest {
        let path = self.bad_path();
        CreateRequest { path, data: None, acl: Some(Acl::open()), flags: 0 }
    }

    fn wrong_ttl(&mut self) -> Request {
        let ttl_ms = self.chance.pick(&[0, -1, i64::MIN, 1 << 40]).copied().unwrap_or(0);
        Request::CreateTtl(CreateTtlRequest {
            path: self.path(),
            data: None,
            acl: Some(Acl::open()),
            flags: CreateMode::PersistentWithTtl as i32,
            ttl_ms,
        })
    }

    fn wrong_acl(&mut self) -> Request {
        let acl = match self.chance.between(0..=3) {
            0 => None,
            1 => Some(Vec::new()),
            2 => Some(vec![Acl { perms: 31, id: Id::new("unknown", "anyone") }]),
            _ => Some(vec![Acl { perms: 31, id: Id::new("digest", "without-a-colon") }]),
        };
        Request::SetAcl(SetAclRequest { path: self.path(), acl, version: -1 })
    }
}
