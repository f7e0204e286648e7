//! The file descriptors of the process, and the shares of those who use them.
//!
//! A log that cannot open its next segment for a minute stops the server, so strangers must never take
//! the last descriptors. Each port has a share that follows from the limit of the process ([`Needs`]). The
//! shares do not know what else the process has open, for example a second server: so each port also
//! turns connections away when the process as a whole comes near its limit ([`has_room`]).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{debug, warn};

use crate::process::{self, descriptor_limit as limit};

/// The descriptors of the log, of snapshots, of the history and of what every process has open.
const OWN: u64 = 64;

/// The places of HTTP connections that only ask for the server's health, and of client connections
/// that only ask a four-letter word, when all others are taken.
const PROBES_MAX: u64 = 16;

/// The most connections to the peer port whose handshake is not done.
const PEER_HANDSHAKES_MAX: u64 = 64;

/// The lanes between two servers, in both directions.
const LANES: u64 = 12;

/// With fewer descriptors than this, a server has hardly enough for itself.
const LIMIT_MIN: u64 = 256;

/// The most that the soft limit is raised to: some systems refuse more than a million.
const RAISED_MAX: u64 = 1 << 20;

/// A port whose connections take descriptors. Those that come first give way first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DescriptorUse {
    /// Connections of clients.
    Clients,
    /// Connections of an HTTP port.
    Http,
    /// Connections of other servers.
    Peers,
}

/// The descriptors that the other ports of a server need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    /// The other servers.
    pub(crate) peers: usize,
    /// The HTTP ports.
    pub(crate) http_ports: usize,
    /// The most connections of each of them.
    pub(crate) http_max: usize,
}

impl Needs {
    /// Returns the most connections of clients, of the descriptors that the process may have.
    pub(crate) fn leave(self, limit: u64) -> usize {
        let http = self.http_ports * (http_share(limit, self.http_max) + probes(limit));
        let peers = match self.peers {
            0 => 0,
            peers => (peers as u64).saturating_mul(LANES) + peer_handshakes(limit),
        };
        let reserved = OWN + peers + (http + probes(limit)) as u64;
        to_usize(limit.saturating_sub(reserved).max(limit / 2).max(1))
    }
}

/// Returns the most connections of clients that the process can have, and logs if that is less than
/// what is wanted; `None` without a limit.
pub(crate) fn clients_max(wanted: usize, needs: Needs) -> Option<usize> {
    let limit = limit()?;
    let max = needs.leave(limit);
    if limit < LIMIT_MIN {
        warn!(
            limit,
            connections_max = max,
            "the process may have too few files open for a server: raise ulimit -n to 4096 or more"
        );
    } else if wanted > max {
        warn!(
            limit,
            connections_max = wanted,
            "the open files that the process may have are too few for connections_max: at most \
             {max} clients are let in (raise ulimit -n)"
        );
    } else {
        debug!(limit, connections_max = max, "the open files of the process bound the connections");
    }
    Some(max)
}

/// Returns the most connections to the peer port whose handshake is not done.
pub(crate) fn peer_handshakes_max() -> usize {
    to_usize(limit().map_or(PEER_HANDSHAKES_MAX, peer_handshakes))
}

fn peer_handshakes(limit: u64) -> u64 {
    PEER_HANDSHAKES_MAX.min(limit / 16).max(4)
}

/// Returns the most connections of an HTTP port for which `max` are configured, those of probes not
/// counted.
pub fn http_connections_max(max: usize) -> usize {
    limit().map_or(max, |limit| http_share(limit, max))
}

fn http_share(limit: u64, max: usize) -> usize {
    max.min(to_usize(limit / 8).saturating_sub(probes(limit)).max(8))
}

/// Returns the places of connections that only probe.
pub fn probes_max() -> usize {
    probes(limit().unwrap_or(u64::MAX))
}

fn probes(limit: u64) -> usize {
    to_usize(PROBES_MAX.min(limit / 16).max(1))
}

/// Raises the soft limit of open files to the hard one, as other servers do at their start. Returns
/// the soft limit before and after; `None` means no limit.
pub fn raise_descriptor_limit() -> io::Result<(Option<u64>, Option<u64>)> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(RAISED_MAX, |maximum| maximum.min(RAISED_MAX));
    if current.is_none_or(|current| current >= wanted) {
        return Ok((current, current));
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })?;
    Ok((current, Some(wanted)))
}

/// Returns whether a port may keep one more connection: the process leaves enough descriptors to
/// those that matter more. A simulated server has no sockets.
pub fn has_room(user: DescriptorUse) -> bool {
    if process::is_simulated() {
        return true;
    }
    match limit() {
        Some(limit) if limit >= LIMIT_MIN => {
            next_free().is_none_or(|next| next < bound(limit, user))
        }
        // The share of the others would exceed the limit.
        Some(_) | None => true,
    }
}

/// Returns the lowest descriptor that `user` must leave to others.
fn bound(limit: u64, user: DescriptorUse) -> u64 {
    // Less than the shares leave: these come into play when something else has descriptors.
    let left = match user {
        DescriptorUse::Clients => 40,
        DescriptorUse::Http => 32,
        DescriptorUse::Peers => 24,
    };
    limit.saturating_sub(left)
}

/// Returns the lowest number of a descriptor that is not in use, which the system gives out next:
/// at least as many are in use. `None` if it cannot be found out.
fn next_free() -> Option<u64> {
    match File::open("/dev/null") {
        Ok(file) => u64::try_from(file.as_raw_fd()).ok(),
        // There is none.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::MFILE) => Some(u64::MAX),
        Err(_) => None,
    }
}

fn to_usize(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_shares_together_leave_the_log_its_own() {
        for limit in [256, 300, 512, 1024, 4096, 1 << 20] {
            for (peers, http_ports) in [(0, 0), (2, 0), (2, 1), (4, 1)] {
                let clients = Needs { peers, http_ports, http_max: 100 }.leave(limit);
                let probes = probes(limit);
                let http = http_ports * (http_share(limit, 100) + probes);
                let handshakes = if peers == 0 { 0 } else { peer_handshakes(limit) };
                let strangers = (clients + probes + http) as u64 + handshakes;
                assert!(strangers + OWN / 2 <= limit, "{limit}: {clients}");
                assert!(bound(limit, DescriptorUse::Clients) <= bound(limit, DescriptorUse::Http));
                assert!(bound(limit, DescriptorUse::Peers) < limit);
            }
        }
        let alone = Needs { peers: 0, http_ports: 0, http_max: 100 };
        let expected = [(1024, 1024 - 64 - 16), (80, 40), (0, 1)];
        assert_eq!(expected.map(|(limit, _)| alone.leave(limit)), expected.map(|(_, left)| left));
    }

    #[test]
    fn the_next_descriptor_is_free() {
        let next = next_free().unwrap();
        assert!(limit().is_none_or(|limit| next < limit));
        assert!(has_room(DescriptorUse::Clients));
    }
}
