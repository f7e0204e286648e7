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

const NO_ADMIN_TLS: &str =
    "TLS is not supported on the HTTP port yet, and it would be served in plain text";
const NO_PEER_SASL: &str =
    "SASL between servers is not supported, and every peer would be let in without it";
const NO_ENFORCEMENT: &str =
    "making clients authenticate is not supported yet, and every client would be let in without it";

#[rustfmt::skip]
pub(super) static REFUSED: &[Key] = &[
    refused("admin.forceHttps", Shape::TrueFalse, &["false"], NO_ADMIN_TLS),
    refused("admin.needClientAuth", Shape::TrueFalse, &["false"], NO_ADMIN_TLS),
    refused("quorum.auth.enableSasl", Shape::TrueFalse, &["false"], NO_PEER_SASL),
    refused("quorum.auth.learnerRequireSasl", Shape::TrueFalse, &["false"], NO_PEER_SASL),
    refused("quorum.auth.serverRequireSasl", Shape::TrueFalse, &["false"], NO_PEER_SASL),
    refused("sessionRequireClientSASLAuth", Shape::TrueFalse, &["false"], NO_ENFORCEMENT),
    refused("enforce.auth.enabled", Shape::TrueFalse, &["false"], NO_ENFORCEMENT),
    refused("requireClientAuthScheme", Shape::Any, &[], NO_ENFORCEMENT),
    refused("requireKerberosConfig", Shape::TrueFalse, &["false"], NO_ENFORCEMENT),
];
