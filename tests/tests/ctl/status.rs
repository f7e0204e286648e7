//! `status`, and what a command says that finds no server.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;
use zoolet_tests::ports::PortLease;
use zoolet_tests::process::ServerProcess;
use zoolet_tests::scenes::{SOON, Scene, soon};
use zoolet_tests::{wait, zoolet};

use crate::harness::{CtlScene, Said, command, said};

/// The status as JSON, whatever its exit code is.
fn status(servers: &str) -> (Option<i32>, Value) {
    let said = said(&mut command(servers, &["--json", "status"]));
    (said.code, serde_json::from_str(&said.out).unwrap())
}

pub(crate) async fn every_server_has_a_row(scene: &Scene) {
    let mut healthy = Value::Null;
    soon("three servers that serve", async || {
        let (code, found) = status(&scene.servers);
        healthy = found;
        code == Some(0)
    })
    .await;
    assert_eq!(
        (&healthy["healthy"], healthy["servers"].as_array().unwrap().len()),
        (&true.into(), 3)
    );
    let roles: Vec<_> =
        healthy["servers"].as_array().unwrap().iter().map(|row| row["role"].as_str()).collect();
    assert_eq!(roles.iter().filter(|role| **role == Some("leader")).count(), 1, "{roles:?}");
    assert_eq!(roles.iter().filter(|role| **role == Some("follower")).count(), 2, "{roles:?}");
    let text = scene.ctl(&["status"]).well();
    assert!(text.starts_with("SERVER ") && text.contains("\n3 of 3 servers serve; "), "{text}");

    // The configuration names the servers that the command line does not.
    let one = scene.servers.split(',').next().unwrap();
    soon("all servers from one", async || {
        let (code, found) = status(one);
        code == Some(0) && found["servers"].as_array().is_some_and(|rows| rows.len() == 3)
    })
    .await;
}

pub(crate) async fn a_lost_majority_is_named(scene: &Scene) {
    let leader = scene.processes().leader().unwrap();
    let others: Vec<usize> = (0..3).filter(|server| *server != leader).collect();
    scene.processes().kill(others[0]).unwrap();
    soon("one server that is gone", async || {
        let (code, found) = status(&scene.servers);
        let row = &found["servers"][others[0]];
        let problem = row["problem"].as_str().unwrap_or_default();
        let is_named = problem.starts_with("connection refused") && row["serving"] == false;
        // The configuration names it as well, and it is one server.
        let rows = found["servers"].as_array().map_or(0, Vec::len);
        let summary = found["summary"].as_str().unwrap_or_default();
        let is_counted_once = rows == 3 && summary.starts_with("2 of 3 servers serve; ");
        code == Some(1) && is_named && is_counted_once
    })
    .await;

    scene.processes().kill(others[1]).unwrap();
    soon("no leader", async || status(&scene.servers).0 == Some(2)).await;
    let says = scene.ctl(&["status"]);
    assert!(says.out.ends_with("\n1 of 3 servers reachable; 2 are needed\n"), "{says:?}");
    let Said { code, err, .. } = said(&mut {
        let mut command = command(&scene.servers, &[]);
        command.args(["--timeout", "5s", "ls", "/"]);
        command
    });
    let [waiting, error] = ["waiting for a server: ", "Error: "].map(|what| err.find(what));
    assert!(code == Some(2) && waiting.is_some() && waiting < error, "{err}");
    assert_eq!(err.matches("1 of 3 servers reachable; 2 are needed").count(), 2, "{err}");
    assert_eq!(err.matches(": up, without a leader").count(), 2, "{err}");
    for server in others {
        scene.processes().restart(server).unwrap();
    }
    soon("three servers again", async || status(&scene.servers).0 == Some(0)).await;
}

/// Ports of other programs are named, and the end of an address that does not exist.
#[test]
fn a_port_of_another_protocol_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // As HTTP servers do, it waits for the end of a line.
            let mut read = Vec::new();
            let mut byte = [0];
            while !read.ends_with(b"\n") && stream.read(&mut byte).is_ok_and(|length| length == 1) {
                read.push(byte[0]);
            }
            // The other side may be gone.
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let servers = format!("127.0.0.1:{port},no-such-host.invalid:2181");
    let (code, found) = status(&servers);
    assert_eq!((code, &found["healthy"]), (Some(2), &false.into()));
    let problem = |row: usize| found["servers"][row]["problem"].as_str().unwrap();
    assert_eq!(
        problem(0),
        "not a ZooKeeper port: it answers \"HTTP/1.1 400 Bad Request\\r\\n\\r\\n\""
    );
    assert!(problem(1).starts_with("unknown host: "), "{found}");
    let wrong = said(&mut command("a:0", &["status"]));
    assert!(wrong.code == Some(3) && wrong.err.contains("a:0"), "{wrong:?}");
}

