//! The servers of a connect string, and in which order to try them.

use crate::chroot::Chroot;
use crate::{Error, ErrorKind};

/// The client port of a server when the connect string names none.
const PORT_DEFAULT: u16 = 2181;

/// The servers, shuffled once, so that the clients of an ensemble spread over it.
#[derive(Clone, Debug)]
pub(crate) struct Hosts {
    addresses: Vec<String>,
    next: usize,
    dice: Dice,
}

impl Hosts {
    /// Parses `host:port,host:port,…/chroot`; `seed` decides the order.
    pub(crate) fn parse(connect_string: &str, seed: u64) -> Result<(Self, Chroot), Error> {
        let (servers, chroot) = match connect_string.find('/') {
            Some(slash) => connect_string.split_at(slash),
            None => (connect_string, "/"),
        };
        let chroot = Chroot::parse(chroot)
            .ok_or_else(|| wrong(connect_string, &format!("invalid path {chroot:?}")))?;
        let mut addresses = Vec::new();
        for part in servers.split(',').map(str::trim) {
            addresses.push(parse_address(part, connect_string)?);
        }
        let mut dice = Dice::new(seed);
        dice.shuffle(&mut addresses);
        Ok((Self { addresses, next: 0, dice }, chroot))
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

    /// All of them.
    #[cfg(feature = "torture")]
    pub(crate) fn addresses(&self) -> &[String] {
        &self.addresses
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

/// What is wrong with a connect string.
fn wrong(connect_string: &str, why: &str) -> Error {
    ErrorKind::Protocol(format!("connect string {connect_string:?}: {why}")).into()
}

fn parse_address(part: &str, connect_string: &str) -> Result<String, Error> {
    let wrong = |why: &str| wrong(connect_string, why);
    if part.is_empty() {
        return Err(wrong("a server is empty"));
    }
    let port_at = match part.rfind(']') {
        Some(bracket) => part.get(bracket..).and_then(|rest| rest.find(':')).map(|at| bracket + at),
        None => part.rfind(':'),
    };
    match port_at.map(|at| part.split_at(at)) {
        None => Ok(format!("{part}:{PORT_DEFAULT}")),
        Some(("", _)) => Err(wrong("a host is empty")),
        Some((_, port)) => match port.trim_start_matches(':').parse::<u16>() {
            Ok(port) if port > 0 => Ok(part.to_owned()),
            Ok(_) | Err(_) => Err(wrong(&format!("{part:?} has no port between 1 and 65535"))),
        },
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

    #[test]
    fn a_connect_string_names_hosts_with_and_without_ports() {
        let (mut hosts, chroot) = Hosts::parse("a:1, b ,[::1]:3,[::1]/x/y", 7).unwrap();
        assert_eq!(chroot.path(), "/x/y");
        let mut all: Vec<String> = (0..hosts.count()).map(|_| hosts.next().0).collect();
        all.sort();
        assert_eq!(all, ["[::1]:2181", "[::1]:3", "a:1", "b:2181"]);
    }

    #[test]
    fn a_slash_alone_is_no_chroot() {
        assert_eq!(Hosts::parse("a:1/", 1).unwrap().1, Chroot::default());
    }

    #[test]
    fn a_bad_connect_string_is_refused_by_name() {
        for bad in ["", "a:1,,b:2", "a:0", "a:x", "a:70000", ":2181", "a:1/x/", "a//b"] {
            let error = Hosts::parse(bad, 1).unwrap_err();
            assert!(error.to_string().contains("connect string"), "{bad}: {error}");
        }
    }

    #[test]
    fn every_host_comes_once_in_a_round() {
        let (mut hosts, _) = Hosts::parse("a:1,b:1,c:1", 99).unwrap();
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
        let first = |seed: u64| Hosts::parse("a:1,b:1,c:1", seed).unwrap().0.next().0;
        let starts: std::collections::BTreeSet<_> = (0..100).map(|seed| first(seed << 8)).collect();
        assert_eq!(starts.len(), 3);
        let (mut hosts, _) = Hosts::parse("a:1,b:1,c:1", 3).unwrap();
        for host in ["c:1", "a:1", "b:1"] {
            hosts.prefer(host);
            assert_eq!(hosts.next().0, host);
        }
    }
}
