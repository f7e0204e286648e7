//! Looking for locks below a path, within limits.

use std::collections::VecDeque;

use futures_util::future::join_all;
use hyper::StatusCode;
use zoolet_client::Client;
use zoolet_survey::locks::{Kind, Lock, Member, Place, Role, parse, sort};

use crate::failure::Failure;
use crate::shared_client::answer;
use crate::tree::join;

/// The limits of one scan.
const VISITED_MAX: usize = 20_000;
const MEMBERS_MAX: usize = 5000;

/// How many znodes are listed or read at a time.
const REQUESTS_MAX: usize = 64;

/// What was found.
#[derive(Debug)]
pub(super) struct Scanned {
    pub(super) locks: Vec<Lock>,
    pub(super) visited: usize,
    pub(super) is_complete: bool,
}

/// Returns the locks at a path and below, by path.
pub(super) async fn scan(top: &str, client: &Client) -> Result<Scanned, Failure> {
    let mut next = VecDeque::from([top.to_owned()]);
    let (mut places, mut members, mut visited) = (Vec::new(), 0_usize, 0_usize);
    while !next.is_empty() && visited < VISITED_MAX && members < MEMBERS_MAX {
        let listed = next.drain(..next.len().min(REQUESTS_MAX)).collect::<Vec<_>>();
        let lists = join_all(listed.iter().map(|path| answer(client.children(path)))).await;
        visited += listed.len();
        for (path, list) in listed.iter().zip(lists) {
            let names = match list {
                Ok((names, _)) => names,
                Err(failure) if path != top && is_passed_over(&failure) => continue,
                Err(failure) => return Err(failure),
            };
            let (queued, others): (Vec<_>, Vec<_>) =
                names.into_iter().partition(|name| parse(name).is_some());
            next.extend(others.iter().map(|name| join(path, name)));
            members += queued.len();
            if !queued.is_empty() {
                places.push((path.clone(), queued));
            }
        }
    }
    let is_complete = next.is_empty() && members <= MEMBERS_MAX;
    let mut locks = Vec::new();
    let mut room = MEMBERS_MAX;
    for (path, mut names) in places {
        names.truncate(room);
        room -= names.len();
        locks.extend(of_members(&path, read(&path, &names, client).await?));
    }
    locks.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Scanned { locks, visited, is_complete })
}

/// Reads the places in a queue; those that go meanwhile are left out.
async fn read(path: &str, names: &[String], client: &Client) -> Result<Vec<Member>, Failure> {
    let mut members = Vec::new();
    for names in names.chunks(REQUESTS_MAX) {
        let reads = names.iter().filter_map(|name| {
            let (place, path) = (parse(name)?, join(path, name));
            Some(async move { (member(&path, place, client).await, path) })
        });
        for (read, _) in join_all(reads).await {
            match read {
                Ok(member) => members.push(member),
                Err(failure) if is_passed_over(&failure) => {}
                Err(failure) => return Err(failure),
            }
        }
    }
    Ok(members)
}

async fn member(path: &str, place: Place, client: &Client) -> Result<Member, Failure> {
    let (data, stat) = answer(client.get(path)).await?;
    Ok(Member { path: path.to_owned(), place, data, stat, twin: None, holds: false })
}

fn is_passed_over(failure: &Failure) -> bool {
    [StatusCode::NOT_FOUND, StatusCode::FORBIDDEN].contains(&failure.status)
}

/// The locks that the places below one path make: an election is one of its own, and so are permits.
fn of_members(path: &str, members: Vec<Member>) -> Vec<Lock> {
    let (mut permits, members): (Vec<_>, Vec<_>) =
        members.into_iter().partition(|member| member.place.role == Role::Permit);
    let (elections, locks): (Vec<_>, Vec<_>) =
        members.into_iter().partition(|member| member.place.role == Role::Election);
    let shares = locks.iter().any(|m| matches!(m.place.role, Role::Read | Role::Write));
    let kind = if shares { Kind::ReadWrite } else { Kind::Mutex };
    let queues = [(kind, locks), (Kind::Election, elections)];
    let queues = queues.into_iter().filter(|(_, members)| !members.is_empty());
    let mut locks: Vec<Lock> =
        queues.map(|(kind, members)| Lock::of_queue(path.to_owned(), kind, members)).collect();
    if !permits.is_empty() {
        sort(&mut permits);
        for permit in &mut permits {
            permit.holds = true;
        }
        let (path, warnings) = (path.to_owned(), Vec::new());
        locks.push(Lock { path, kind: Kind::Semaphore, members: permits, permits: None, warnings });
    }
    locks
}
