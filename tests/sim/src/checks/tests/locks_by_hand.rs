//! Locks whose znodes are deleted by hand, written to and watched: K1, K4, K6, K7 and K8.

use bytes::Bytes;
use zoolet_jute::{EventType, MultiOp, Parts, PathVersionRequest, Request, SetDataRequest};

use super::locks::{LOCK, Place, granted, releases, story, waits};
use super::{Client, Story, accepted, create, delete, look, refused};
use crate::history::LockStep;
use crate::load::GUARDED;

/// A holder writes by a transaction that checks this path.
fn writes(story: &mut Story, place: &Place, checked: &str) {
    let data = Some(Bytes::from(format!("{} {}", place.token, place.path)));
    let check = PathVersionRequest { path: checked.to_owned(), version: -1 };
    let set = SetDataRequest { path: GUARDED.to_owned(), data, version: -1 };
    let parts = Parts(vec![MultiOp::Check(check), MultiOp::SetData(set)]);
    story.write(place.client, Request::Multi(parts));
}

#[test]
fn a_write_under_a_lock_that_commits_without_it_is_found() {
    let guarded = |checks_lock: bool| {
        let (mut story, [one, two, _]) = story();
        story.create(one, GUARDED, 0);
        let place = waits(&mut story, one, "_c_1-lock-", "mutex");
        granted(&mut story, &place);
        let checked = if checks_lock { place.path.clone() } else { "/".to_owned() };
        writes(&mut story, &place, &checked);
        story.write(two, delete(&place.path));
        story.lock(one.number.0, LOCK, LockStep::Lost { token: place.token });
        writes(&mut story, &place, &checked);
        story.end()
    };
    assert_eq!(accepted(&guarded(true)).guarded_in_log, 1);
    refused(&guarded(false), "K1 fencing");
}

/// A holder whose znode is deleted by another client, and who learns that or not.
fn deleted(mode: &str, is_reported: bool) -> crate::history::History {
    let (mut story, [one, two, three]) = story();
    let first = waits(&mut story, one, "_c_1-lock-", mode);
    granted(&mut story, &first);
    let healed_at = story.now;
    story.write(three, delete(&first.path));
    if is_reported {
        story.lock(one.number.0, LOCK, LockStep::Lost { token: first.token });
    }
    let second = waits(&mut story, two, "_c_2-lock-", "mutex");
    granted(&mut story, &second);
    releases(&mut story, &second);
    for _ in 0..20 {
        story.wait(1000);
        for client in [one, two, three] {
            story.ping(client);
        }
    }
    let mut history = story.end();
    history.healed_at = healed_at;
    history
}

#[test]
fn a_holder_who_does_not_learn_that_its_znode_was_deleted_is_found() {
    accepted(&deleted("mutex", true));
    refused(&deleted("mutex", false), "K6 loss first");
    // Curator's holder has no eye on it.
    accepted(&deleted("curator", false));
}

/// A holder who is asked for its lock when all is calm.
fn asked(mode: &str, heeds_after_ms: u64) -> crate::history::History {
    let (mut story, all @ [one, two, _]) = story();
    let place = waits(&mut story, one, "_c_1-lock-", mode);
    granted(&mut story, &place);
    let healed_at = story.now;
    let pings = |story: &mut Story, clients: &[Client]| {
        story.wait(1000);
        for client in clients {
            story.ping(*client);
        }
    };
    for _ in 0..11 {
        pings(&mut story, &all);
    }
    let body = SetDataRequest {
        path: place.path.clone(),
        data: Some(Bytes::from_static(b"__REVOKE__")),
        version: -1,
    };
    story.write(two, Request::SetData(body));
    story.wait(heeds_after_ms);
    releases(&mut story, &place);
    for _ in 0..5 {
        pings(&mut story, &all);
    }
    let mut history = story.end();
    history.healed_at = healed_at;
    history
}

#[test]
fn a_holder_who_heeds_requests_and_does_not_give_its_lock_back_soon_is_found() {
    assert_eq!(accepted(&asked("revocable", 500)).requests, 1);
    refused(&asked("revocable", 1500), "K8 requests");
    assert_eq!(accepted(&asked("mutex", 1500)).requests, 0);
}

