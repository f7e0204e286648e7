//! What takes long is done in steps that no client can see.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use zoolet_jute::{
    Acl, CreateRequest, ErrorCode, MultiOp, MultiResult, NullablePathRequest, OpCode, Parts,
    PathVersionRequest, PathWatchRequest, Reply, Request, SessionId, SetDataRequest,
    SetWatchesRequest, Xid, Zxid,
};
use zoolet_replica::{ConnectionId, InFlight, Input, Output, ReplyTo, Role, Term};

use crate::world::{TICK_MS, World, handshake};

fn create(path: &str, flags: i32, data: &Bytes) -> Request {
    let (data, acl) = (Some(data.clone()), Some(Acl::open()));
    Request::Create(CreateRequest { path: path.to_owned(), data, acl, flags })
}

fn get(path: &str) -> Request {
    Request::GetData(PathWatchRequest { path: path.to_owned(), watch: false })
}

fn exists(path: &str, watch: bool) -> Request {
    Request::Exists(PathWatchRequest { path: path.to_owned(), watch })
}

fn list(path: &str) -> Request {
    Request::GetChildren(PathWatchRequest { path: path.to_owned(), watch: false })
}

/// Sends requests, numbered from 1.
fn ask(world: &mut World, connection: ConnectionId, asked: impl IntoIterator<Item = Request>) {
    for (xid, request) in (1..).zip(asked) {
        world.request(connection, Xid(xid), Ok(request));
    }
}

fn connect(world: &mut World) -> ConnectionId {
    let connection = world.connect(0, handshake(10_000));
    world.commit();
    connection
}

/// The replies that a connection has got, by their numbers.
fn replies(world: &World, connection: ConnectionId) -> Vec<i32> {
    let xid = |output: &Output| match output {
        Output::Reply { to, .. } | Output::ReplyLong { to, .. } => {
            (to.connection == connection).then_some(to.xid.0)
        }
        _ => None,
    };
    world.out.iter().filter_map(xid).collect()
}

/// 33 short requests took 1.2 GiB: whatever waited behind a write or a sync was answered at the
/// moment at which that was done, before the client had read any of it.
#[test]
fn replies_that_wait_behind_a_sync_are_made_when_the_client_reads() {
    let mut world = World::new(1, |_| {});
    let client = connect(&mut world);
    ask(&mut world, client, [create("/big", 0, &Bytes::from(vec![7; 300_000]))]);
    world.commit();
    world.stepwise = true;
    world.out.clear();
    let sync = Request::Sync(NullablePathRequest { path: None });
    ask(&mut world, client, std::iter::once(sync).chain((0..20).map(|_| get("/big"))));
    world.synced(0);
    let first = replies(&world, client);
    assert_eq!(first, (1..=5).collect::<Vec<_>>(), "a mebibyte, and the one that passes it");
    assert_eq!(world.out.last(), Some(&Output::AwaitRoom { connection: client }));
    // It has read nothing: nothing is made, whatever else happens.
    world.step(0, Input::Tick);
    world.step(0, Input::GoOn);
    assert_eq!(replies(&world, client).len(), first.len());
    for _ in 0..10 {
        world.step(0, Input::Room { connection: client, unwritten_bytes: 0 });
    }
    assert_eq!(replies(&world, client), (1..=21).collect::<Vec<_>>(), "all, once and in order");
}

/// The replies before a write are put off until the client reads; the write is not, and they must
/// not see it.
#[test]
fn a_read_that_is_put_off_does_not_see_a_later_write_of_its_connection() {
    let mut world = World::new(1, |_| {});
    let client = connect(&mut world);
    ask(&mut world, client, [create("/big", 0, &Bytes::from(vec![7; 600_000]))]);
    world.commit();
    world.stepwise = true;
    world.out.clear();
    let set = |data: &'static str| {
        let data = Some(Bytes::from_static(data.as_bytes()));
        Request::SetData(SetDataRequest { path: "/big".to_owned(), data, version: -1 })
    };
    let touch = create("/first", 0, &Bytes::new());
    let reads = (0..10).map(|_| get("/big"));
    ask(&mut world, client, std::iter::once(touch).chain(reads).chain([set("small")]));
    world.append(0, 1);
    world.apply(0);
    assert_eq!(replies(&world, client).len(), 3, "the others wait for the client to read");
    world.append(0, 1);
    world.apply(0);
    while world.servers[0].replica.has_work() {
        world.step(0, Input::GoOn);
    }
    assert_eq!(replies(&world, client), (1..=12).collect::<Vec<_>>());
    let lengths = world.out.iter().filter_map(|output| match output {
        Output::Reply { result: Ok(Reply::Data(Some(data), _)), .. } => Some(data.len()),
        _ => None,
    });
    assert_eq!(lengths.collect::<Vec<_>>(), [600_000; 10]);
}

