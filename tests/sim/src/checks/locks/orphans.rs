//! K5: nothing is left behind in the queue of a lock.

use std::collections::{BTreeMap, BTreeSet};

use zoolet_jute::SessionId;

use super::grants::Notes;
use super::queue::Queues;
use crate::checks::{Run, Violation};
use crate::history::{ClientNumber, LockStep, What};

pub(super) const K5: &str = "K5 nothing left";

/// Looks at the queues at the end of the run. A znode there must be of a client that holds or waits,
/// or be younger than a client needs to clean up.
pub(super) fn check(run: &Run<'_>, notes: &Notes, queues: &Queues, found: &mut Vec<Violation>) {
    let clients = clients(run);
    for (lock, directory) in
        notes.last.keys().flat_map(|lock| directories(lock).map(|directory| (lock, directory)))
    {
        let active = active(notes, lock);
        let Some(queue) = queues.get(&directory) else { continue };
        for place in queue.left().filter(|place| place.number.is_some()) {
            // A session whose requests are not recorded may be that of anyone who waits.
            let is_expected = match clients.get(&place.owner) {
                Some(client) => active.contains(client),
                None => !active.is_empty(),
            };
            let Some(one) = run.model.transaction(place.created) else { continue };
            let last = notes.last.get(lock).copied().unwrap_or_default();
            let since = one.first_at.max(last).max(run.history.healed_at);
            if !is_expected && since + run.options.orphans_after <= run.history.ended_at {
                let what = format!(
                    "{} of session {} is left from {} on, and its client neither holds {lock} nor waits \
                     for it",
                    place.path, place.owner, one.first_at
                );
                found.push(Violation { promise: K5, at: run.history.ended_at, what });
            }
        }
    }
}

/// Whose the sessions are that are known.
pub(super) fn clients(run: &Run<'_>) -> BTreeMap<SessionId, ClientNumber> {
    let links = run.links.values().filter_map(|link| link.granted);
    let mut clients: BTreeMap<SessionId, ClientNumber> =
        links.map(|granted| (granted.session, granted.client)).collect();
    for record in &run.history.records {
        if let What::Lock { client, step: LockStep::Granted { session, .. }, .. } = &record.what {
            clients.insert(*session, *client);
        }
    }
    clients
}

/// Where the contenders for a lock have their znodes: below it, or below two znodes of a semaphore.
pub(super) fn directories(lock: &str) -> [String; 3] {
    [lock.to_owned(), format!("{lock}/leases"), format!("{lock}/locks")]
}

/// The clients that hold a lock or wait for it at the end.
fn active(notes: &Notes, lock: &str) -> BTreeSet<ClientNumber> {
    let holders = notes.grants.iter().filter(|grant| grant.lock == lock && grant.over().is_none());
    let waiters = notes.waits.keys().filter(|(_, other)| other == lock);
    holders.map(|grant| grant.client).chain(waiters.map(|(client, _)| *client)).collect()
}
