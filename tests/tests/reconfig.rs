//! The ensemble changes at run time (protocol §15.4): by real server processes, and with Apache
//! ZooKeeper's answers to what cannot be done.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]

use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use zoolet_jute::ErrorCode::{BadArguments, BadVersion, NewConfigNoQuorum, NoAuth};
use zoolet_jute::{
    AuthPacket, ErrorCode, NullablePathRequest, PathWatchRequest, ReconfigRequest, Reply, Request,
    Xid,
};
use zoolet_tests::faults::{Load, Seed};
use zoolet_tests::four_letter;
use zoolet_tests::ports::PortLease;
use zoolet_tests::raw::{Incoming, RawConnection};
use zoolet_tests::servers::{LEADER_MAX, SUPER_DIGEST, Servers};
use zoolet_tests::tools::require_foreign;
use zoolet_tests::wait;

/// How long an ensemble may take to get over a change, on a busy machine.
const SETTLED_MAX: Duration = Duration::from_mins(1);

/// A client that may do everything.
fn superuser(server: SocketAddr) -> RawConnection {
    welcomed_superuser(server).unwrap()
}

/// The same, if the server takes clients at the moment.
fn welcomed_superuser(server: SocketAddr) -> Option<RawConnection> {
    let mut client = RawConnection::open(server, 20_000).ok()?;
    let auth = AuthPacket {
        auth_type: 0,
        scheme: Some("digest".to_owned()),
        auth: Some(Bytes::from_static(b"super:test")),
    };
    client.call(Xid::AUTH, &Request::Auth(auth)).ok()?;
    Some(client)
}

fn incremental(joining: &str, leaving: &str) -> ReconfigRequest {
    let list = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    ReconfigRequest {
        joining_servers: list(joining),
        leaving_servers: list(leaving),
        new_members: None,
        config_id: -1,
    }
}

fn complete(members: &str) -> ReconfigRequest {
    ReconfigRequest { new_members: Some(members.to_owned()), ..incremental("", "") }
}

/// The text of the new configuration, or why there is none; `None` when the connection ended.
fn reconfig(
    client: &mut RawConnection,
    request: ReconfigRequest,
) -> Option<Result<String, ErrorCode>> {
    match client.call(Xid(1), &Request::Reconfig(request)).unwrap().1 {
        Incoming::Reply(_, Some(Reply::Data(data, stat))) => {
            assert_eq!(stat.version, -1);
            Some(Ok(String::from_utf8(data.unwrap().to_vec()).unwrap()))
        }
        Incoming::Reply(header, None) => Some(Err(header.err.unwrap())),
        Incoming::Closed => None,
        other => panic!("{other:?}"),
    }
}

/// Asks until the ensemble has decided: a change of leaders may close the connection.
fn change(server: SocketAddr, request: &ReconfigRequest) -> String {
    settle("a change", || match reconfig(&mut welcomed_superuser(server)?, request.clone()) {
        Some(Ok(text)) => Some(text),
        Some(Err(NewConfigNoQuorum)) | None => None,
        Some(Err(code)) => panic!("{code:?} for {request:?}"),
    })
}

fn settle<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait::until(SETTLED_MAX, look).unwrap_or_else(|| panic!("{what} does not come about"))
}

fn config_text(server: SocketAddr) -> String {
    let mut client = RawConnection::open(server, 20_000).unwrap();
    let read = PathWatchRequest { path: "/zookeeper/config".to_owned(), watch: false };
    match client.call(Xid(1), &Request::GetData(read)).unwrap().1 {
        Incoming::Reply(_, Some(Reply::Data(Some(data), _))) => {
            String::from_utf8(data.to_vec()).unwrap()
        }
        other => panic!("{other:?}"),
    }
}

/// The line of a server, with another role.
fn line(text: &str, id: usize, role: &str) -> String {
    let prefix = format!("server.{id}=");
    let line = text.lines().find(|line| line.starts_with(&prefix)).unwrap();
    line.replace(":observer;", &format!(":{role};")).replace(":participant;", &format!(":{role};"))
}

