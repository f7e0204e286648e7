//! Watches: P3 and P4.

use bytes::Bytes;
use zoolet_jute::{
    Acl, AddWatchMode, AddWatchRequest, AuthPacket, ErrorCode, EventType, Id, Reply, Request,
    SetWatches2Request, WatcherType, WatchesRequest, Zxid, perms,
};

use super::clients::auth_packet;
use super::{Client, Story, accepted, delete, get_data, look, refused, set_data, without};
use crate::history::{History, Restore, What};
use crate::model::access::identities;

use EventType::{NodeChildrenChanged, NodeCreated, NodeDataChanged, NodeDeleted};

/// A watcher and a writer.
fn story() -> (Story, Client, Client) {
    let mut story = Story::new();
    let watcher = story.connect(0, 1);
    let writer = story.connect(1, 2);
    story.create(writer, "/a", 0);
    (story, watcher, writer)
}

fn add_watch(story: &mut Story, client: Client, path: &str, mode: AddWatchMode) {
    let body = AddWatchRequest { path: path.to_owned(), mode };
    story.answered(client, Request::AddWatch(body), Reply::AddWatch(0));
}

fn watch_data(path: &str) -> Request {
    Request::GetData(look(path, true))
}

/// The history without its first event, with it twice, and with it behind the next reply of its
/// connection.
fn lies(good: &History) -> Vec<History> {
    let is_event = |what: &What| matches!(what, What::Notified { .. });
    let at = good.records.iter().position(|record| is_event(&record.what)).unwrap();
    let What::Notified { connection, .. } = good.records[at].what else { panic!() };
    let mut calls = Vec::new();
    for record in &good.records {
        if let What::Called { call, connection: on, .. } = &record.what
            && *on == connection
        {
            calls.push(*call);
        }
    }
    let is_reply =
        |what: &What| matches!(what, What::Returned { call, .. } if calls.contains(call));
    let mut lost = good.clone();
    let event = lost.records.remove(at);
    let mut doubled = good.clone();
    doubled.records.insert(at, event.clone());
    let next = lost.records.iter().skip(at).position(|record| is_reply(&record.what)).unwrap();
    let mut late = lost.clone();
    late.records.insert(at + next + 1, event);
    vec![lost, doubled, late]
}

#[test]
fn an_event_that_is_lost_or_doubled_or_late_is_found() {
    let (mut story, watcher, writer) = story();
    story.read(watcher, watch_data("/a"));
    let zxid = story.write(writer, set_data("/a", "b")).1.zxid;
    story.event(watcher, zxid, NodeDataChanged, "/a");
    story.read(watcher, get_data("/a"));
    // It was used up: the next change fires nothing.
    story.write(writer, set_data("/a", "c"));
    story.read(watcher, get_data("/a"));
    let good = story.end();
    let counts = accepted(&good);
    assert_eq!((counts.watches, counts.events, counts.watchers_given_up), (1, 1, 0));
    for bad in lies(&good) {
        refused(&bad, "P3 watches");
    }
    for change in [
        |zxid: &mut Zxid, _: &mut EventType, _: &mut String| zxid.0 += 1,
        |_: &mut Zxid, kind: &mut EventType, _: &mut String| *kind = NodeDeleted,
        |_: &mut Zxid, _: &mut EventType, path: &mut String| path.push('x'),
    ] {
        let mut bad = good.clone();
        for record in &mut bad.records {
            if let What::Notified { zxid, event, .. } = &mut record.what {
                change(zxid, &mut event.event_type, &mut event.path);
            }
        }
        refused(&bad, "P3 watches");
    }
}

#[test]
fn an_event_that_no_watch_has_fired_is_found() {
    let (mut story, watcher, writer) = story();
    story.read(watcher, get_data("/a"));
    let zxid = story.write(writer, set_data("/a", "b")).1.zxid;
    story.event(watcher, zxid, NodeDataChanged, "/a");
    story.read(watcher, get_data("/a"));
    refused(&story.end(), "P3 watches");
}

