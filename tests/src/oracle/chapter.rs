//! The end of a chapter: the whole trees are compared, znode by znode, and emptied.

use bytes::Bytes;
use zoolet_jute::{
    Acl, AuthPacket, Id, PathRequest, PathVersionRequest, PathWatchRequest, Reply, Request,
    SetAclRequest,
};

use super::generate::Step;
use super::{KEEPER, OracleError, Run};
use crate::raw::Incoming;

/// The znodes that every server has, which cannot be deleted (protocol §6.2).
const BUILT_IN: [&str; 4] = ["/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"];

impl Run {
    /// Makes the keeper the superuser on both servers.
    pub(super) fn begin(&mut self) -> Result<(), OracleError> {
        let auth = Some(Bytes::from_static(b"super:oracle"));
        let auth = AuthPacket { auth_type: 0, scheme: Some("digest".to_owned()), auth };
        self.ask(Request::Auth(auth)).map(|_| ())
    }

    /// Looks at every znode on both servers, then deletes all but the built-in ones.
    pub(super) fn end_chapter(&mut self) -> Result<(), OracleError> {
        let before = self.summary;
        let paths = self.walk()?;
        for path in paths.iter().rev() {
            if BUILT_IN.contains(&path.as_str()) {
                let acl = vec![Acl { perms: 31, id: Id::new("world", "anyone") }];
                let request = SetAclRequest { path: path.clone(), acl: Some(acl), version: -1 };
                self.ask(Request::SetAcl(request))?;
            } else {
                self.ask(Request::Delete(PathVersionRequest { path: path.clone(), version: -1 }))?;
            }
        }
        // The keeper's own work does not belong to the plan.
        self.summary = before;
        Ok(())
    }

    /// All paths, parents before their children. Data, Stats, ACLs and children are compared on the
    /// way.
    fn walk(&mut self) -> Result<Vec<String>, OracleError> {
        let mut paths = vec!["/".to_owned()];
        let mut next = 0;
        while let Some(path) = paths.get(next).cloned() {
            next += 1;
            self.ask(Request::GetAcl(PathRequest { path: path.clone() }))?;
            let look = PathWatchRequest { path: path.clone(), watch: false };
            self.ask(Request::GetData(look.clone()))?;
            if let Some(Reply::ChildrenStat(names, _)) = self.ask(Request::GetChildren2(look))? {
                let parent = path.trim_end_matches('/');
                paths.extend(names.iter().map(|name| format!("{parent}/{name}")));
            }
        }
        Ok(paths)
    }

    fn ask(&mut self, request: Request) -> Result<Option<Reply>, OracleError> {
        match self.perform(KEEPER, &Step::Call(request))?.reply {
            Incoming::Reply(_, reply) => Ok(reply),
            Incoming::Event(..) | Incoming::Closed => Ok(None),
        }
    }
}
