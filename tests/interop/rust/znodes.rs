//! Creating, reading, changing and deleting, in every kind a znode has.

use std::time::Duration;

use zookeeper_client::{Acls, CreateMode, Error};

use crate::harness::{Servers, check, equal, fails, fired, ok};

pub async fn run(servers: &Servers) {
    let client = servers.connect().await;
    let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());

    let (created, sequence) = ok(client.create("/rust", b"root", &persistent).await, "create");
    equal(sequence.into_i64(), -1, "the sequence of a plain znode");
    fails(client.create("/rust", b"", &persistent).await, Error::NodeExists, "create twice");
    fails(
        client.create("/rust/none/below", b"", &persistent).await,
        Error::NoNode,
        "create without a parent",
    );
    let (data, stat) = ok(client.get_data("/rust").await, "get");
    equal(data.as_slice(), b"root".as_slice(), "the data");
    equal(stat, created, "the stat of create and of get");
    equal((stat.version, stat.cversion, stat.aversion), (0, 0, 0), "the first versions");
    equal((stat.czxid, stat.czxid), (stat.mzxid, stat.pzxid), "the zxids of a new znode");

    let changed = ok(client.set_data("/rust", b"again", Some(0)).await, "set");
    equal((changed.version, changed.data_length), (1, 5), "version and length after set");
    check(changed.mzxid > stat.mzxid, "mzxid grows");
    fails(client.set_data("/rust", b"", Some(0)).await, Error::BadVersion, "an old version");
    equal(ok(client.check_stat("/rust").await, "exists"), Some(changed), "the stat of exists");
    equal(ok(client.check_stat("/rust/none").await, "exists of nothing"), None, "no stat");

    children(&client).await;
    kinds(servers, &client).await;
    pipelined(&client).await;

    ok(client.mkdir("/rust/a/b/c", &persistent).await, "create with parents");
    equal(ok(client.count_descendants_number("/rust/a").await, "count"), 2, "descendants");
    fails(client.delete("/rust/a", None).await, Error::NotEmpty, "delete with children");
    fails(client.delete("/rust/a/b/c", Some(7)).await, Error::BadVersion, "delete, wrong version");
    ok(client.delete("/rust/a/b/c", Some(0)).await, "delete");
    fails(client.delete("/rust/a/b/c", None).await, Error::NoNode, "delete twice");

    let rooted = client.clone().chroot("/rust/a").expect("a path");
    let (_, found) = ok(rooted.get_children("/").await, "children below the root of a client");
    equal(found.num_children, 1, "their number");
    ok(client.sync("/").await, "sync");
    config(servers, &client).await;
}

async fn children(client: &zookeeper_client::Client) {
    let sequential = CreateMode::PersistentSequential.with_acls(Acls::anyone_all());
    let dir = CreateMode::Persistent.with_acls(Acls::anyone_all());
    ok(client.create("/rust/seq", b"", &dir).await, "create");
    for expected in 0..3 {
        let (_, sequence) = ok(client.create("/rust/seq/n-", b"", &sequential).await, "sequence");
        equal(sequence.into_i64(), expected, "the sequence number");
    }
    let (mut names, stat) = ok(client.get_children("/rust/seq").await, "children");
    names.sort();
    equal(
        names,
        ["n-0000000000", "n-0000000001", "n-0000000002"].map(String::from).into(),
        "names",
    );
    equal((stat.cversion, stat.num_children), (3, 3), "cversion and number of children");
    let mut plain = ok(client.list_children("/rust/seq").await, "children without a stat");
    plain.sort();
    equal(plain.len(), 3, "their number");
}

async fn kinds(servers: &Servers, client: &zookeeper_client::Client) {
    let owner = servers.connect().await;
    let ephemeral = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
    let container = CreateMode::Container.with_acls(Acls::anyone_all());
    let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());

    let (stat, _) = ok(owner.create("/rust/mine", b"", &ephemeral).await, "an ephemeral");
    equal(stat.ephemeral_owner, owner.session_id().0, "the ephemeral owner");
    fails(
        owner.create("/rust/mine/child", b"", &persistent).await,
        Error::NoChildrenForEphemerals,
        "a child of an ephemeral",
    );
    ok(owner.create("/rust/mine-too", b"", &ephemeral).await, "another ephemeral");
    let mut mine = ok(owner.list_ephemerals("/rust").await, "list the session's ephemerals");
    mine.sort();
    equal(mine, vec!["/rust/mine".to_owned(), "/rust/mine-too".to_owned()], "the ephemerals");
    equal(ok(client.list_ephemerals("/").await, "list none").len(), 0, "another's ephemerals");

    ok(client.sync("/rust").await, "sync");
    let (found, gone) = ok(client.check_and_watch_stat("/rust/mine").await, "watch the ephemeral");
    check(found.is_some(), "the ephemeral is seen by another session");
    drop(owner);
    let event = fired(gone, "the end of the owner").await;
    equal(event.event_type, zookeeper_client::EventType::NodeDeleted, "the event");

    ok(client.create("/rust/box", b"", &container).await, "a container");
    ok(client.create("/rust/box/inside", b"", &persistent).await, "a child of it");
    let brief = persistent.clone().with_ttl(Duration::from_millis(500));
    ok(client.create("/rust/brief", b"", &brief).await, "a time to live");
    let (_, emptied) = ok(client.check_and_watch_stat("/rust/box").await, "watch the container");
    ok(client.delete("/rust/box/inside", None).await, "empty the container");
    let event = fired(emptied, "the empty container").await;
    equal(event.event_type, zookeeper_client::EventType::NodeDeleted, "the event");
    let (found, expired) = ok(client.check_and_watch_stat("/rust/brief").await, "watch the brief");
    if found.is_some() {
        let event = fired(expired, "the time to live").await;
        equal(event.event_type, zookeeper_client::EventType::NodeDeleted, "the event");
    }
}

/// Requests leave in the order in which the calls are made, and their replies come back in it.
async fn pipelined(client: &zookeeper_client::Client) {
    let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
    ok(client.create("/rust/pipe", b"", &persistent).await, "create");
    let writes: Vec<_> = (0..100u8)
        .map(|number| client.set_data("/rust/pipe", &[number], Some(i32::from(number))))
        .map(|write| Box::pin(async move { write.await.map(|stat| stat.version) }))
        .collect();
    let read = client.get_data("/rust/pipe");
    let (data, _) = ok(read.await, "a read behind a hundred writes");
    equal(data, vec![99], "what it reads");
    for (index, write) in (1..).zip(writes) {
        equal(ok(write.await, "a pipelined write"), index, "its version");
    }
}

async fn config(servers: &Servers, client: &zookeeper_client::Client) {
    let (data, _) = ok(client.get_config().await, "get the configuration");
    let text = ok(String::from_utf8(data), "the configuration is text");
    let members = text.lines().filter(|line| line.starts_with("server.")).count();
    equal(members, servers.0.len(), "the servers in the configuration");
    check(text.lines().any(|line| line.starts_with("version=")), "its version");
}
