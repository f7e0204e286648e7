//! In which order to try the servers of a connect string.

/// The servers, shuffled once, so that the clients of an ensemble spread over it.
#[derive(Clone, Debug)]
pub(crate) struct Hosts {
    addresses: Vec<String>,
    next: usize,
    dice: Dice,
}

impl Hosts {
    /// The servers at these addresses; `seed` decides the order.
    pub(crate) fn new(mut addresses: Vec<String>, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        dice.shuffle(&mut addresses);
        Self { addresses, next: 0, dice }
    }

    /// The next server to try, and whether all of them have been tried since the last round.
    pub(crate) fn next(&mut self) -> (String, bool) {
        let address = self.addresses.get(self.next).cloned().unwrap_or_default();
        self.next = (self.next + 1) % self.addresses.len().max(1);
        (address, self.next == 0)
    }

    /// Makes a server the next one to try.
    pub(crate) fn prefer(&mut self, address: &str) {
        self.next = self.addresses.iter().position(|one| one == address).unwrap_or(self.next);
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.addresses.len()
    }

    /// Puts addresses into a random order.
    pub(crate) fn shuffle(&mut self, addresses: &mut [String]) {
        self.dice.shuffle(addresses);
    }

    /// A random number.
    pub(crate) fn chance(&mut self) -> u64 {
        self.dice.roll()
    }
}

/// A small generator (xorshift): to spread clients needs no secret.
///
/// Invariant: the state is not zero.
#[derive(Clone, Debug)]
struct Dice(u64);

impl Dice {
    /// Seeds that differ little begin far from each other (the finalizer of splitmix64).
    fn new(seed: u64) -> Self {
        let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self((mixed ^ (mixed >> 31)) | 1)
    }

    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Fisher-Yates.
    fn shuffle(&mut self, addresses: &mut [String]) {
        for last in (1..addresses.len()).rev() {
            let bound = u64::try_from(last + 1).unwrap_or(1);
            addresses.swap(last, usize::try_from(self.roll() % bound).unwrap_or(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three(seed: u64) -> Hosts {
        Hosts::new(["a:1", "b:1", "c:1"].map(str::to_owned).to_vec(), seed)
    }

    #[test]
    fn every_host_comes_once_in_a_round() {
        let mut hosts = three(99);
        for _ in 0..3 {
            let mut round: Vec<(String, bool)> = (0..3).map(|_| hosts.next()).collect();
            assert_eq!(round.iter().map(|(_, end)| *end).collect::<Vec<_>>(), [false, false, true]);
            round.sort();
            assert_eq!(
                round.iter().map(|(a, _)| a.as_str()).collect::<Vec<_>>(),
                ["a:1", "b:1", "c:1"]
            );
        }
    }

    #[test]
    fn seeds_spread_the_clients_and_a_preferred_host_comes_next() {
        let first = |seed: u64| three(seed).next().0;
        let starts: std::collections::BTreeSet<_> = (0..100).map(|seed| first(seed << 8)).collect();
        assert_eq!(starts.len(), 3);
        let mut hosts = three(3);
        for host in ["c:1", "a:1", "b:1"] {
            hosts.prefer(host);
            assert_eq!(hosts.next().0, host);
        }
    }
}
