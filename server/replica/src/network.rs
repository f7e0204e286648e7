//! Addresses, as limits count them.

use std::net::{IpAddr, Ipv6Addr};

/// The bits of an IPv6 address that do not tell clients apart: a host has a network of 64 bits for
/// itself.
const HOST_BITS: u32 = 64;

/// Returns the address under which limits count a client: an IPv4 address itself, and the /64
/// network of an IPv6 address.
pub(crate) fn network_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(peer) if !peer.is_loopback() => {
            IpAddr::V6(Ipv6Addr::from_bits(peer.to_bits() >> HOST_BITS << HOST_BITS))
        }
        peer @ (IpAddr::V4(_) | IpAddr::V6(_)) => peer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_of_one_host_are_one() {
        let network = |text: &str| network_of(text.parse().unwrap()).to_string();
        assert_eq!(network("10.0.0.7"), "10.0.0.7");
        assert_eq!(network("::ffff:10.0.0.7"), "10.0.0.7");
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(network("::1"), "::1");
    }
}
