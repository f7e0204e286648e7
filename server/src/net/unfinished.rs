//! The connections whose handshake is not done, and which of them gives way to a new one.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::arrivals::source_of;

/// A connection that has sent nothing for this time gives way: clients send their handshake at once.
const SILENCE_MAX: Duration = Duration::from_millis(500);

/// Any other unfinished one gives way after this time, which is more than a handshake of TLS waits for
/// a thread.
const PATIENCE: Duration = Duration::from_secs(5);

/// An unfinished handshake.
#[derive(Debug)]
pub(super) struct Handshake {
    address: IpAddr,
    source: IpAddr,
    since: Instant,
    /// Whether the client has sent anything.
    has_sent: Arc<AtomicBool>,
    /// The handshake is with the host, which answers in its own time.
    is_admitted: bool,
    /// The connection ends when this is dropped.
    _open: oneshot::Sender<()>,
}

impl Handshake {
    pub(super) fn new(
        address: IpAddr,
        since: Instant,
        has_sent: Arc<AtomicBool>,
        open: oneshot::Sender<()>,
    ) -> Self {
        let source = source_of(address);
        Self { address, source, since, has_sent, is_admitted: false, _open: open }
    }

    /// Returns whether the client has had its time.
    fn is_stale(&self, now: Instant) -> bool {
        let limit = if self.has_sent.load(Ordering::Relaxed) { PATIENCE } else { SILENCE_MAX };
        !self.is_admitted && now.duration_since(self.since) >= limit
    }
}

/// The unfinished handshakes of one kind.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    /// Numbers rise, so the oldest is the first.
    handshakes: BTreeMap<u64, Handshake>,
    /// How many there are of each source; never zero.
    per_source: BTreeMap<IpAddr, usize>,
}

impl Unfinished {
    pub(super) fn len(&self) -> usize {
        self.handshakes.len()
    }

    pub(super) fn insert(&mut self, number: u64, handshake: Handshake) {
        *self.per_source.entry(handshake.source).or_default() += 1;
        self.handshakes.insert(number, handshake);
    }

    /// Takes a handshake out, if it is there.
    pub(super) fn take(&mut self, number: u64) -> Option<Handshake> {
        let handshake = self.handshakes.remove(&number)?;
        if let Some(count) = self.per_source.get_mut(&handshake.source) {
            *count -= 1;
            if *count == 0 {
                self.per_source.remove(&handshake.source);
            }
        }
        Some(handshake)
    }

    /// Notes that a handshake waits for the host, and not for its client. Returns false if it is not
    /// there any more.
    pub(super) fn admit(&mut self, number: u64) -> bool {
        let handshake = self.handshakes.get_mut(&number);
        handshake.map(|handshake| handshake.is_admitted = true).is_some()
    }

    /// Returns the handshake of `address` that gives way to a new connection from there.
    pub(super) fn stale_of(&self, address: IpAddr, now: Instant) -> Option<u64> {
        let mut oldest_first = self.handshakes.iter();
        let is_stale =
            |handshake: &Handshake| handshake.address == address && handshake.is_stale(now);
        oldest_first.find(|(_, handshake)| is_stale(handshake)).map(|(number, _)| *number)
    }

    /// Returns the handshake that gives way to a new connection from `address`: the oldest that has
    /// had its time, of a source that has at least as many as the new one's. If none has, the newest
    /// of the busiest source, as long as that has more: the older ones are about to be finished. Else
    /// there is none, and the new connection is the one too many.
    pub(super) fn least_worthy(&self, address: IpAddr, now: Instant) -> Option<u64> {
        let count = |source: &IpAddr| self.per_source.get(source).copied().unwrap_or(0);
        let own = count(&source_of(address));
        let has_share = |handshake: &&Handshake| count(&handshake.source) >= own;
        let stale = self
            .handshakes
            .iter()
            .find(|(_, handshake)| handshake.is_stale(now) && has_share(handshake));
        if let Some((number, _)) = stale {
            return Some(*number);
        }
        let (busiest, most) = self.per_source.iter().max_by_key(|(_, count)| **count)?;
        if *most <= own + 1 {
            return None;
        }
        let mut newest_first = self.handshakes.iter().rev();
        let gives_way =
            |handshake: &Handshake| handshake.source == *busiest && !handshake.is_admitted;
        newest_first.find(|(_, handshake)| gives_way(handshake)).map(|(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    /// Returns handshakes from these addresses that were begun now.
    fn unfinished(now: Instant, addresses: &[u8]) -> Unfinished {
        let mut all = Unfinished::default();
        for (number, last) in (0..).zip(addresses) {
            let open = oneshot::channel().0;
            all.insert(number, Handshake::new(address(*last), now, Arc::default(), open));
        }
        all
    }

    #[test]
    fn a_busy_source_gives_way_to_others_at_once_and_to_itself_in_time() {
        let now = Instant::now();
        let mut all = unfinished(now, &[1, 2, 1, 1, 2]);
        assert_eq!(all.least_worthy(address(3), now), Some(3), "the newest of the busiest");
        assert_eq!(all.least_worthy(address(1), now), None, "the older ones are finished first");
        let later = now + SILENCE_MAX;
        assert_eq!(
            all.least_worthy(address(3), later),
            Some(0),
            "the oldest that has had its time"
        );
        assert_eq!(all.least_worthy(address(1), later), Some(0));
        assert_eq!(
            (all.stale_of(address(2), now), all.stale_of(address(2), later)),
            (None, Some(1))
        );
        assert!(all.take(0).is_some() && all.take(0).is_none());
        all.admit(2);
        all.admit(3);
        assert_eq!(all.least_worthy(address(1), later), Some(1), "2 and 3 wait for the host");
        assert_eq!(all.stale_of(address(1), later), None);
    }

    #[test]
    fn one_that_has_sent_something_has_more_time() {
        let now = Instant::now();
        let mut all = unfinished(now, &[]);
        let open = oneshot::channel().0;
        all.insert(7, Handshake::new(address(1), now, Arc::new(true.into()), open));
        assert_eq!(all.least_worthy(address(1), now + SILENCE_MAX), None);
        assert_eq!(all.least_worthy(address(1), now + PATIENCE), Some(7));
        assert_eq!(unfinished(now, &[]).least_worthy(address(1), now), None);
    }
}
