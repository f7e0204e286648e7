//! The silence of sessions: the time since the last sign of life of their clients.
//!
//! A new leader has heard no client, so it assumes that each session was active until its election
//! (`liveness`). Two facts known to other servers replace that assumption:
//!
//! - The connection of a session has *ended* at the server that owns the session. No server can hear
//!   the client until the session is resumed, and a resume is a command of the log that raises the
//!   session's generation. The owner reports it to all servers, because it may be the leader that dies next.
//! - A connection is open, and its client is *silent*. This holds only for the moment, and only the
//!   owner knows it: it reports it to the leader periodically.
//!
//! Silences travel as durations, because the clocks of servers are not comparable; the latency of a
//! message only shortens them. Silence is counted only while the measuring server runs and has a
//! leader: a stopped server does not read the pings in its sockets, and no session can be resumed
//! during an election.

use zoolet_jute::SessionId;

/// The silence of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    /// The session.
    pub session: SessionId,
    /// How often the session had been resumed. Silences of earlier generations are ignored.
    pub generation: u64,
    /// The time since the last sign of life.
    pub silence_ms: u64,
    /// Whether the connection has ended: the session is silent until it is resumed.
    pub has_ended: bool,
}

/// Some of a server's silences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Silences<Place> {
    /// The silences.
    pub silences: Vec<Silence>,
    /// The place of the last session that was considered.
    pub after: Place,
    /// Whether others follow.
    pub has_more: bool,
}