#[test]
fn what_happened_before_the_read_fires_nothing() {
    let (mut story, watcher, writer) = story();
    let zxid = story.write(writer, set_data("/a", "b")).1.zxid;
    story.read(watcher, watch_data("/a"));
    story.event(watcher, zxid, NodeDataChanged, "/a");
    story.ping(watcher);
    refused(&story.end(), "P3 watches");
}

#[test]
fn a_broken_connection_may_lose_events() {
    let (mut story, watcher, writer) = story();
    story.read(watcher, watch_data("/a"));
    story.write(writer, set_data("/a", "b"));
    story.note(What::Disconnected { connection: watcher.connection });
    accepted(&story.end());
}

#[test]
fn exists_waits_for_the_create_and_children_for_children() {
    let (mut story, watcher, writer) = story();
    story.read(watcher, Request::Exists(look("/b", true)));
    story.read(watcher, Request::GetChildren(look("/a", true)));
    let created = story.create(writer, "/b", 0);
    story.event(watcher, created, NodeCreated, "/b");
    let child = story.create(writer, "/a/c", 0);
    story.event(watcher, child, NodeChildrenChanged, "/a");
    story.ping(watcher);
    story.write(writer, delete("/a/c"));
    story.ping(watcher);
    // A delete is notified once to one who watches data and children.
    story.read(watcher, watch_data("/a"));
    story.read(watcher, Request::GetChildren(look("/a", true)));
    let deleted = story.write(writer, delete("/a")).1.zxid;
    story.event(watcher, deleted, NodeDeleted, "/a");
    story.ping(watcher);
    let good = story.end();
    assert_eq!(accepted(&good).events, 3);
    for bad in lies(&good) {
        refused(&bad, "P3 watches");
    }
}

#[test]
fn a_failed_get_data_leaves_no_watch() {
    let (mut story, watcher, writer) = story();
    story.read(watcher, watch_data("/b"));
    let zxid = story.create(writer, "/b", 0);
    story.ping(watcher);
    accepted(&story.history_with(|story| story.ping(watcher)));
    story.event(watcher, zxid, NodeCreated, "/b");
    refused(&story.end(), "P3 watches");
}

impl Story {
    /// What the history is when something more happens.
    fn history_with<T>(&mut self, more: impl FnOnce(&mut Self) -> T) -> History {
        more(self);
        let mut history = self.history.clone();
        (history.healed_at, history.ended_at) = (self.now, self.now);
        history
    }
}

#[test]
fn lasting_watches_stay_and_a_recursive_one_sees_everything_below() {
    let (mut story, watcher, writer) = story();
    add_watch(&mut story, watcher, "/a", AddWatchMode::PersistentRecursive);
    let first = story.create(writer, "/a/b", 0);
    story.event(watcher, first, NodeCreated, "/a/b");
    let second = story.create(writer, "/a/b/c", 0);
    story.event(watcher, second, NodeCreated, "/a/b/c");
    let third = story.write(writer, set_data("/a/b", "x")).1.zxid;
    story.event(watcher, third, NodeDataChanged, "/a/b");
    story.ping(watcher);
    add_watch(&mut story, watcher, "/a", AddWatchMode::Persistent);
    let fourth = story.create(writer, "/a/d", 0);
    story.event(watcher, fourth, NodeCreated, "/a/d");
    story.event(watcher, fourth, NodeChildrenChanged, "/a");
    story.ping(watcher);
    let good = story.end();
    assert_eq!(accepted(&good).events, 5);
    for bad in lies(&good) {
        refused(&bad, "P3 watches");
    }
}

#[test]
fn an_event_may_precede_a_reply_that_shows_the_state_before_it() {
    let (mut story, watcher, writer) = story();
    story.read(watcher, watch_data("/a"));
    let (call, _) = story.call(watcher, Request::Ping);
    let before = story.state.last_zxid;
    let zxid = story.write(writer, set_data("/a", "b")).1.zxid;
    story.event(watcher, zxid, NodeDataChanged, "/a");
    story.returned(call, before, Ok(Reply::Empty));
    story.note(What::Disconnected { connection: watcher.connection });
    accepted(&story.end());
}

