use bytes::Bytes;
use zoolet_client::Stat;

use super::*;
use crate::locks::parse;

const ID: &str = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed";

/// What precedes the number in names of a mutex, of readers, of writers and of leaders.
const MUTEX: &str = "lock-";
const READ: &str = "__READ__";
const WRITE: &str = "__WRIT__";
const LATCH: &str = "latch-";
const LEASE: &str = "lease-";

/// A queue of sessions, in this order.
fn queue(path: &str, kind: Kind, places: &[(&str, i64)]) -> Lock {
    let member = |(number, (mark, session)): (usize, &(&str, i64))| {
        let name = format!("_c_{ID}-{mark}{number:010}");
        Member {
            path: format!("{path}/{name}"),
            place: parse(&name).unwrap(),
            data: Bytes::new(),
            stat: Stat { ephemeral_owner: SessionId(*session), ..Stat::default() },
            twin: None,
            holds: false,
        }
    };
    Lock::of_queue(path.to_owned(), kind, places.iter().enumerate().map(member).collect())
}

fn mutex(path: &str, sessions: &[i64]) -> Lock {
    let places: Vec<_> = sessions.iter().map(|session| (MUTEX, *session)).collect();
    queue(path, Kind::Mutex, &places)
}

/// A semaphore with these holders and this queue.
fn semaphore(path: &str, holders: &[i64], waiting: &[i64]) -> Lock {
    let places = |sessions: &[i64]| -> Vec<_> { sessions.iter().map(|id| (LEASE, *id)).collect() };
    let mut lock = queue(path, Kind::Semaphore, &places(&[holders, waiting].concat()));
    for (index, member) in lock.members.iter_mut().enumerate() {
        member.holds = index < holders.len();
    }
    lock
}

/// Each cycle: of each session its id, what it holds and what it waits for.
fn found(locks: &[Lock]) -> Vec<Vec<(i64, String, String)>> {
    let turn = |turn: &Turn<'_>| {
        let held = turn.held.map(|held| held.lock.path.clone()).unwrap_or_default();
        if let Some(held) = turn.held {
            assert_eq!(held.member.session(), turn.session());
        }
        (turn.session().0, held, turn.awaited.lock.path.clone())
    };
    deadlocks(locks).iter().map(|deadlock| deadlock.turns.iter().map(turn).collect()).collect()
}

fn turn(session: i64, held: &str, awaited: &str) -> (i64, String, String) {
    (session, held.to_owned(), awaited.to_owned())
}

#[test]
fn two_that_wait_for_each_other_are_a_deadlock() {
    let locks = [mutex("/a", &[1, 2]), mutex("/b", &[2, 1])];
    assert_eq!(found(&locks), [[turn(1, "/a", "/b"), turn(2, "/b", "/a")]]);
    let spots: Vec<&str> = deadlocks(&locks)[0].members().map(|it| it.path.as_str()).collect();
    assert_eq!(spots.len(), 4, "{spots:?}");
}

#[test]
fn three_in_a_circle_are_a_deadlock_and_those_behind_them_are_no_part_of_it() {
    let locks = [
        mutex("/a", &[1, 7, 3]),
        mutex("/b", &[2, 1, 8]),
        mutex("/c", &[3, 2]),
        mutex("/d", &[8, 9]),
    ];
    let cycle = [turn(1, "/a", "/b"), turn(2, "/b", "/c"), turn(3, "/c", "/a")];
    assert_eq!(found(&locks), [cycle]);
}

#[test]
fn a_chain_makes_no_deadlock() {
    assert!(found(&[]).is_empty());
    let locks = [mutex("/a", &[1, 2]), mutex("/b", &[2, 3]), mutex("/c", &[3, 4, 5, 6])];
    assert!(found(&locks).is_empty());
    // Both wait for the same two, in the same order.
    let locks = [mutex("/a", &[1, 2, 3]), mutex("/b", &[1])];
    assert!(found(&locks).is_empty());
}

#[test]
fn a_session_that_waits_for_itself_makes_no_deadlock() {
    let locks = [mutex("/a", &[1, 1]), mutex("/b", &[2, 3, 2])];
    assert!(found(&locks).is_empty());
    let own: Vec<_> = waits_for_itself(&locks)
        .iter()
        .map(|it| (it.lock.path.clone(), it.member.session().0))
        .collect();
    assert_eq!(own, [("/a".to_owned(), 1), ("/b".to_owned(), 2)]);
    // A reader that asks for the write lock.
    let locks = [queue("/rw", Kind::ReadWrite, &[(READ, 1), (WRITE, 1)])];
    assert!(found(&locks).is_empty());
    assert_eq!(waits_for_itself(&locks).len(), 1);
    // One that does both still shows what is a deadlock with another.
    let locks = [mutex("/a", &[1, 1, 2]), mutex("/b", &[2, 1])];
    assert_eq!(found(&locks), [[turn(1, "/a", "/b"), turn(2, "/b", "/a")]]);
}

