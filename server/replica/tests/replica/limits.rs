//! What one client can make a server hold.

use bytes::Bytes;
use zoolet_jute::{
    Acl, AddWatchMode, AddWatchRequest, AuthPacket, CreateRequest, ErrorCode, Id, MultiOp,
    MultiReadOp, MultiResult, Parts, PathWatchRequest, Reply, Request, Xid, perms,
};
use zoolet_replica::{ConnectionId, Limit, Options, Output, ServerId};

use crate::world::{World, handshake};

/// A server with one connection.
fn world(adapt: impl Fn(&mut Options)) -> (World, ConnectionId) {
    let mut world = World::new(1, adapt);
    let connection = world.connect(0, handshake(1000));
    world.commit();
    (world, connection)
}

/// Sends a request and returns the error of its reply.
fn ask(world: &mut World, connection: ConnectionId, request: Request) -> Option<ErrorCode> {
    world.out.clear();
    world.request(connection, Xid(1), Ok(request));
    world.out.iter().find_map(|output| match output {
        Output::Reply { result, .. } => Some(result.as_ref().err().copied()),
        _ => None,
    })?
}

#[test]
fn identities_have_room_for_names_and_not_for_megabytes() {
    // Each write carries them through the log.
    let (mut world, connection) = world(|_| {});
    let auth = |name: usize| {
        let text = format!("{}:secret", "x".repeat(name));
        let auth = Some(Bytes::from(text));
        Request::Auth(AuthPacket { auth_type: 0, scheme: Some("digest".to_owned()), auth })
    };
    assert_eq!(ask(&mut world, connection, auth(900)), None);
    assert_eq!(ask(&mut world, connection, auth(901)), None);
    assert_eq!(ask(&mut world, connection, auth(200)), Some(ErrorCode::AuthFailed));
    assert!(world.out.iter().any(|output| matches!(output, Output::Close { .. })));
}

#[test]
fn a_connection_has_a_bounded_number_of_identities() {
    let (mut world, connection) = world(|_| {});
    let auth = |user: usize| {
        let auth = Some(Bytes::from(format!("user{user}:secret")));
        Request::Auth(AuthPacket { auth_type: 0, scheme: Some("digest".to_owned()), auth })
    };
    // Its address is one of sixteen.
    for user in 1..16 {
        assert_eq!(ask(&mut world, connection, auth(user)), None);
    }
    assert_eq!(ask(&mut world, connection, auth(1)), None, "it has this one already");
    assert_eq!(ask(&mut world, connection, auth(16)), Some(ErrorCode::AuthFailed));
    let refused = world.servers[0].replica.take_refusals();
    assert_eq!(refused.first().map(|refusal| refusal.limit), Some(Limit::SessionIdentities));
}

fn create(path: &str, acl: Vec<Acl>) -> CreateRequest {
    CreateRequest { path: path.to_owned(), data: None, acl: Some(acl), flags: 0 }
}

fn digests(count: usize) -> Vec<Acl> {
    let entry = |n| Acl { perms: perms::ALL, id: Id::new("digest", format!("{n}:x")) };
    (0..count).map(entry).collect()
}

/// Sends a write, commits it, and returns its reply.
fn write(
    world: &mut World,
    connection: ConnectionId,
    request: Request,
) -> Result<Reply, ErrorCode> {
    world.out.clear();
    world.request(connection, Xid(1), Ok(request));
    world.commit();
    let reply = world.out.iter().find_map(|output| match output {
        Output::Reply { result, .. } => Some(result.clone()),
        _ => None,
    });
    reply.expect("it is answered")
}

/// One znode with 40,000 entries made each permission check a millisecond long.
#[test]
fn an_acl_has_a_bounded_number_of_entries() {
    let (mut world, connection) = world(|options| options.acl_entries_max = 10);
    let refused = Err(ErrorCode::InvalidAcl);
    let reply = write(&mut world, connection, Request::Create(create("/a", digests(11))));
    assert_eq!(reply, refused);
    let refusals = world.servers[0].replica.take_refusals();
    assert_eq!(refusals.first().map(|refusal| refusal.limit), Some(Limit::AclEntries));
    let reply = write(&mut world, connection, Request::Create(create("/b", digests(10))));
    assert_eq!(reply, Ok(Reply::Path("/b".to_owned())));
    // In a multi it is the error of its part, and what precedes it comes first.
    let parts = |first: &str| {
        let ops = [create(first, digests(1)), create("/c", digests(11))];
        Request::Multi(Parts(ops.map(MultiOp::Create).into()))
    };
    let errors = |codes: [Option<ErrorCode>; 2]| {
        Ok(Reply::Multi(Parts(codes.map(MultiResult::Error).into())))
    };
    let reply = write(&mut world, connection, parts("/x"));
    assert_eq!(reply, errors([None, Some(ErrorCode::InvalidAcl)]));
    let reply = write(&mut world, connection, parts("/b"));
    let behind = Some(ErrorCode::RuntimeInconsistency);
    assert_eq!(reply, errors([Some(ErrorCode::NodeExists), behind]));
    // An `auth` entry counts as all entries that it becomes.
    for user in 0..6 {
        let auth = Some(Bytes::from(format!("user{user}:secret")));
        let packet = AuthPacket { auth_type: 0, scheme: Some("digest".to_owned()), auth };
        assert_eq!(ask(&mut world, connection, Request::Auth(packet)), None);
    }
    let both = [1, 2].map(|perms| Acl { perms, id: Id::new("auth", "") });
    let reply = write(&mut world, connection, Request::Create(create("/d", both.into())));
    assert_eq!(reply, refused);
}

