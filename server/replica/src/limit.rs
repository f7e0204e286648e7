//! The limits of a server, by name: one table for metrics, `mntr`, log lines and documentation.

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
    /// Unanswered requests of all connections.
    Requests = ("requests", "limits.requests_max");
    /// Bytes of unanswered requests of all connections.
    RequestBytes = ("request_bytes", "limits.request_bytes_max");
    /// Unread bytes of watch events of one connection.
    OutboxBytes = ("outbox_bytes", "limits.outbox_bytes_max");
    /// Paths watched by one session.
    SessionWatches = ("session_watches", "limits.session_watches_max");
    /// Memory of the watches of one session.
    SessionWatchBytes = ("session_watch_bytes", "limits.session_watch_bytes_max");
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
