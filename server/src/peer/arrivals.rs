//! The connections to the peer port whose handshake is not done.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;

/// The most connections whose handshake is not done. One more takes the place of another.
pub(super) const HANDSHAKES_MAX: usize = 64;

/// The connections whose handshake is not done, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Handshakes {
    waiting: Mutex<Vec<Handshake>>,
}

#[derive(Debug)]
struct Handshake {
    number: u64,
    source: IpAddr,
    /// The connection ends when this is dropped.
    _open: oneshot::Sender<()>,
}

impl Handshakes {
    /// Takes a connection in. What it gives ends when the connection is pushed out.
    pub(super) fn begin(&self, number: u64, source: IpAddr) -> oneshot::Receiver<()> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= HANDSHAKES_MAX {
            let least_worthy = least_worthy(&waiting);
            waiting.remove(least_worthy);
        }
        let (open, pushed_out) = oneshot::channel();
        waiting.push(Handshake { number, source, _open: open });
        pushed_out
    }

    pub(super) fn end(&self, number: u64) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|handshake| handshake.number != number);
    }
}

/// Those that say nothing must not keep the others out: of the source that has the most connections
/// here, the one that has had the most time.
fn least_worthy(waiting: &[Handshake]) -> usize {
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
        let of = |sources: &[u8]| -> Vec<Handshake> {
            let handshake = |(number, last): (usize, &u8)| Handshake {
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
}
