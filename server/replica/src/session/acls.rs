//! Checks of the ACLs of a client's write before it is proposed: this server's limits, and
//! spellings that servers of other releases would read differently.
//!
//! A refused ACL is proposed as an empty one. Every release refuses it with `InvalidAcl`, in its
//! place: after the checks that precede it, and in a multi as the error of its part.

use zoolet_jute::{Acl, MultiOp, Request};

use crate::state::{is_authenticated, normalized_network};
use crate::{ConnectionId, Limit, Refused, Replica};

impl Replica {
    /// Normalizes the ACLs of a write, and empties those that are refused.
    pub(super) fn check_acls(&mut self, connection: ConnectionId, request: &mut Request) {
        let identities = self.identities(connection);
        let mut proved = None;
        let max = self.options.acl_entries_max;
        let mut is_too_long = false;
        for acl in acls_of(request) {
            let proved = *proved.get_or_insert_with(|| {
                identities.iter().filter(|id| is_authenticated(id)).count().max(1)
            });
            let accepted = if entries_of(acl, proved) > max {
                is_too_long = true;
                false
            } else {
                acl.iter_mut().all(normalize)
            };
            if !accepted {
                acl.clear();
            }
        }
        if is_too_long {
            self.refuse(Limit::AclEntries, connection, Refused::Request);
        }
    }
}

/// Returns how many entries an ACL can have once it is stored: an entry of the scheme `auth` becomes
/// one for each of the `proved` identities of its connection.
fn entries_of(acl: &[Acl], proved: usize) -> usize {
    let entries = acl.iter().map(|entry| match entry.id.scheme.as_deref() {
        Some("auth") => proved,
        _ => 1,
    });
    entries.sum()
}

/// Brings an entry into the form in which it is proposed; false if it is refused. Entries of other
/// schemes are checked when the command is applied.
fn normalize(entry: &mut Acl) -> bool {
    let (Some("ip"), Some(network)) = (entry.id.scheme.as_deref(), entry.id.id.as_deref()) else {
        return true;
    };
    let Some(normalized) = normalized_network(network) else { return false };
    if normalized != network {
        entry.id.id = Some(normalized.into_owned());
    }
    true
}

/// Returns the ACLs that a write names.
fn acls_of(request: &mut Request) -> Vec<&mut Vec<Acl>> {
    let acl = if let Request::Create(body)
    | Request::Create2(body)
    | Request::CreateContainer(body) = request
    {
        &mut body.acl
    } else if let Request::CreateTtl(body) = request {
        &mut body.acl
    } else if let Request::SetAcl(body) = request {
        &mut body.acl
    } else if let Request::Multi(parts) = request {
        return parts.0.iter_mut().filter_map(acl_of_part).collect();
    } else {
        return Vec::new();
    };
    acl.as_mut().into_iter().collect()
}

fn acl_of_part(part: &mut MultiOp) -> Option<&mut Vec<Acl>> {
    match part {
        MultiOp::Create(body) | MultiOp::Create2(body) | MultiOp::CreateContainer(body) => {
            body.acl.as_mut()
        }
        MultiOp::CreateTtl(body) => body.acl.as_mut(),
        MultiOp::Delete(_) | MultiOp::SetData(_) | MultiOp::Check(_) => None,
    }
}
