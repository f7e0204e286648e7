//! Who may do what concerns a server as a whole: over HTTP, where there is no session.

use std::net::IpAddr;

use bytes::Bytes;
use zoolet_jute::{Acl, AuthPacket, Id, perms};

use super::Replica;
use super::session::Schemes;
use super::state::State;

const ROOT: &str = "/";

/// Every permission.
const ALL: [i32; 5] = [perms::READ, perms::WRITE, perms::CREATE, perms::DELETE, perms::ADMIN];

impl Replica {
    /// Returns the identities that credentials prove, as an auth request does; `None` refuses them.
    pub fn identities_of(&self, scheme: &str, auth: &str, peer: IpAddr) -> Option<Vec<Id>> {
        let packet = AuthPacket {
            auth_type: 0,
            scheme: Some(scheme.to_owned()),
            auth: Some(Bytes::copy_from_slice(auth.as_bytes())),
        };
        Schemes::of(&self.options).authenticate(&packet, peer, &[])
    }

    /// Returns whether these identities may do what concerns the server as a whole, such as reading
    /// every znode whatever its ACL says: those of the superuser, and others that the root's ACL gives
    /// each permission by name (protocol §9.3). What it gives to everyone does not count, because a
    /// new root gives everything to everyone, nor does it that ACLs are not checked.
    pub fn may_administer(&self, identities: &[Id]) -> bool {
        if identities.iter().any(|id| id.scheme.as_deref() == Some("super")) {
            return true;
        }
        let acl = self.state.acl(ROOT).unwrap_or_default();
        let is_named = |entry: &&Acl| entry.id.scheme.as_deref() != Some("world");
        let named: Vec<Acl> = acl.iter().filter(is_named).cloned().collect();
        let may = |wanted| State::permits(&named, wanted, identities, false);
        // An empty list permits everything.
        !named.is_empty() && ALL.into_iter().all(may)
    }
}
