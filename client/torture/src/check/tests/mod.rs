//! Histories with one wrong thing each: it must be found, and nothing in the correct history.

mod waits;

use super::*;
use crate::log::{Happened, Listing, Log};
use crate::recipe::{Lock, Recipe};
use crate::run_history::{Claim, Disturbance, Guarded, Mode, Opening, Passage, Tally, Write};

const PATH: &str = "/t/mutex";

fn znode(token: i64) -> String {
    format!("{PATH}/_c_0-lock-{token:010}")
}

/// The znode of this token lived from its token to a zxid.
fn lived(history: &mut RunHistory, token: i64, deleted: i64) {
    history.log.add(token, &znode(token), Happened::Created);
    history.log.add(deleted, &znode(token), Happened::Deleted);
}

fn claim(contender: usize, token: i64, seen: i64, held_us: (u64, u64)) -> Claim {
    Claim {
        lock: PATH.to_owned(),
        contender,
        mode: Mode::Exclusive,
        path: znode(token),
        token,
        seen,
        granted_us: held_us.0,
        believed_until_us: held_us.1,
        released: true,
        dropped: false,
    }
}

fn write(token: i64, accepted: bool) -> Write {
    Write { lock: PATH.to_owned(), contender: 0, token, at_us: 0, accepted }
}

/// Three grants in turn, 10 to 20, 20 to 30, 30 to 40; all stood in the queue from the start.
fn truth() -> RunHistory {
    let mut history = RunHistory {
        locks: vec![Lock::new(Recipe::Mutex, PATH.to_owned())],
        woken: vec![std::collections::BTreeSet::new(); 3],
        made: (5..8).map(|token| [znode(token)].into()).collect(),
        session_timeout: Duration::from_secs(2),
        holders_stopped: 1,
        ..RunHistory::default()
    };
    history.log.add(1, PATH, Happened::Created);
    history.log.covers(1, 50);
    for (token, deleted) in [(5, 20), (6, 30), (7, 40)] {
        lived(&mut history, token, deleted);
    }
    history.claims.push(claim(0, 5, 10, (100, 200)));
    history.claims.push(claim(1, 6, 20, (210, 300)));
    history.claims.push(claim(2, 7, 30, (310, 400)));
    history.writes = vec![write(5, true), write(6, true), write(5, false), write(7, true)];
    history.woken[1].insert(znode(5));
    history.woken[2].insert(znode(6));
    history
}

/// The promises that a history breaks once `lie` has changed it.
fn broken(lie: impl FnOnce(&mut RunHistory)) -> Vec<Promise> {
    let mut history = truth();
    lie(&mut history);
    let mut broken: Vec<Promise> =
        check(&history).violations.into_iter().map(|violation| violation.promise).collect();
    broken.sort_unstable();
    broken.dedup();
    broken
}

#[test]
fn the_truth_breaks_nothing() {
    let verdict = check(&truth());
    assert_eq!(verdict.violations, []);
    assert_eq!((verdict.verified, verdict.refused, verdict.gaps), (3, 1, 0));
}

#[test]
fn two_holders_at_a_time_are_found() {
    let lie = |history: &mut RunHistory| {
        history.claims[1].seen = 15;
    };
    assert_eq!(broken(lie), [Promise::OneHolder, Promise::InTurn]);
}

#[test]
fn a_grant_out_of_turn_is_found_without_a_second_holder() {
    // The one in front never held the lock: it was passed.
    let lie = |history: &mut RunHistory| {
        history.claims.remove(0);
        history.claims[0].seen = 15;
    };
    assert_eq!(broken(lie), [Promise::InTurn]);
}

#[test]
fn a_znode_in_front_whose_end_may_lie_in_a_gap_proves_nothing() {
    let with = |covered: &[(i64, i64)]| {
        let mut history = truth();
        history.log = Log::default();
        history.log.add(1, PATH, Happened::Created);
        history.log.add(2, &znode(2), Happened::Created);
        for (token, deleted) in [(5, 20), (6, 30), (7, 40)] {
            lived(&mut history, token, deleted);
        }
        for (from, to) in covered {
            history.log.covers(*from, *to);
        }
        check(&history)
    };
    let verdict = with(&[(1, 2), (5, 50)]);
    assert!(verdict.violations.iter().all(|broken| broken.promise == Promise::Proves));
    assert_eq!((verdict.verified, verdict.unverified), (0, 3));
    let verdict = with(&[(1, 50)]);
    let out_of_turn = verdict.violations.iter().filter(|broken| broken.promise == Promise::InTurn);
    assert_eq!((out_of_turn.count(), verdict.verified), (3, 3));
}

