//! Feature levels: the commands that every server of an ensemble can apply
//! (`docs/decisions/0012-feature-levels.md`).
//!
//! A server that meets a command which it does not know must stop, because its state would be
//! another from there on. So a new kind of command has a level, a release says up to which level it
//! knows the commands, and none is proposed before the state has a level that all servers have
//! agreed on.

use std::fmt;

use zoolet_jute::{Acl, Id, MultiOp, Request};

/// A feature level. A higher one includes the lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeatureLevel(pub u32);

impl FeatureLevel {
    /// The level of an ensemble that has not agreed on another one.
    pub const FIRST: Self = Self(1);

    /// What this release can apply. To be raised with each new kind of command, and with each new
    /// meaning of an old one.
    pub const OF_RELEASE: Self = Self::SASL;

    /// ACLs may name identities of the scheme `x509`, which the first level refuses.
    pub const X509: Self = Self(2);

    /// ACLs may name identities of the scheme `sasl`, and connections may have them.
    pub const SASL: Self = Self(3);
}

/// Returns the level that the identities need which the ACLs of a client's write name.
pub(super) fn of_acls(request: &Request) -> FeatureLevel {
    let acl = if let Request::Create(body)
    | Request::Create2(body)
    | Request::CreateContainer(body) = request
    {
        &body.acl
    } else if let Request::CreateTtl(body) = request {
        &body.acl
    } else if let Request::SetAcl(body) = request {
        &body.acl
    } else if let Request::Multi(parts) = request {
        return highest(parts.0.iter().map(of_part));
    } else {
        return FeatureLevel::FIRST;
    };
    of_acl(acl.as_deref())
}

fn of_part(part: &MultiOp) -> FeatureLevel {
    match part {
        MultiOp::Create(body) | MultiOp::Create2(body) | MultiOp::CreateContainer(body) => {
            of_acl(body.acl.as_deref())
        }
        MultiOp::CreateTtl(body) => of_acl(body.acl.as_deref()),
        MultiOp::Delete(_) | MultiOp::SetData(_) | MultiOp::Check(_) => FeatureLevel::FIRST,
    }
}

fn of_acl(acl: Option<&[Acl]>) -> FeatureLevel {
    highest(acl.unwrap_or_default().iter().map(|entry| match entry.id.scheme.as_deref() {
        Some("x509") => FeatureLevel::X509,
        Some("sasl") => FeatureLevel::SASL,
        _ => FeatureLevel::FIRST,
    }))
}

/// Returns the level that servers need which apply a write of a connection with these identities.
pub(super) fn of_identities(identities: &[Id]) -> FeatureLevel {
    let has_sasl = identities.iter().any(|id| id.scheme.as_deref() == Some("sasl"));
    if has_sasl { FeatureLevel::SASL } else { FeatureLevel::FIRST }
}

fn highest(levels: impl Iterator<Item = FeatureLevel>) -> FeatureLevel {
    levels.max().unwrap_or(FeatureLevel::FIRST)
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
    /// How often the agreed one has fallen since this server started. The level itself does not show
    /// a fall whose rise was applied a moment before, as at a server that reads the log anew.
    pub falls: u64,
}

#[cfg(test)]
mod tests {
    use zoolet_jute::{CreateRequest, Parts, SetAclRequest};

    use super::*;

    #[test]
    fn a_write_has_the_level_of_what_its_acls_name() {
        for (scheme, expected) in [("x509", 2), ("digest", 1), ("sasl", 3)] {
            let acl = Some(vec![
                Acl { perms: 1, id: Id::new(scheme, "CN=a") },
                Acl { perms: 1, id: Id::new("world", "anyone") },
            ]);
            let create =
                CreateRequest { path: "/a".into(), data: None, acl: acl.clone(), flags: 0 };
            let set_acl = SetAclRequest { path: "/a".into(), acl, version: -1 };
            let parts = Parts(vec![MultiOp::Create(create.clone())]);
            let writes =
                [Request::Create2(create), Request::SetAcl(set_acl), Request::Multi(parts)];
            for write in &writes {
                assert_eq!(of_acls(write), FeatureLevel(expected), "{write:?}");
            }
        }
    }
}