/// The lock was held for as long as it took to delete all ephemeral znodes of a session, to notify
/// their watchers, and to list them.
#[test]
fn a_session_with_many_ephemerals_ends_in_steps_that_no_client_sees() {
    let mut world = World::new(2, |_| {});
    let (owner, watcher) = (connect(&mut world), connect(&mut world));
    ask(&mut world, owner, (0..5000).map(|n| create(&format!("/e{n:04}"), 1, &Bytes::new())));
    world.commit();
    ask(&mut world, watcher, [exists("/e0000", true), exists("/e4999", true)]);
    let before = world.servers[0].replica.digest();
    world.out.clear();
    world.stepwise = true;
    ask(&mut world, owner, [Request::CloseSession]);
    world.append(0, usize::MAX);
    world.apply(0);
    ask(&mut world, watcher, [exists("/e4999", false), Request::Ping, list("/")]);
    let mut steps = 0;
    while world.servers[0].replica.has_work() {
        let done = world.servers[0].replica.work_done();
        if world.servers[0].replica.is_applying() {
            assert_eq!(world.servers[0].replica.digest(), before, "as if nothing had happened");
            assert!(replies(&world, watcher).is_empty(), "no reply overtakes an event");
        }
        world.step(0, Input::GoOn);
        assert!(world.servers[0].replica.work_done() - done < 3000, "a step is short");
        steps += 1;
    }
    assert!(steps > 10, "{steps} steps");
    let events = world.out.iter().filter(|output| matches!(output, Output::Notify { .. }));
    assert_eq!(events.count(), 2);
    let first_reply = world
        .out
        .iter()
        .position(|output| matches!(output, Output::Reply { to, .. } if to.connection == watcher));
    let last_event = world.out.iter().rposition(|output| matches!(output, Output::Notify { .. }));
    assert!(first_reply > last_event);
    assert_eq!(replies(&world, watcher).len(), 3);
    assert!(world.out.iter().any(|output| matches!(
        output,
        Output::Reply { to: ReplyTo { xid: Xid(1), .. }, result: Err(ErrorCode::NoNode), .. }
    )));
    // The other server does it in one go.
    world.stepwise = false;
    world.apply(1);
    let digests = world.servers.iter().map(|server| server.replica.state().digest());
    let digests: Vec<_> = digests.collect();
    assert_eq!(digests[0], digests[1]);
    assert_eq!(digests[0], world.servers[0].replica.state().digest_recomputed());
}

#[test]
fn a_long_multi_that_fails_is_undone_in_steps() {
    let mut world = World::new(1, |_| {});
    let (writer, reader) = (connect(&mut world), connect(&mut world));
    ask(&mut world, writer, (0..3000).map(|n| create(&format!("/m{n}"), 0, &Bytes::new())));
    world.commit();
    let delete = |path: String| MultiOp::Delete(PathVersionRequest { path, version: -1 });
    let mut parts: Vec<_> = (0..3000).map(|n| delete(format!("/m{n}"))).collect();
    parts.push(delete("/none".to_owned()));
    let tree_before = world.servers[0].replica.state().node_count();
    world.out.clear();
    world.stepwise = true;
    ask(&mut world, writer, [Request::Multi(Parts(parts))]);
    world.append(0, usize::MAX);
    world.apply(0);
    ask(&mut world, reader, [exists("/m0", false)]);
    let mut smallest = usize::MAX;
    while world.servers[0].replica.has_work() {
        world.step(0, Input::GoOn);
        smallest = smallest.min(world.servers[0].replica.state().node_count());
    }
    assert!(smallest < tree_before, "it was seen half done");
    let state = world.servers[0].replica.state();
    assert_eq!(state.node_count(), tree_before);
    assert_eq!(state.digest(), state.digest_recomputed());
    let failed = |output: &Output| match output {
        Output::Reply { result: Ok(Reply::Multi(results)), .. } => {
            results.0.last() == Some(&MultiResult::Error(Some(ErrorCode::NoNode)))
        }
        _ => false,
    };
    assert!(world.out.iter().any(failed));
    assert!(matches!(
        world
            .out
            .iter()
            .find(|output| matches!(output, Output::Reply { to, .. } if to.connection == reader)),
        Some(Output::Reply { result: Ok(Reply::Stat(_)), .. })
    ));
}

