//! The limits of a server, by name: one table for metrics, `mntr`, log lines and documentation.

use std::fmt;
use std::net::IpAddr;

use zoolet_jute::SessionId;

/// Something that a limit has refused to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The limit.
    pub limit: Limit,
    /// The client's address.
    pub peer: IpAddr,
    /// Its session; none if a new session was refused.
    pub session: SessionId,
    /// The refused thing.
    pub refused: Refused,
}

/// The things that a limit can refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A new session.
    Session,
    /// A request.
    Request,
    /// The connection: another client, which has less, needs room.
    Connection,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { peer, session, .. } = self;
        match self.refused {
            Refused::Session => write!(f, "a new session of {peer} is refused"),
            Refused::Request => write!(f, "a request of session {session} of {peer} is refused"),
            Refused::Connection => {
                write!(
                    f,
                    "the connection of session {session} of {peer}, which has most, is closed"
                )
            }
        }
    }
}

/// Defines [`Limit`] from the table below.
macro_rules! limits {
    ($($(#[doc = $about:literal])+ $limit:ident = ($name:literal, $setting:literal);)+) => {
        /// A limit that clients, or other servers, can reach.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Limit {
            $($(#[doc = $about])+ $limit,)+
        }

        impl Limit {
            /// Every limit, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$limit),+];

            /// The limits at which requests wait, or handshakes replace older ones, so that newcomers
            /// are served.
            pub const NOT_REFUSING: &'static [Self] = &[
                Self::Requests,
                Self::RequestBytes,
                Self::LargeRequestBytes,
                Self::Handshakes,
                Self::TlsHandshakes,
            ];

            /// Returns whether all clients share the limit. Otherwise each session, address or
            /// identity has its own maximum.
            pub fn is_total(self) -> bool {
                !self.name().starts_with("session_") && !self.name().contains("_per_")
            }

            /// Returns the name in metrics and log lines.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$limit => $name,)+ }
            }

            /// Returns the setting in `cluster.toml` that changes the limit.
            pub const fn setting(self) -> &'static str {
                match self { $(Self::$limit => $setting,)+ }
            }
        }
    };
}

limits! {
    /// Client connections to this server.
    Connections = ("connections", "limits.connections_max");
    /// Client connections from one address.
    ConnectionsPerAddress = ("connections_per_address", "limits.connections_per_address_max");
    /// Client connections that have not sent their connect request yet.
    Handshakes = ("handshakes", "limits.handshakes_max");
    /// Client connections that have not agreed on TLS yet.
    TlsHandshakes = ("tls_handshakes", "limits.tls_handshakes_max");
    /// Files that the process may have open.
    OpenFiles = ("open_files", "ulimit -n");
    /// Sessions of the ensemble.
    Sessions = ("sessions", "limits.sessions_max");
    /// Sessions that clients of one address hold at this server.
    SessionsPerAddress = ("sessions_per_address", "limits.sessions_per_address_max");
    /// Sessions that clients with one certificate hold at this server.
    SessionsPerIdentity = ("sessions_per_identity", "limits.sessions_per_identity_max");
    /// Unanswered requests of all connections.
    Requests = ("requests", "limits.requests_max");
    /// Bytes of unanswered requests of all connections.
    RequestBytes = ("request_bytes", "limits.request_bytes_max");
    /// Bytes of large requests that are on their way in, or are not answered.
    LargeRequestBytes = ("large_request_bytes", "limits.large_request_bytes_max");
    /// Unread bytes of watch events of one connection.
    OutboxBytes = ("outbox_bytes", "limits.outbox_bytes_max");
    /// Memory of unread data for the clients of one address.
    OutboxBytesPerAddress =
        ("outbox_bytes_per_address", "limits.outbox_bytes_per_address_max");
    /// Memory of unread data for all clients.
    OutboxBytesTotal = ("outbox_bytes_total", "limits.outbox_bytes_total_max");
    /// Paths watched by one session.
    SessionWatches = ("session_watches", "limits.session_watches_max");
    /// Memory of the watches of one session.
    SessionWatchBytes = ("session_watch_bytes", "limits.session_watch_bytes_max");
    /// Watches of the clients of one address on this server.
    WatchesPerAddress = ("watches_per_address", "limits.watches_per_address_max");
    /// Memory of the watches of the clients of one address.
    WatchBytesPerAddress = ("watch_bytes_per_address", "limits.watch_bytes_per_address_max");
    /// Watches of all sessions on this server.
    Watches = ("watches", "limits.watches_max");
    /// Memory of the watches of all sessions on this server.
    WatchBytes = ("watch_bytes", "limits.watch_bytes_max");
    /// Identities of one session.
    SessionIdentities = ("session_identities", "limits.session_identities_max");
    /// Bytes of the identities of one session.
    SessionIdentityBytes = ("session_identity_bytes", "limits.session_identity_bytes_max");
    /// Entries of an ACL that a client stores.
    AclEntries = ("acl_entries", "limits.acl_entries_max");
}
