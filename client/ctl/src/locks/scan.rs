//! Looking for locks below a path.

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt};
use zoolet_client::{ErrorCode, SessionId, Stat};
use zoolet_survey::locks::{self, Family, Kind, Lock, Member, Place, Role, sort};

use crate::commands::REQUESTS_MAX;
use crate::connection::Connection;
use crate::error::CtlError;
use crate::path;
use crate::progress::Progress;

/// The queue of a Curator semaphore, below its path.
const LOCKS: &str = "locks";

/// The permits of a Curator semaphore that are taken.
const LEASES: &str = "leases";

/// What kazoo appends to the path of a semaphore for that of its queue.
const KAZOO_QUEUE: &str = "-__lock__";

/// What a znode's children say about the queues below it.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    /// The names of places.
    pub(crate) places: Vec<String>,
    /// The names that permits of kazoo may have.
    pub(crate) leases: Vec<String>,
    pub(crate) stat: Stat,
}

/// The znodes that have places below them, by their paths.
pub(crate) type Queues = BTreeMap<String, Listed>;

/// The places that were read before, by their paths.
pub(crate) type Known = BTreeMap<String, Member>;

/// All locks at a path and below, by path. With `all` also the queues of unknown clients.
pub(crate) async fn scan(
    top: &str,
    all: bool,
    connection: &Connection,
) -> Result<Vec<Lock>, CtlError> {
    let progress = Progress::spinner("looking for locks");
    let queues = find(top, all, connection, |seen, found| {
        progress.set_message(format!("{seen} znodes, {found} with locks"));
    })
    .await?;
    locks_of(top, &queues, all, &mut Known::new(), connection).await
}

/// Looks at the children of all znodes from one downwards.
pub(crate) async fn find(
    top: &str,
    all: bool,
    connection: &Connection,
    mut progress: impl FnMut(usize, usize),
) -> Result<Queues, CtlError> {
    let mut found = Queues::new();
    let mut level = vec![top.to_owned()];
    let mut seen = 0;
    while !level.is_empty() {
        seen += level.len();
        progress(seen, found.len());
        let mut lists = stream::iter(std::mem::take(&mut level))
            .map(|path| list(path, top, connection))
            .buffer_unordered(REQUESTS_MAX);
        while let Some(listed) = lists.next().await {
            let Some((path, names, stat)) = listed? else { continue };
            let (listed, others) = sort_out(names, stat, all);
            level.extend(others.iter().map(|name| path::join(&path, name)));
            if !listed.places.is_empty() || !listed.leases.is_empty() {
                found.insert(path, listed);
            }
        }
    }
    Ok(found)
}

/// Looks at the children of these znodes alone; those that have gone are left out.
pub(crate) async fn find_again(
    paths: Vec<String>,
    all: bool,
    connection: &Connection,
) -> Result<Queues, CtlError> {
    let lists = stream::iter(paths).map(|path| list(path, "", connection));
    let mut lists = lists.buffer_unordered(REQUESTS_MAX);
    let mut found = Queues::new();
    while let Some(listed) = lists.next().await {
        let Some((path, names, stat)) = listed? else { continue };
        found.insert(path, sort_out(names, stat, all).0);
    }
    Ok(found)
}

/// Takes the places of queues out of the names of children, and returns the others too.
fn sort_out(names: Vec<String>, stat: Stat, all: bool) -> (Listed, Vec<String>) {
    let (places, others): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|name| place_of(name, all).is_some());
    let leases = others.iter().filter(|name| locks::is_kazoo_lease(name)).cloned().collect();
    (Listed { places, leases, stat }, others)
}

/// The locks of these queues, and the one that the top itself may be. Places that are known are not
/// read again: only names with a number are, which no other place has.
pub(crate) async fn locks_of(
    top: &str,
    queues: &Queues,
    all: bool,
    known: &mut Known,
    connection: &Connection,
) -> Result<Vec<Lock>, CtlError> {
    let before = std::mem::take(known);
    let mut locks = Vec::new();
    locks.extend(simple(top, connection).await?);
    for (path, listed) in queues {
        let members = read(path, &listed.places, all, &before, connection).await?;
        known.extend(members.iter().map(|member| (member.path.clone(), member.clone())));
        locks.extend(of_members(path, members));
        locks.extend(kazoo_semaphore(path, &listed.leases, connection).await?);
    }
    join_semaphores(locks, connection).await
}