/// A setWatches may have a hundred thousand paths; a request behind it waits for all of them.
#[test]
fn a_long_set_watches_is_done_in_steps_and_in_order() {
    let mut world = World::new(1, |_| {});
    let (writer, client) = (connect(&mut world), connect(&mut world));
    ask(&mut world, writer, [create("/there", 0, &Bytes::new())]);
    world.commit();
    world.out.clear();
    world.stepwise = true;
    let mut data_watches: Vec<_> = (0..5000).map(|n| format!("/gone{n}")).collect();
    data_watches.push("/there".to_owned());
    let watches = Request::SetWatches(SetWatchesRequest {
        relative_zxid: Zxid(i64::MAX),
        data_watches,
        exist_watches: vec!["/new".to_owned()],
        child_watches: Vec::new(),
    });
    ask(&mut world, client, [watches, exists("/there", false)]);
    assert!(replies(&world, client).is_empty());
    let mut steps = 0;
    while world.servers[0].replica.has_work() {
        world.step(0, Input::GoOn);
        steps += 1;
    }
    assert!(steps > 3, "{steps} steps");
    assert_eq!(replies(&world, client), [1, 2]);
    let events = world.out.iter().filter(|output| matches!(output, Output::Notify { .. }));
    assert_eq!(events.count(), 5000);
    assert_eq!(world.servers[0].replica.watch_count(), 2);
}

#[test]
fn the_watches_of_a_connection_that_is_gone_are_removed_in_steps() {
    let mut world = World::new(1, |_| {});
    let client = connect(&mut world);
    let watches = (0..3000).map(|n| exists(&format!("/none{n}"), true));
    ask(&mut world, client, watches);
    assert_eq!(world.servers[0].replica.watch_count(), 3000);
    world.stepwise = true;
    world.disconnect(client);
    let left = world.servers[0].replica.watch_count();
    assert!(left > 2000, "{left} are left");
    while world.servers[0].replica.has_work() {
        let before = world.servers[0].replica.watch_count();
        world.step(0, Input::GoOn);
        assert!(before - world.servers[0].replica.watch_count() <= 2000);
    }
    assert_eq!(world.servers[0].replica.watch_count(), 0);
}

/// A snapshot took the lock for as long as it took to look after all watches of all connections.
#[test]
fn the_watches_behind_a_snapshot_are_looked_after_in_steps() {
    let mut world = World::new(2, |_| {});
    let (writer, client) = (connect(&mut world), world.connect(1, handshake(10_000)));
    ask(&mut world, writer, [create("/kept", 0, &Bytes::new())]);
    world.commit();
    let paths = (0..4000).map(|n| format!("/new{n:04}")).chain(["/kept".to_owned()]);
    let paths: Vec<_> = paths.collect();
    ask(&mut world, client, paths.iter().map(|path| exists(path, true)));
    // The other server misses the creation of all but one.
    let creates = paths.iter().take(4000).map(|path| create(path, 0, &Bytes::new()));
    ask(&mut world, writer, creates);
    world.append(0, usize::MAX);
    world.apply(0);
    world.out.clear();
    world.stepwise = true;
    world.install(1, 0);
    ask(&mut world, client, [exists("/new0000", false)]);
    let mut steps = 0;
    while world.servers[1].replica.has_work() {
        assert!(replies(&world, client).is_empty() || !world.servers[1].replica.is_applying());
        let done = world.servers[1].replica.work_done();
        world.step(1, Input::GoOn);
        assert!(world.servers[1].replica.work_done() - done < 3000, "a step is short");
        steps += 1;
    }
    assert!(steps > 3, "{steps} steps");
    let events = world.out.iter().filter(|output| matches!(output, Output::Notify { .. }));
    assert_eq!(events.count(), 4000);
    assert_eq!(replies(&world, client), [1]);
    assert_eq!(world.servers[1].replica.watch_count(), 1);
    assert!(world.servers[1].replica.take_garbage().is_some(), "the old state is given away");
}

