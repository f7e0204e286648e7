//! Histories that lie about who waits, for how long, and who has deleted what.

use super::{broken, claim, lived, truth, znode};
use crate::check::*;
use crate::log::{Happened, Log};
use crate::recipe::{Lock, Recipe};
use crate::run_history::{Arrival, Claim, CountSet, Mode};

/// A history of one lock of a recipe: znodes with their creates and deletes, and claims on them.
fn of(recipe: Recipe, path: &str, lives: &[(&str, i64, i64)]) -> RunHistory {
    let mut history = RunHistory {
        locks: vec![Lock::new(recipe, path.to_owned())],
        session_timeout: Duration::from_secs(2),
        woken: vec![[].into(); lives.len()],
        made: lives.iter().map(|(name, ..)| [format!("{path}/{name}")].into()).collect(),
        ..RunHistory::default()
    };
    history.log.covers(1, 100);
    for (name, created, deleted) in lives {
        history.log.add(*created, &format!("{path}/{name}"), Happened::Created);
        history.log.add(*deleted, &format!("{path}/{name}"), Happened::Deleted);
    }
    history
}

fn on(lock: &str, name: &str, mode: Mode, claim: &Claim) -> Claim {
    Claim { lock: lock.to_owned(), path: format!("{lock}/{name}"), mode, ..claim.clone() }
}

fn promises(history: &RunHistory) -> Vec<Promise> {
    check(history).violations.iter().map(|violation| violation.promise).collect()
}

#[test]
fn a_grant_for_a_znode_that_was_deleted_while_it_waited_is_found() {
    let deleted_at = |deleted: i64| {
        let names = ["_c_0-lock-0000000005", "_c_1-lock-0000000006"];
        let lives = [(names[0], 5, 20), (names[1], 6, deleted)];
        let mut history = of(Recipe::Mutex, "/t/mutex", &lives);
        history.claims.push(claim(1, 6, 21, (210, 300)));
        history.claims[0].path = format!("/t/mutex/{}", names[1]);
        promises(&history)
    };
    assert_eq!(deleted_at(10), [Promise::InTurn]);
    assert_eq!(deleted_at(30), []);
}

#[test]
fn a_lock_that_another_has_deleted_is_found() {
    let gone = |history: &mut RunHistory| history.gone.push(vec![znode(6)]);
    assert_eq!(broken(gone), [Promise::OneHolder]);
    let by_hand = |history: &mut RunHistory| {
        gone(history);
        history.by_hand.insert(znode(6));
    };
    assert_eq!(broken(by_hand), []);
}

#[test]
fn a_holder_more_than_a_shared_count_has_is_found() {
    let lock = "/t/semaphore";
    let granted = |value: usize, to: Option<i64>| {
        let lives =
            [("leases/_c_0-lease-0000000005", 5, 40), ("leases/_c_1-lease-0000000006", 6, 41)];
        let mut history = of(Recipe::SharedSemaphore, lock, &lives);
        for (contender, (name, token, _)) in lives.into_iter().enumerate() {
            let claim = claim(contender, token, 10, (100, 100));
            history.claims.push(on(lock, name, Mode::Exclusive, &claim));
        }
        history.counts.push(CountSet { path: lock.to_owned(), value, from: 2, to });
        promises(&history)
    };
    assert_eq!(granted(1, Some(3)), [Promise::OneHolder]);
    assert_eq!(granted(2, Some(3)), []);
    assert_eq!(granted(1, Some(7)), [], "it may be written after the grant");
    assert_eq!(granted(1, None), []);
}

#[test]
fn a_reader_and_a_permit_that_come_late_are_found() {
    let readers = |granted_us: u64| {
        let names = ["_c_0-__WRIT__0000000005", "_c_1-__READ__0000000006"];
        let lives = [(names[0], 5, 20), (names[1], 6, 30)];
        let mut history = of(Recipe::ReadWriteLock, "/t/both", &lives);
        let (writer, reader) =
            (claim(0, 5, 10, (100, 200)), claim(1, 6, 20, (granted_us, granted_us)));
        history.claims.push(on("/t/both", names[0], Mode::Exclusive, &writer));
        history.claims.push(on("/t/both", names[1], Mode::Shared, &reader));
        promises(&history)
    };
    assert_eq!(readers(400_000), []);
    assert_eq!(readers(2_500_000), [Promise::NotifiedSoon]);
    // The holder has died: only the observers know when its znode went.
    let permits = |granted_us: u64| {
        let names = ["leases/_c_0-lease-0000000005", "leases/_c_1-lease-0000000006"];
        let lives = [(names[0], 5, 20), (names[1], 6, 30)];
        let mut history = of(Recipe::SemaphoreMutex, "/t/one", &lives);
        let holder = Claim { released: false, ..claim(0, 5, 10, (100, 200)) };
        let next = claim(1, 6, 20, (granted_us, granted_us));
        history.claims.push(on("/t/one", names[0], Mode::Exclusive, &holder));
        history.claims.push(on("/t/one", names[1], Mode::Exclusive, &next));
        history.observed_us.insert(20, 50_000);
        promises(&history)
    };
    assert_eq!(permits(400_000), []);
    assert_eq!(permits(2_600_000), [Promise::NotifiedSoon]);
}