/// An ACL of an older release, or of a snapshot of Apache's, may be longer.
#[test]
fn a_longer_acl_that_is_stored_stays_in_force() {
    let mut world = World::new(2, |options| {
        options.acl_entries_max = if options.server == ServerId(1) { 1000 } else { 10 };
    });
    let [writer, reader] = [0, 1].map(|server| world.connect(server, handshake(1000)));
    world.commit();
    let acl = digests(500).into_iter().chain(Acl::open()).collect();
    let reply = write(&mut world, writer, Request::Create(create("/a", acl)));
    assert_eq!(reply, Ok(Reply::Path("/a".to_owned())));
    // The other server applies it, whatever its own limit.
    let read = Request::GetData(PathWatchRequest { path: "/a".to_owned(), watch: false });
    assert_eq!(ask(&mut world, reader, read), None);
}

/// An IPv4-mapped address was stored, and matched no client.
#[test]
fn an_ip_acl_is_stored_in_a_form_that_matches_or_refused() {
    let (mut world, connection) = world(|_| {});
    let ip = |id: &str| vec![Acl { perms: perms::ALL, id: Id::new("ip", id) }];
    let reply =
        write(&mut world, connection, Request::Create(create("/a", ip("::ffff:127.0.0.1"))));
    assert_eq!(reply, Err(ErrorCode::InvalidAcl));
    let reply = write(&mut world, connection, Request::Create(create("/b", ip("127.000.0.01"))));
    assert_eq!(reply, Ok(Reply::Path("/b".to_owned())));
    let stored = world.servers[0].replica.state().acl("/b");
    assert_eq!(stored.as_deref(), Some(&*ip("127.0.0.1")));
}

/// It was put together as a whole before it was refused: one hold of the lock of 9 s.
#[test]
fn a_multi_read_with_too_long_a_result_is_refused() {
    let (mut world, connection) = world(|_| {});
    let data = Some(Bytes::from(vec![7; 1 << 20]));
    let body = CreateRequest { data, ..create("/big", Acl::open()) };
    write(&mut world, connection, Request::Create(body)).expect("it is created");
    let read = |count: usize| {
        let part = PathWatchRequest { path: "/big".to_owned(), watch: false };
        Request::MultiRead(Parts(vec![MultiReadOp::GetData(part); count]))
    };
    assert_eq!(ask(&mut world, connection, read(31)), None);
    // The second one is long enough to be read in several steps.
    for count in [32, 100] {
        let error = ask(&mut world, connection, read(count));
        assert_eq!(error, Some(ErrorCode::MarshallingError), "{count} parts");
    }
}

#[test]
fn watches_are_limited_by_the_bytes_of_their_paths_as_well() {
    // Nothing says that a path that is watched could exist.
    let (mut world, connection) = world(|options| options.watch_bytes_per_connection_max = 3000);
    let add = |path: String| {
        Request::AddWatch(AddWatchRequest { path, mode: AddWatchMode::PersistentRecursive })
    };
    let path = |name: &str| format!("/{name}{}", "x".repeat(900));
    assert_eq!(ask(&mut world, connection, add(path("a"))), None);
    assert_eq!(ask(&mut world, connection, add(path("b"))), None);
    assert_eq!(ask(&mut world, connection, add(path("c"))), Some(ErrorCode::ThrottledOp));
    assert_eq!(ask(&mut world, connection, add(path("a"))), None, "it is there already");
    let exists = PathWatchRequest { path: path("c"), watch: true };
    let refused = ask(&mut world, connection, Request::Exists(exists));
    assert_eq!(refused, Some(ErrorCode::ThrottledOp));
    assert_eq!(ask(&mut world, connection, add("/short".to_owned())), None);
}

/// A session with ten times as many watches as it may have, each within its own limit, had two
/// gigabytes of tables on a server of default settings: only the text of the paths was counted.
#[test]
fn the_watches_of_all_connections_share_a_limit_of_memory() {
    let mut world = World::new(1, |options| options.watch_bytes_max = 10_000);
    let add = |number: usize| {
        let path = format!("/{number}");
        Request::AddWatch(AddWatchRequest { path, mode: AddWatchMode::Persistent })
    };
    let mut added = 0;
    for _ in 0..4 {
        let connection = world.connect(0, handshake(1000));
        world.commit();
        added += (0..100).filter(|n| ask(&mut world, connection, add(*n)).is_none()).count();
    }
    assert!(added >= 10_000 / 400, "{added} watches");
    // A connection gives way to one with much less, so more were added than are there.
    let used = world.servers[0].replica.limits_used();
    let of_all = used.into_iter().find(|(limit, _)| *limit == Limit::WatchBytes);
    assert!((5000..=10_000).contains(&of_all.unwrap().1), "{used:?}");
}
