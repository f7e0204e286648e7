//! How a TLS connection begins.

/// The type of the record that begins a TLS connection.
const HANDSHAKE_RECORD: u8 = 0x16;

/// Returns whether the first byte of a connection begins a TLS handshake. No frame and no
/// four-letter word of `ZooKeeper` begins with it.
pub fn is_hello(first: u8) -> bool {
    first == HANDSHAKE_RECORD
}
