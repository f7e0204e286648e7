//! Feature levels: the commands that every server of an ensemble can apply
//! (`docs/decisions/0012-feature-levels.md`).
//!
//! A server that meets a command which it does not know must stop, because its state would be
//! another from there on. So a new kind of command has a level, a release says up to which level it
//! knows the commands, and none is proposed before the state has a level that all servers have
//! agreed on.

use std::fmt;

use zoolet_jute::{Acl, MultiOp, Request};

/// A feature level. A higher one includes the lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeatureLevel(pub u32);

impl FeatureLevel {
    /// The level of an ensemble that has not agreed on another one.
    pub const FIRST: Self = Self(1);

    /// What this release can apply. To be raised with each new kind of command, and with each new
    /// meaning of an old one.
    pub const OF_RELEASE: Self = Self::X509;

    /// ACLs may name identities of the scheme `x509`, which the first level refuses.
    pub const X509: Self = Self(2);
}

/// Whether a client's write has an ACL that names an identity of the scheme `x509`.
pub(super) fn names_x509(request: &Request) -> bool {
    if let Request::Create(body) | Request::Create2(body) | Request::CreateContainer(body) = request
    {
        acl_names_x509(body.acl.as_deref())
    } else if let Request::CreateTtl(body) = request {
        acl_names_x509(body.acl.as_deref())
    } else if let Request::SetAcl(body) = request {
        acl_names_x509(body.acl.as_deref())
    } else if let Request::Multi(parts) = request {
        parts.0.iter().any(part_names_x509)
    } else {
        false
    }
}

fn part_names_x509(part: &MultiOp) -> bool {
    match part {
        MultiOp::Create(body) | MultiOp::Create2(body) | MultiOp::CreateContainer(body) => {
            acl_names_x509(body.acl.as_deref())
        }
        MultiOp::CreateTtl(body) => acl_names_x509(body.acl.as_deref()),
        MultiOp::Delete(_) | MultiOp::SetData(_) | MultiOp::Check(_) => false,
    }
}

fn acl_names_x509(acl: Option<&[Acl]>) -> bool {
    acl.unwrap_or_default().iter().any(|entry| entry.id.scheme.as_deref() == Some("x509"))
}

impl fmt::Display for FeatureLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How a server stands to feature levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// What the state says that all servers have agreed on.
    pub agreed: FeatureLevel,
    /// The highest that this server agrees to.
    pub offered: FeatureLevel,
}

#[cfg(test)]
mod tests {
    use zoolet_jute::{CreateRequest, Id, Parts, SetAclRequest};

    use super::*;

    #[test]
    fn a_write_that_names_a_certificate_is_recognized() {
        for (scheme, expected) in [("x509", true), ("digest", false)] {
            let acl = Some(vec![Acl { perms: 1, id: Id::new(scheme, "CN=a") }]);
            let create =
                CreateRequest { path: "/a".into(), data: None, acl: acl.clone(), flags: 0 };
            let set_acl = SetAclRequest { path: "/a".into(), acl, version: -1 };
            let parts = Parts(vec![MultiOp::Create(create.clone())]);
            let writes =
                [Request::Create2(create), Request::SetAcl(set_acl), Request::Multi(parts)];
            for write in &writes {
                assert_eq!(names_x509(write), expected, "{write:?}");
            }
        }
    }
}
