//! The settings of a client port.

use super::server_info::ServerInfo;
use super::tls::{PortTls, Spoken};
use crate::sasl::Logins;

/// The settings of a client port.
#[derive(Clone, Debug)]
pub(crate) struct PortOptions {
    /// `host:port` to listen on; with port 0 the system chooses.
    pub address: String,
    /// What is spoken there.
    pub spoken: Spoken,
    /// `host:port` of a second port on which TLS is spoken, if there is one.
    pub secure_address: Option<String>,
    /// What TLS needs; there is one if TLS is spoken on any of the two.
    pub tls: Option<PortTls>,
    /// The name of the certificate that may do everything.
    pub x509_super_user: Option<String>,
    /// How clients log in by SASL, if they can.
    pub logins: Option<Logins>,
    /// The most connections that wait to be accepted.
    pub backlog: u32,
    /// The longest frame of a client in bytes (`jute.maxbuffer`).
    pub frame_bytes_max: usize,
    /// How long a connection may take for its handshake, in milliseconds.
    pub handshake_timeout_ms: u64,
    /// The most connections whose handshake is not done; zero for no limit.
    pub handshakes_max: usize,
    /// The most of them that TLS is not agreed on; zero for no limit
    /// (`netty.server.outstandingHandshake.limit`).
    pub tls_handshakes_max: usize,
    /// The most connections from one address; zero for no limit (`maxClientCnxns`).
    pub connections_per_address_max: usize,
    /// The most connections; zero for no limit (`maxCnxns`).
    pub connections_max: usize,
    /// The most connections that the file descriptors of the process allow; none without a limit.
    pub descriptors_max: Option<usize>,
    /// The most bytes of large requests that are on their way in, or are not answered.
    pub large_request_bytes_max: usize,
    /// The most bytes that wait for one client to read them.
    pub outbox_bytes_max: usize,
    /// The most bytes in memory that wait for the clients of one address.
    pub outbox_bytes_per_address_max: usize,
    /// For all clients.
    pub outbox_bytes_total_max: usize,
    /// The window in which a client must read a part of its backlog; see `drain`.
    pub drain_window_ms: u64,
    /// What four-letter words say about the configuration.
    pub server_info: ServerInfo,
}
