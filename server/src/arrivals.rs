//! Connections that have proved nothing yet, for which a port has few places.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;

/// The places, the longest taken first. One connection more than there are takes the place of
/// another.
#[derive(Debug)]
pub(crate) struct Arrivals {
    max: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    arrivals: Vec<Arrival>,
    last: u64,
}

#[derive(Debug)]
struct Arrival {
    number: u64,
    source: IpAddr,
    /// The connection ends when this is dropped.
    _open: oneshot::Sender<()>,
}

impl Arrivals {
    /// Makes places for `max` connections.
    pub(crate) fn new(max: usize) -> Self {
        Self { max: max.max(1), waiting: Mutex::default() }
    }

    /// Takes a connection in, and returns its number. The receiver ends when the connection is pushed
    /// out.
    pub(crate) fn begin(&self, address: IpAddr) -> (u64, oneshot::Receiver<()>) {
        let source = source_of(address);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.arrivals.len() >= self.max {
            let least_worthy = least_worthy(&waiting.arrivals);
            waiting.arrivals.remove(least_worthy);
        }
        let (open, pushed_out) = oneshot::channel();
        waiting.last += 1;
        let number = waiting.last;
        waiting.arrivals.push(Arrival { number, source, _open: open });
        (number, pushed_out)
    }

    pub(crate) fn end(&self, number: u64) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.arrivals.retain(|handshake| handshake.number != number);
    }
}

/// Returns whom connections from an address are counted for: a network of IPv6 with 64 bits is often
/// a single machine, which has all of its addresses.
pub(crate) fn source_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        canonical @ IpAddr::V4(_) => canonical,
    }
}

/// Returns the oldest connection of the source with the most: silent connections must not keep
/// others out.
fn least_worthy(waiting: &[Arrival]) -> usize {
    let count = |source: IpAddr| waiting.iter().filter(|other| other.source == source).count();
    // Of equals, the last one counts.
    let newest_first = waiting.iter().enumerate().rev();
    newest_first.max_by_key(|(_, handshake)| count(handshake.source)).map_or(0, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_connection_of_the_busiest_address_goes() {
        let of = |sources: &[u8]| -> Vec<Arrival> {
            let handshake = |(number, last): (usize, &u8)| Arrival {
                number: number as u64,
                source: IpAddr::from([127, 0, 0, *last]),
                _open: oneshot::channel().0,
            };
            sources.iter().enumerate().map(handshake).collect()
        };
        assert_eq!(least_worthy(&of(&[1, 2, 3])), 0);
        assert_eq!(least_worthy(&of(&[1, 2, 3, 2])), 1);
        assert_eq!(least_worthy(&of(&[1, 2, 1, 2])), 0);
        assert_eq!(least_worthy(&of(&[1, 3, 2, 2, 2, 1])), 2);
    }

    #[test]
    fn the_addresses_of_a_network_are_one_source() {
        let source = |address: &str| source_of(address.parse().unwrap());
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:1"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_eq!(source("::ffff:192.0.2.1"), source("192.0.2.1"));
        assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
    }
}
