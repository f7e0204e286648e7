//! Who may do what concerns a server as a whole: over HTTP, where there is no session.

use std::net::IpAddr;

use bytes::Bytes;
use zoolet_jute::{AuthPacket, Id, perms};

use super::Replica;
use super::session::Schemes;
use super::state::State;

const ROOT: &str = "/";

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

    /// Returns whether these identities have each permission on the root (protocol §9.3).
    pub fn may_administer(&self, identities: &[Id]) -> bool {
        let acl = self.state.acl(ROOT).unwrap_or_default();
        let may = |wanted| State::permits(&acl, wanted, identities, self.options.policy.skip_acl);
        [perms::READ, perms::WRITE, perms::CREATE, perms::DELETE, perms::ADMIN].into_iter().all(may)
    }
}
