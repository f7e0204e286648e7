//! Where a server begins to count session ids.

use zoolet_jute::SessionId;

use crate::Options;

/// The first session id of a start: the server in the high byte, then 40 bits of its time. The
/// low 16 bits leave room for as many sessions as can begin before the next start.
pub(crate) fn first_session(options: &Options) -> SessionId {
    let server = u64::from(options.server.0) << 56;
    SessionId((server | options.boot.0 << 24 >> 8).cast_signed())
}

/// Returns whether a session was begun at this server, now or in an earlier start.
pub(crate) fn is_begun_at(session: SessionId, options: &Options) -> bool {
    session.0.cast_unsigned() >> 56 == u64::from(options.server.0)
}
