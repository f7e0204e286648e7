//! Locks: K1 to K7.

use zoolet_jute::{Reply, SessionId};

use super::{Client, Story, accepted, create, delete, get_data, refused, set_data, without};
use crate::SimTime;
use crate::history::{ClientNumber, History, LockStep, Stop, What};

pub(super) const LOCK: &str = "/lock";

/// A place in the queue of the lock.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) client: Client,
    pub(super) path: String,
    pub(super) token: i64,
}

pub(super) fn story() -> (Story, [Client; 3]) {
    let mut story = Story::new();
    let clients = [1, 2, 3].map(|number| story.connect(number, 1));
    story.create(clients[0], LOCK, 0);
    (story, clients)
}

pub(super) fn waits(story: &mut Story, client: Client, name: &str, mode: &str) -> Place {
    story.lock(client.number.0, LOCK, LockStep::Waits { mode: mode.to_owned() });
    let (_, outcome) = story.write(client, create(&format!("{LOCK}/{name}"), 3));
    let Ok(Reply::PathStat(path, stat)) = outcome.result else { panic!("{outcome:?}") };
    Place { client, path, token: stat.czxid.0 }
}

pub(super) fn granted(story: &mut Story, place: &Place) {
    // It looks at the queue, and sees that its turn has come.
    story.read(place.client, get_data(LOCK));
    grant(story, place, place.client.session, place.token);
}

fn grant(story: &mut Story, place: &Place, session: SessionId, token: i64) {
    let znode = place.path.clone();
    let step = LockStep::Granted { token, znode, session };
    story.lock(place.client.number.0, LOCK, step);
}

fn wrote(story: &mut Story, place: &Place, accepted: bool) {
    let step = LockStep::Wrote { token: place.token, accepted };
    story.lock(place.client.number.0, LOCK, step);
}

pub(super) fn releases(story: &mut Story, place: &Place) {
    let number = place.client.number.0;
    story.lock(number, LOCK, LockStep::Releases { token: place.token });
    story.write(place.client, delete(&place.path));
    story.lock(number, LOCK, LockStep::Released { token: place.token });
}

fn lost(story: &mut Story, place: &Place) {
    let step = LockStep::Lost { token: place.token };
    story.lock(place.client.number.0, LOCK, step);
}

/// Two who hold one after another.
fn handed_over() -> (History, Place, Place) {
    let (mut story, [one, two, _]) = story();
    let first = waits(&mut story, one, "_c_1-lock-", "mutex");
    let second = waits(&mut story, two, "_c_2-lock-", "mutex");
    granted(&mut story, &first);
    wrote(&mut story, &first, true);
    releases(&mut story, &first);
    granted(&mut story, &second);
    wrote(&mut story, &second, true);
    wrote(&mut story, &first, false);
    releases(&mut story, &second);
    (story.end(), first, second)
}

#[test]
fn a_lock_that_is_handed_over_is_accepted_and_counted() {
    let (good, ..) = handed_over();
    let counts = accepted(&good);
    assert_eq!((counts.grants, counts.grants_unchecked, counts.guarded), (2, 0, 3));
}

#[test]
fn a_resource_that_takes_an_old_token_is_found() {
    let (mut bad, ..) = handed_over();
    for record in &mut bad.records {
        if let What::Lock { step: LockStep::Wrote { accepted, .. }, .. } = &mut record.what {
            *accepted = true;
        }
    }
    refused(&bad, "K1 fencing");
}

#[test]
fn a_resource_that_refuses_the_newest_token_is_found() {
    let (mut bad, ..) = handed_over();
    for record in &mut bad.records {
        if let What::Lock { step: LockStep::Wrote { accepted, .. }, .. } = &mut record.what {
            *accepted = false;
        }
    }
    refused(&bad, "K1 fencing");
}

#[test]
fn a_token_of_no_grant_is_found() {
    let (good, first, second) = handed_over();
    let change = |from: i64, to: i64| {
        let mut bad = good.clone();
        for record in &mut bad.records {
            if let What::Lock { step: LockStep::Granted { token, .. }, .. } = &mut record.what
                && *token == from
            {
                *token = to;
            }
        }
        bad
    };
    refused(&change(second.token, first.token), "K2 tokens");
    refused(&change(first.token, second.token + 1), "K2 tokens");
}

