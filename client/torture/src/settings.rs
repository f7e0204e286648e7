//! What a run is to do, and why it could not be made.

use std::time::Duration;

use thiserror::Error;
use zoolet_client::{ConnectString, Error};

use crate::random::Random;
use crate::recipe::Recipe;
use crate::servers::ServerFault;

/// The seed's fork that decides which server the contenders connect to first.
const FIRST_SERVER: u64 = 3;

/// What to do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The connect string.
    pub servers: String,
    /// The recipes.
    pub recipes: Vec<Recipe>,
    /// How many contend, each with a session of its own.
    pub contenders: usize,
    /// How many locks of each recipe there are.
    pub locks: usize,
    /// How long the faults go on.
    pub duration: Duration,
    /// How long the contenders may take to get their last turns, once the faults are over.
    pub last_turn_max: Duration,
    /// What decides the schedule.
    pub seed: u64,
    /// The session timeout to ask for; the servers may grant another.
    pub session_timeout: Duration,
    /// Whether contenders are paused, cut off and killed, and replies lost.
    pub client_faults: bool,
    /// What is done to servers, as far as it can be.
    pub server_faults: Vec<ServerFault>,
    /// Whether a grant that comes before the former holder's client would have reported the loss
    /// is only counted, while servers stand still or are cut off: of Apache `ZooKeeper`, whose
    /// followers answer pings by themselves.
    pub early_grants_are_counted: bool,
    /// A lock that is broken on purpose.
    pub planted_bug: Option<PlantedBug>,
}

impl Settings {
    /// Every recipe and every fault for 20 s, by five contenders.
    pub fn new(servers: &str, seed: u64) -> Self {
        Self {
            servers: servers.to_owned(),
            recipes: Recipe::ALL.to_vec(),
            contenders: 5,
            locks: 1,
            duration: Duration::from_secs(20),
            last_turn_max: Duration::from_mins(1),
            seed,
            session_timeout: Duration::from_secs(2),
            client_faults: true,
            server_faults: vec![
                ServerFault::Kill,
                ServerFault::Pause,
                ServerFault::Isolate,
                ServerFault::SlowDisk,
            ],
            early_grants_are_counted: false,
            planted_bug: None,
        }
    }

    /// The addresses of the connect string, each with its port. The seed decides which one is first.
    pub(crate) fn addresses(&self) -> Result<String, TortureError> {
        let servers: ConnectString = self.servers.parse()?;
        if servers.chroot() != "/" {
            return Err(TortureError::Chroot(servers.chroot().to_owned()));
        }
        let count = servers.addresses().len();
        let first = Random::fork(self.seed, FIRST_SERVER).index(count);
        Ok(rotated(&servers.addresses().join(","), first))
    }
}

/// A lock that is broken on purpose, to see that the checks find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// Contender 0 enters the queues of mutexes and does not wait.
    IgnoresQueue,
    /// No writes are fenced.
    NoFence,
}

/// Why a run could not be made. What a run finds is in its [`Report`](crate::Report).
#[derive(Debug, Error)]
pub enum TortureError {
    /// The servers did not do what a run needs before its first fault.
    #[error("servers: {0}")]
    Client(#[from] Error),
    /// The machine did not.
    #[error("machine: {0}")]
    Io(#[from] std::io::Error),
    /// It was stopped.
    #[error("the run was stopped")]
    Stopped,
    /// The connect string has a root path, and a run looks at the whole tree.
    #[error("the connect string has a root path, {0}: a run needs the whole tree")]
    Chroot(String),
    /// A run needs two contenders, one lock and one recipe at least.
    #[error("a run needs a recipe, a lock and two contenders at least")]
    Nothing,
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
        let of = |servers: &str| Settings::new(servers, 7).addresses();
        assert_eq!(of("localhost").unwrap(), "localhost:2181");
        let mut both: Vec<String> = of("a:1, b").unwrap().split(',').map(str::to_owned).collect();
        both.sort();
        assert_eq!(both, ["a:1", "b:2181"]);
        assert!(matches!(of("a:1/app"), Err(TortureError::Chroot(path)) if path == "/app"));
        assert!(of("a:b").is_err());
        assert_eq!(rotated("a,b,c", 4), "b,c,a");
    }
}
