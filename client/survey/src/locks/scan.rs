//! Looking for locks below a path, within limits.

use std::collections::BTreeMap;
use std::iter;

use futures_util::stream::{self, StreamExt};
use zoolet_client::{SessionId, Stat};

use super::family::{self, Family, Place, Role};
use super::queue::{Kind, Lock, Member, sort};
use crate::path;
use crate::reader::{ReadError, Reader};

/// How many requests are under way at a time.
pub(super) const REQUESTS_MAX: usize = 64;

/// The queue of a Curator semaphore, below its path.
const LOCKS: &str = "locks";

/// The permits of a Curator semaphore that are taken.
const LEASES: &str = "leases";

/// What kazoo appends to the path of a semaphore for that of its queue.
const KAZOO_QUEUE: &str = "-__lock__";

/// Where locks are looked for, and which.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// They are at this path or below.
    pub top: &'a str,
    /// Whether queues of unknown clients are among them, not only at the top.
    pub all: bool,
    /// How much is looked at.
    pub limits: Limits,
}

impl Scope<'_> {
    /// Whether places of unknown clients count at a path: who names it takes it for a lock. The root is
    /// where one looks for all of them.
    fn takes_unknown(&self, path: &str) -> bool {
        self.all || (path == self.top && path != "/")
    }
}

/// How much is looked at. What is left out then is behind what is shown.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most znodes whose children are listed.
    pub znodes_max: usize,
    /// The most places in queues that are read.
    pub places_max: usize,
}

impl Limits {
    /// Everything is looked at.
    pub const NONE: Self = Self { znodes_max: usize::MAX, places_max: usize::MAX };
}

/// The locks that were found.
#[derive(Clone, Debug)]
pub struct Scanned {
    /// The locks, by path.
    pub locks: Vec<Lock>,
    /// How many znodes were looked at.
    pub visited: usize,
    /// Whether no limit was reached.
    pub is_complete: bool,
}

/// The queues that were found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The queues.
    pub queues: Queues,
    /// How many znodes were looked at.
    pub visited: usize,
    /// Whether no limit was reached.
    pub is_complete: bool,
}

/// What a znode's children say about the queues below it.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The names of places.
    pub places: Vec<String>,
    /// The names that permits of kazoo may have.
    pub leases: Vec<String>,
    /// The Stat of the znode.
    pub stat: Stat,
}

impl Listed {
    fn len(&self) -> usize {
        self.places.len() + self.leases.len()
    }

    /// Keeps this number of names at most: the first ones of the queue, among which are its holders.
    fn truncate(&mut self, max: usize) {
        let number = |name: &String| place_of(name, true).map_or(0, |place| place.number);
        if let Some(origin) = self.places.first().map(number) {
            // The numbers go on behind the end of 32 bits.
            self.places.sort_by_key(|name| number(name).wrapping_sub(origin));
        }
        self.places.truncate(max);
        self.leases.truncate(max - self.places.len());
    }
}

/// The znodes that have places below them, by their paths.
pub type Queues = BTreeMap<String, Listed>;

/// The places that were read before, by their paths.
pub type Known = BTreeMap<String, Member>;

/// Returns the locks at a path and below. `progress` is called with the znodes looked at so far, and
/// those of them with places.
pub async fn scan(
    scope: Scope<'_>,
    reader: &Reader,
    progress: impl FnMut(usize, usize),
) -> Result<Scanned, ReadError> {
    let Found { queues, visited, is_complete } = find(scope, reader, progress).await?;
    let locks = locks_of(scope, &queues, &mut Known::new(), reader).await?;
    Ok(Scanned { locks, visited, is_complete })
}

