//! Quotas: znodes below `/zookeeper/quota` that servers read, and write usage into (protocol §12).

use bytes::Bytes;
use zoolet_jute::{
    Acl, CreateMode, CreateRequest, MultiOp, Parts, PathVersionRequest, PathWatchRequest, Request,
    SetDataRequest,
};

use super::{LOAD_ROOT, Operations};

const LIMITS: &str = "zookeeper_limits";
const USAGE: &str = "zookeeper_stats";

/// How many paths have quotas: a server logs each limit that is exceeded, and more of them are a flood
/// (seed 992000070).
const PATHS: usize = 4;

/// Limits, the first of which bind most. Hard ones refuse where the servers enforce them; soft ones
/// never do. The last one is none.
const TEXTS: [&str; 6] = [
    "count=-1,bytes=-1=;countHardLimit=4;byteHardLimit=200",
    "count=3,bytes=100",
    "count=-1,bytes=-1=;byteHardLimit=2000;countHardLimit=-1",
    "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=30",
    "count=1000000,bytes=1000000",
    "everything",
];

impl Operations {
    /// One of the steps in which a quota is set, read, changed and removed.
    pub(super) fn quota(&mut self) -> Request {
        let few = self.paths.get(..PATHS).unwrap_or(&self.paths);
        let path = self.chance.pick(few).map_or(LOAD_ROOT, String::as_str);
        let base = format!("/zookeeper/quota{path}");
        let leaf = format!("{base}/{}", if self.chance.one_in(2) { LIMITS } else { USAGE });
        match self.chance.between(0..=9) {
            0 => Request::Create(self.quota_part(base)),
            1 | 2 => Request::Create2(self.quota_part(leaf)),
            // What `setquota` does, as one transaction.
            3..=5 => {
                let limits = self.quota_part(format!("{base}/{LIMITS}"));
                let usage = self.quota_part(format!("{base}/{USAGE}"));
                let parts = [self.quota_part(base), limits, usage];
                Request::Multi(Parts(parts.map(MultiOp::Create).to_vec()))
            }
            6 => Request::GetData(PathWatchRequest {
                path: format!("{base}/{USAGE}"),
                watch: self.chance.one_in(2),
            }),
            7 => {
                let data = Some(self.quota_text());
                Request::SetData(SetDataRequest { path: leaf, data, version: -1 })
            }
            _ => Request::Delete(PathVersionRequest { path: leaf, version: -1 }),
        }
    }

    fn quota_text(&mut self) -> Bytes {
        let text = self.chance.pick(&TEXTS).copied().unwrap_or_default();
        Bytes::from_static(text.as_bytes())
    }

    fn quota_part(&mut self, path: String) -> CreateRequest {
        let data = Some(self.quota_text());
        CreateRequest { path, data, acl: Some(Acl::open()), flags: CreateMode::Persistent as i32 }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::history::ClientNumber;
    use crate::load::chance::Chance;
    use crate::load::operations::{Mix, draw_paths};

    #[test]
    fn few_paths_have_quotas() {
        let mut chance = Chance::new(7, 0);
        let paths = draw_paths(40, &mut chance);
        let mut operations = Operations::new(ClientNumber(1), paths, Mix::even(), chance);
        let mut bases = BTreeSet::new();
        for _ in 0..500 {
            if let Request::Create(body) = operations.quota() {
                bases.insert(body.path);
            }
        }
        assert_eq!(bases.len(), PATHS, "{bases:?}");
    }
}