/// A semaphore's queue of two. The turn of the second one comes at 1 ms; it takes its lease later.
fn second_in_queue(lease_us: u64) -> RunHistory {
    let lives = [
        ("locks/_c_0-lock-0000000005", 5, 20),
        ("locks/_c_1-lock-0000000006", 6, 30),
        ("leases/_c_2-lease-0000000007", 25, 40),
    ];
    let mut history = of(Recipe::Semaphore, "/t/two", &lives);
    let lease = history.made.pop().unwrap();
    history.made[1].extend(lease);
    history.observed_us.extend([(20, 1_000), (25, lease_us)]);
    history
}

#[test]
fn the_head_of_a_semaphore_s_queue_that_takes_no_lease_is_found() {
    let after = |lease_us: u64| {
        let history = second_in_queue(lease_us);
        let mut promises = promises(&history);
        // Nothing was granted.
        promises.retain(|promise| *promise != Promise::Proves);
        promises
    };
    assert_eq!(after(300_000), []);
    assert_eq!(after(2_600_000), [Promise::NotifiedSoon]);
}

/// The observers have seen everything from 1 to `end` but what happened in the gaps.
fn cover_all_but(history: &mut RunHistory, gaps: &[(i64, i64)], end: i64) {
    let mut from = 1;
    for (first, last) in gaps {
        history.log.covers(from, first - 1);
        from = last + 1;
    }
    history.log.covers(from, end);
}

/// The promises that the truth breaks, changed so, when its log lacks what happened in the gaps.
fn broken_with_gaps(gaps: &[(i64, i64)], lie: impl FnOnce(&mut RunHistory)) -> Vec<Promise> {
    let mut history = truth();
    history.log = Log::default();
    history.log.add(1, "/t/mutex", Happened::Created);
    for (token, deleted) in [(5, 20), (6, 30), (7, 40)] {
        lived(&mut history, token, deleted);
    }
    cover_all_but(&mut history, gaps, 50);
    lie(&mut history);
    let mut promises = promises(&history);
    // The gap leaves grants unverified.
    promises.retain(|promise| *promise != Promise::Proves);
    promises
}

#[test]
fn a_waiter_that_may_have_left_in_a_gap_makes_no_herd() {
    let herd = |history: &mut RunHistory| assert!(history.woken[2].insert(znode(5)));
    assert_eq!(broken_with_gaps(&[(10, 12)], herd), []);
    assert_eq!(broken_with_gaps(&[(2, 3)], herd), [Promise::OneWoken]);
    assert_eq!(broken_with_gaps(&[(25, 26)], herd), [Promise::OneWoken]);
}

/// One that is hidden was created before the waiter, and went while that waited.
#[test]
fn a_wait_for_a_znode_that_gaps_may_hide_is_not_late() {
    let late = |history: &mut RunHistory| {
        let second = &mut history.claims[1];
        (second.seen, second.granted_us, second.believed_until_us) = (24, 2_300_300, 2_300_400);
        let third = &mut history.claims[2];
        (third.granted_us, third.believed_until_us) = (2_300_500, 2_300_600);
    };
    assert_eq!(broken_with_gaps(&[(2, 3), (22, 23)], late), []);
    for gaps in [&[(2, 3)][..], &[(22, 23)], &[(33, 35)], &[(2, 3), (33, 35)]] {
        assert_eq!(broken_with_gaps(gaps, late), [Promise::NotifiedSoon], "{gaps:?}");
    }
    let behind_one_unseen = |history: &mut RunHistory| {
        late(history);
        history.log.add(22, &znode(3), Happened::Deleted);
    };
    assert_eq!(broken_with_gaps(&[(2, 3)], behind_one_unseen), []);
}

/// The head of a semaphore's queue may stand behind one that gaps hide.
#[test]
fn a_lease_that_comes_late_behind_gaps_proves_nothing() {
    let with = |gaps: &[(i64, i64)]| {
        let mut history = second_in_queue(2_600_000);
        history.log.uncover();
        cover_all_but(&mut history, gaps, 100);
        let mut promises = promises(&history);
        promises.retain(|promise| *promise != Promise::Proves);
        promises
    };
    assert_eq!(with(&[(2, 3)]), [Promise::NotifiedSoon]);
    assert_eq!(with(&[(2, 3), (21, 22)]), []);
}

#[test]
fn a_member_inside_before_all_have_come_is_found() {
    let arrival =
        |at_us, entered_us| Arrival { path: "/b".to_owned(), members: 2, at_us, entered_us };
    let with = |both: [Arrival; 2]| broken(|history| history.arrivals = both.into());
    assert_eq!(with([arrival(10, Some(30)), arrival(20, None)]), []);
    assert_eq!(with([arrival(10, Some(15)), arrival(20, None)]), [Promise::Model]);
}

#[test]
fn many_grants_without_a_wake_prove_nothing() {
    let many = |history: &mut RunHistory| {
        history.woken.iter_mut().for_each(std::collections::BTreeSet::clear);
        let grant = history.claims[2].clone();
        history.claims.extend(std::iter::repeat_n(grant, 60));
    };
    assert!(broken(many).contains(&Promise::Judged));
}
