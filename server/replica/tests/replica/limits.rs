//! What one client can make a server hold.

use bytes::Bytes;
use zoolet_jute::{
    AddWatchMode, AddWatchRequest, AuthPacket, ErrorCode, PathWatchRequest, Request, Xid,
};
use zoolet_replica::{ConnectionId, Options, Output};

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
    assert_eq!(ask(&mut world, connection, auth(20_000)), None);
    assert_eq!(ask(&mut world, connection, auth(30_000)), None);
    assert_eq!(ask(&mut world, connection, auth(40_000)), Some(ErrorCode::AuthFailed));
    assert!(world.out.iter().any(|output| matches!(output, Output::Close { .. })));
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
    assert!((10_000 / 400..10_000 / 100).contains(&added), "{added} watches");
}