/// Looks at the children of all znodes from one downwards.
pub async fn find(
    scope: Scope<'_>,
    reader: &Reader,
    mut progress: impl FnMut(usize, usize),
) -> Result<Found, ReadError> {
    let Limits { znodes_max, places_max } = scope.limits;
    let mut found = Found { queues: Queues::new(), visited: 0, is_complete: znodes_max > 0 };
    let mut room = places_max;
    // Invariant: visited + level.len() <= znodes_max. A level is as wide as its tree otherwise.
    let mut level: Vec<String> = iter::once(scope.top.to_owned()).take(znodes_max).collect();
    while !level.is_empty() {
        found.visited += level.len();
        progress(found.visited, found.queues.len());
        let mut lists = stream::iter(std::mem::take(&mut level))
            .map(|path| list(path, scope.top, reader))
            .buffered(REQUESTS_MAX);
        while let Some(listed) = lists.next().await {
            let Some((path, names, stat)) = listed? else { continue };
            let (mut listed, others) = sort_out(names, stat, scope.takes_unknown(&path));
            let left = znodes_max - found.visited - level.len();
            found.is_complete &= add_children(&mut level, &path, &others, left);
            let is_too_long = listed.len() > room;
            if is_too_long {
                listed.truncate(room);
            }
            room -= listed.len();
            if listed.len() > 0 {
                found.queues.insert(path, listed);
            }
            if is_too_long {
                found.is_complete = false;
                return Ok(found);
            }
        }
    }
    Ok(found)
}

/// Adds the paths of children, up to this number of them. Returns whether none is left out.
fn add_children(level: &mut Vec<String>, parent: &str, names: &[String], room: usize) -> bool {
    level.extend(names.iter().take(room).map(|name| path::join(parent, name)));
    names.len() <= room
}

/// Looks at the children of these znodes alone; those that have gone are left out.
pub async fn find_again(
    scope: Scope<'_>,
    paths: Vec<String>,
    reader: &Reader,
) -> Result<Queues, ReadError> {
    let lists = stream::iter(paths).map(|path| list(path, "", reader));
    let mut lists = lists.buffer_unordered(REQUESTS_MAX);
    let mut found = Queues::new();
    while let Some(listed) = lists.next().await {
        let Some((path, names, stat)) = listed? else { continue };
        let places = sort_out(names, stat, scope.takes_unknown(&path)).0;
        found.insert(path, places);
    }
    Ok(found)
}

/// Takes the places of queues out of the names of children, and returns the others too.
fn sort_out(names: Vec<String>, stat: Stat, all: bool) -> (Listed, Vec<String>) {
    let (places, others): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|name| place_of(name, all).is_some());
    let leases = others.iter().filter(|name| family::is_kazoo_lease(name)).cloned().collect();
    (Listed { places, leases, stat }, others)
}

/// Returns the locks of these queues, and the one that the top itself may be. Places that are known are not
/// read again: only names with a number are, which no other place has.
pub async fn locks_of(
    scope: Scope<'_>,
    queues: &Queues,
    known: &mut Known,
    reader: &Reader,
) -> Result<Vec<Lock>, ReadError> {
    let before = std::mem::take(known);
    let mut locks = Vec::new();
    locks.extend(simple(scope.top, reader).await?);
    for (path, listed) in queues {
        let all = scope.takes_unknown(path);
        let members = read(path, &listed.places, all, &before, reader).await?;
        known.extend(members.iter().map(|member| (member.path.clone(), member.clone())));
        locks.extend(of_members(path, members));
        locks.extend(kazoo_semaphore(path, &listed.leases, reader).await?);
    }
    join_semaphores(locks, reader).await
}

/// Returns the lock at a path, without a look at what else is below it; `None` if its queue is empty.
pub async fn at(top: &str, reader: &Reader) -> Result<Option<Lock>, ReadError> {
    let mut locks = Vec::new();
    for path in [top.to_owned(), path::join(top, LEASES), path::join(top, LOCKS)] {
        let names = match reader.children(&path).await {
            Ok((names, _)) => names,
            Err(error) if error.is_passed_over() => continue,
            Err(error) => return Err(error),
        };
        let places: Vec<String> =
            names.into_iter().filter(|name| family::parse(name).is_some()).collect();
        let members = read(&path, &places, false, &Known::new(), reader).await?;
        locks.extend(of_members(&path, members));
    }
    let locks = join_semaphores(locks, reader).await?;
    Ok(locks.into_iter().find(|lock| lock.path == top && lock.kind != Kind::Election))
}

fn place_of(name: &str, all: bool) -> Option<Place> {
    family::parse(name).or_else(|| all.then(|| family::parse_unknown(name))?)
}

/// A znode's children and its Stat; `None` if it has gone or may not be read, but for the top one.
async fn list(
    path: String,
    top: &str,
    reader: &Reader,
) -> Result<Option<(String, Vec<String>, Stat)>, ReadError> {
    match reader.children(&path).await {
        Ok((names, stat)) => Ok(Some((path, names, stat))),
        Err(error) if path != top && error.is_passed_over() => Ok(None),
        Err(error) => Err(error),
    }
}