#[test]
fn events_in_another_order_are_found() {
    let (mut story, watcher, writer) = story();
    add_watch(&mut story, watcher, "/a", AddWatchMode::PersistentRecursive);
    let first = story.create(writer, "/a/b", 0);
    let second = story.create(writer, "/a/c", 0);
    story.event(watcher, second, NodeCreated, "/a/c");
    story.event(watcher, first, NodeCreated, "/a/b");
    story.ping(watcher);
    refused(&story.end(), "P3 watches");
}

#[test]
fn removed_watches_fire_nothing_and_none_is_removed_that_is_not_there() {
    let (mut story, watcher, writer) = story();
    add_watch(&mut story, watcher, "/a", AddWatchMode::Persistent);
    let body = WatchesRequest { path: "/a".into(), watcher_type: WatcherType::Persistent };
    let check = WatchesRequest { path: "/a".into(), watcher_type: WatcherType::Data };
    let (call, _) = story.call(watcher, Request::CheckWatches(check));
    let zxid = story.state.last_zxid;
    story.returned(call, zxid, Err(ErrorCode::NoWatcher));
    let removal = story.answered(watcher, Request::RemoveWatches(body), Reply::Empty);
    let zxid = story.write(writer, set_data("/a", "b")).1.zxid;
    let good = story.history_with(|story| story.ping(watcher));
    accepted(&good);
    let bad = super::lie(&good, removal, |_, result| *result = Err(ErrorCode::NoWatcher));
    refused(&bad, "P3 watches");
    story.event(watcher, zxid, NodeDataChanged, "/a");
    refused(&story.end(), "P3 watches");
}

#[test]
fn a_set_watches_makes_up_what_was_missed() {
    let (mut story, watcher, writer) = story();
    story.read(watcher, watch_data("/a"));
    let since = story.state.last_zxid;
    story.write(writer, set_data("/a", "b"));
    story.create(writer, "/b", 0);
    let again = story.resume(watcher, 3, since);
    let body = SetWatches2Request {
        relative_zxid: since,
        data_watches: vec!["/a".into()],
        exist_watches: vec!["/b".into(), "/c".into()],
        child_watches: vec!["/a".into(), "/none".into()],
        persistent_watches: vec!["/a".into()],
        persistent_recursive_watches: Vec::new(),
    };
    let (call, _) = story.call(again, Request::SetWatches2(body));
    for (kind, path) in [(NodeDataChanged, "/a"), (NodeCreated, "/b"), (NodeDeleted, "/none")] {
        story.event(again, Zxid::NONE, kind, path);
    }
    let zxid = story.state.last_zxid;
    story.returned(call, zxid, Ok(Reply::Empty));
    let created = story.create(writer, "/c", 0);
    story.event(again, created, NodeCreated, "/c");
    let child = story.create(writer, "/a/b", 0);
    story.event(again, child, NodeChildrenChanged, "/a");
    story.ping(again);
    let good = story.end();
    assert_eq!(accepted(&good).events, 5);
    for bad in lies(&good) {
        refused(&bad, "P3 watches");
    }
    let is_last = |what: &What| matches!(what, What::Notified { zxid, .. } if *zxid == child);
    refused(&without(&good, is_last), "P3 watches");
}

/// It takes several steps, and no reply shows at which zxids: a watch in it may be fired in between.
#[test]
fn a_set_watches_of_very_many_paths_is_not_judged() {
    let (mut story, watcher, writer) = story();
    let since = story.state.last_zxid;
    story.write(writer, set_data("/a", "b"));
    let again = story.resume(watcher, 3, since);
    let zxid = story.state.last_zxid;
    let body = SetWatches2Request {
        relative_zxid: since,
        data_watches: vec!["/a".into()],
        exist_watches: Vec::new(),
        child_watches: Vec::new(),
        persistent_watches: (0..300).map(|at| format!("/{at}")).collect(),
        persistent_recursive_watches: Vec::new(),
    };
    let (call, _) = story.call(again, Request::SetWatches2(body));
    story.event(again, Zxid::NONE, NodeDataChanged, "/a");
    story.returned(call, zxid, Ok(Reply::Empty));
    story.ping(again);
    assert_eq!(accepted(&story.end()).watchers_given_up, 1);
}

