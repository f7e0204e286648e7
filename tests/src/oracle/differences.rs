//! Where zoolet means to differ from Apache `ZooKeeper`, each with its reason.

use zoolet_jute::{Acl, ErrorCode, MultiOp, MultiResult, Reply, Request};

use super::generate::Step;
use crate::raw::Incoming;

/// One difference that is meant.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    /// What differs.
    pub what: &'static str,
    /// Why.
    pub why: &'static str,
    matches: fn(&Step, &Incoming, &Incoming) -> bool,
}

/// The catch-up events of a setWatches are withheld from a session that may not read the znode.
/// Apache sends them to all, which reveals znodes that are hidden (protocol §8.6, §19). The
/// oracle asks the reference whether the session may indeed not read it.
pub const WITHHELD: &str = "catch-up events of setWatches are filtered by READ, as all others are";

/// Inside a multi, a hard quota is checked against the running state (protocol §10.4); Apache reads
/// the usage as it was before the multi, so several parts together may exceed it. The trees are
/// different afterwards, so hard quotas are compared without multis.
pub const QUOTA_IN_MULTI: &str = "a multi cannot exceed a hard quota by parts";

/// A container that is created with an ephemeral flag is a container (protocol §2.1), for the parts
/// behind it in the same multi as well. Apache takes it for an ephemeral znode until the multi is
/// applied, and refuses children that it accepts a moment later. The trees are different
/// afterwards, so such parts are not generated.
pub const CONTAINER_WITH_EPHEMERAL_FLAG: &str =
    "a container with an ephemeral flag may have children within its own multi";

/// All others.
pub const DIFFERENCES: &[Difference] = &[Difference {
    what: "an ACL entry of scheme world with a null id answers InvalidACL, not MarshallingError",
    why: "the request is well-formed; Apache runs into an exception of its own (protocol §19)",
    matches: |step, left, right| {
        step.has_null_acl_id()
            && code(left) == Some(ErrorCode::MarshallingError)
            && code(right) == Some(ErrorCode::InvalidAcl)
    },
}];

/// Whether the two replies differ as it is meant.
pub(super) fn is_meant(step: &Step, left: &Incoming, right: &Incoming) -> bool {
    DIFFERENCES.iter().any(|difference| (difference.matches)(step, left, right))
}

/// The code of a refusal, in the header or as the first failure of a multi.
fn code(incoming: &Incoming) -> Option<ErrorCode> {
    match incoming {
        Incoming::Reply(header, None) => header.err,
        Incoming::Reply(_, Some(Reply::Multi(results))) => results.0.iter().find_map(failure),
        Incoming::Reply(_, Some(_)) | Incoming::Event(..) | Incoming::Closed => None,
    }
}

fn failure(result: &MultiResult) -> Option<ErrorCode> {
    if let MultiResult::Error(code) = result { *code } else { None }
}

impl Step {
    /// Whether an ACL in it holds an entry of scheme `world` without an id.
    fn has_null_acl_id(&self) -> bool {
        let Self::Call(request) = self else { return false };
        #[allow(clippy::wildcard_enum_match_arm, reason = "all others hold no ACL")]
        match request {
            Request::Create(body) | Request::Create2(body) | Request::CreateContainer(body) => {
                has_null_id(body.acl.as_deref())
            }
            Request::CreateTtl(body) => has_null_id(body.acl.as_deref()),
            Request::SetAcl(body) => has_null_id(body.acl.as_deref()),
            Request::Multi(parts) => parts.0.iter().any(part_has_null_id),
            _ => false,
        }
    }
}

fn part_has_null_id(part: &MultiOp) -> bool {
    match part {
        MultiOp::Create(body) | MultiOp::Create2(body) | MultiOp::CreateContainer(body) => {
            has_null_id(body.acl.as_deref())
        }
        MultiOp::CreateTtl(body) => has_null_id(body.acl.as_deref()),
        MultiOp::Delete(_) | MultiOp::SetData(_) | MultiOp::Check(_) => false,
    }
}

fn has_null_id(acl: Option<&[Acl]>) -> bool {
    acl.unwrap_or(&[])
        .iter()
        .any(|entry| entry.id.scheme.as_deref() == Some("world") && entry.id.id.is_none())
}
