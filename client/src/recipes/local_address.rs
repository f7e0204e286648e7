//! The data that Curator writes on a lock's znode by default: the text of the
//! client's address.

use std::net::{Ipv4Addr, UdpSocket};

/// An address that belongs to documentation (RFC 5737). Nothing is sent to it: connecting a UDP
/// socket only asks the system which of its own addresses it would send from.
const SOMEWHERE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);

/// The address of this machine, as text.
pub(crate) fn local_address() -> String {
    let found = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
        socket.connect(SOMEWHERE)?;
        socket.local_addr()
    });
    found.map_or_else(|_| Ipv4Addr::LOCALHOST.to_string(), |address| address.ip().to_string())
}