#[test]
fn the_ephemeral_znodes_of_an_ended_session_go_in_any_order() {
    let (mut story, watcher, writer) = story();
    add_watch(&mut story, watcher, "/a", AddWatchMode::PersistentRecursive);
    for path in ["/a/x", "/a/y"] {
        let zxid = story.create(writer, path, 1);
        story.event(watcher, zxid, NodeCreated, path);
    }
    let (call, xid) = story.call(writer, Request::CloseSession);
    let zxid = story.commit(writer, xid, Request::CloseSession).zxid;
    story.event(watcher, zxid, NodeDeleted, "/a/y");
    story.event(watcher, zxid, NodeDeleted, "/a/x");
    story.returned(call, zxid, Ok(Reply::Empty));
    story.ping(watcher);
    let good = story.end();
    accepted(&good);
    let is_one = |what: &What| matches!(what, What::Notified { zxid: at, event, .. } if *at == zxid && event.path == "/a/y");
    refused(&without(&good, is_one), "P3 watches");
}

/// The server of a connection gets no entry of the last two, but a snapshot.
fn skip_two(story: &mut Story, watcher: Client) {
    let log = story.history.servers.get_mut(&watcher.server).unwrap();
    let from = log.applied.len() - 2;
    log.applied.truncate(from);
    log.digests.truncate(from);
}

#[test]
fn a_snapshot_fires_what_it_skips_and_ends_lasting_watches() {
    let jumped = |is_lasting: bool| {
        let (mut story, watcher, writer) = story();
        if is_lasting {
            add_watch(&mut story, watcher, "/a", AddWatchMode::Persistent);
        } else {
            story.read(watcher, watch_data("/a"));
        }
        story.write(writer, set_data("/a", "b"));
        story.create(writer, "/b", 0);
        skip_two(&mut story, watcher);
        story.create(writer, "/c", 0);
        if !is_lasting {
            story.event(watcher, Zxid::NONE, NodeDataChanged, "/a");
        }
        (story, watcher)
    };
    let (mut story, watcher) = jumped(false);
    let good = story.history_with(|story| story.ping(watcher));
    assert_eq!(accepted(&good).snapshots, 1);
    refused(&without(&good, |what| matches!(what, What::Notified { .. })), "P3 watches");
    // A reply without a zxid does not show a state, and may be the first one behind the event.
    let (mut story, watcher) = jumped(false);
    let (call, _) = story.call(watcher, Request::Auth(auth_packet()));
    story.returned(call, Zxid(0), Ok(Reply::Empty));
    story.ping(watcher);
    accepted(&story.end());
    let (mut story, watcher) = jumped(true);
    story.note(What::Disconnected { connection: watcher.connection });
    accepted(&story.end());
    let (mut story, watcher) = jumped(true);
    story.ping(watcher);
    refused(&story.end(), "P3 watches");
}

/// Seed 67000029: a second snapshot is taken over right behind the first one, and a client is served in
/// between. Nothing is applied behind it.
#[test]
fn a_snapshot_behind_a_snapshot_fires_what_it_skips_itself() {
    let taken_over = |knows_first: bool| {
        let (mut story, watcher, writer) = story();
        story.read(watcher, watch_data("/a"));
        for (path, data, is_known) in [("/unseen", "b", knows_first), ("/later", "c", true)] {
            story.create(writer, path, 0);
            let zxid = story.write(writer, set_data("/a", data)).1.zxid;
            skip_two(&mut story, watcher);
            let log = story.history.servers.get_mut(&watcher.server).unwrap();
            if is_known {
                let (at, applied_before) = (story.now, log.applied.len());
                log.restored.push(Restore { at, zxid, applied_before });
            }
            story.event(watcher, Zxid::NONE, NodeDataChanged, "/a");
            story.read(watcher, watch_data("/a"));
        }
        story.end()
    };
    let good = taken_over(true);
    accepted(&good);
    refused(&without(&good, |what| matches!(what, What::Notified { .. })), "P3 watches");
    refused(&taken_over(false), "P3 watches");
}

