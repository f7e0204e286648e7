//! The parts of requests: ACLs, identities, bodies of creates.

use bytes::Bytes;
use zoolet_jute::{Acl, AuthPacket, CreateMode, CreateRequest, CreateTtlRequest, Id, perms};

use crate::load::chance::Chance;

/// The identities of clients, and their names in ACLs.
const IDENTITIES: [(&str, &str); 2] = [
    ("alice:a", "alice:AIueg8ag5ALfqeEyKdLnva1Wvi0="),
    ("bob:b", "bob:LcrmCNs/wfVD+i5a5yaz89GyjIM="),
];

/// The last number of [`acl`].
pub(super) const ANY_ACL: u64 = 15;

/// An ACL. Half of them allow everything.
pub(super) fn acl(number: u64) -> Vec<Acl> {
    let one = |perms: i32, id: Id| Acl { perms, id };
    let world = || Id::new("world", "anyone");
    let [(_, alice), (_, bob)] = IDENTITIES;
    match number {
        4 => vec![one(perms::READ, world()), one(perms::ALL, Id::new("digest", alice))],
        5 => {
            vec![one(perms::ALL, Id::new("digest", alice)), one(perms::ALL, Id::new("digest", bob))]
        }
        6 => vec![
            one(perms::READ | perms::CREATE | perms::DELETE, world()),
            one(perms::ALL, Id::new("digest", bob)),
        ],
        // Everything to the identities of the caller: refused if it has none.
        7 => vec![one(perms::ALL, Id::new("auth", ""))],
        // To the first clients of a simulated network, and to one of them.
        8 => vec![one(perms::READ, world()), one(perms::ALL, Id::new("ip", "10.0.0.96/28"))],
        9 => vec![one(perms::ALL, Id::new("ip", "10.0.0.103"))],
        // Refused as long as a server may not know the scheme.
        10 => vec![one(perms::READ, world()), one(perms::ALL, Id::new("x509", "CN=client"))],
        11 => vec![one(perms::READ, world()), one(perms::ALL, Id::new("sasl", "client@realm"))],
        _ => Acl::open(),
    }
}

/// Credentials of one of the identities.
pub(super) fn identity(chance: &mut Chance) -> AuthPacket {
    let secret = chance.pick(&IDENTITIES).map_or("", |(secret, _)| *secret);
    AuthPacket {
        auth_type: 0,
        scheme: Some("digest".to_owned()),
        auth: Some(Bytes::from_static(secret.as_bytes())),
    }
}

/// The body of a create. Few ACLs are not open: a tree that no client may change is of no use.
pub(super) fn create_request(
    path: String,
    data: Option<Bytes>,
    mode: CreateMode,
    chance: &mut Chance,
) -> CreateRequest {
    let acl = if chance.one_in(8) { acl(chance.between(0..=ANY_ACL)) } else { Acl::open() };
    CreateRequest { path, data, acl: Some(acl), flags: mode as i32 }
}

/// The body of a create with a time to live, most of them of seconds.
pub(super) fn ttl_request(
    path: String,
    data: Option<Bytes>,
    chance: &mut Chance,
) -> CreateTtlRequest {
    let is_sequential = chance.one_in(3);
    let mode = if is_sequential {
        CreateMode::PersistentSequentialWithTtl
    } else {
        CreateMode::PersistentWithTtl
    };
    let ttl_ms = if chance.one_in(10) { 1 } else { chance.between(200..=20_000) };
    CreateTtlRequest {
        path,
        data,
        acl: Some(Acl::open()),
        flags: mode as i32,
        ttl_ms: i64::try_from(ttl_ms).unwrap_or(i64::MAX),
    }
}