#[test]
fn a_grant_out_of_turn_is_found() {
    let (mut story, [one, two, _]) = story();
    let first = waits(&mut story, one, "_c_1-lock-", "mutex");
    let second = waits(&mut story, two, "_c_2-lock-", "mutex");
    granted(&mut story, &second);
    refused(&story.history_now(), "K7 queue order");
    granted(&mut story, &first);
    refused(&story.history_now(), "K3 one holder");
    releases(&mut story, &second);
    releases(&mut story, &first);
    refused(&story.end(), "K7 queue order");
    // Its turn comes, but it had not seen that.
    let (mut story, [one, two, _]) = self::story();
    let first = waits(&mut story, one, "_c_1-lock-", "mutex");
    let second = waits(&mut story, two, "_c_2-lock-", "mutex");
    granted(&mut story, &first);
    releases(&mut story, &first);
    grant(&mut story, &second, two.session, second.token);
    refused(&story.end(), "K7 queue order");
}

impl Story {
    fn history_now(&self) -> History {
        let mut history = self.history.clone();
        (history.healed_at, history.ended_at) = (self.now, self.now);
        history
    }
}

#[test]
fn a_grant_of_another_sessions_znode_is_found() {
    let (mut story, [one, two, _]) = story();
    let first = waits(&mut story, one, "_c_1-lock-", "mutex");
    story.read(two, get_data(LOCK));
    grant(&mut story, &first, two.session, first.token);
    refused(&story.end(), "K2 tokens");
}

/// A holder whose session ends, and the next one.
fn taken_over(is_reported: bool) -> History {
    let (mut story, [one, two, _]) = story();
    let first = waits(&mut story, one, "_c_1-lock-", "mutex");
    let second = waits(&mut story, two, "_c_2-lock-", "mutex");
    granted(&mut story, &first);
    story.note(What::Disconnected { connection: one.connection });
    story.wait(4500);
    story.ping(two);
    if is_reported {
        lost(&mut story, &first);
    }
    story.expire(one.session);
    granted(&mut story, &second);
    lost(&mut story, &first);
    releases(&mut story, &second);
    story.end()
}

#[test]
fn a_loss_that_is_reported_behind_the_next_grant_is_found() {
    accepted(&taken_over(true));
    refused(&taken_over(false), "K6 loss first");
    let is_lost = |what: &What| matches!(what, What::Lock { step: LockStep::Lost { .. }, .. });
    refused(&without(&taken_over(true), is_lost), "K6 loss first");
}

#[test]
fn a_holder_that_was_stopped_may_report_its_loss_when_it_goes_on() {
    let mut history = taken_over(false);
    let (client, ended_at) = (ClientNumber(1), history.ended_at);
    let stop = |from, until| Stop { client, from: SimTime::from_ms(from), until };
    history.stops.push(stop(3000, SimTime::from_ms(3500)));
    refused(&history, "K6 loss first");
    history.stops.push(stop(3600, ended_at));
    assert_eq!(accepted(&history).losses_slept, 1);
}

#[test]
fn a_program_that_has_died_is_not_asked() {
    let (mut story, [one, two, _]) = story();
    let first = waits(&mut story, one, "_c_1-lock-", "mutex");
    let second = waits(&mut story, two, "_c_2-lock-", "mutex");
    granted(&mut story, &first);
    story.note(What::ClientDied { client: one.number });
    story.note(What::Disconnected { connection: one.connection });
    story.wait(4500);
    story.ping(two);
    story.expire(one.session);
    granted(&mut story, &second);
    releases(&mut story, &second);
    accepted(&story.end());
}

#[test]
fn readers_hold_beside_each_other_and_not_beside_a_writer() {
    let (mut story, [one, two, three]) = story();
    let first = waits(&mut story, one, "_c_1-__READ__", "read");
    let second = waits(&mut story, two, "_c_2-__READ__", "read");
    let writer = waits(&mut story, three, "_c_3-__WRIT__", "write");
    granted(&mut story, &second);
    granted(&mut story, &first);
    releases(&mut story, &first);
    accepted(&story.history_now());
    releases(&mut story, &second);
    granted(&mut story, &writer);
    releases(&mut story, &writer);
    accepted(&story.history_now());
    let (mut story, [one, two, _]) = self::story();
    let reader = waits(&mut story, one, "_c_1-__READ__", "read");
    let writer = waits(&mut story, two, "_c_2-__WRIT__", "write");
    granted(&mut story, &reader);
    granted(&mut story, &writer);
    refused(&story.end(), "K7 queue order");
}