/// What the places in a queue hold; those that go meanwhile are left out.
async fn read(
    path: &str,
    names: &[String],
    all: bool,
    known: &Known,
    reader: &Reader,
) -> Result<Vec<Member>, ReadError> {
    let read_one = async |name: &String| {
        let Some(place) = place_of(name, all) else { return Ok(None) };
        let path = path::join(path, name);
        match known.get(&path) {
            Some(member) => Ok(Some(member.clone())),
            None => member(path, place, reader).await,
        }
    };
    let mut reads = stream::iter(names).map(read_one).buffer_unordered(REQUESTS_MAX);
    let mut members = Vec::new();
    while let Some(member) = reads.next().await {
        members.extend(member?);
    }
    // Who is unknown is worth a look only if it goes with its session.
    members.retain(|member| {
        member.place.family != Family::Unknown || member.stat.ephemeral_owner != SessionId::NONE
    });
    Ok(members)
}

async fn member(path: String, place: Place, reader: &Reader) -> Result<Option<Member>, ReadError> {
    match reader.get(&path).await {
        Ok((data, stat)) => Ok(Some(Member { path, place, data, stat, twin: None, holds: false })),
        Err(error) if error.is_passed_over() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The locks that the places below one path make: an election is one of its own.
fn of_members(path: &str, members: Vec<Member>) -> Vec<Lock> {
    let (permits, members): (Vec<_>, Vec<_>) =
        members.into_iter().partition(|member| member.place.role == Role::Permit);
    let (elections, locks): (Vec<_>, Vec<_>) =
        members.into_iter().partition(|member| member.place.role == Role::Election);
    let shares = locks.iter().any(|m| matches!(m.place.role, Role::Read | Role::Write));
    let kind = if shares { Kind::ReadWrite } else { Kind::Mutex };
    let queues = [(kind, locks), (Kind::Election, elections)];
    let mut locks: Vec<Lock> = queues
        .into_iter()
        .filter(|(_, members)| !members.is_empty())
        .map(|(kind, members)| Lock::of_queue(path.to_owned(), kind, members))
        .collect();
    if !permits.is_empty() {
        locks.push(semaphore(path, permits, None));
    }
    locks
}

/// A semaphore whose permits these are.
fn semaphore(path: &str, mut members: Vec<Member>, permits: Option<u64>) -> Lock {
    sort(&mut members);
    for member in &mut members {
        member.holds = true;
    }
    let mut lock = Lock {
        path: path.to_owned(),
        kind: Kind::Semaphore,
        members,
        permits,
        warnings: Vec::new(),
    };
    lock.warn_of_permanent();
    lock
}

/// kazoo's semaphore keeps its permits as children without numbers, and their count as data.
async fn kazoo_semaphore(
    path: &str,
    leases: &[String],
    reader: &Reader,
) -> Result<Option<Lock>, ReadError> {
    let read_one = async |name: &String| {
        let (path, id) = (path::join(path, name), Some(name.clone()));
        // Such names are common, and the data of another one may be long.
        let stat = reader.exists(&path).await?;
        if stat.is_none_or(|stat| stat.ephemeral_owner == SessionId::NONE) {
            return Ok(None);
        }
        let place = Place { family: Family::Kazoo, role: Role::Permit, number: 0, id };
        member(path, place, reader).await
    };
    let mut reads = stream::iter(leases).map(read_one).buffer_unordered(REQUESTS_MAX);
    let mut members = Vec::new();
    while let Some(member) = reads.next().await {
        members.extend(member?);
    }
    members.retain(|member| member.stat.ephemeral_owner != SessionId::NONE);
    if members.is_empty() {
        return Ok(None);
    }
    let permits = match reader.get(path).await {
        Ok((data, _)) => String::from_utf8_lossy(&data).trim().parse().ok(),
        Err(error) if error.is_passed_over() => None,
        Err(error) => return Err(error),
    };
    Ok(Some(semaphore(path, members, permits)))
}

/// An ephemeral znode whose very path is asked for is a lock in itself.
async fn simple(top: &str, reader: &Reader) -> Result<Option<Lock>, ReadError> {
    let place = Place { family: Family::Unknown, role: Role::Mutex, number: 0, id: None };
    let member = member(top.to_owned(), place, reader).await?;
    let member = member.filter(|member| member.stat.ephemeral_owner != SessionId::NONE);
    Ok(member.map(|member| Lock {
        path: top.to_owned(),
        kind: Kind::Simple,
        members: vec![Member { holds: true, ..member }],
        permits: Some(1),
        warnings: Vec::new(),
    }))
}

/// Puts the queue of a semaphore behind its permits: `P/leases` and `P/locks` of Curator, `P` and
/// `P-__lock__` of kazoo. Who is first in such a queue holds no permit yet.
async fn join_semaphores(locks: Vec<Lock>, reader: &Reader) -> Result<Vec<Lock>, ReadError> {
    let mut joined: Vec<Lock> = Vec::new();
    let mut queues = Vec::new();
    for mut lock in locks {
        let is_queue = lock.kind == Kind::Mutex;
        let semaphore = if is_queue { queue_of(&lock.path, reader).await? } else { None };
        if let Some(path) = semaphore {
            queues.push(Lock { path, kind: Kind::Semaphore, ..lock });
            continue;
        }
        if lock.kind == Kind::Semaphore
            && let Some(path) = parent_of(&lock.path, LEASES)
        {
            lock.path = path;
        }
        joined.push(lock);
    }
    for mut queue in queues {
        for member in &mut queue.members {
            member.holds = false;
        }
        let fits = |lock: &&mut Lock| lock.kind == Kind::Semaphore && lock.path == queue.path;
        match joined.iter_mut().find(fits) {
            Some(lock) => add_queue(lock, queue.members),
            None => joined.push(queue),
        }
    }
    joined.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(joined)
}

/// Adds the queue of a semaphore. Curator's first in it has put down its permit already and waits
/// for another one to go: it is shown once, by its permit, and does not hold it.
fn add_queue(semaphore: &mut Lock, mut queue: Vec<Member>) {
    if let Some(first) = queue.first() {
        let is_early = |permit: &&mut Member| {
            permit.stat.ephemeral_owner == first.stat.ephemeral_owner
                && permit.stat.czxid > first.stat.czxid
        };
        if let Some(early) = semaphore.members.iter_mut().find(is_early) {
            early.holds = false;
            queue.remove(0);
        }
    }
    semaphore.members.extend(queue);
}

/// The path of the semaphore whose queue is at a path, if there is one.
async fn queue_of(path: &str, reader: &Reader) -> Result<Option<String>, ReadError> {
    let (semaphore, other_part) = match (parent_of(path, LOCKS), path.strip_suffix(KAZOO_QUEUE)) {
        (Some(semaphore), _) => (semaphore.clone(), path::join(&semaphore, LEASES)),
        (None, Some(semaphore)) => (semaphore.to_owned(), semaphore.to_owned()),
        (None, None) => return Ok(None),
    };
    let there = reader.exists(&other_part).await?;
    Ok(there.map(|_| semaphore))
}

/// The parent of a path that ends in this name.
fn parent_of(path: &str, name: &str) -> Option<String> {
    match path.strip_suffix(name)?.strip_suffix('/')? {
        "" => Some("/".to_owned()),
        path => Some(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_is_cut_keeps_its_first_places() {
        let name = |number: i32| format!("n_{number:010}");
        let numbers = [i32::MIN + 1, i32::MAX, i32::MIN, i32::MAX - 1];
        let (names, stat) = (numbers.map(name).to_vec(), Stat::default());
        let lease = "1b9d6bcdbbfd4b2d9b5dab8dfbbd4bed".to_owned();
        let (mut listed, others) = sort_out([names, vec![lease.clone()]].concat(), stat, false);
        assert_eq!(
            (listed.len(), &listed.leases, &others),
            (5, &vec![lease.clone()], &vec![lease])
        );
        listed.truncate(2);
        assert_eq!(listed.places, [i32::MAX - 1, i32::MAX].map(name));
        assert!(listed.leases.is_empty());
    }

    #[test]
    fn a_level_is_not_wider_than_what_is_looked_at() {
        let names: Vec<String> = (0..3000).map(|number| format!("n{number}")).collect();
        let (mut level, mut is_complete) = (Vec::new(), true);
        for parent in 0..3000 {
            let room = 20_000 - level.len();
            is_complete &= add_children(&mut level, &format!("/{parent}"), &names, room);
            assert_eq!(is_complete, parent < 6);
        }
        assert_eq!(level.len(), 20_000);
        assert_eq!(level.last().unwrap(), "/6/n1999");
    }
}