/// A new leader gave all sessions their timeouts under one lock.
#[test]
fn a_new_leader_grants_its_sessions_their_timeouts_in_steps() {
    let mut world = World::new(2, |_| {});
    let clients: Vec<_> = (0..3000).map(|_| connect(&mut world)).collect();
    world.stepwise = true;
    world.step(0, Input::Role { role: Role::Looking, term: None });
    assert!(world.servers[0].replica.take_garbage().is_some(), "the deadlines are given away");
    world.out.clear();
    world.step(0, Input::Role { role: Role::Leader, term: Some(Term(2)) });
    let due = |world: &World| {
        let sessions = (0..).map_while(|part| world.servers[0].replica.sessions(part)).flatten();
        sessions.filter(|known| known.expires_ms.is_some()).count()
    };
    assert!(due(&world) < 1500, "{} have got theirs at once", due(&world));
    // Sessions that are active meanwhile count, and get theirs early.
    let last = *clients.last().unwrap();
    world.request(last, Xid::PING, Ok(Request::Ping));
    assert_eq!(replies(&world, last), [Xid::PING.0], "the leader has counted the ping");
    let mut steps = 0;
    while world.servers[0].replica.has_work() {
        let done = world.servers[0].replica.work_done();
        world.step(0, Input::GoOn);
        assert!(world.servers[0].replica.work_done() - done < 3000, "a step is short");
        steps += 1;
    }
    assert!(steps >= 3, "{steps} steps");
    assert_eq!(due(&world), clients.len());
}

/// Its predecessor may go on counting for that long, if it was not gone when this one was elected.
#[test]
fn a_new_leader_gives_the_sessions_that_it_finds_a_grace() {
    let mut world = World::new(2, |options| options.takeover_grace_ms = 2 * TICK_MS);
    let [_, active] = [0, 1].map(|_| connect(&mut world));
    let due_ms = |world: &World| -> Vec<u64> {
        let sessions = (0..).map_while(|part| world.servers[0].replica.sessions(part)).flatten();
        sessions.map(|known| known.expires_ms.unwrap()).collect()
    };
    let before = due_ms(&world);
    world.step(0, Input::Role { role: Role::Looking, term: None });
    world.step(0, Input::Role { role: Role::Leader, term: Some(Term(2)) });
    world.request(active, Xid::PING, Ok(Request::Ping));
    while world.servers[0].replica.has_work() {
        world.step(0, Input::GoOn);
    }
    assert_eq!(
        due_ms(&world),
        before.iter().map(|due_ms| due_ms + 2 * TICK_MS).collect::<Vec<_>>()
    );
    connect(&mut world);
    assert!(due_ms(&world).contains(&before[0]), "a session of its own time has its timeout");
}

/// A change with many watchers took the lock for as long as it took to fill all their outboxes.
#[test]
fn a_change_with_many_watchers_notifies_them_in_steps() {
    let mut world = World::new(1, |_| {});
    let clients: Vec<_> = (0..2000).map(|_| connect(&mut world)).collect();
    for client in &clients {
        ask(&mut world, *client, [exists("/x", true)]);
    }
    world.out.clear();
    world.stepwise = true;
    ask(&mut world, clients[0], [create("/x", 0, &Bytes::new())]);
    world.append(0, 1);
    world.apply(0);
    let notified = |world: &World| {
        world.out.iter().filter(|output| matches!(output, Output::Notify { .. })).count()
    };
    let mut before = notified(&world);
    assert!(before <= 250, "{before} at once");
    while world.servers[0].replica.has_work() {
        world.step(0, Input::GoOn);
        let now = notified(&world);
        assert!(now - before <= 250, "{} at once", now - before);
        before = now;
    }
    assert_eq!(before, clients.len());
}

/// A path that all clients watch was copied under one lock with all its watchers.
#[test]
fn watchers_are_listed_in_steps() {
    let mut world = World::new(1, |_| {});
    let clients: Vec<_> = (0..500).map(|_| connect(&mut world)).collect();
    for client in &clients {
        ask(&mut world, *client, ["/a", "/all", "/b"].map(|path| exists(path, true)));
    }
    ask(&mut world, clients[7], [exists("/all/one", true)]);
    let (mut seen, mut after, mut steps) = (BTreeMap::<String, Vec<SessionId>>::new(), None, 0);
    loop {
        let some = world.servers[0].replica.watched_paths(after.as_ref(), 100);
        assert!(some.paths.iter().map(|(_, all)| 1 + all.len()).sum::<usize>() <= 100);
        for (path, sessions) in some.paths {
            seen.entry(path).or_default().extend(sessions);
        }
        steps += 1;
        after = some.last;
        if after.is_none() {
            break;
        }
    }
    assert!(steps >= 15, "{steps} steps");
    let counts: Vec<_> = seen.iter().map(|(path, all)| (path.as_str(), all.len())).collect();
    assert_eq!(counts, [("/a", 500), ("/all", 500), ("/all/one", 1), ("/b", 500)]);
    for sessions in seen.values() {
        assert_eq!(sessions.iter().collect::<BTreeSet<_>>().len(), sessions.len(), "each once");
    }
}