#[test]
fn a_grant_without_a_znode_is_found() {
    assert_eq!(broken(|h| h.claims[1].path = znode(9)), [Promise::InTurn]);
}

#[test]
fn a_token_that_goes_back_is_found() {
    let lie = |history: &mut RunHistory| {
        history.claims[1].token = 4;
    };
    assert_eq!(broken(lie), [Promise::TokensRise, Promise::QueueOrder]);
}

#[test]
fn a_number_that_goes_back_is_found() {
    let lie = |history: &mut RunHistory| {
        history.log.add(41, &format!("{PATH}/_c_1-lock-0000000003"), Happened::Created);
        history.log.add(42, &format!("{PATH}/_c_1-lock-0000000003"), Happened::Deleted);
    };
    assert_eq!(broken(lie), [Promise::QueueOrder]);
    // In a directory that was made anew, numbers begin at 0.
    let anew = |history: &mut RunHistory| {
        history.log.add(41, PATH, Happened::Deleted);
        history.log.add(42, PATH, Happened::Created);
        history.log.add(43, &format!("{PATH}/_c_1-lock-0000000000"), Happened::Created);
    };
    assert_eq!(broken(anew), []);
    // It was not seen whether it was.
    let unseen = |history: &mut RunHistory| {
        history.log.covers(60, 70);
        history.log.add(61, &format!("{PATH}/_c_1-lock-0000000000"), Happened::Created);
    };
    assert_eq!(broken(unseen), []);
    // Behind the last number of 32 bits comes the lowest.
    let wrapped = |history: &mut RunHistory| {
        history.log.add(41, &format!("{PATH}/_c_1-lock-2147483647"), Happened::Created);
        history.log.add(42, &format!("{PATH}/_c_1-lock--2147483648"), Happened::Created);
    };
    assert_eq!(broken(wrapped), []);
}

#[test]
fn a_stale_write_that_is_accepted_is_found() {
    assert_eq!(
        broken(|history| history.writes[2].accepted = true),
        [Promise::NoStaleWrite, Promise::Proves]
    );
    assert_eq!(broken(|history| history.writes[3].accepted = false), [Promise::NoStaleWrite]);
}

#[test]
fn a_run_without_a_refused_write_proves_nothing() {
    assert_eq!(broken(|history| drop(history.writes.remove(2))), [Promise::Proves]);
    let unhurt = |history: &mut RunHistory| {
        history.writes.remove(2);
        history.holders_stopped = 0;
    };
    assert_eq!(broken(unhurt), []);
}

#[test]
fn a_guarded_write_behind_the_end_is_found() {
    let guarded = |zxid| Guarded { lock: PATH.to_owned(), path: znode(5), zxid };
    assert_eq!(broken(|history| history.guarded.push(guarded(19))), []);
    assert_eq!(broken(|history| history.guarded.push(guarded(20))), [Promise::GuardedWhileHeld]);
    let behind_a_gap = |history: &mut RunHistory| {
        history.log.covers(60, 70);
        history.guarded.push(guarded(65));
    };
    assert_eq!(broken(behind_a_gap), [Promise::GuardedWhileHeld], "its end was seen");
    let of_one_unseen = |history: &mut RunHistory| {
        history.log.covers(60, 70);
        history.guarded.push(Guarded { path: znode(55), ..guarded(65) });
    };
    assert_eq!(broken(of_one_unseen), [], "its create lies in the gap");
}

#[test]
fn a_herd_is_found() {
    let lie = |history: &mut RunHistory| assert!(history.woken[2].insert(znode(5)));
    assert_eq!(broken(lie), [Promise::OneWoken]);
    // A contender that had left the queue does not wait, and the holder is notified of its own end.
    let notified = |history: &mut RunHistory| {
        history.woken[0].insert(znode(5));
        history.woken.push([znode(5)].into());
    };
    assert_eq!(broken(notified), []);
}

