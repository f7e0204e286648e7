//! Server processes of the harness, for the lock torture.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use zoolet_torture::{Judged, Lock, Promise, Recipe, Report, ServerFault, Violation};

use crate::faults::netns::Lost;
use crate::faults::netns_ensemble::NetnsEnsemble;
use crate::four_letter;
use crate::servers::{Servers, ServersError};
use crate::slow_disk;

/// How long a sync of a slow disk takes.
const SLOW_SYNC: Duration = Duration::from_millis(300);

/// How many broken promises of one run are printed.
const VIOLATIONS_SHOWN_MAX: usize = 10;

/// Servers that several runs hurt, one after the other.
#[derive(Clone, Debug)]
pub struct ProcessNemesis {
    shared: Arc<Mutex<Servers>>,
    /// Whether their disks can be made slow: they were started with [`slow_disk::wrapper`].
    disks: bool,
}

impl ProcessNemesis {
    pub fn new(servers: Servers) -> Self {
        Self { shared: Arc::new(Mutex::new(servers)), disks: false }
    }

    /// The same, of servers whose disks can be made slow.
    pub fn with_disks(servers: Servers) -> Self {
        Self { disks: true, ..Self::new(servers) }
    }

    /// `127.0.0.1:PORT,…` of all servers, running or not.
    pub fn connect_string(&self) -> String {
        self.servers().connect_string()
    }

    pub fn servers(&self) -> MutexGuard<'_, Servers> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl zoolet_torture::Servers for ProcessNemesis {
    fn count(&self) -> usize {
        self.servers().client_ports().len()
    }

    fn can(&self, fault: ServerFault) -> bool {
        match fault {
            ServerFault::Kill | ServerFault::Pause => true,
            ServerFault::SlowDisk => self.disks,
            ServerFault::Isolate => false,
        }
    }

    fn leader(&mut self) -> Option<usize> {
        self.servers().leader()
    }