/// Where the looks of a step ended at the beginning of a path, its watchers were left out.
#[test]
fn no_path_is_left_out_between_two_steps() {
    let mut world = World::new(1, |_| {});
    let clients: Vec<_> = (0..3).map(|_| connect(&mut world)).collect();
    for number in 0..40 {
        for client in clients.iter().take(1 + number % 3) {
            ask(&mut world, *client, [exists(&format!("/p{number:02}"), true)]);
        }
    }
    let replica = &world.servers[0].replica;
    for max in 2..12 {
        let (mut seen, mut after) = (BTreeMap::<String, usize>::new(), None);
        loop {
            let some = replica.watched_paths(after.as_ref(), max);
            for (path, sessions) in some.paths {
                *seen.entry(path).or_default() += sessions.len();
            }
            after = some.last;
            if after.is_none() {
                break;
            }
        }
        let expected = (0..40).map(|number| (format!("/p{number:02}"), 1 + number % 3));
        assert_eq!(seen, expected.collect(), "{max} looks in a step");
    }
}

/// `dump` copied all sessions, and all lists of ephemeral znodes, under one lock.
#[test]
fn sessions_are_listed_in_parts() {
    let mut world = World::new(1, |_| {});
    let clients: Vec<_> = (0..2000).map(|_| connect(&mut world)).collect();
    for (number, client) in clients.iter().enumerate() {
        ask(&mut world, *client, [create(&format!("/e{number}"), 1, &Bytes::new())]);
    }
    world.commit();
    let replica = &world.servers[0].replica;
    let parts: Vec<_> = (0..).map_while(|part| replica.sessions(part)).collect();
    assert!(parts.iter().all(|part| part.len() < 100), "parts are short");
    let sessions: BTreeSet<_> = parts.iter().flatten().map(|known| known.session).collect();
    assert_eq!(sessions.len(), clients.len());
    let (mut owners, mut after) = (BTreeSet::new(), None);
    loop {
        let some = replica.ephemerals(after, 300);
        assert!(some.len() <= 300);
        let Some((last, _)) = some.last() else { break };
        after = Some(*last);
        owners.extend(some.into_iter().map(|(session, _)| session));
    }
    assert_eq!(owners, sessions);
    assert_eq!(replica.state().ephemerals_count(), clients.len());
}

/// The host guessed which request a reply was for: the first ping for a ping, else the first other.
#[test]
fn what_flow_control_counts_comes_back_with_the_reply() {
    let mut world = World::new(2, |_| {});
    let connection = world.connect(1, handshake(10_000));
    world.commit();
    let sync = Request::Sync(NullablePathRequest { path: None });
    let requests = [sync, create("/a", 0, &Bytes::new()), list("/"), Request::Ping, list("/a")];
    for (xid, request) in (1..).zip(requests) {
        let op = Some(request.op_code());
        let in_flight = InFlight { op, bytes: xid, long_reads: 10 * xid, is_large: false };
        let xid = Xid(i32::try_from(xid).unwrap());
        let request = Ok(request);
        world.step(1, Input::Request { connection, xid, request, in_flight });
    }
    world.synced(1);
    world.commit();
    world.pass(1000);
    let back = world.out.iter().filter_map(|output| match output {
        Output::Reply { to, .. } | Output::ReplyLong { to, .. } => {
            Some((to.in_flight.bytes, to.in_flight.long_reads, to.in_flight.op))
        }
        _ => None,
    });
    let mut back: Vec<_> = back.collect();
    assert!(back.iter().any(|(bytes, _, op)| (*bytes, *op) == (4, Some(OpCode::Ping))));
    back.sort_unstable_by_key(|(bytes, ..)| *bytes);
    let counts: Vec<_> =
        back.into_iter().map(|(bytes, long_reads, _)| (bytes, long_reads)).collect();
    assert_eq!(counts, [(1, 10), (2, 20), (3, 30), (4, 40), (5, 50)]);
}
