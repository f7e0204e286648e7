//! Who waits for whom over all locks, and the deadlocks, each confirmed by a second look.

use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::deadlock::{Deadlock, Spot, deadlocks, waits_for_itself};
use super::queue::{Lock, Member};
use super::scan::{REQUESTS_MAX, Scanned, Scope, scan};
use crate::reader::{ReadError, Reader};

/// How often the locks are looked at if what looks like a deadlock has gone at a second look.
const LOOKS_MAX: usize = 3;

/// The locks that were found, and the deadlocks in them.
#[derive(Clone, Debug)]
pub struct WaitGraph {
    /// What was found.
    pub scanned: Scanned,
    /// Which of the deadlocks that these locks show a second look has found as well.
    confirmed: Vec<usize>,
}

/// One that waits, and those that it waits for.
#[derive(Clone, Debug)]
pub struct Edges<'a> {
    /// The one that waits.
    pub waiter: Spot<'a>,
    /// Those that precede it and that it waits for; it waits as well for those that they wait for.
    pub before: Vec<&'a Member>,
    /// Whether it is enough that one of them goes.
    pub any: bool,
}

impl WaitGraph {
    /// Looks at the locks until no deadlock among them has gone at a second look, three times at most.
    /// `progress` is called with the znodes looked at so far, and those of them with places.
    pub async fn look(
        scope: Scope<'_>,
        reader: &Reader,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<Self, ReadError> {
        let mut look = 1;
        loop {
            let scanned = scan(scope, reader, &mut progress).await?;
            let found = deadlocks(&scanned.locks);
            let mut confirmed = Vec::new();
            for (index, deadlock) in found.iter().enumerate() {
                if is_still_there(deadlock, reader).await? {
                    confirmed.push(index);
                }
            }
            if confirmed.len() == found.len() || look == LOOKS_MAX {
                return Ok(Self { scanned, confirmed });
            }
            look += 1;
        }
    }

    /// Returns the locks, by path.
    pub fn locks(&self) -> &[Lock] {
        &self.scanned.locks
    }

    /// Returns the deadlocks that were confirmed.
    pub fn deadlocks(&self) -> Vec<Deadlock<'_>> {
        let found = deadlocks(self.locks()).into_iter().enumerate();
        found.filter(|(index, _)| self.confirmed.contains(index)).map(|(_, it)| it).collect()
    }

    /// Returns the places of sessions that hold a lock and wait for the same lock.
    pub fn waits_for_itself(&self) -> Vec<Spot<'_>> {
        waits_for_itself(self.locks())
    }

    /// Returns all waits, lock by lock.
    pub fn edges(&self) -> impl Iterator<Item = Edges<'_>> {
        self.locks().iter().flat_map(|lock| {
            lock.waits().into_iter().filter_map(move |wait| {
                let member = lock.members.get(wait.waiter)?;
                let before = wait.before.iter().filter_map(|it| lock.members.get(*it)).collect();
                Some(Edges { waiter: Spot { lock, member }, before, any: wait.any })
            })
        })
    }
}

/// The locks were read one after the other, so those of a cycle may never have been held at the same
/// time. They were if all its places, seen before, exist now: each one that held or waited did so
/// when the last one was read.
async fn is_still_there(deadlock: &Deadlock<'_>, reader: &Reader) -> Result<bool, ReadError> {
    let is_there = async |member: &Member| {
        let stat = reader.exists(&member.path).await?;
        Ok(stat.is_some_and(|stat| stat.czxid == member.stat.czxid))
    };
    let there = stream::iter(deadlock.members()).map(is_there).buffered(REQUESTS_MAX);
    there.try_all(async |is_there| is_there).await
}