/// One holds, two wait, of which each watches the znode in front of it or the first one.
fn released(watches_first: bool) -> crate::history::History {
    let (mut story, [one, two, three]) = story();
    let first = waits(&mut story, one, "_c_1-lock-", "mutex");
    granted(&mut story, &first);
    let second = waits(&mut story, two, "_c_2-lock-", "mutex");
    story.read(two, Request::Exists(look(&first.path, true)));
    let third = waits(&mut story, three, "_c_3-lock-", "mutex");
    let watched = if watches_first { &first.path } else { &second.path };
    story.read(three, Request::Exists(look(watched, true)));
    story.lock(one.number.0, LOCK, LockStep::Releases { token: first.token });
    let (call, xid) = story.call(one, delete(&first.path));
    let gone = story.commit(one, xid, delete(&first.path));
    story.event(two, gone.zxid, EventType::NodeDeleted, &first.path);
    if watches_first {
        story.event(three, gone.zxid, EventType::NodeDeleted, &first.path);
    }
    story.returned(call, gone.zxid, gone.result);
    granted(&mut story, &second);
    let (call, xid) = story.call(two, delete(&second.path));
    story.lock(two.number.0, LOCK, LockStep::Releases { token: second.token });
    let gone = story.commit(two, xid, delete(&second.path));
    if !watches_first {
        story.event(three, gone.zxid, EventType::NodeDeleted, &second.path);
    }
    story.returned(call, gone.zxid, gone.result);
    granted(&mut story, &third);
    releases(&mut story, &third);
    story.end()
}

#[test]
fn a_release_that_wakes_all_who_wait_is_found() {
    assert_eq!(accepted(&released(false)).woken, 2);
    refused(&released(true), "K4 one woken");
}

/// One who has waited, and waits again farther behind, may have an old watch.
#[test]
fn an_old_watch_of_one_who_waits_again_does_not_count() {
    let (mut story, [one, two, three]) = story();
    let first = waits(&mut story, one, "_c_1-lock-", "mutex");
    granted(&mut story, &first);
    let second = waits(&mut story, two, "_c_2-lock-", "mutex");
    story.read(two, Request::Exists(look(&first.path, true)));
    story.lock(two.number.0, LOCK, LockStep::GaveUp);
    story.write(two, delete(&second.path));
    let third = waits(&mut story, three, "_c_3-lock-", "mutex");
    story.read(three, Request::Exists(look(&first.path, true)));
    story.lock(two.number.0, LOCK, LockStep::Waits { mode: "mutex".to_owned() });
    story.write(two, create(&format!("{LOCK}/_c_4-lock-"), 3));
    story.lock(one.number.0, LOCK, LockStep::Releases { token: first.token });
    let (call, xid) = story.call(one, delete(&first.path));
    let gone = story.commit(one, xid, delete(&first.path));
    for client in [two, three] {
        story.event(client, gone.zxid, EventType::NodeDeleted, &first.path);
    }
    story.returned(call, gone.zxid, gone.result);
    granted(&mut story, &third);
    assert_eq!(accepted(&story.end()).woken, 1);
}

/// Seed 3356820432: one of several locks was deleted by hand while its holder waited for the others, and
/// the grant of all of them came behind that of the next holder.
#[test]
fn one_of_several_locks_that_was_deleted_before_the_grant_may_have_an_old_token() {
    let late = |mode: &str, is_deleted: bool| {
        let (mut story, [one, two, three]) = story();
        let first = waits(&mut story, one, "_c_1-lock-", mode);
        if is_deleted {
            story.write(three, delete(&first.path));
        }
        let second = waits(&mut story, two, "_c_2-lock-", "mutex");
        granted(&mut story, &second);
        releases(&mut story, &second);
        granted(&mut story, &first);
        story.lock(one.number.0, LOCK, LockStep::Lost { token: first.token });
        story.end()
    };
    accepted(&late("multi", true));
    refused(&late("mutex", true), "K2 tokens");
    refused(&late("multi", false), "K2 tokens");
}