#[test]
fn a_semaphore_has_as_many_holders_as_permits() {
    let (mut story, [one, two, three]) = story();
    let first = waits(&mut story, one, "_c_1-lease-", "semaphore 2");
    let second = waits(&mut story, two, "_c_2-lease-", "semaphore 2");
    granted(&mut story, &first);
    granted(&mut story, &second);
    let third = waits(&mut story, three, "_c_3-lease-", "semaphore 2");
    accepted(&story.history_now());
    releases(&mut story, &first);
    granted(&mut story, &third);
    accepted(&story.history_now());
    let (mut story, clients) = self::story();
    let places = clients.map(|client| waits(&mut story, client, "_c_-lease-", "semaphore 2"));
    for place in &places {
        granted(&mut story, place);
    }
    refused(&story.history_now(), "K7 queue order");
    refused(&story.history_now(), "K3 one holder");
}

#[test]
fn a_waiter_for_a_lock_that_no_one_holds_is_found() {
    let (mut story, [one, two, _]) = story();
    let first = waits(&mut story, one, "_c_1-lock-", "mutex");
    waits(&mut story, two, "_c_2-lock-", "mutex");
    granted(&mut story, &first);
    releases(&mut story, &first);
    refused(&story.end_late(), "K4 granted soon");
}

#[test]
fn what_is_left_in_a_queue_is_found() {
    let (mut story, [one, two, _]) = story();
    let first = waits(&mut story, one, "_c_1-lock-", "mutex");
    waits(&mut story, two, "_c_2-lock-", "mutex");
    granted(&mut story, &first);
    releases(&mut story, &first);
    story.lock(two.number.0, LOCK, LockStep::GaveUp);
    refused(&story.end_late(), "K5 nothing left");
}

#[test]
fn a_grant_that_takes_long_is_found() {
    let (mut story, [one, two, _]) = story();
    let first = waits(&mut story, one, "_c_1-lock-", "mutex");
    let second = waits(&mut story, two, "_c_2-lock-", "mutex");
    granted(&mut story, &first);
    releases(&mut story, &first);
    story.wait(31_000);
    granted(&mut story, &second);
    let mut bad = story.end();
    accepted(&bad);
    bad.healed_at = SimTime::from_ms(0);
    refused(&bad, "K4 granted soon");
}

/// One who gives up, or dies, and leaves its place behind while others go on.
fn left_behind(ends: impl Fn(&mut Story, Client), span_ms: u64, is_steady: bool) -> History {
    let (mut story, [one, two, _]) = story();
    let first = waits(&mut story, one, "_c_1-lock-", "mutex");
    granted(&mut story, &first);
    ends(&mut story, one);
    let step_ms = if is_steady { 500 } else { 2500 };
    for _ in 0..span_ms / step_ms {
        story.wait(step_ms);
        story.write(two, set_data(LOCK, "on"));
    }
    story.write(one, delete(&first.path));
    story.end()
}

#[test]
fn what_a_contender_leaves_behind_is_found_while_the_run_goes_on() {
    let releases = |story: &mut Story, client: Client| {
        let token = story.state.last_zxid.0;
        story.lock(client.number.0, LOCK, LockStep::Releases { token });
    };
    let dies =
        |story: &mut Story, client: Client| story.note(What::ClientDied { client: client.number });
    // Twice the timeout, and ten seconds to find the session.
    assert_eq!(accepted(&left_behind(releases, 17_000, true)).leftovers, 1);
    refused(&left_behind(releases, 20_000, true), "K5 nothing left");
    refused(&left_behind(dies, 20_000, true), "K5 nothing left");
    // Without a leader that works, nothing can be cleaned up.
    accepted(&left_behind(releases, 40_000, false));
    // Who holds a lock does not leave it behind.
    assert_eq!(accepted(&left_behind(|_, _| (), 40_000, true)).leftovers, 0);
}
