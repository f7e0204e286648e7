//! Keys that a server must not silently ignore: with them somebody relies on encryption or on
//! being asked who they are, and would get neither.

use super::keys::{Key, Rule, Shape};

const fn refused(
    name: &'static str,
    shape: Shape,
    same: &'static [&'static str],
    why: &'static str,
) -> Key {
    Key { name, rule: Rule::Refused { shape, same, why } }
}

const NO_PEER_SASL: &str = "SASL between servers is not supported, and every peer would be let in without it: use \
     peerSecretFile or sslQuorum";
const NO_KERBEROS: &str = "Kerberos is not supported, and clients would be let in without it";

#[rustfmt::skip]
pub(super) static REFUSED: &[Key] = &[
    refused("quorum.auth.enableSasl", Shape::TrueFalse, &["false"], NO_PEER_SASL),
    refused("quorum.auth.learnerRequireSasl", Shape::TrueFalse, &["false"], NO_PEER_SASL),
    refused("quorum.auth.serverRequireSasl", Shape::TrueFalse, &["false"], NO_PEER_SASL),
    refused("requireKerberosConfig", Shape::TrueFalse, &["false"], NO_KERBEROS),
];
