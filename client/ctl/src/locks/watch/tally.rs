//! What happens to locks from one look to the next.

use std::collections::{BTreeMap, BTreeSet};

use zoolet_client::{SessionId, Stat};
use zoolet_survey::locks::{Lock, Member, Queues, Role};

use crate::locks::clients::Clients;

/// At how many looks a holder must have had no connection for its end to count as an expiry. A program
/// that gives a lock up and ends between the two parts of one look is seen without a connection once.
const SILENT_LOOKS_MIN: u32 = 2;

/// One look at all locks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look<'a> {
    pub(super) at_ms: i64,
    pub(super) queues: &'a Queues,
    pub(super) locks: &'a [Lock],
    /// Who has a connection, asked behind the others.
    pub(super) clients: &'a Clients,
}

/// What is shown of a lock.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) path: String,
    pub(super) kind: &'static str,
    /// Of several the one that has held longest.
    pub(super) holder: Option<SessionId>,
    pub(super) holders: usize,
    pub(super) held_since_ms: Option<i64>,
    pub(super) waiters: usize,
    pub(super) waiting_since_ms: Option<i64>,
    pub(super) hand_overs_per_s: f64,
    /// Unknown while a server does not report who is connected.
    pub(super) expired: Option<u64>,
}

/// The locks that were seen, by their paths and kinds.
#[derive(Debug, Default)]
pub(super) struct Tally {
    tracks: BTreeMap<(String, &'static str), Track>,
}

/// One lock from look to look.
#[derive(Debug)]
struct Track {
    began_ms: i64,
    /// The znode that those who hold have their places below.
    parent: String,
    /// Its Stat at the last look.
    stat: Option<Stat>,
    /// How many znodes one place has: two for a bilingual lock.
    znodes_per_place: f64,
    /// The places that have gone.
    gone: f64,
    holders: BTreeMap<String, Holder>,
    waiters: BTreeSet<String>,
    expired: u64,
}

#[derive(Clone, Copy, Debug)]
struct Holder {
    session: SessionId,
    since_ms: i64,
    /// The looks in a row at which it had no connection.
    silent_looks: u32,
}

impl Tally {
    pub(super) fn take(&mut self, look: &Look<'_>) {
        let mut present = BTreeMap::new();
        for lock in look.locks {
            let key = (lock.path.clone(), lock.kind.word());
            if let Some(parent) = parent_of(lock) {
                self.tracks.entry(key.clone()).or_insert_with(|| Track::new(parent, look.at_ms));
            }
            present.insert(key, lock);
        }
        // One whose znode has gone is forgotten: it may come back as another one.
        self.tracks.retain(|key, track| {
            present.contains_key(key) || look.queues.contains_key(&track.parent)
        });
        for (key, track) in &mut self.tracks {
            track.count_gone(look, present.get(key).copied());
            track.take_members(look, present.get(key).copied());
        }
    }

    pub(super) fn rows(&self, look: &Look<'_>) -> Vec<Row> {
        let waits: BTreeMap<_, _> = look
            .locks
            .iter()
            .map(|lock| {
                let waiters = lock.members.iter().filter(|member| !member.holds);
                ((lock.path.as_str(), lock.kind.word()), waiters.map(|it| it.stat.ctime).min())
            })
            .collect();
        let row = |((path, kind), track): (&(String, &'static str), &Track)| {
            let longest = track.holders.values().min_by_key(|holder| holder.since_ms);
            let seconds = look.at_ms.saturating_sub(track.began_ms).max(1);
            #[expect(clippy::cast_precision_loss, reason = "a rate is shown with one digit")]
            let seconds = seconds as f64 / 1000.0;
            Row {
                path: path.clone(),
                kind,
                holder: longest.map(|holder| holder.session),
                holders: track.holders.len(),
                held_since_ms: longest.map(|holder| holder.since_ms),
                waiters: track.waiters.len(),
                waiting_since_ms: waits.get(&(path.as_str(), *kind)).copied().flatten(),
                hand_overs_per_s: track.gone / seconds,
                expired: look.clients.are_complete().then_some(track.expired),
            }
        };
        self.tracks.iter().map(row).collect()
    }
}

/// The znode below which those who hold have their places.
fn parent_of(lock: &Lock) -> Option<String> {
    let permits = lock.members.iter().find(|member| member.place.role == Role::Permit);
    let place = permits.or(lock.members.first())?;
    let (parent, _) = place.path.rsplit_once('/')?;
    Some(if parent.is_empty() { "/".to_owned() } else { parent.to_owned() })
}

impl Track {
    fn new(parent: String, began_ms: i64) -> Self {
        Self {
            began_ms,
            parent,
            stat: None,
            znodes_per_place: 1.0,
            gone: 0.0,
            holders: BTreeMap::new(),
            waiters: BTreeSet::new(),
            expired: 0,
        }
    }

