//! Access control: identities given while connecting and later.

use zookeeper_client::{Acl, Acls, AuthId, CreateMode, Error, Permission};

use crate::harness::{Servers, check, equal, fails, ok};

pub async fn run(servers: &Servers) {
    // The identity is in the first bytes the client sends, behind the connect request.
    let connector = Servers::connector().with_auth("digest", b"crab:shell");
    let owner = ok(connector.connect(&servers.connect_string()).await, "connect with an identity");
    let stranger = servers.connect().await;
    let creator = CreateMode::Persistent.with_acls(Acls::creator_all());

    let users = ok(owner.list_auth_users().await, "who am I");
    check(users.iter().any(|user| user.scheme() == "digest" && user.user() == "crab"), "the user");
    check(users.iter().any(|user| user.scheme() == "ip"), "the address");

    ok(owner.create("/rust/own", b"secret", &creator).await, "create for the creator");
    let (acl, stat) = ok(owner.get_acl("/rust/own").await, "get the ACL");
    equal(stat.aversion, 0, "aversion");
    equal(acl.len(), 1, "the number of entries");
    equal((acl[0].scheme(), acl[0].permission()), ("digest", Permission::ALL), "the entry");
    check(acl[0].id().starts_with("crab:") && !acl[0].id().contains("shell"), "the hashed id");

    ok(stranger.sync("/rust").await, "sync");
    fails(stranger.get_data("/rust/own").await, Error::NoAuth, "get as a stranger");
    fails(stranger.set_data("/rust/own", b"", None).await, Error::NoAuth, "set as a stranger");
    fails(
        stranger.create("/rust/none", b"", &creator).await,
        Error::InvalidAcl,
        "auth without an identity",
    );

    let mut shared = acl.clone();
    shared.push(Acl::new(Permission::READ, AuthId::anyone()));
    let stat = ok(owner.set_acl("/rust/own", &shared, Some(0)).await, "set the ACL");
    equal(stat.aversion, 1, "aversion after it");
    fails(
        owner.set_acl("/rust/own", &shared, Some(0)).await,
        Error::BadVersion,
        "an old ACL version",
    );
    ok(stranger.sync("/rust").await, "sync");
    equal(ok(stranger.get_data("/rust/own").await, "read").0, b"secret".to_vec(), "what is read");
    fails(stranger.set_data("/rust/own", b"", None).await, Error::NoAuth, "still no write");
    ok(stranger.auth("digest", b"crab:shell").await, "authenticate late");
    ok(stranger.set_data("/rust/own", b"shared", None).await, "write with the identity");
}
