//! What a call that has failed was about.

use std::fmt;

use zoolet_jute::{MultiOp, MultiReadOp, OpCode, Request};

use crate::chroot::Chroot;

/// The operation and the path of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Concerning {
    pub(crate) operation: Option<OpCode>,
    /// As the caller writes it.
    pub(crate) path: Option<String>,
}

impl Concerning {
    /// What a request of a handle with this chroot is about.
    pub(crate) fn request(request: &Request, chroot: &Chroot) -> Self {
        Self::new(request.op_code(), path_of_request(request), chroot)
    }

    /// What a part of a transaction is about.
    pub(crate) fn write(op: &MultiOp, chroot: &Chroot) -> Self {
        Self::new(op.op_code(), Some(path_of_write(op)), chroot)
    }

    /// What one of several reads is about.
    pub(crate) fn read(op: &MultiReadOp, chroot: &Chroot) -> Self {
        match op {
            MultiReadOp::GetData(body) => Self::new(OpCode::GetData, Some(&body.path), chroot),
            MultiReadOp::GetChildren(body) => {
                Self::new(OpCode::GetChildren, Some(&body.path), chroot)
            }
        }
    }

    /// A path alone: of what no single operation has failed.
    pub(crate) fn path(path: impl Into<String>) -> Self {
        Self { operation: None, path: Some(path.into()) }
    }

    fn new(operation: OpCode, path: Option<&str>, chroot: &Chroot) -> Self {
        let path = path.map(|path| chroot.to_client_or_as_it_is(path.to_owned()));
        Self { operation: Some(operation), path }
    }
}

/// `create /a: `, or less if less is known: what precedes a failure.
impl fmt::Display for Concerning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.operation, &self.path) {
            (Some(operation), Some(path)) => write!(f, "{} {path}: ", word(operation)),
            (Some(operation), None) => write!(f, "{}: ", word(operation)),
            (None, Some(path)) => write!(f, "{path}: "),
            (None, None) => Ok(()),
        }
    }
}

/// The path of a request that has one.
fn path_of_request(request: &Request) -> Option<&str> {
    match request {
        Request::Create(body) | Request::Create2(body) | Request::CreateContainer(body) => {
            Some(&body.path)
        }
        Request::CreateTtl(body) => Some(&body.path),
        Request::Delete(body) => Some(&body.path),
        Request::Exists(body)
        | Request::GetData(body)
        | Request::GetChildren(body)
        | Request::GetChildren2(body) => Some(&body.path),
        Request::SetData(body) => Some(&body.path),
        Request::GetAcl(body) | Request::GetAllChildrenNumber(body) => Some(&body.path),
        Request::SetAcl(body) => Some(&body.path),
        Request::Sync(body) | Request::GetEphemerals(body) => body.path.as_deref(),
        Request::CheckWatches(body) | Request::RemoveWatches(body) => Some(&body.path),
        Request::AddWatch(body) => Some(&body.path),
        Request::Multi(_)
        | Request::MultiRead(_)
        | Request::Reconfig(_)
        | Request::Auth(_)
        | Request::SetWatches(_)
        | Request::SetWatches2(_)
        | Request::Sasl(_)
        | Request::Ping
        | Request::WhoAmI
        | Request::CloseSession => None,
    }
}

fn path_of_write(op: &MultiOp) -> &str {
    match op {
        MultiOp::Create(body) | MultiOp::Create2(body) | MultiOp::CreateContainer(body) => {
            &body.path
        }
        MultiOp::CreateTtl(body) => &body.path,
        MultiOp::Delete(body) | MultiOp::Check(body) => &body.path,
        MultiOp::SetData(body) => &body.path,
    }
}

/// The operation in the words of the client's methods.
fn word(operation: OpCode) -> &'static str {
    match operation {
        OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => "create",
        OpCode::Delete | OpCode::DeleteContainer => "delete",
        OpCode::Exists => "exists",
        OpCode::GetData => "get",
        OpCode::SetData => "set data of",
        OpCode::GetAcl => "get ACL of",
        OpCode::SetAcl => "set ACL of",
        OpCode::GetChildren | OpCode::GetChildren2 => "children of",
        OpCode::GetAllChildrenNumber => "count children of",
        OpCode::Sync => "sync",
        OpCode::Check => "check",
        OpCode::Multi => "transaction",
        OpCode::MultiRead => "reads",
        OpCode::Reconfig => "reconfig",
        OpCode::CheckWatches => "check watches of",
        OpCode::RemoveWatches => "remove watches of",
        OpCode::AddWatch => "add watch of",
        OpCode::SetWatches | OpCode::SetWatches2 => "set watches",
        OpCode::Auth => "add identity",
        OpCode::Sasl => "authenticate",
        OpCode::GetEphemerals => "ephemeral znodes below",
        OpCode::WhoAmI => "who am I",
        OpCode::CreateSession => "open session",
        OpCode::CloseSession => "close session",
        OpCode::Ping => "ping",
        OpCode::Notification => "watch event",
        OpCode::Error => "error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zoolet_jute::PathRequest;

    #[test]
    fn a_request_is_shown_as_the_caller_has_made_it() {
        let request = Request::GetAcl(PathRequest { path: "/app/a".into() });
        let root = Chroot::parse("/").unwrap();
        assert_eq!(Concerning::request(&request, &root).to_string(), "get ACL of /app/a: ");
        let app = Chroot::parse("/app").unwrap();
        assert_eq!(Concerning::request(&request, &app).to_string(), "get ACL of /a: ");
        assert_eq!(Concerning::request(&Request::WhoAmI, &app).to_string(), "who am I: ");
        assert_eq!(Concerning::path("/lock").to_string(), "/lock: ");
        assert_eq!(Concerning::default().to_string(), "");
    }
}
