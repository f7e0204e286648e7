//! `status`, and what a command says that finds no server.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use serde_json::Value;
use zoolet_tests::scenes::{Scene, soon};

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
