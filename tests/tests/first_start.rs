//! What the first clients of a new ensemble see.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use zoolet_jute::{PathWatchRequest, Reply, Request, Xid};
use zoolet_tests::ports::PortLease;
use zoolet_tests::process::ServerProcess;
use zoolet_tests::raw::{Incoming, RawConnection};
use zoolet_tests::{four_letter, http, wait, zoolet};

/// How long three servers may take to serve, on a busy machine.
const START_MAX: Duration = Duration::from_secs(90);

/// The smallest id of a server and the largest are among them.
const IDS: [u8; SERVERS] = [0, 1, 255];
const SERVERS: usize = 3;

/// The servers' processes, and where they will serve clients.
fn start(directory: &tempfile::TempDir, lease: &PortLease) -> Vec<(SocketAddr, ServerProcess)> {
    let (clients, peers) = lease.ports().split_at(SERVERS);
    let server = |(id, (client, peer)): (u8, (&u16, &u16))| {
        format!(
            "[[server]]\nid = {id}\nclient = \"127.0.0.1:{client}\"\n\
             peer = \"127.0.0.1:{peer}\"\ndata_dir = \"{id}\"\n"
        )
    };
    let text: String = IDS.into_iter().zip(clients.iter().zip(peers)).map(server).collect();
    let config = directory.path().join("cluster.toml");
    fs::write(&config, text).unwrap();
    let spawn = |(id, client): (u8, &u16)| {
        let mut command = Command::new(zoolet::binary().unwrap());
        command.args(["serve", "--id", &id.to_string(), "--config"]).arg(&config);
        let process = ServerProcess::spawn(command.stderr(Stdio::null())).unwrap();
        (SocketAddr::from(([127, 0, 0, 1], *client)), process)
    };
    IDS.into_iter().zip(clients).map(spawn).collect()
}

/// The data of `/zookeeper/config`, and its watch set.
fn read_config(client: &mut RawConnection) -> (String, i64) {
    let read = PathWatchRequest { path: "/zookeeper/config".to_owned(), watch: true };
    let (events, answer) = client.call(Xid(1), &Request::GetData(read)).unwrap();
    assert_eq!(events, []);
    let Incoming::Reply(_, Some(Reply::Data(data, stat))) = answer else { panic!("{answer:?}") };
    (String::from_utf8(data.unwrap_or_default().to_vec()).unwrap(), stat.mzxid.0)
}

/// Servers took clients before their first leader had written the members: they read an empty
/// `/zookeeper/config`, and were notified of its first change a moment later.
#[test]
fn the_first_clients_read_the_members_and_see_no_change_of_them() {
    let directory = tempfile::tempdir().unwrap();
    let lease = PortLease::take(2 * SERVERS).unwrap();
    let servers = start(&directory, &lease);
    let watchers: Vec<_> = servers
        .iter()
        .map(|(address, _)| {
            let address = *address;
            thread::spawn(move || {
                let open = || RawConnection::open(address, 20_000).ok();
                let mut client = wait::until(START_MAX, open).unwrap();
                let (text, mzxid) = read_config(&mut client);
                (client, text, mzxid)
            })
        })
        .collect();
    let watchers: Vec<_> = watchers.into_iter().map(|watcher| watcher.join().unwrap()).collect();
    for (mut client, text, mzxid) in watchers {
        let (members, version) = text.rsplit_once("version=").unwrap_or_else(|| panic!("{text:?}"));
        assert_eq!(members.lines().count(), SERVERS, "{text}");
        // As in Apache's, it is what its leader's term begins with.
        assert_eq!(i64::from_str_radix(version, 16).unwrap(), mzxid);
        assert_eq!(mzxid & 0xffff_ffff, 0, "{text}");
        // An event would come before the reply.
        assert_eq!(read_config(&mut client), (text, mzxid));
    }
}

/// One of three at its first start reported that its state had diverged from the majority's: it had
/// no membership, and of no voters a majority is one.
#[test]
fn a_server_alone_at_its_first_start_has_not_diverged() {
    let directory = tempfile::tempdir().unwrap();
    let lease = PortLease::take(2 * SERVERS + 1).unwrap();
    let (http_port, ports) = lease.ports().split_first().unwrap();
    let (clients, peers) = ports.split_at(SERVERS);
    let server = |(id, (client, peer)): (usize, (&u16, &u16))| {
        let http =
            if id == 1 { format!("http = \"127.0.0.1:{http_port}\"\n") } else { String::new() };
        format!(
            "[[server]]\nid = {id}\nclient = \"127.0.0.1:{client}\"\n\
             peer = \"127.0.0.1:{peer}\"\n{http}data_dir = \"{id}\"\n"
        )
    };
    let text: String = (1..).zip(clients.iter().zip(peers)).map(server).collect();
    let config = directory.path().join("cluster.toml");
    fs::write(&config, format!("{text}[four_letter]\nwords = [\"*\"]\n")).unwrap();
    let mut command = Command::new(zoolet::binary().unwrap());
    command.args(["serve", "--id", "1", "--config"]).arg(&config);
    let _server = ServerProcess::spawn(command.stderr(Stdio::null())).unwrap();
    let http_port = SocketAddr::from(([127, 0, 0, 1], *http_port));
    let ask = |path: &str| http::get(http_port, path).ok();
    let has_started = || ask("/ready").filter(|answer| !answer.body.contains("is starting"));
    let ready = wait::until(START_MAX, has_started).expect("it does not start");
    assert_eq!(ready.status, 503);
    assert!(ready.body.contains("not part of an ensemble yet"), "{}", ready.body);
    let metrics = ask("/metrics").unwrap().body;
    for (name, value) in [
        ("digest_mismatches_count", 0),
        ("zoolet_state_differing_servers", 0),
        ("zoolet_state_agreed_index", 0),
        ("quorum_size", SERVERS),
        ("zoolet_ready", 0),
        ("unrecoverable_error_count", 0),
    ] {
        let expected = format!("{name} {value}");
        assert!(metrics.lines().any(|line| line == expected), "no {expected} in {metrics}");
    }
    let client = SocketAddr::from(([127, 0, 0, 1], *clients.first().unwrap()));
    let said = four_letter::ask(client, "mntr").unwrap();
    assert!(said.contains("not currently serving requests"), "{said}");
}