/// The lock at a path, without a look at what else is below it; `None` if its queue is empty.
pub(crate) async fn at(top: &str, connection: &Connection) -> Result<Option<Lock>, CtlError> {
    let mut locks = Vec::new();
    for path in [top.to_owned(), path::join(top, LEASES), path::join(top, LOCKS)] {
        let names = match connection.ask(&path, connection.client.children(&path)).await {
            Ok((names, _)) => names,
            Err(error) if is_passed_over(&error) => continue,
            Err(error) => return Err(error),
        };
        let places: Vec<String> =
            names.into_iter().filter(|name| locks::parse(name).is_some()).collect();
        let members = read(&path, &places, false, &Known::new(), connection).await?;
        locks.extend(of_members(&path, members));
    }
    let locks = join_semaphores(locks, connection).await?;
    Ok(locks.into_iter().find(|lock| lock.path == top && lock.kind != Kind::Election))
}

fn place_of(name: &str, all: bool) -> Option<Place> {
    locks::parse(name).or_else(|| all.then(|| locks::parse_other(name))?)
}

/// A znode's children and its Stat; `None` if it has gone or may not be read, but for the top one.
async fn list(
    path: String,
    top: &str,
    connection: &Connection,
) -> Result<Option<(String, Vec<String>, Stat)>, CtlError> {
    match connection.ask(&path, connection.client.children(&path)).await {
        Ok((names, stat)) => Ok(Some((path, names, stat))),
        Err(error) if path != top && is_passed_over(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_passed_over(error: &CtlError) -> bool {
    matches!(error.code, Some(ErrorCode::NoNode | ErrorCode::NoAuth))
}

/// What the places in a queue hold; those that go meanwhile are left out.
async fn read(
    path: &str,
    names: &[String],
    all: bool,
    known: &Known,
    connection: &Connection,
) -> Result<Vec<Member>, CtlError> {
    let read_one = async |name: &String| {
        let Some(place) = place_of(name, all) else { return Ok(None) };
        let path = path::join(path, name);
        match known.get(&path) {
            Some(member) => Ok(Some(member.clone())),
            None => member(path, place, connection).await,
        }
    };
    let mut reads = stream::iter(names).map(read_one).buffer_unordered(REQUESTS_MAX);
    let mut members = Vec::new();
    while let Some(member) = reads.next().await {
        members.extend(member?);
    }
    // Who is unknown is worth a look only if it goes with its session.
    members.retain(|member| {
        member.place.family != Family::Other || member.stat.ephemeral_owner != SessionId::NONE
    });
    Ok(members)
}

async fn member(
    path: String,
    place: Place,
    connection: &Connection,
) -> Result<Option<Member>, CtlError> {
    match connection.ask(&path, connection.client.get(&path)).await {
        Ok((data, stat)) => Ok(Some(Member { path, place, data, stat, twin: None, holds: false })),
        Err(error) if is_passed_over(&error) => Ok(None),
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
    connection: &Connection,
) -> Result<Option<Lock>, CtlError> {
    let mut members = Vec::new();
    for name in leases {
        let place =
            Place { family: Family::Kazoo, role: Role::Permit, number: 0, id: Some(name.clone()) };
        members.extend(member(path::join(path, name), place, connection).await?);
    }
    members.retain(|member| member.stat.ephemeral_owner != SessionId::NONE);
    if members.is_empty() {
        return Ok(None);
    }
    let permits = match connection.ask(path, connection.client.get(path)).await {
        Ok((data, _)) => String::from_utf8_lossy(&data).trim().parse().ok(),
        Err(error) if is_passed_over(&error) => None,
        Err(error) => return Err(error),
    };
    Ok(Some(semaphore(path, members, permits)))
}

/// An ephemeral znode whose very path is asked for is a lock in itself.
async fn simple(top: &str, connection: &Connection) -> Result<Option<Lock>, CtlError> {
    let place = Place { family: Family::Other, role: Role::Mutex, number: 0, id: None };
    let member = member(top.to_owned(), place, connection).await?;
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
async fn join_semaphores(locks: Vec<Lock>, connection: &Connection) -> Result<Vec<Lock>, CtlError> {
    let mut joined: Vec<Lock> = Vec::new();
    let mut queues = Vec::new();
    for mut lock in locks {
        let is_queue = lock.kind == Kind::Mutex;
        let semaphore = if is_queue { queue_of(&lock.path, connection).await? } else { None };
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
async fn queue_of(path: &str, connection: &Connection) -> Result<Option<String>, CtlError> {
    let (semaphore, other_part) = match (parent_of(path, LOCKS), path.strip_suffix(KAZOO_QUEUE)) {
        (Some(semaphore), _) => (semaphore.clone(), path::join(&semaphore, LEASES)),
        (None, Some(semaphore)) => (semaphore.to_owned(), semaphore.to_owned()),
        (None, None) => return Ok(None),
    };
    let there = connection.ask(&other_part, connection.client.exists(&other_part)).await?;
    Ok(there.map(|_| semaphore))
}

/// The parent of a path that ends in this name.
fn parent_of(path: &str, name: &str) -> Option<String> {
    match path.strip_suffix(name)?.strip_suffix('/')? {
        "" => Some("/".to_owned()),
        path => Some(path.to_owned()),
    }
}
