//! What the codes of servers mean, in words.

use zoolet_jute::ErrorCode;

/// Returns what a server's refusal means; `None` for codes that no table here has.
#[allow(clippy::wildcard_enum_match_arm, reason = "releases of ZooKeeper add codes")]
pub(super) fn meaning(code: ErrorCode) -> Option<&'static str> {
    Some(match code {
        ErrorCode::NoNode => "the znode does not exist",
        ErrorCode::NodeExists => "the znode exists",
        ErrorCode::NotEmpty => "the znode has children",
        ErrorCode::BadVersion => "the znode has another version",
        ErrorCode::NoAuth => "the ACL does not permit it",
        ErrorCode::InvalidAcl => "the ACL is empty or malformed",
        ErrorCode::AuthFailed => "the credentials were refused",
        ErrorCode::NoChildrenForEphemerals => "an ephemeral znode has no children",
        ErrorCode::BadArguments => "the server refuses the arguments",
        ErrorCode::QuotaExceeded => "a quota would be exceeded",
        ErrorCode::NotReadOnly => "the server is read-only at the moment",
        ErrorCode::NoWatcher => "there is not such a watch",
        ErrorCode::Unimplemented => "the server does not support this operation",
        ErrorCode::MarshallingError => "the server cannot decode the request",
        ErrorCode::ReconfigDisabled => "reconfiguration is switched off",
        ErrorCode::ReconfigInProgress => "another reconfiguration is under way",
        ErrorCode::NewConfigNoQuorum => "the new configuration has no quorum in sync",
        ErrorCode::SessionExpired => "the session has expired",
        ErrorCode::SessionMoved => "another server serves the session",
        ErrorCode::SessionClosedRequireSaslAuth => {
            "the server demands an identity that the connection lacks"
        }
        ErrorCode::EphemeralOnLocalSession => "a local session has no ephemeral znodes",
        ErrorCode::ThrottledOp => "the server is too busy, and has not carried it out",
        ErrorCode::ConnectionLoss => "the server has lost its connection, the outcome is unknown",
        ErrorCode::OperationTimeout | ErrorCode::RequestTimeout => {
            "the server has got no answer in time, the outcome is unknown"
        }
        ErrorCode::RuntimeInconsistency => "an earlier part of the transaction has failed",
        _ => return None,
    })
}
