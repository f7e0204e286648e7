//! The reports for the audit log: each change once, by the server that has proposed it.

use zoolet_jute::{
    Acl, CreateMode, CreateRequest, ErrorCode, MultiOp, Parts, PathVersionRequest, Request,
    SetAclRequest, Xid,
};
use zoolet_replica::AuditOperation::{Create, Delete, EphemeralDelete, Multi, SetAcl};
use zoolet_replica::{AuditEvent, AuditOperation, Output};

use crate::world::{World, handshake};

/// What it was, its path, and why it was refused.
type Seen = (AuditOperation, String, Option<ErrorCode>);

fn create(path: &str, mode: CreateMode) -> CreateRequest {
    CreateRequest { path: path.to_owned(), data: None, acl: Some(Acl::open()), flags: mode as i32 }
}

fn delete(path: &str) -> PathVersionRequest {
    PathVersionRequest { path: path.to_owned(), version: -1 }
}

fn events(world: &mut World) -> Vec<AuditEvent> {
    let events = world.out.drain(..).filter_map(|output| match output {
        Output::Audit(event) => Some(*event),
        _ => None,
    });
    events.collect()
}

fn seen(events: &[AuditEvent]) -> Vec<Seen> {
    let each = |event: &AuditEvent| {
        let error = event.error;
        let changes = event.changes.clone().into_iter();
        changes
            .map(move |change| (change.operation, change.path.unwrap(), error))
            .collect::<Vec<_>>()
    };
    events.iter().flat_map(each).collect()
}

#[test]
fn every_change_is_reported_once_with_its_outcome() {
    // Three servers apply each command, and the second has proposed them.
    let mut world = World::new(3, |options| options.audit = true);
    let client = world.connect(1, handshake(4000));
    world.commit();
    let requests = [
        Request::Create2(create("/a", CreateMode::PersistentSequential)),
        Request::Create(create("/e", CreateMode::Ephemeral)),
        Request::Create(create("/e", CreateMode::Ephemeral)),
        Request::SetAcl(SetAclRequest {
            path: "/e".to_owned(),
            acl: Some(Acl::open()),
            version: -1,
        }),
        Request::Multi(Parts(vec![
            MultiOp::Check(delete("/e")),
            MultiOp::Create(create("/b", CreateMode::PersistentSequential)),
            MultiOp::Delete(delete("/e")),
        ])),
        Request::Multi(Parts(vec![
            MultiOp::Create(create("/c", CreateMode::Persistent)),
            MultiOp::Delete(delete("/missing")),
            MultiOp::Delete(delete("/a")),
        ])),
        Request::Delete(delete("/missing")),
        Request::Create(create("/last", CreateMode::Ephemeral)),
    ];
    for (number, request) in requests.into_iter().enumerate() {
        world.request(client, Xid(i32::try_from(number).unwrap()), Ok(request));
        world.commit();
    }
    let all = events(&mut world);
    let expected = [
        (Create, "/a0000000000".to_owned(), None),
        (Create, "/e".to_owned(), None),
        (Create, "/e".to_owned(), Some(ErrorCode::NodeExists)),
        (SetAcl, "/e".to_owned(), None),
        (Create, "/b0000000002".to_owned(), None),
        (Delete, "/e".to_owned(), None),
        (Multi, "/missing".to_owned(), Some(ErrorCode::NoNode)),
        (Delete, "/missing".to_owned(), Some(ErrorCode::NoNode)),
        (Create, "/last".to_owned(), None),
    ];
    assert_eq!(seen(&all), expected);
    let zxids: Vec<_> = all.iter().map(|event| event.zxid.unwrap()).collect();
    assert!(zxids.is_sorted() && all.iter().all(|event| event.identities.len() == 1));
    assert_eq!(all[0].changes[0].mode, Some(CreateMode::PersistentSequential));
    assert_eq!(all[3].changes[0].acl, Some(Acl::open()));

    world.request(client, Xid(99), Ok(Request::CloseSession));
    world.commit();
    assert_eq!(seen(&events(&mut world)), [(EphemeralDelete, "/last".to_owned(), None)]);
}

/// The leader has decided it, and reports it without an identity.
#[test]
fn an_expiry_is_reported_by_the_leader_alone() {
    let mut world = World::new(3, |options| options.audit = true);
    let client = world.connect(2, handshake(2000));
    world.commit();
    for name in ["/one", "/two"] {
        world.request(client, Xid(1), Ok(Request::Create(create(name, CreateMode::Ephemeral))));
        world.commit();
    }
    world.disconnect(client);
    events(&mut world);
    world.pass(10_000);
    world.commit();
    let events = events(&mut world);
    let ended = EphemeralDelete;
    assert_eq!(seen(&events), [(ended, "/one".to_owned(), None), (ended, "/two".to_owned(), None)]);
    assert!(events[0].identities.is_empty());
}

#[test]
fn what_does_not_get_into_the_log_is_reported_too() {
    let mut world = World::new(1, |options| {
        options.audit = true;
        options.command_bytes_max = 500;
    });
    let client = world.connect(0, handshake(4000));
    world.commit();
    let long = format!("/{}", "x".repeat(600));
    world.request(client, Xid(1), Ok(Request::Delete(delete(&long))));
    let events = events(&mut world);
    let expected = (Delete, long, Some(ErrorCode::BadArguments));
    assert_eq!((seen(&events), events[0].zxid), (vec![expected], None));
}

#[test]
fn nothing_is_reported_unless_it_is_asked_for() {
    let mut world = World::new(3, |_| {});
    let client = world.connect(1, handshake(4000));
    world.commit();
    world.request(client, Xid(1), Ok(Request::Create(create("/a", CreateMode::Ephemeral))));
    world.commit();
    assert_eq!(events(&mut world), []);
}
