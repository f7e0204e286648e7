//! What a read returns (protocol §2.3, §2.5, §2.14, §2.15, §10.5).

use zoolet_jute::{
    ErrorCode, MultiReadOp, MultiResult, NullablePathRequest, Parts, PathRequest, PathWatchRequest,
    Reply, Request, SessionId, perms,
};

use super::access::{Who, masked};
use super::tree::Tree;
use super::znode::Znode;

/// Who reads.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// The session.
    pub session: SessionId,
    /// Its connection's identities.
    pub who: &'a Who,
}

/// A result, or nothing if it depends on identities that are not known.
type Known<T> = Option<Result<T, ErrorCode>>;

impl Tree {
    /// Returns what a read of this tree returns, with names in order; `None` if that depends on
    /// identities that are not known, or if the request reads no znode.
    pub fn read(&self, request: &Request, reader: Reader<'_>) -> Known<Reply> {
        #[allow(clippy::wildcard_enum_match_arm, reason = "the others read no znode")]
        match request {
            Request::Exists(body) if body.path.contains('\0') => Some(Err(ErrorCode::BadArguments)),
            Request::Exists(body) => self.look(body, reader, |znode| Reply::Stat(znode.stat())),
            Request::GetData(body) => {
                self.look(body, reader, |znode| Reply::Data(znode.data.clone(), znode.stat()))
            }
            Request::GetChildren(body) => {
                self.look(body, reader, |znode| Reply::Children(names(znode)))
            }
            Request::GetChildren2(body) => {
                self.look(body, reader, |znode| Reply::ChildrenStat(names(znode), znode.stat()))
            }
            Request::GetAcl(body) => self.acl(body, reader),
            Request::GetEphemerals(body) => Some(Ok(self.own(body, reader.session))),
            Request::GetAllChildrenNumber(body) => self.count(body, reader),
            Request::MultiRead(parts) => self.parts(&parts.0, reader),
            _ => None,
        }
    }

    fn find(&self, path: &str, reader: Reader<'_>, wanted: i32) -> Known<&Znode> {
        let Some(znode) = self.get(path) else { return Some(Err(ErrorCode::NoNode)) };
        match reader.who.may(&znode.acl, wanted) {
            Some(true) => Some(Ok(znode)),
            Some(false) => Some(Err(ErrorCode::NoAuth)),
            None => None,
        }
    }

    fn look(
        &self,
        body: &PathWatchRequest,
        reader: Reader<'_>,
        reply: impl FnOnce(&Znode) -> Reply,
    ) -> Known<Reply> {
        self.find(&body.path, reader, perms::READ).map(|found| found.map(reply))
    }

    fn acl(&self, body: &PathRequest, reader: Reader<'_>) -> Known<Reply> {
        let znode = match self.find(&body.path, reader, perms::READ | perms::ADMIN)? {
            Ok(znode) => znode,
            Err(code) => return Some(Err(code)),
        };
        let is_shown = reader.who.may(&znode.acl, perms::ADMIN)?;
        let acl = if is_shown { znode.acl.to_vec() } else { masked(&znode.acl) };
        Some(Ok(Reply::Acl(acl, znode.stat())))
    }

    fn own(&self, body: &NullablePathRequest, session: SessionId) -> Reply {
        let prefix = body.path.as_deref().unwrap_or_default();
        let is_all = prefix.trim().is_empty() || prefix.trim_matches(|c| c <= ' ') == "/";
        let matching = self.ephemerals(session).filter(|path| is_all || path.starts_with(prefix));
        Reply::Children(matching.map(str::to_owned).collect())
    }

    fn count(&self, body: &PathRequest, reader: Reader<'_>) -> Known<Reply> {
        let found = self.find(&body.path, reader, perms::READ)?;
        // The root is known by two names; the one that was asked for does not count.
        let alias = usize::from(body.path.is_empty());
        let count = || i32::try_from(self.below(&body.path).count() + alias).unwrap_or(i32::MAX);
        Some(found.map(|_| Reply::Count(count())))
    }

    fn parts(&self, parts: &[MultiReadOp], reader: Reader<'_>) -> Known<Reply> {
        let mut results = Vec::new();
        for part in parts {
            let (body, is_data) = match part {
                MultiReadOp::GetData(body) => (body, true),
                MultiReadOp::GetChildren(body) => (body, false),
            };
            results.push(match self.find(&body.path, reader, perms::READ)? {
                Err(code) => MultiResult::Error(Some(code)),
                Ok(znode) if is_data => {
                    MultiResult::Data { data: znode.data.clone(), stat: znode.stat() }
                }
                Ok(znode) => MultiResult::Children(names(znode)),
            });
        }
        Some(Ok(Reply::Multi(Parts(results))))
    }
}

fn names(znode: &Znode) -> Vec<String> {
    znode.children.iter().cloned().collect()
}

/// The reply with all that has no order brought into one.
pub fn in_order(mut reply: Reply) -> Reply {
    #[allow(clippy::wildcard_enum_match_arm, reason = "the others have their order")]
    match &mut reply {
        Reply::Children(names) | Reply::ChildrenStat(names, _) => names.sort_unstable(),
        Reply::Multi(parts) => {
            for part in &mut parts.0 {
                if let MultiResult::Children(names) = part {
                    names.sort_unstable();
                }
            }
        }
        Reply::WhoAmI(ids) => {
            ids.sort_by(|a, b| (&a.auth_scheme, &a.user).cmp(&(&b.auth_scheme, &b.user)));
        }
        _ => {}
    }
    reply
}
