//! The servers of a connect string, and in which order to try them.

use crate::{Error, ErrorKind};

/// The client port of a server when the connect string names none.
const PORT_DEFAULT: u16 = 2181;

/// The servers, shuffled once, so that the clients of an ensemble spread over it.
#[derive(Clone, Debug)]
pub(crate) struct Hosts {
    addresses: Vec<String>,
    next: usize,
}

impl Hosts {
    /// Parses `host:port,host:port,…`; `seed` decides the order.
    pub(crate) fn parse(connect_string: &str, seed: u64) -> Result<Self, Error> {
        let mut addresses = Vec::new();
        for part in connect_string.split(',').map(str::trim) {
            addresses.push(parse_address(part, connect_string)?);
        }
        shuffle(&mut addresses, seed);
        Ok(Self { addresses, next: 0 })
    }

    /// The next server to try, and whether all of them have been tried since the last round.
    pub(crate) fn next(&mut self) -> (String, bool) {
        let address = self.addresses.get(self.next).cloned().unwrap_or_default();
        self.next = (self.next + 1) % self.addresses.len().max(1);
        (address, self.next == 0)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.addresses.len()
    }
}

fn parse_address(part: &str, connect_string: &str) -> Result<String, Error> {
    let wrong = |why: &str| {
        Error::from(ErrorKind::Protocol(format!("connect string {connect_string:?}: {why}")))
    };
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

/// Fisher-Yates over a small generator: a shuffle needs no secret.
fn shuffle(addresses: &mut [String], seed: u64) {
    let mut state = seed | 1;
    for last in (1..addresses.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let bound = u64::try_from(last + 1).unwrap_or(1);
        addresses.swap(last, usize::try_from(state % bound).unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connect_string_names_hosts_with_and_without_ports() {
        let mut hosts = Hosts::parse("a:1, b ,[::1]:3,[::1]", 7).unwrap();
        let mut all: Vec<String> = (0..hosts.count()).map(|_| hosts.next().0).collect();
        all.sort();
        assert_eq!(all, ["[::1]:2181", "[::1]:3", "a:1", "b:2181"]);
    }

    #[test]
    fn a_bad_connect_string_is_refused_by_name() {
        for bad in ["", "a:1,,b:2", "a:0", "a:x", "a:70000", ":2181"] {
            let error = Hosts::parse(bad, 1).unwrap_err();
            assert!(error.to_string().contains("connect string"), "{bad}: {error}");
        }
    }

    #[test]
    fn every_host_comes_once_in_a_round() {
        let mut hosts = Hosts::parse("a:1,b:1,c:1", 99).unwrap();
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
}