/// Seed 60000043: the server has applied more than it had shown to the connection, takes over a snapshot,
/// and closes the connection behind the events.
#[test]
fn a_snapshot_fires_watches_behind_what_the_connection_was_shown() {
    for watched in ["/a", "/"] {
        let (mut story, watcher, writer) = story();
        story.read(watcher, watch_data(watched));
        story.create(writer, "/unseen", 0);
        story.write(writer, set_data("/a", "b"));
        story.create(writer, "/b", 0);
        skip_two(&mut story, watcher);
        story.event(watcher, Zxid::NONE, NodeDataChanged, "/a");
        story.note(What::Disconnected { connection: watcher.connection });
        story.create(writer, "/c", 0);
        if watched == "/a" {
            accepted(&story.end());
        } else {
            refused(&story.end(), "P3 watches");
        }
    }
}

/// The leader is killed behind a write. In its next life it applies again what it has, but for the
/// end, and takes over a snapshot: nothing is skipped for the connections of the life before.
#[test]
fn a_snapshot_behind_a_restart_skips_nothing_for_older_connections() {
    let (mut story, watcher, writer) = story();
    story.read(watcher, watch_data("/a"));
    let zxid = story.write(writer, set_data("/a", "b")).1.zxid;
    story.event(watcher, zxid, NodeDataChanged, "/a");
    story.ping(watcher);
    story.note(What::Disconnected { connection: watcher.connection });
    story.wait(10);
    let now = story.now;
    let log = story.history.servers.get_mut(&watcher.server).unwrap();
    let mut again = log.applied.clone();
    again.pop();
    for applied in &mut again {
        applied.at = now;
    }
    log.applied.extend(again);
    story.create(writer, "/b", 0);
    assert_eq!(accepted(&story.end()).snapshots, 1);
}

#[test]
fn a_client_that_may_not_read_is_not_notified_and_its_watch_is_used_up() {
    let (mut story, watcher, writer) = story();
    story.read(watcher, watch_data("/a"));
    let acl = vec![Acl { perms: 30, id: Id::new("world", "anyone") }];
    let body = zoolet_jute::SetAclRequest { path: "/a".into(), acl: Some(acl), version: -1 };
    story.write(writer, Request::SetAcl(body));
    let zxid = story.write(writer, set_data("/a", "b")).1.zxid;
    let good = story.history_with(|story| story.ping(watcher));
    accepted(&good);
    story.event(watcher, zxid, NodeDataChanged, "/a");
    refused(&story.end(), "P3 watches");
}

/// The reply to the first request was taken for that to both.
#[test]
fn what_two_auth_requests_prove_counts_one_after_the_other() {
    let (mut story, watcher, writer) = story();
    add_watch(&mut story, watcher, "/a", AddWatchMode::Persistent);
    let reader = identities(&auth_packet(), None).pop().unwrap();
    let acl = vec![
        Acl { perms: perms::READ, id: reader },
        Acl { perms: perms::ALL & !perms::READ, id: Id::new("world", "anyone") },
    ];
    let body = zoolet_jute::SetAclRequest { path: "/a".into(), acl: Some(acl), version: -1 };
    story.write(writer, Request::SetAcl(body));
    let other = AuthPacket { auth: Some(Bytes::from_static(b"other:p")), ..auth_packet() };
    let (first, _) = story.call(watcher, Request::Auth(other));
    let (second, _) = story.call(watcher, Request::Auth(auth_packet()));
    story.returned(first, Zxid(0), Ok(Reply::Empty));
    story.ping(watcher);
    let zxid = story.write(writer, set_data("/a", "b")).1.zxid;
    story.returned(second, Zxid(0), Ok(Reply::Empty));
    story.event(watcher, zxid, NodeDataChanged, "/a");
    story.ping(watcher);
    accepted(&story.end());
}

#[test]
fn the_event_of_ones_own_write_precedes_its_reply() {
    let (mut story, watcher, _) = story();
    story.read(watcher, watch_data("/a"));
    let (call, xid) = story.call(watcher, set_data("/a", "b"));
    let outcome = story.commit(watcher, xid, set_data("/a", "b"));
    story.event(watcher, outcome.zxid, NodeDataChanged, "/a");
    story.returned(call, outcome.zxid, outcome.result);
    let good = story.end();
    accepted(&good);
    let mut bad = good;
    let last = bad.records.len() - 1;
    bad.records.swap(last, last - 1);
    refused(&bad, "P3 watches");
}
