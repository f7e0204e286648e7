//! The agreed feature level falls while clients write what needs the old one.

use zoolet_jute::{Acl, CreateRequest, ErrorCode, Id, NullablePathRequest, Reply, Request, Xid};
use zoolet_replica::{ConnectionId, FeatureLevel, Input, Op, Output, Role};

use crate::world::{World, handshake};

const LEADER: usize = 0;

/// An ensemble that has agreed on this release's level, and a client of its leader.
fn begin() -> (World, ConnectionId) {
    let mut world = World::new(3, |_| {});
    ask_for(&mut world, FeatureLevel::OF_RELEASE);
    world.commit();
    let connection = world.connect(LEADER, handshake(1000));
    world.commit();
    world.out.clear();
    (world, connection)
}

fn ask_for(world: &mut World, level: FeatureLevel) {
    world.step(LEADER, Input::Level { level });
}

/// A write of level 2, for as long as the agreed level has x509.
fn create(path: &str) -> Request {
    let acl = Some(vec![Acl { perms: 31, id: Id::new("x509", "CN=a") }]);
    Request::Create(CreateRequest { path: path.into(), data: None, acl, flags: 0 })
}

/// What the leader has proposed and the log does not have.
fn proposed(world: &World) -> Vec<&'static str> {
    let name = |op: &Op| match op {
        Op::SetLevel { .. } => "level",
        Op::Write(_) => "write",
        Op::WriteX509(_) => "write of level 2",
        _ => "another",
    };
    world.servers[LEADER].proposed.iter().map(|command| name(&command.op)).collect()
}

fn results(world: &World) -> Vec<(Xid, Result<(), ErrorCode>)> {
    let result = |out: &Output| match out {
        Output::Reply { to, result, .. } => {
            Some((to.xid, result.as_ref().map(|_: &Reply| ()).map_err(|error| *error)))
        }
        _ => None,
    };
    world.out.iter().filter_map(result).collect()
}

/// The leader proposed on, behind the lower level, what that level does not admit. It was not logged,
/// and everything behind it was lost as well.
#[test]
fn the_leader_proposes_nothing_above_the_level_that_it_has_proposed() {
    let (mut world, connection) = begin();
    world.request(connection, Xid(1), Ok(create("/a")));
    ask_for(&mut world, FeatureLevel::FIRST);
    world.request(connection, Xid(2), Ok(create("/b")));
    assert_eq!(proposed(&world), ["write of level 2", "level"]);
    world.commit();
    assert_eq!(results(&world), [(Xid(1), Ok(())), (Xid(2), Err(ErrorCode::InvalidAcl))]);
    ask_for(&mut world, FeatureLevel::OF_RELEASE);
    world.request(connection, Xid(3), Ok(create("/c")));
    assert_eq!(proposed(&world), ["level"]);
    world.commit();
    world.request(connection, Xid(4), Ok(create("/d")));
    assert_eq!(proposed(&world), ["write of level 2"]);
}

/// A leader that is elected anew knows nothing of what it has asked for before.
#[test]
fn a_new_term_begins_with_the_agreed_level() {
    let (mut world, connection) = begin();
    ask_for(&mut world, FeatureLevel::FIRST);
    world.request(connection, Xid(1), Ok(create("/a")));
    assert_eq!(proposed(&world), ["level"]);
    world.term += 1;
    world.take_role(LEADER, Role::Leader);
    world.request(connection, Xid(2), Ok(create("/b")));
    assert_eq!(proposed(&world), ["level", "write of level 2"]);
}

/// A leader that loses its quorum for a moment leads on in its term, and what it has proposed is on its
/// way.
#[test]
fn a_leader_that_looks_for_its_quorum_still_knows_what_it_has_proposed() {
    let (mut world, connection) = begin();
    ask_for(&mut world, FeatureLevel::FIRST);
    world.step(LEADER, Input::Role { role: Role::Looking, term: None });
    world.request(connection, Xid(1), Ok(create("/a")));
    world.take_role(LEADER, Role::Leader);
    world.request(connection, Xid(2), Ok(create("/b")));
    assert_eq!(proposed(&world), ["level"]);
}

/// A write that waited for a sync was proposed as it was, at a level that had fallen since.
#[test]
fn a_held_write_is_judged_again_when_the_level_has_fallen() {
    let sync = || Request::Sync(NullablePathRequest { path: None });
    let (mut world, connection) = begin();
    world.request(connection, Xid(1), Ok(sync()));
    world.request(connection, Xid(2), Ok(create("/a")));
    world.request(connection, Xid(3), Ok(sync()));
    ask_for(&mut world, FeatureLevel::FIRST);
    world.commit();
    world.synced(LEADER);
    world.commit();
    let expected = [(Xid(1), Ok(())), (Xid(2), Err(ErrorCode::InvalidAcl)), (Xid(3), Ok(()))];
    assert_eq!(results(&world), expected);

    ask_for(&mut world, FeatureLevel::OF_RELEASE);
    world.commit();
    world.request(connection, Xid(4), Ok(sync()));
    world.request(connection, Xid(5), Ok(create("/b")));
    ask_for(&mut world, FeatureLevel::FIRST);
    world.step(LEADER, Input::Disconnect { connection });
    assert_eq!(proposed(&world), ["level"], "the connection is gone");
}