#[test]
fn readers_are_in_a_deadlock_through_the_writer_between_them() {
    let readers = queue("/rw", Kind::ReadWrite, &[(READ, 3), (WRITE, 2), (READ, 1)]);
    let locks = [mutex("/a", &[1, 3]), readers];
    let cycle = [turn(1, "/a", "/rw"), turn(2, "", "/rw"), turn(3, "/rw", "/a")];
    assert_eq!(found(&locks), [cycle]);
    // Without the writer they read together.
    let readers = queue("/rw", Kind::ReadWrite, &[(READ, 3), (READ, 1)]);
    assert!(found(&[mutex("/a", &[1, 3]), readers]).is_empty());
    // A writer needs all readers to go, one of whom never does.
    let readers = queue("/rw", Kind::ReadWrite, &[(READ, 5), (READ, 3), (WRITE, 1)]);
    let cycle = [turn(1, "/a", "/rw"), turn(3, "/rw", "/a")];
    assert_eq!(found(&[mutex("/a", &[1, 3]), readers]), [cycle]);
}

#[test]
fn a_semaphore_is_in_a_deadlock_when_none_of_its_holders_goes_on() {
    let free = [mutex("/a", &[3, 1]), semaphore("/s", &[1, 2], &[3])];
    assert!(found(&free).is_empty(), "2 gives its permit back");
    let stuck = [mutex("/a", &[3, 1, 2]), semaphore("/s", &[1, 2], &[3])];
    assert_eq!(found(&stuck).len(), 1);
}

#[test]
fn who_contends_for_a_leadership_goes_on_meanwhile() {
    let latch = |path, sessions: [i64; 2]| {
        queue(path, Kind::Election, &sessions.map(|session| (LATCH, session)))
    };
    let locks = [latch("/a", [1, 2]), latch("/b", [2, 1])];
    assert!(found(&locks).is_empty());
    assert_eq!(locks[0].waits().len(), 1, "it is in the graph");
}

#[test]
fn each_of_several_cycles_is_found() {
    let locks = [
        mutex("/a", &[1, 2]),
        mutex("/b", &[2, 1]),
        mutex("/c", &[3, 4]),
        mutex("/d", &[4, 3]),
        // Waits for something of both, and for a lock that no cycle holds up.
        mutex("/e", &[6, 5]),
        mutex("/f", &[7, 8]),
        mutex("/g", &[8, 9]),
        mutex("/h", &[9, 7, 1]),
    ];
    let firsts: Vec<i64> = found(&locks).iter().map(|cycle| cycle[0].0).collect();
    assert_eq!(firsts.len(), 3, "{firsts:?}");
    for session in [1, 3, 7] {
        assert!(firsts.contains(&session), "{firsts:?}");
    }
}

#[test]
fn a_place_without_a_session_waits_for_nothing() {
    let locks = [mutex("/a", &[0, 1]), mutex("/b", &[1, 0])];
    assert!(found(&locks).is_empty());
}

/// The edges of all pairs would be fifty million.
#[test]
fn ten_thousand_waiters_have_as_many_edges() {
    const WAITERS: i64 = 10_000;
    let sessions: Vec<i64> = (1..=WAITERS + 1).collect();
    let alternating: Vec<_> =
        sessions.iter().map(|id| (if id % 3 == 0 { WRITE } else { READ }, *id)).collect();
    let queue_of_readers: Vec<_> =
        sessions.iter().map(|id| (if *id > WAITERS / 2 { WRITE } else { READ }, *id)).collect();
    let locks = [
        mutex("/a", &sessions),
        queue("/b", Kind::ReadWrite, &alternating),
        queue("/c", Kind::ReadWrite, &queue_of_readers),
    ];
    for lock in &locks {
        let edges: usize = lock.waits().iter().map(|wait| wait.before.len()).sum();
        assert!(edges <= 2 * sessions.len(), "{}: {edges}", lock.path);
    }
    assert!(found(&locks[..1]).is_empty());
    // The last one holds what the first one waits for, and the other way round.
    let locks = [mutex("/a", &sessions), mutex("/z", &[WAITERS + 1, 1])];
    let cycle = [turn(1, "/a", "/z"), turn(WAITERS + 1, "/z", "/a")];
    assert_eq!(found(&locks), [cycle]);
    // A circle of all of them.
    let ring: Vec<Lock> = sessions
        .iter()
        .map(|id| mutex(&format!("/{id}"), &[*id, if *id == 1 { WAITERS + 1 } else { id - 1 }]))
        .collect();
    let cycles = found(&ring);
    assert_eq!((cycles.len(), cycles[0].len()), (1, sessions.len()));
}