/// In a torture a holder died, and waited in its next session behind the znode 6. It gave up, and was
/// notified of the end of 6 before it had its watch removed; the znode of its dead session, with the
/// number 5, was still there.
#[test]
fn the_znode_of_a_dead_session_does_not_wait_for_what_came_behind_it() {
    let with = |gave_up: i64| {
        let mut history = truth();
        history.log = Log::default();
        history.log.covers(1, 50);
        for (token, deleted) in [(5, 35), (6, 30), (7, 40), (8, gave_up)] {
            lived(&mut history, token, deleted);
        }
        history.made[0].insert(znode(8));
        history.woken[0].insert(znode(6));
        let mut verdict = Verdict::default();
        woken::one_woken(&history, &history.locks[0], &mut verdict);
        let promises: Vec<_> = verdict.violations.iter().map(|broken| broken.promise).collect();
        (promises, verdict.wakes)
    };
    assert_eq!(with(28), (vec![], 1));
    assert_eq!(with(45), (vec![Promise::OneWoken], 0), "it waited on");
}

#[test]
fn all_readers_that_wait_for_a_writer_are_woken_and_no_writer_beside_them() {
    let dir = "/t/both";
    let znode = |kind: &str, token: i64| format!("{dir}/_c_{token}-__{kind}__{token:010}");
    let woken = |gone: &str, others: [&str; 2]| {
        let mut history = truth();
        history.locks = vec![Lock::new(Recipe::ReadWriteLock, dir.to_owned())];
        history.log.add(2, dir, Happened::Created);
        let paths = [znode(gone, 5), znode(others[0], 6), znode(others[1], 7)];
        for (token, path) in (5..).zip(&paths) {
            history.log.add(token, path, Happened::Created);
            history.log.add(token + 10, path, Happened::Deleted);
        }
        history.made = paths.iter().map(|path| [path.clone()].into()).collect();
        history.woken = vec![[paths[0].clone()].into(); 3];
        let mut verdict = Verdict::default();
        woken::one_woken(&history, &history.locks[0], &mut verdict);
        verdict.violations.len()
    };
    assert_eq!(woken("WRIT", ["READ", "READ"]), 0);
    assert_eq!(woken("WRIT", ["READ", "WRIT"]), 1);
    assert_eq!(woken("WRIT", ["WRIT", "WRIT"]), 1);
    assert_eq!(woken("READ", ["READ", "READ"]), 1);
}

#[test]
fn a_waiter_that_is_notified_late_is_found() {
    assert_eq!((check(&truth()).hand_overs, check(&truth()).wakes), (2, 2));
    let late = |history: &mut RunHistory| {
        let claim = &mut history.claims[1];
        (claim.granted_us, claim.believed_until_us) = (2_300_300, 2_300_400);
        let last = &mut history.claims[2];
        (last.granted_us, last.believed_until_us) = (2_300_500, 2_300_600);
    };
    assert_eq!(broken(late), [Promise::NotifiedSoon]);
    let with = |change: fn(&mut RunHistory)| {
        broken(|history| {
            late(history);
            change(history);
        })
    };
    let disturbed = |contender| Disturbance { contender, from_us: 0, to_us: 100 };
    assert_eq!(with(|history| history.stalls.push((1_000_000, 2_000_000))), []);
    assert_eq!(
        with(|history| history.stalls.push((1_000_000, 1_200_000))),
        [Promise::NotifiedSoon]
    );
    let excused = |contender| {
        broken(|history| {
            late(history);
            history.disturbances.push(disturbed(contender));
        })
    };
    assert_eq!(excused(None), []);
    assert_eq!(excused(Some(0)), []);
    assert_eq!(excused(Some(1)), []);
    assert_eq!(excused(Some(2)), [Promise::NotifiedSoon], "it has nothing to do with the two");
    // Somebody stood in between, and has left since.
    let between = |history: &mut RunHistory| {
        history.log.add(4, &format!("{PATH}/_c_9-lock-0000000004"), Happened::Created);
        history.log.add(21, &format!("{PATH}/_c_9-lock-0000000004"), Happened::Deleted);
    };
    assert!(!with(between).contains(&Promise::NotifiedSoon));
}

