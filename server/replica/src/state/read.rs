//! Requests that change nothing (protocol §2.3, §2.5, §2.14 to §2.16, §10.5).

use zoolet_jute::{
    ClientInfo, ErrorCode, Id, MultiReadOp, MultiResult, Parts, Reply, Request, SessionId, perms,
};

use super::access::{self, Verdicts};
use super::names::Names;
use super::tree::Tree;
use super::znode::ZnodeId;
use crate::cost::{self, Meter};

/// The cost of a name in a reply, in nanoseconds.
const NAME_NS: usize = 50;

/// The longest reply to a multiRead, in bytes. Java clients take a megabyte by default.
pub(super) const MULTI_READ_BYTES_MAX: usize = 32 << 20;

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct StateReader<'a> {
    pub(super) tree: &'a Tree,
    pub(super) session: SessionId,
    pub(super) identities: &'a [Id],
    pub(super) skip_acl: bool,
    /// The cost of the read.
    pub(super) meter: &'a Meter,
}

impl StateReader<'_> {
    #[allow(clippy::wildcard_enum_match_arm, reason = "the others do not read the state")]
    #[inline]
    pub(super) fn read(self, request: &Request) -> Result<Reply, ErrorCode> {
        let tree = self.tree;
        match request {
            Request::Exists(body) => {
                if body.path.contains('\0') {
                    return Err(ErrorCode::BadArguments);
                }
                self.find(&body.path, perms::READ).map(|id| Reply::Stat(tree.stat(id)))
            }
            Request::GetData(body) => self
                .find(&body.path, perms::READ)
                .map(|id| Reply::Data(tree.data(id), tree.stat(id))),
            Request::GetAcl(body) => self.acl(&body.path),
            Request::GetChildren(body) => {
                self.find(&body.path, perms::READ).map(|id| Reply::Children(self.children(id)))
            }
            Request::GetChildren2(body) => self
                .find(&body.path, perms::READ)
                .map(|id| Reply::ChildrenStat(self.children(id), tree.stat(id))),
            Request::MultiRead(body) => self.parts(&body.0),
            Request::GetEphemerals(body) => {
                Ok(Reply::Children(self.ephemerals(body.path.as_deref())))
            }
            Request::GetAllChildrenNumber(body) => self.count(&body.path).map(Reply::Count),
            Request::WhoAmI => Ok(Reply::WhoAmI(self.identities.iter().map(client_info).collect())),
            Request::Sync(body) => Ok(Reply::Sync(body.path.clone())),
            Request::Ping => Ok(Reply::Empty),
            _ => Err(ErrorCode::Unimplemented),
        }
    }

    pub(super) fn find(self, path: &str, wanted: i32) -> Result<ZnodeId, ErrorCode> {
        let id = self.look_up(path)?;
        if self.permits(id, wanted) { Ok(id) } else { Err(ErrorCode::NoAuth) }
    }

    /// Finds the znode of a part of a multiRead. `verdicts` are those of the same request.
    pub(super) fn find_of_part(
        self,
        path: &str,
        verdicts: &mut Verdicts,
    ) -> Result<ZnodeId, ErrorCode> {
        let id = self.look_up(path)?;
        let acl = self.tree.acl(id);
        let (granted, cost) = verdicts.judge(acl, perms::READ, self.identities, self.skip_acl);
        self.meter.add(cost);
        if granted { Ok(id) } else { Err(ErrorCode::NoAuth) }
    }

    fn look_up(self, path: &str) -> Result<ZnodeId, ErrorCode> {
        self.meter.add(cost::of_path(path));
        self.tree.find(path).ok_or(ErrorCode::NoNode)
    }

    fn permits(self, id: ZnodeId, wanted: i32) -> bool {
        let acl = self.tree.acl(id);
        let (granted, cost) = access::judge(acl, wanted, self.identities, self.skip_acl);
        self.meter.add(cost);
        granted
    }

    /// The names come out in order; clients may not rely on it.
    fn children(self, id: ZnodeId) -> Vec<String> {
        let children = self.tree.children(id);
        self.meter.add(NAME_NS * children.map_or(0, Names::len));
        let names = children.into_iter().flat_map(Names::iter);
        names
            .inspect(|_| {
                probe!();
            })
            .map(|(name, _)| name.to_owned())
            .collect()
    }

    fn acl(self, path: &str) -> Result<Reply, ErrorCode> {
        let id = self.find(path, perms::READ | perms::ADMIN)?;
        let acl = self.tree.acl(id);
        self.meter.add(access::STORED_ENTRY_NS * acl.len());
        let shown = if self.permits(id, perms::ADMIN) { acl.to_vec() } else { access::masked(acl) };
        Ok(Reply::Acl(shown, self.tree.stat(id)))
    }

    fn ephemerals(self, prefix: Option<&str>) -> Vec<String> {
        let prefix = Self::prefix(prefix);
        let paths = self.tree.ephemerals(self.session);
        self.meter.add(NAME_NS * paths.map_or(0, Names::len));
        let paths = paths.into_iter().flat_map(Names::iter);
        let matching = paths.filter(|(path, _)| path.starts_with(prefix));
        matching.map(|(path, _)| path.to_owned()).collect()
    }

    /// What the paths of a getEphemerals begin with: a blank prefix means all, and so does the
    /// root, whatever Java trims from around it.
    pub(super) fn prefix(asked: Option<&str>) -> &str {
        let prefix = asked.unwrap_or_default();
        let trimmed = prefix.trim_matches(|c| c <= ' ');
        if prefix.trim().is_empty() || trimmed == "/" { "" } else { prefix }
    }

    fn count(self, path: &str) -> Result<i32, ErrorCode> {
        let id = self.find(path, perms::READ)?;
        // Apache's map of znodes has the root twice; asked by its alias, it counts one of them.
        let alias = usize::from(path.is_empty());
        Ok(i32::try_from(self.tree.below(id).znodes as usize + alias).unwrap_or(i32::MAX))
    }

    /// A multiRead. A frame has room for tens of thousands of parts, and each may read the same
    /// big znode: what no client could take is not put together.
    fn parts(self, ops: &[MultiReadOp]) -> Result<Reply, ErrorCode> {
        let mut room = MULTI_READ_BYTES_MAX;
        let mut results = Vec::with_capacity(ops.len());
        let mut verdicts = Verdicts::default();
        for op in ops {
            let result = self.part(op, &mut verdicts);
            room = room.checked_sub(result.bulk_bytes()).ok_or(ErrorCode::MarshallingError)?;
            results.push(result);
        }
        Ok(Reply::Multi(Parts(results)))
    }

    /// One part of a multiRead; a part that fails does not spoil the others.
    fn part(self, op: &MultiReadOp, verdicts: &mut Verdicts) -> MultiResult {
        let (MultiReadOp::GetChildren(body) | MultiReadOp::GetData(body)) = op;
        let id = match self.find_of_part(&body.path, verdicts) {
            Ok(id) => id,
            Err(code) => return MultiResult::Error(Some(code)),
        };
        match op {
            MultiReadOp::GetChildren(_) => MultiResult::Children(self.children(id)),
            MultiReadOp::GetData(_) => {
                let data = self.tree.data(id);
                MultiResult::Data { data, stat: self.tree.stat(id) }
            }
        }
    }
}

/// An identity as `whoAmI` tells it, without what is secret (protocol §2.16): a digest's user is
/// what precedes the colon.
fn client_info(id: &Id) -> ClientInfo {
    let scheme = id.scheme.clone().unwrap_or_default();
    let whole = id.id.as_deref().unwrap_or_default();
    let user = match scheme.as_str() {
        "digest" => whole.split(':').next().unwrap_or_default(),
        _ => whole,
    };
    ClientInfo { user: user.to_owned(), auth_scheme: scheme }
}