fn mode(servers: &Servers, index: usize) -> Option<String> {
    four_letter::mode(servers.client_address(index).unwrap())
}

/// Waits for a server to be what it should.
fn expect_mode(servers: &Servers, index: usize, wanted: &[&str]) {
    settle(&format!("server {} as {wanted:?}", index + 1), || {
        mode(servers, index).filter(|mode| wanted.contains(&mode.as_str()))
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_leave_join_are_promoted_and_survive_a_restart_under_load() {
    let seed = Seed::of("reconfig", "");
    let mut servers = Servers::zoolet()
        .servers(3)
        .observers(1)
        .property("reconfigEnabled", "true")
        .super_digest(SUPER_DIGEST)
        .start()
        .unwrap();
    let all_servers = servers.connect_string();
    let mut load = Load::start(&all_servers, &seed, Duration::from_millis(5)).await.unwrap();
    load.until_acknowledged(20).await.unwrap();
    tokio::task::block_in_place(|| {
        let address = |index| servers.client_address(index).unwrap();
        let first = config_text(address(0));

        // The observer leaves, and stops serving.
        let without = change(address(0), &incremental("", "4"));
        assert!(!without.contains("server.4="), "{without}");
        settle("the end of service", || mode(&servers, 3).is_none().then_some(()));

        // It comes back, without a vote and then with one.
        change(address(1), &incremental(&line(&first, 4, "observer"), ""));
        expect_mode(&servers, 3, &["observer"]);
        let grown = change(address(2), &incremental(&line(&first, 4, "participant"), ""));
        assert_eq!(grown.matches(":participant;").count(), 4, "{grown}");
        expect_mode(&servers, 3, &["follower", "leader"]);

        // The leader leaves.
        let leader = servers.wait_for_leader(LEADER_MAX).unwrap();
        let next = address((leader + 1) % 4);
        let shrunk = change(next, &incremental("", &(leader + 1).to_string()));
        assert!(!shrunk.contains(&format!("server.{}=", leader + 1)), "{shrunk}");
        settle("the end of service", || mode(&servers, leader).is_none().then_some(()));
        let rest: Vec<usize> = (0..4).filter(|index| *index != leader).collect();
        for index in &rest {
            expect_mode(&servers, *index, &["follower", "leader"]);
        }

        // All of them die; their files still say what they said, and it does not count.
        for index in 0..4 {
            servers.kill(index).unwrap();
        }
        for index in &rest {
            servers.spawn(*index).unwrap();
        }
        for index in &rest {
            servers.wait_until_serving(*index).unwrap();
            let address = servers.client_address(*index).unwrap();
            let list = |text: &str| text.rsplit_once("version=").unwrap().0.to_owned();
            assert_eq!(list(&config_text(address)), list(&shrunk));
        }
        // Three voters: one of them may die.
        servers.kill(rest[0]).unwrap();
        let two = &rest[1..];
        for index in two {
            expect_mode(&servers, *index, &["follower", "leader"]);
        }
        let leader = servers.wait_for_leader(LEADER_MAX).unwrap();
        assert!(two.contains(&leader), "{leader} leads, not one of {two:?}");
    });
    let known = load.acknowledged();
    load.until_acknowledged(known + 20).await.unwrap();
    load.finish().await.unwrap();
}

/// The answers of a server to changes that cannot be made.
fn refusals(servers: &Servers) -> Vec<Result<String, ErrorCode>> {
    let server = servers.client_address(0).unwrap();
    let text = settle("the configuration", || {
        // The version is a transaction of the first leader's, whatever its term.
        Some(config_text(server)).filter(|text| {
            text.rsplit_once("version=").is_some_and(|(_, version)| version.trim() != "0")
        })
    });
    let mut anonymous = RawConnection::open(server, 20_000).unwrap();
    let mut client = superuser(server);
    let (one, two) = (line(&text, 1, "participant"), line(&text, 2, "participant"));
    let dead = "server.8=127.0.0.1:9:10:participant;11,server.9=127.0.0.1:12:13:participant;14";
    let future = ReconfigRequest { config_id: i64::MAX, ..incremental("", "2") };
    let mut answers = Vec::new();
    for request in [
        incremental("some thing", ""),
        incremental("server.4=127.0.0.1:1:2:participant", ""),
        incremental("server.4=127.0.0.1:1:1:participant;5", ""),
        incremental("server.4=127.0.0.1:1:2:king;5", ""),
        incremental("", "1,2"),
        incremental("", "2,3"),
        complete(&one),
        complete("nonsense"),
        complete(&format!("{one},{dead}")),
        ReconfigRequest { new_members: Some(format!("{one}\n{dead}")), ..future.clone() },
        future,
    ] {
        answers.push(reconfig(&mut client, request).unwrap());
    }
    answers.push(reconfig(&mut anonymous, incremental("", "3")).unwrap());
    answers.push(reconfig(&mut anonymous, complete(&format!("{one},{two}"))).unwrap());
    answers.push(reconfig(&mut anonymous, incremental("some thing", "")).unwrap());
    // Nothing of all this has changed anything.
    assert_eq!(config_text(server), text);
    answers
}

#[test]
fn what_cannot_be_done_is_refused_with_apache_s_codes() {
    let zoolet = Servers::zoolet()
        .servers(3)
        .property("reconfigEnabled", "true")
        .super_digest(SUPER_DIGEST)
        .start()
        .unwrap();
    let ours = refusals(&zoolet);
    a_change_shows_in_conf(&zoolet);
    drop(zoolet);
    // The last request is malformed and lacks the permission, which zoolet checks first.
    let expected = |last: ErrorCode| -> Vec<Result<String, ErrorCode>> {
        let superuser = [BadArguments; 8].into_iter();
        let others = [NewConfigNoQuorum, BadVersion, BadVersion, NoAuth, NoAuth, last];
        superuser.chain(others).map(Err).collect()
    };
    assert_eq!(ours, expected(NoAuth));
    if !require_foreign("reconfig", &["java", "mvn"]).unwrap() {
        return;
    }
    let apache = Servers::apache()
        .servers(3)
        .property("reconfigEnabled", "true")
        .super_digest(SUPER_DIGEST)
        .start()
        .unwrap();
    assert_eq!(refusals(&apache), expected(BadArguments));
    a_change_shows_in_conf(&apache);
}

/// A client without permission made the leader connect to any address, and its requests kept a
/// superuser's change out with −14.
#[test]
fn a_client_without_permission_has_no_server_probed_and_blocks_no_change() {
    let servers = three();
    let leader = servers.wait_for_leader(LEADER_MAX).unwrap();
    let trap = TcpListener::bind("127.0.0.1:0").unwrap();
    trap.set_nonblocking(true).unwrap();
    let port = trap.local_addr().unwrap().port();
    let joining = format!("server.9=127.0.0.1:{port}:1:participant;2");
    let strangers = (0..8).map(|at| {
        let address = servers.client_address((leader + at) % 3).unwrap();
        let joining = joining.clone();
        std::thread::spawn(move || {
            let mut client = RawConnection::open(address, 20_000).unwrap();
            for _ in 0..50 {
                let answer = reconfig(&mut client, incremental(&joining, ""));
                assert_eq!(answer, Some(Err(NoAuth)));
            }
        })
    });
    let strangers: Vec<_> = strangers.collect();
    let mut client = superuser(servers.client_address(leader).unwrap());
    for _ in 0..10 {
        // A change that changes nothing.
        let answer = reconfig(&mut client, incremental("", "99"));
        assert!(matches!(answer, Some(Ok(_))), "{answer:?}");
    }
    for stranger in strangers {
        stranger.join().unwrap();
    }
    let probe = trap.accept().map(|(_, from)| from);
    assert_eq!(probe.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

/// The four-letter word tells the members that there are now, and their version.
fn a_change_shows_in_conf(servers: &Servers) {
    let server = servers.client_address(0).unwrap();
    let text = change(server, &incremental("", "3"));
    settle("the new members in conf", || {
        let conf = four_letter::ask(server, "conf").unwrap();
        let shown: Vec<&str> = conf.lines().collect();
        let all = text.lines().all(|line| shown.contains(&line));
        (all && !conf.contains("server.3=")).then_some(())
    });
}

#[test]
fn a_server_alone_and_an_ensemble_without_the_switch_change_nothing() {
    let alone = Servers::zoolet().start().unwrap();
    let request = || incremental("", "2");
    let ask = |servers: &Servers| {
        let mut client = superuser(servers.client_address(0).unwrap());
        reconfig(&mut client, request()).unwrap()
    };
    assert_eq!(ask(&alone), Err(ErrorCode::ReconfigDisabled));
    let alone = Servers::zoolet().property("reconfigEnabled", "true").start().unwrap();
    assert_eq!(ask(&alone), Err(ErrorCode::Unimplemented));
}

fn three() -> Servers {
    let servers = Servers::zoolet().servers(3).property("reconfigEnabled", "true");
    servers.super_digest(SUPER_DIGEST).start().unwrap()
}

/// What a client gets that asks the server to remove itself.
fn removal(servers: &Servers, index: usize) {
    let mut client = superuser(servers.client_address(index).unwrap());
    let request = incremental("", &(index + 1).to_string());
    let (_, answer) = client.call(Xid(1), &Request::Reconfig(request)).unwrap();
    let Incoming::Reply(header, Some(Reply::Data(Some(data), stat))) = answer else {
        panic!("{answer:?}")
    };
    let text = String::from_utf8(data.to_vec()).unwrap();
    assert!(!text.contains(&format!("server.{}=", index + 1)), "{text}");
    assert!(text.ends_with(&format!("version={:x}", stat.mzxid.0)), "{text}");
    assert_eq!(header.zxid, stat.mzxid);
    assert_eq!(client.receive().unwrap(), Incoming::Closed);
}

/// A client asked a server to remove itself: the change was made, and the connection ended without
/// an answer. Apache answers, then closes.
#[test]
fn a_server_that_is_removed_answers_and_then_closes() {
    let servers = three();
    let leader = servers.wait_for_leader(LEADER_MAX).unwrap();
    removal(&servers, (leader + 1) % 3);
    let other = servers.client_address((leader + 2) % 3).unwrap();
    assert!(!config_text(other).contains(&format!("server.{}=", (leader + 1) % 3 + 1)));
}

#[test]
fn a_leader_that_is_removed_answers_and_then_closes() {
    let servers = three();
    let leader = servers.wait_for_leader(LEADER_MAX).unwrap();
    removal(&servers, leader);
}

/// A change that came right after the start was refused with −13: a voter that the new ensemble
/// needs was catching up.
#[test]
#[allow(clippy::disallowed_methods, reason = "a server is silent for a while")]
fn a_change_waits_a_moment_for_a_voter_that_it_needs() {
    let servers = three();
    let leader = servers.wait_for_leader(LEADER_MAX).unwrap();
    let (needed, leaving) = ((leader + 1) % 3, (leader + 2) % 3 + 1);
    let mut client = superuser(servers.client_address(leader).unwrap());
    servers.signal(needed, "STOP").unwrap();
    // It counts until it was silent for this long.
    std::thread::sleep(Duration::from_secs(2));
    client.send(Xid(1), &Request::Reconfig(incremental("", &leaving.to_string()))).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    servers.signal(needed, "CONT").unwrap();
    let answer = client.until_reply().unwrap().1;
    assert!(matches!(answer, Incoming::Reply(_, Some(Reply::Data(..)))), "{answer:?}");
}

/// All servers but the leader were looked for at their new ports at once, where they listened after
/// a restart only: the ensemble lost its majority in the middle of the change.
#[test]
fn the_peer_ports_of_all_servers_change_at_once() {
    let mut servers = three();
    let address = |servers: &Servers, index| servers.client_address(index).unwrap();
    let before = config_text(address(&servers, 0));
    let lease = PortLease::take(6).unwrap();
    let moved: Vec<String> = (1..=3)
        .zip(lease.ports().chunks(2))
        .map(|(id, ports)| {
            let client = line(&before, id, "participant").rsplit_once(';').unwrap().1.to_owned();
            format!("server.{id}=127.0.0.1:{}:{}:participant;{client}", ports[0], ports[1])
        })
        .collect();
    let after = change(address(&servers, 0), &complete(&moved.join("\n")));
    assert!(moved.iter().all(|line| after.contains(line)), "{after}");
    for index in 0..3 {
        // Each start finds the others where the change has put them, whatever the files say.
        servers.restart(index).unwrap();
        settle("the change everywhere", || {
            let mut client = RawConnection::open(address(&servers, index), 20_000).ok()?;
            let sync = NullablePathRequest { path: Some("/".to_owned()) };
            let synced = client.call(Xid(1), &Request::Sync(sync)).ok()?.1;
            matches!(synced, Incoming::Reply(header, _) if header.err.is_none()).then_some(())
        });
        assert_eq!(config_text(address(&servers, index)), after);
    }
}

/// Whether a new client is served there.
fn is_served(address: SocketAddr) -> bool {
    let served = RawConnection::open(address, 20_000).and_then(|mut client| {
        let read = PathWatchRequest { path: "/".to_owned(), watch: false };
        client.call(Xid(1), &Request::GetData(read))
    });
    served.is_ok_and(|(_, reply)| matches!(reply, Incoming::Reply(..)))
}

/// Moves the clients of the server 1 to another address.
fn move_clients(through: SocketAddr, before: &str, client: &str) {
    let line = line(before, 1, "participant");
    let moved = format!("{};{client}", line.rsplit_once(';').unwrap().0);
    assert!(change(through, &incremental(&moved, "")).contains(&moved));
}

/// A reconfig that gave a running server another client port took effect at its next start.
#[test]
#[allow(clippy::disallowed_methods, reason = "a port is taken for a while")]
fn the_client_port_of_a_running_server_moves_at_once() {
    let mut servers = three();
    let [first, through] = [0, 1].map(|index| servers.client_address(index).unwrap());
    let before = config_text(first);
    let lease = PortLease::take(2).unwrap();
    let [second, third] = [0, 1].map(|at| SocketAddr::from(([127, 0, 0, 1], lease.ports()[at])));
    let mut stays = RawConnection::open(first, 20_000).unwrap();

    move_clients(through, &before, &second.to_string());
    settle("the new port", || is_served(second).then_some(()));
    settle("the end of the old port", || TcpStream::connect(first).is_err().then_some(()));
    let conf = four_letter::ask(second, "conf").unwrap();
    assert!(conf.starts_with(&format!("clientPort={}\n", second.port())), "{conf}");
    let sync = Request::Sync(NullablePathRequest { path: Some("/".to_owned()) });
    let (_, answer) = stays.call(Xid(1), &sync).unwrap();
    assert!(matches!(answer, Incoming::Reply(..)), "the connections stay: {answer:?}");

    // A port that another program has is taken when it is free; until then the old one serves.
    let other = TcpListener::bind(third).unwrap();
    move_clients(through, &before, &third.to_string());
    std::thread::sleep(Duration::from_millis(500));
    assert!(is_served(second), "the old port stays open");
    drop(other);
    settle("the port that was taken", || is_served(third).then_some(()));

    // Every address, which the server's own socket is in the way of, and one of IPv6.
    let port = third.port();
    move_clients(through, &before, &format!("0.0.0.0:{port}"));
    let all = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
    settle("all addresses", || (is_served(all) && is_served(third)).then_some(()));
    move_clients(through, &before, &all.to_string());
    settle("one address", || TcpStream::connect(third).is_err().then_some(()));
    settle("the one of IPv6", || is_served(all).then_some(()));

    // Its file still says what it said.
    move_clients(through, &before, &second.to_string());
    settle("the second port again", || is_served(second).then_some(()));
    servers.kill(0).unwrap();
    servers.spawn(0).unwrap();
    settle("the moved port after a start", || is_served(second).then_some(()));
}