#[test]
fn a_loss_that_is_reported_late_is_found() {
    let lie = |history: &mut RunHistory| history.claims[0].believed_until_us = 250;
    assert_eq!(broken(lie), [Promise::LossReported]);
    let excused = |history: &mut RunHistory| {
        history.claims[0].believed_until_us = 250;
        history.early_grants_are_counted = true;
    };
    assert_eq!(broken(excused), []);
    let mut history = truth();
    excused(&mut history);
    assert_eq!(check(&history).early_grants, 1);
}

#[test]
fn what_is_left_behind_and_who_waits_for_ever_is_found() {
    assert_eq!(broken(|h| h.leftovers.push(znode(9))), [Promise::NothingLeft]);
    assert_eq!(broken(|h| h.stuck.push("contender 1".into())), [Promise::NoWaiterStuck]);
    assert_eq!(broken(|h| h.errors.push("no node".into())), [Promise::NoError]);
}

#[test]
fn a_gap_leaves_grants_open_and_is_counted() {
    let mut history = truth();
    history.log = Log::default();
    history.log.add(1, PATH, Happened::Created);
    for (token, deleted) in [(5, 20), (6, 30), (7, 40)] {
        lived(&mut history, token, deleted);
    }
    history.log.covers(1, 32);
    history.log.covers(36, 50);
    let verdict = check(&history);
    assert_eq!((verdict.gaps, verdict.verified, verdict.unverified), (1, 2, 1));
    // The directory's own count tells that nothing was missed: six changes, the last at 40.
    history.log.list(Listing {
        dir: PATH.to_owned(),
        zxid: 45,
        created: 1,
        changed: 40,
        changes: 6,
    });
    let verdict = check(&history);
    assert_eq!((verdict.gaps, verdict.verified, verdict.unverified), (1, 3, 0));
}

#[test]
fn readers_share_and_writers_do_not() {
    let path = "/t/rw";
    let name = |base: &str, number: i64| format!("{path}/_c_0-__{base}__{number:010}");
    let mut history = RunHistory {
        locks: vec![Lock::new(Recipe::ReadWriteLock, path.to_owned())],
        ..RunHistory::default()
    };
    history.log.covers(1, 50);
    for (base, token) in [("READ", 5), ("READ", 6), ("WRIT", 7)] {
        history.log.add(token, &name(base, token), Happened::Created);
        history.log.add(token * 4, &name(base, token), Happened::Deleted);
    }
    let reads = |base: &str, token: i64, seen: i64, mode| Claim {
        lock: path.to_owned(),
        mode,
        path: name(base, token),
        ..claim(usize::try_from(token).unwrap(), token, seen, (1, 1))
    };
    history.claims = vec![
        reads("READ", 5, 8, Mode::Shared),
        reads("READ", 6, 9, Mode::Shared),
        reads("WRIT", 7, 24, Mode::Exclusive),
    ];
    assert_eq!(check(&history).violations, []);
    history.claims[2].seen = 22;
    let promises: Vec<_> = check(&history).violations.iter().map(|v| v.promise).collect();
    assert_eq!(promises, [Promise::InTurn, Promise::OneHolder]);
}

#[test]
fn a_semaphore_has_its_permits() {
    let path = "/t/semaphore";
    let name = |token: i64| format!("{path}/leases/_c_0-lease-{token:010}");
    let mut history = RunHistory {
        locks: vec![Lock::new(Recipe::Semaphore, path.to_owned())],
        ..RunHistory::default()
    };
    history.log.covers(1, 50);
    for token in [5, 6, 7] {
        history.log.add(token, &name(token), Happened::Created);
        history.log.add(token + 20, &name(token), Happened::Deleted);
        let (lock, path) = (path.to_owned(), name(token));
        let seen = if token == 7 { 25 } else { token };
        history.claims.push(Claim { lock, path, ..claim(0, token, seen, (1, 1)) });
    }
    assert_eq!(check(&history).violations, []);
    history.claims[2].seen = 24;
    let promises: Vec<_> = check(&history).violations.iter().map(|v| v.promise).collect();
    assert_eq!(promises, [Promise::InTurn, Promise::OneHolder]);
}

