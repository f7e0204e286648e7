//! What all experiments with a group have: its store, its program, a referee.

use std::process::Command;
use std::time::Duration;

use tokio::runtime::Handle;

use super::LEASE;
use super::error::CompareError;
use super::observation::Observations;
use super::referee::Referee;
use super::resource::Who;
use super::store::Store;
use super::way::Group;

/// How long contenders may take to get locks that are free.
pub(super) const FREE_MAX: Duration = Duration::from_secs(30);
/// How long it is waited for a lock that its holder may have lost.
pub(super) const TAKEN_MAX: Duration = LEASE.saturating_mul(2);
/// How long a releasing contender may take, and one that waits for the lock.
pub(super) const RELEASED_MAX: Duration = LEASE.saturating_mul(4);
/// For waiters to have asked the store.
pub(super) const SETTLE: Duration = Duration::from_millis(400);

#[derive(Debug)]
pub(super) struct Stage<'a> {
    pub(super) group: &'a Group,
    pub(super) store: &'a mut dyn Store,
    pub(super) command: &'a Command,
    pub(super) runtime: &'a Handle,
    pub(super) seen: &'a mut Observations,
}

impl Stage<'_> {
    pub(super) fn referee(&self) -> Referee {
        Referee::new(self.runtime.clone())
    }

    /// Starts a process with a contender of each way, behind links.
    pub(super) fn start(&self, referee: &mut Referee, topic: &str) -> Result<usize, CompareError> {
        let ways = self.group.ways.iter();
        let contenders = ways.map(|way| (*way, lock_name(topic, way.name))).collect();
        referee.start(self.command, &self.store.addresses(), contenders, true)
    }

    /// The contenders of such a process, in the order of the ways.
    pub(super) fn all(&self, process: usize) -> Vec<Who> {
        (0..self.group.ways.len()).map(|number| Who { process, number }).collect()
    }

    /// The title of the group in messages.
    pub(super) fn name(&self) -> &'static str {
        self.group.ways.first().map_or("", |way| way.name)
    }

    /// Ends a turn of all contenders of a process that hold something.
    pub(super) fn leave(&self, referee: &mut Referee, process: usize) -> Result<(), CompareError> {
        referee.leave(&self.all(process), RELEASED_MAX)
    }
}

pub(super) fn lock_name(topic: &str, way: &str) -> String {
    format!("{topic}-{way}")
}
