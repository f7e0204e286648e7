//! Where zoolet means to differ from Apache `ZooKeeper`, each with its reason.

use zoolet_jute::{ErrorCode, Reply, Request};

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

/// All of them.
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

fn code(incoming: &Incoming) -> Option<ErrorCode> {
    match incoming {
        Incoming::Reply(header, None) => header.err,
        Incoming::Reply(_, Some(Reply::Multi(_) | _)) | Incoming::Event(..) | Incoming::Closed => {
            None
        }
    }
}

impl Step {
    fn has_null_acl_id(&self) -> bool {
        let Self::Call(Request::Create(body) | Request::Create2(body)) = self else {
            return false;
        };
        body.acl.iter().flatten().any(|entry| entry.id.id.is_none())
    }
}