#[test]
fn queues_counters_and_barriers_have_their_models() {
    let tally = |given: &[&str], taken: &[&str]| Tally {
        path: PATH.to_owned(),
        given: given.iter().map(|item| (*item).to_owned()).collect(),
        taken: taken.iter().map(|item| (*item).to_owned()).collect(),
        ..Tally::default()
    };
    let with = |recipe, tally: Tally| {
        broken(move |history| {
            history.locks.push(Lock::new(recipe, "/t/other".to_owned()));
            history.tallies = vec![Tally { path: "/t/other".to_owned(), ..tally }];
        })
    };
    assert_eq!(with(Recipe::Queue, tally(&["a", "b"], &["b", "a"])), []);
    for lie in [tally(&["a"], &["a", "a"]), tally(&["a"], &["x", "a"]), tally(&["a", "b"], &["a"])]
    {
        assert_eq!(with(Recipe::Queue, lie), [Promise::Model]);
    }
    assert_eq!(with(Recipe::Counter, tally(&["1", "2"], &["2"])), []);
    for lie in [tally(&["1", "1"], &["2"]), tally(&["1", "2"], &["3"]), tally(&["1"], &[])] {
        assert_eq!(with(Recipe::Counter, lie), [Promise::Model]);
    }
    let passage = |entered_us| Passage {
        path: "/t/barrier".to_owned(),
        members: 2,
        arrived_us: 10,
        entered_us,
        leaving_us: 30,
        left_us: 40,
    };
    assert_eq!(broken(|h| h.passages = vec![passage(20), passage(21)]), []);
    assert_eq!(broken(|h| h.passages = vec![passage(20), passage(9)]), [Promise::Model]);
    assert_eq!(broken(|h| h.passages = vec![passage(20)]), [Promise::Model]);
}

#[test]
fn items_leave_a_queue_in_order() {
    let lie = |taken: [i64; 2], names: [i64; 2]| {
        broken(move |history| {
            let path = "/t/queue";
            history.locks.push(Lock::new(Recipe::Queue, path.to_owned()));
            history.tallies = vec![Tally { path: path.to_owned(), ..Tally::default() }];
            for (at, (number, taken)) in (41..).zip(names.into_iter().zip(taken)) {
                history.log.add(at, &format!("{path}/qn-{number:010}"), Happened::Created);
                history.log.add(taken, &format!("{path}/qn-{number:010}"), Happened::Deleted);
            }
        })
    };
    assert_eq!(lie([45, 46], [7, 8]), []);
    assert_eq!(lie([46, 45], [7, 8]), [Promise::Model]);
    assert_eq!(lie([45, 46], [7, 7]), [Promise::Model], "a name comes up again");
}

#[test]
fn a_barrier_that_opens_while_its_znode_exists_is_found() {
    let with = |from, to, covered: (i64, i64)| {
        broken(|history| {
            let path = "/t/barrier/0".to_owned();
            history.locks.push(Lock::new(Recipe::Barrier, path.clone()));
            for (zxid, happened) in
                [(10, Happened::Created), (20, Happened::Deleted), (21, Happened::Created)]
            {
                history.log.add(zxid, &path, happened);
            }
            history.log.covers(covered.0, covered.1);
            history.openings.push(Opening { path, contender: 0, from, to });
        })
    };
    for (from, to) in [(5, 9), (9, 12), (15, 20), (12, 25), (20, 20)] {
        assert_eq!(with(from, to, (1, 50)), [], "{from} to {to}");
    }
    for (from, to) in [(10, 19), (12, 12), (21, 40)] {
        assert_eq!(with(from, to, (1, 50)), [Promise::Model], "{from} to {to}");
    }
    // It may have gone and come again in a gap.
    assert_eq!(with(60, 61, (70, 80)), []);
}

#[test]
fn what_a_kept_recipe_must_not_show_is_found() {
    assert_eq!(broken(|history| history.broke.push("went back".into())), [Promise::Model]);
}
