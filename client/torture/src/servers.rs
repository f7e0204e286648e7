//! The servers of a run: their addresses, and the faults that a caller who knows their processes can
//! inject.

use std::fmt::Debug;
use std::io;

use zoolet_client::ConnectString;

use crate::random::Random;
use crate::run::{Settings, TortureError};

/// The seed's fork that decides which server the contenders connect to first.
const FIRST_SERVER: u64 = 3;

/// A kind of fault of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerFault {
    /// `kill -9`, and a start again.
    Kill,
    /// The process stands still (`SIGSTOP`) and goes on.
    Pause,
    /// The server is cut off from the other servers; its clients reach it.
    Isolate,
    /// Every sync of its disk takes long.
    SlowDisk,
}

impl ServerFault {
    /// Its name in reports.
    pub(crate) const fn kind(self) -> &'static str {
        match self {
            Self::Kill => "server killed",
            Self::Pause => "server paused",
            Self::Isolate => "server cut off",
            Self::SlowDisk => "disk slow",
        }
    }
}

/// The servers of an ensemble, from 0. The methods block, and are called one at a time.
pub trait Servers: Debug + Send {
    /// How many there are.
    fn count(&self) -> usize;

    /// Whether this kind of fault can be done here.
    fn can(&self, fault: ServerFault) -> bool;

    /// The one that leads.
    fn leader(&mut self) -> Option<usize>;

    /// Begins a fault. For [`ServerFault::Kill`] the server is dead when this returns.
    fn strike(&mut self, server: usize, fault: ServerFault) -> io::Result<()>;

    /// Ends it; a killed server serves again when this returns.
    fn mend(&mut self, server: usize, fault: ServerFault) -> io::Result<()>;
}

/// The addresses of a run's connect string, each with its port. The seed decides which one is first.
pub(crate) fn addresses(settings: &Settings) -> Result<String, TortureError> {
    let servers: ConnectString = settings.servers.parse()?;
    if servers.chroot() != "/" {
        return Err(TortureError::Chroot(servers.chroot().to_owned()));
    }
    let count = servers.addresses().len();
    let first = Random::fork(settings.seed, FIRST_SERVER).index(count);
    Ok(rotated(&servers.addresses().join(","), first))
}

/// The same servers, another one first: the proxies of the contenders spread over them.
pub(crate) fn rotated(servers: &str, by: usize) -> String {
    let mut servers: Vec<&str> = servers.split(',').collect();
    let by = by % servers.len().max(1);
    servers.rotate_left(by);
    servers.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_takes_the_connect_strings_of_clients_without_a_root_path() {
        let of = |servers: &str| addresses(&Settings::new(servers, 7));
        assert_eq!(of("localhost").unwrap(), "localhost:2181");
        let mut both: Vec<String> = of("a:1, b").unwrap().split(',').map(str::to_owned).collect();
        both.sort();
        assert_eq!(both, ["a:1", "b:2181"]);
        assert!(matches!(of("a:1/app"), Err(TortureError::Chroot(path)) if path == "/app"));
        assert!(of("a:b").is_err());
        assert_eq!(rotated("a,b,c", 4), "b,c,a");
    }
}