/// Servers with `clientPort` in their own files alone, the commonest form of a zoo.cfg: "1 of 1 server
/// serves", and exit code 0, with one of three down.
#[test]
fn servers_without_a_client_address_in_the_configuration_are_unknown() {
    let directory = tempfile::tempdir().unwrap();
    let lease = PortLease::take(9).unwrap();
    let ports: Vec<&[u16]> = lease.ports().chunks(3).collect();
    let line = |(at, ports): (usize, &&[u16])| {
        format!("server.{}=127.0.0.1:{}:{}\n", at + 1, ports[1], ports[2])
    };
    let members: String = ports.iter().enumerate().map(line).collect();
    let mut servers: Vec<ServerProcess> = Vec::new();
    for (at, ports) in ports.iter().enumerate() {
        let data = directory.path().join(format!("{}", at + 1));
        fs::create_dir(&data).unwrap();
        fs::write(data.join("myid"), format!("{}\n", at + 1)).unwrap();
        let config = data.join("zoo.cfg");
        let (data, client) = (data.display(), ports[0]);
        fs::write(&config, format!("dataDir={data}\nclientPort={client}\n{members}")).unwrap();
        let mut command = Command::new(zoolet::binary().unwrap());
        command.args(["serve", "--config"]).arg(config).stderr(Stdio::null());
        servers.push(ServerProcess::spawn(&mut command).unwrap());
    }
    let names: Vec<String> = ports.iter().map(|ports| format!("127.0.0.1:{}", ports[0])).collect();
    let until = |servers: &str, code: i32, start: &str, unknown: &[u64]| {
        let is_so = || {
            let (found, json) = status(servers);
            let rows = json["servers"].as_array().unwrap();
            let unknown_rows = rows.iter().filter_map(|row| row["server"].as_u64());
            let summary = json["summary"].as_str().unwrap();
            (found == Some(code)
                && summary.starts_with(start)
                && unknown_rows.eq(unknown.iter().copied())
                && (code == 0) == (json["healthy"] == true))
                .then_some(())
        };
        let seen = wait::until(2 * SOON, is_so);
        assert!(seen.is_some(), "{servers}: no {start:?}: {:?}", status(servers));
    };
    let all = names.join(",");
    until(&all, 0, "3 of 3 servers serve; ", &[]);
    until(&names[0], 1, "1 of 3 servers serve; ", &[2, 3]);
    until(&names[1..].join(","), 1, "2 of 3 servers serve; ", &[1]);
    let said = said(&mut command(&names[0], &["status", "--named"]));
    assert_eq!(said.code, Some(0), "{said:?}");
    // One that is down is named by its row, and counted once.
    servers[2].kill().unwrap();
    until(&all, 1, "2 of 3 servers serve; ", &[]);
    until(&names[0], 1, "1 of 3 servers serve; ", &[2, 3]);
}

/// "2 of 2 servers serve", and exit code 0, for two standalone servers.
#[test]
fn standalone_servers_are_not_one_ensemble() {
    let directory = tempfile::tempdir().unwrap();
    let lease = PortLease::take(2).unwrap();
    let mut servers: Vec<ServerProcess> = Vec::new();
    for port in lease.ports() {
        let data = directory.path().join(port.to_string());
        fs::create_dir(&data).unwrap();
        let config = data.join("zoo.cfg");
        fs::write(&config, format!("dataDir={}\nclientPort={port}\n", data.display())).unwrap();
        let mut command = Command::new(zoolet::binary().unwrap());
        command.args(["serve", "--config"]).arg(config).stderr(Stdio::null());
        servers.push(ServerProcess::spawn(&mut command).unwrap());
    }
    let names: Vec<String> = lease.ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
    for name in &names {
        let seen = wait::until(SOON, || (status(name).0 == Some(0)).then_some(()));
        assert!(seen.is_some(), "{name}: {:?}", status(name));
    }
    let (code, found) = status(&names.join(","));
    let expected = format!(
        "2 of 2 servers serve; not one ensemble: 2 servers lead: {}, {}",
        names[0], names[1]
    );
    assert_eq!((code, found["summary"].as_str()), (Some(1), Some(expected.as_str())));
    assert_eq!((&found["healthy"], &found["leader"]), (&false.into(), &Value::Null));
    // Each address of a server leads to one row.
    let twice = format!("{},localhost:{}", names[0], lease.ports()[0]);
    let (code, found) = status(&twice);
    assert_eq!((code, found["servers"].as_array().map(Vec::len)), (Some(0), Some(1)), "{found}");
}