    fn strike(&mut self, server: usize, fault: ServerFault) -> io::Result<()> {
        let mut servers = self.servers();
        match fault {
            ServerFault::Kill => servers.kill(server).map_err(other),
            ServerFault::Pause => servers.signal(server, "STOP").map_err(other),
            ServerFault::SlowDisk => slow_disk::slow(&servers.server_dir(server), SLOW_SYNC),
            ServerFault::Isolate => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn mend(&mut self, server: usize, fault: ServerFault) -> io::Result<()> {
        let mut servers = self.servers();
        match fault {
            ServerFault::Kill => servers.restart(server).map_err(other),
            ServerFault::Pause => servers.signal(server, "CONT").map_err(other),
            ServerFault::SlowDisk => slow_disk::fast(&servers.server_dir(server)),
            ServerFault::Isolate => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// Servers on machines of a network that is cut.
#[derive(Clone, Debug)]
pub struct NetnsNemesis {
    ensemble: Arc<Mutex<NetnsEnsemble>>,
    addresses: Vec<SocketAddr>,
}

impl NetnsNemesis {
    pub fn new(ensemble: NetnsEnsemble) -> Self {
        let addresses = ensemble.addresses();
        Self { ensemble: Arc::new(Mutex::new(ensemble)), addresses }
    }

    /// `ADDRESS:PORT,…` of all servers.
    pub fn connect_string(&self) -> String {
        let addresses: Vec<String> = self.addresses.iter().map(SocketAddr::to_string).collect();
        addresses.join(",")
    }
}

impl zoolet_torture::Servers for NetnsNemesis {
    fn count(&self) -> usize {
        self.addresses.len()
    }

    fn can(&self, fault: ServerFault) -> bool {
        fault != ServerFault::SlowDisk
    }

    fn leader(&mut self) -> Option<usize> {
        let leads = |address: &SocketAddr| four_letter::mode(*address).as_deref() == Some("leader");
        self.addresses.iter().position(leads)
    }

    fn strike(&mut self, server: usize, fault: ServerFault) -> io::Result<()> {
        let others: Vec<usize> = (0..self.addresses.len()).filter(|it| *it != server).collect();
        let mut ensemble = self.ensemble.lock().unwrap_or_else(PoisonError::into_inner);
        match fault {
            ServerFault::Kill => ensemble.kill(server),
            ServerFault::Pause => ensemble.signal(server, "STOP"),
            ServerFault::Isolate => {
                let cut = ensemble.network.cut_between(&[server], &others, Lost::Both);
                cut.map_err(io::Error::other)
            }
            ServerFault::SlowDisk => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn mend(&mut self, server: usize, fault: ServerFault) -> io::Result<()> {
        let mut ensemble = self.ensemble.lock().unwrap_or_else(PoisonError::into_inner);
        match fault {
            ServerFault::Kill => ensemble.restart(server).map_err(io::Error::other),
            ServerFault::Pause => ensemble.signal(server, "CONT"),
            ServerFault::Isolate => ensemble.network.heal().map_err(io::Error::other),
            ServerFault::SlowDisk => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

fn other(error: ServersError) -> io::Error {
    io::Error::other(error)
}

/// What many runs have shown together.
#[derive(Debug, Default)]
pub struct Summary {
    seeds: usize,
    seconds: u64,
    faults: BTreeMap<&'static str, usize>,
    grants: BTreeMap<&'static str, usize>,
    others: BTreeMap<&'static str, usize>,
    refused: usize,
    early: usize,
    wakes: usize,
    hand_overs: usize,
    hand_over_max: Duration,
    gaps: usize,
    verified: usize,
    unverified: usize,
    by_recipe: BTreeMap<Recipe, Judged>,
    violations: usize,
    /// Runs that prove too little by themselves.
    inconclusive: usize,
    handed_over_us: Vec<u64>,
    taken_over_us: Vec<u64>,
    failed: Vec<u64>,
    broken: Vec<String>,
}

impl Summary {
    pub fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.seconds += report.duration.as_secs();
        for (kind, count) in &report.faults {
            *self.faults.entry(*kind).or_default() += count;
        }
        for (recipe, count) in &report.grants {
            *self.grants.entry(recipe.name()).or_default() += count;
        }
        for (recipe, count) in &report.others {
            *self.others.entry(recipe.name()).or_default() += count;
        }
        let verdict = &report.verdict;
        self.refused += verdict.refused;
        self.early += verdict.early_grants;
        self.wakes += verdict.wakes;
        self.hand_overs += verdict.hand_overs;
        self.hand_over_max = self.hand_over_max.max(verdict.hand_over_max);
        self.gaps += verdict.gaps;
        self.verified += verdict.verified;
        self.unverified += verdict.unverified;
        for (recipe, judged) in &verdict.by_recipe {
            self.by_recipe.entry(*recipe).or_default().add(*judged);
        }
        self.handed_over_us.extend(report.handed_over.micros());
        self.taken_over_us.extend(report.taken_over.micros());
        self.judge(report.seed, &verdict.violations);
    }

    /// One short run alone may prove nothing; all of them together have to.
    fn judge(&mut self, seed: u64, violations: &[Violation]) {
        let (inconclusive, broken): (Vec<_>, Vec<_>) =
            violations.iter().partition(|it| it.promise == Promise::Proves);
        self.inconclusive += usize::from(!inconclusive.is_empty());
        self.violations += broken.len();
        if !broken.is_empty() {
            self.failed.push(seed);
        }
        let broken = broken.into_iter().map(|violation| format!("seed {seed}: {violation}"));
        self.broken.extend(broken.take(VIOLATIONS_SHOWN_MAX));
    }

    /// The promises that were broken, with the seeds; the first few of each run.
    pub fn broken(&self) -> &[String] {
        &self.broken
    }

    /// What all runs together do not prove. `whole` says that they were as many as it takes for
    /// every fault of `kinds` to come up.
    pub fn proves_too_little(&self, whole: Option<&[&'static str]>) -> Vec<String> {
        let mut missing = Vec::new();
        if self.refused == 0 {
            missing.push("no stale write was refused".to_owned());
        }
        for (recipe, judged) in &self.by_recipe {
            let Judged { verified, unverified, wakes, hand_overs } = judged;
            if verified <= unverified {
                missing.push(format!(
                    "{recipe}: gaps of the log leave {unverified} grants open; {verified} are verified"
                ));
            }
            // Those without a queue have no order in which to wake.
            let has_queue = Lock::new(*recipe, String::new()).queue().is_some();
            if has_queue && (*wakes == 0 || *hand_overs == 0 && *recipe != Recipe::SharedSemaphore)
            {
                missing.push(format!(
                    "{recipe}: {wakes} wakes and {hand_overs} hand-overs could be judged"
                ));
            }
        }
        for (recipe, _) in self.grants.iter().filter(|(_, grants)| **grants == 0) {
            missing.push(format!("no grant of a {recipe}"));
        }
        let recipes = Recipe::ALL.into_iter().filter(|recipe| !recipe.is_lock());
        for recipe in recipes.filter(|recipe| !self.others.contains_key(recipe.name())) {
            missing.push(format!("nothing was done with a {recipe}"));
        }
        let kinds = whole.unwrap_or_default().iter();
        for kind in kinds.filter(|kind| !self.faults.contains_key(*kind)) {
            missing.push(format!("never: {kind}"));
        }
        missing
    }

    pub fn json(&self) -> Value {
        let times = |times: &[u64]| {
            json!({"count": times.len(), "p50_us": share(times, 500), "p99_us": share(times, 990),
                   "max_us": share(times, 1000)})
        };
        json!({
            "seeds": self.seeds,
            "seconds": self.seconds,
            "faults": self.faults,
            "grants": self.grants,
            "others": self.others,
            "stale_writes_refused": self.refused,
            "early_grants": self.early,
            "wakes_judged": self.wakes,
            "hand_overs_judged": {
                "count": self.hand_overs,
                "max_us": u64::try_from(self.hand_over_max.as_micros()).unwrap_or(u64::MAX),
            },
            "log": {"gaps": self.gaps, "grants_verified": self.verified,
                    "grants_unverified": self.unverified},
            "violations": self.violations,
            "inconclusive_seeds": self.inconclusive,
            "failed_seeds": self.failed,
            "handed_over": times(&self.handed_over_us),
            "taken_over": times(&self.taken_over_us),
        })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let grants: usize = self.grants.values().sum();
        let faults: usize = self.faults.values().sum();
        let others: usize = self.others.values().sum();
        let ms = |times: &[u64], part| {
            let us = share(times, part);
            format!("{}.{} ms", us / 1000, us % 1000 / 100)
        };
        write!(
            f,
            "{} seeds, {} s of {faults} faults, {grants} grants and {others} other turns; \
             handed over in {} (median), {} (99 %); {} wakes and {} hand-overs judged, these within \
             {:.1?}; taken over from the lost in {} (median), {} (99 %); {} stale writes refused; \
             {} gaps in the log, {} grants verified, {} open; \
             {} seeds prove too little by themselves; {} violations",
            self.seeds,
            self.seconds,
            ms(&self.handed_over_us, 500),
            ms(&self.handed_over_us, 990),
            self.wakes,
            self.hand_overs,
            self.hand_over_max,
            ms(&self.taken_over_us, 500),
            ms(&self.taken_over_us, 990),
            self.refused,
            self.gaps,
            self.verified,
            self.unverified,
            self.inconclusive,
            self.violations,
        )?;
        if !self.failed.is_empty() {
            write!(f, "; failed seeds {:?}", self.failed)?;
        }
        Ok(())
    }
}

/// The time that `per_mille` of a thousand do not exceed.
fn share(times_us: &[u64], per_mille: usize) -> u64 {
    let mut sorted = times_us.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().saturating_sub(1);
    sorted.get(last * per_mille / 1000).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_proves_too_little_breaks_no_promise() {
        let of = |promise| Violation { promise, what: String::new() };
        let mut summary = Summary::default();
        summary.judge(7, &[of(Promise::Proves)]);
        summary.judge(8, &[of(Promise::Proves), of(Promise::InTurn), of(Promise::OneHolder)]);
        summary.judge(9, &[]);
        assert_eq!((summary.inconclusive, summary.violations), (2, 2));
        assert_eq!((summary.failed.as_slice(), summary.broken().len()), (&[8][..], 2));
    }
}
