//! Sessions that wait for each other in a circle.

use std::collections::{BTreeMap, BTreeSet};

use zoolet_client::SessionId;
use zoolet_survey::locks::{Kind, Lock};

/// Returns the sets of sessions of which each waits, if only by way of others of them, for each other.
pub(super) fn circles(locks: &[Lock]) -> Vec<Vec<String>> {
    let mut waits: BTreeMap<SessionId, BTreeSet<SessionId>> = BTreeMap::new();
    // No one waits for a holder of a permit, but for any of them.
    for lock in locks.iter().filter(|lock| lock.kind != Kind::Semaphore) {
        let sessions = |holds: bool| {
            let members = lock.members.iter().filter(move |member| member.holds == holds);
            let sessions = members.map(|member| member.stat.ephemeral_owner);
            sessions.filter(|session| *session != SessionId::NONE).collect::<BTreeSet<_>>()
        };
        let holders = sessions(true);
        for waiter in sessions(false) {
            let others = holders.iter().copied().filter(|holder| *holder != waiter);
            waits.entry(waiter).or_default().extend(others);
        }
    }
    let reached: BTreeMap<SessionId, BTreeSet<SessionId>> =
        waits.keys().map(|from| (*from, reach(*from, &waits))).collect();
    let mut circles = BTreeSet::new();
    for (session, others) in &reached {
        if others.contains(session) {
            let is_mutual =
                |other: &&SessionId| reached.get(*other).is_some_and(|of| of.contains(session));
            circles.insert(others.iter().filter(is_mutual).copied().collect::<Vec<_>>());
        }
    }
    let texts = |circle: Vec<SessionId>| circle.iter().map(ToString::to_string).collect();
    circles.into_iter().map(texts).collect()
}

fn reach(from: SessionId, waits: &BTreeMap<SessionId, BTreeSet<SessionId>>) -> BTreeSet<SessionId> {
    let mut seen = BTreeSet::new();
    let mut next = vec![from];
    while let Some(session) = next.pop() {
        for target in waits.get(&session).into_iter().flatten() {
            if seen.insert(*target) {
                next.push(*target);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use zoolet_client::{Bytes, Stat};
    use zoolet_survey::locks::Member;

    use super::*;

    fn lock(path: &str, sessions: &[i64]) -> Lock {
        let member = |(number, session): (usize, &i64)| Member {
            path: format!("{path}/{number}"),
            place: zoolet_survey::locks::parse(&format!("n_{number:010}")).unwrap(),
            data: Bytes::new(),
            stat: Stat { ephemeral_owner: SessionId(*session), ..Stat::default() },
            twin: None,
            holds: false,
        };
        let members = sessions.iter().enumerate().map(member).collect();
        Lock::of_queue(path.to_owned(), Kind::Election, members)
    }

    #[test]
    fn a_circle_of_waits_is_found_and_a_chain_is_none() {
        let chain = [lock("/a", &[1, 2]), lock("/b", &[2, 3])];
        assert!(circles(&chain).is_empty());
        let circle = [lock("/a", &[1, 2]), lock("/b", &[2, 3]), lock("/c", &[3, 1, 4])];
        assert_eq!(circles(&circle), [["0x1", "0x2", "0x3"]]);
    }
}