    /// A znode's `cversion` counts the children that have come and those that have gone. How many more
    /// there are than before is the difference of the two, so both follow.
    fn count_gone(&mut self, look: &Look<'_>, lock: Option<&Lock>) {
        let Some(listed) = look.queues.get(&self.parent) else { return };
        if let Some(before) = self.stat.filter(|before| before.czxid == listed.stat.czxid) {
            let changes = i64::from(listed.stat.cversion.wrapping_sub(before.cversion));
            let more = i64::from(listed.stat.num_children) - i64::from(before.num_children);
            let gone = u32::try_from((changes - more) / 2).unwrap_or(0);
            self.gone += f64::from(gone) / self.znodes_per_place;
        }
        self.stat = Some(listed.stat);
        if let Some(lock) = lock {
            let (places, pairs) = (lock.members.len(), lock.members.iter());
            let pairs = pairs.filter(|member| member.twin.is_some()).count();
            let count = |count: usize| u32::try_from(count).map_or(f64::MAX, f64::from);
            self.znodes_per_place = count(places + pairs) / count(places.max(1));
        }
    }

    fn take_members(&mut self, look: &Look<'_>, lock: Option<&Lock>) {
        let members = lock.map(|lock| lock.members.as_slice()).unwrap_or_default();
        let (before, waited) =
            (std::mem::take(&mut self.holders), std::mem::take(&mut self.waiters));
        for member in members {
            if member.holds {
                let holder = holder(member, &before, &waited, look);
                self.holders.insert(member.path.clone(), holder);
            } else {
                self.waiters.insert(member.path.clone());
            }
        }
        let lost = before.iter().filter(|(path, holder)| {
            holder.silent_looks >= SILENT_LOOKS_MIN && !self.holders.contains_key(*path)
        });
        self.expired += u64::try_from(lost.count()).unwrap_or(0);
    }
}

fn holder(
    member: &Member,
    before: &BTreeMap<String, Holder>,
    waited: &BTreeSet<String>,
    look: &Look<'_>,
) -> Holder {
    let (session, known) = (member.session(), before.get(&member.path));
    let since_ms = match known {
        Some(holder) => holder.since_ms,
        None if waited.contains(&member.path) => look.at_ms,
        // It has held for this long at most.
        None => member.stat.ctime,
    };
    let is_silent = session != SessionId::NONE
        && look.clients.are_complete()
        && look.clients.address(session).is_none();
    let silent_before = known.map_or(0, |holder| holder.silent_looks);
    Holder { session, since_ms, silent_looks: if is_silent { silent_before + 1 } else { 0 } }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use zoolet_survey::locks::{Kind, Listed, parse};

    use super::*;

    const ID: &str = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed";

    /// The mutex `/a` with the places of these numbers, each of the session of the same number, whose
    /// connections are known; `changes` is the counter of its znode.
    fn look(tally: &mut Tally, at_ms: i64, places: &[i32], changes: i32, connected: &[i32]) -> Row {
        let member = |number: &i32| {
            let name = format!("_c_{ID}-lock-{number:010}");
            let ephemeral_owner = SessionId(i64::from(*number));
            let stat = Stat { ephemeral_owner, ctime: i64::from(*number) * 10, ..Stat::default() };
            let (place, data) = (parse(&name).unwrap(), Bytes::new());
            Member { path: format!("/a/{name}"), place, data, stat, twin: None, holds: false }
        };
        let members: Vec<Member> = places.iter().map(member).collect();
        let locks: Vec<Lock> = (!members.is_empty())
            .then(|| Lock::of_queue("/a".into(), Kind::Mutex, members))
            .into_iter()
            .collect();
        let num_children = i32::try_from(places.len()).unwrap();
        let stat = Stat { cversion: changes, num_children, ..Stat::default() };
        let listed = Listed { places: Vec::new(), leases: Vec::new(), stat };
        let queues = Queues::from([("/a".to_owned(), listed)]);
        let connected: Vec<_> = connected
            .iter()
            .map(|id| (SessionId(i64::from(*id)), "127.0.0.1:1".to_owned()))
            .collect();
        let clients = Clients::known(connected);
        let look = Look { at_ms, queues: &queues, locks: &locks, clients: &clients };
        tally.take(&look);
        tally.rows(&look).remove(0)
    }

    #[test]
    fn a_holder_that_was_seen_to_wait_holds_since_then() {
        let mut tally = Tally::default();
        let first = look(&mut tally, 1000, &[1, 2, 3], 3, &[1, 2, 3]);
        assert_eq!((first.holder, first.held_since_ms), (Some(SessionId(1)), Some(10)));
        assert_eq!((first.waiters, first.waiting_since_ms), (2, Some(20)));
        let next = look(&mut tally, 2000, &[2, 3], 4, &[2, 3]);
        assert_eq!((next.holder, next.held_since_ms), (Some(SessionId(2)), Some(2000)));
        let later = look(&mut tally, 3000, &[2], 5, &[2]);
        assert_eq!((later.held_since_ms, later.waiting_since_ms), (Some(2000), None));
        let free = look(&mut tally, 4000, &[], 6, &[]);
        assert_eq!((free.holder, free.holders, free.waiters), (None, 0, 0));
    }

    #[test]
    fn hand_overs_between_two_looks_are_counted() {
        let mut tally = Tally::default();
        look(&mut tally, 0, &[1, 2], 2, &[]);
        // Fifty places have gone and as many have come.
        let row = look(&mut tally, 5000, &[51, 52], 102, &[]);
        assert!((row.hand_overs_per_s - 10.0).abs() < 0.01, "{row:?}");
        let row = look(&mut tally, 10_000, &[52], 103, &[]);
        assert!((row.hand_overs_per_s - 5.1).abs() < 0.01, "{row:?}");
        // The counter goes on at the lowest number.
        let mut tally = Tally::default();
        look(&mut tally, 0, &[1], i32::MAX, &[]);
        let row = look(&mut tally, 1000, &[2], i32::MIN + 1, &[]);
        assert!((row.hand_overs_per_s - 1.0).abs() < 0.01, "{row:?}");
    }

    #[test]
    fn a_holder_that_goes_without_a_connection_has_expired() {
        let mut tally = Tally::default();
        look(&mut tally, 0, &[1, 2], 2, &[1, 2]);
        look(&mut tally, 1000, &[1, 2], 2, &[2]);
        assert_eq!(look(&mut tally, 2000, &[1, 2], 2, &[2]).expired, Some(0));
        assert_eq!(look(&mut tally, 3000, &[2], 3, &[2]).expired, Some(1));
        // This one gave it up, and its program ended.
        look(&mut tally, 4000, &[2, 3], 4, &[3]);
        assert_eq!(look(&mut tally, 5000, &[3], 5, &[3]).expired, Some(1));
    }
}
