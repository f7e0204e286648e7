//! `zoolet up`, as a user types it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use zoolet_client::{Client, CreateMode};
use zoolet_tests::ports::PortLease;
use zoolet_tests::zoolet;

/// A running `zoolet up`; killed when it is dropped.
struct Up {
    process: Child,
    announced: Vec<String>,
}

impl Up {
    fn start(servers: u16, first_port: u16, directory: &Path) -> Self {
        let mut process = command(servers, first_port)
            .arg("--data-dir")
            .arg(directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let announced = lines.take(1 + usize::from(servers)).map(Result::unwrap).collect();
        Self { process, announced }
    }

    fn signal(&self, name: &str) {
        signal(self.process.id(), name);
    }

    fn stop(mut self) -> bool {
        self.signal("TERM");
        self.process.wait().unwrap().success()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // Its servers end with it, because their standard input does.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn command(servers: u16, first_port: u16) -> Command {
    let mut command = Command::new(zoolet::server_command().unwrap().first().unwrap());
    command.args(["up", "--servers", &servers.to_string()]);
    command.args(["--client-port", &first_port.to_string()]);
    command
}

fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    assert!(status.unwrap().success());
}

fn is_alive(pid: u32) -> bool {
    // A zombie that its parent has not waited for is dead.
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn pids(directory: &Path) -> Vec<u32> {
    let state = fs::read_to_string(directory.join("up.json")).unwrap();
    let pids = state.lines().filter_map(|line| line.trim().strip_prefix("\"pid\": "));
    pids.map(|pid| pid.trim_end_matches(',').parse().unwrap()).collect()
}

/// The first of `count` ports in a row that are free, and the lease that keeps them so.
fn ports_in_a_row(count: u16) -> (PortLease, u16) {
    // Leases that do not do are held, so that the next one is of other ports.
    let mut unfit = Vec::new();
    for _ in 0..200 {
        let lease = PortLease::take(usize::from(count)).unwrap();
        let first = lease.ports()[0];
        if lease.ports().iter().copied().eq(first..first + count) {
            return (lease, first);
        }
        unfit.push(lease);
    }
    panic!("no {count} free ports in a row");
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..400 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never: {what}");
}

#[tokio::test]
async fn three_servers_serve_outlive_a_kill_and_keep_their_files() {
    let directory = tempfile::tempdir().unwrap();
    let (_lease, port) = ports_in_a_row(3);
    let up = Up::start(3, port, directory.path());
    let connect_string = format!("127.0.0.1:{port},127.0.0.1:{},127.0.0.1:{}", port + 1, port + 2);
    assert_eq!(up.announced[0], format!("connect string: {connect_string}"));
    let leaders = up.announced.iter().filter(|line| line.contains(": leader,")).count();
    assert_eq!(leaders, 1, "{:?}", up.announced);

    let client = Client::connect(&connect_string).await.unwrap();
    client.create("/kept", b"1", CreateMode::Persistent).await.unwrap();
    let before = pids(directory.path());
    let leader = up.announced.iter().position(|line| line.contains(": leader,")).unwrap() - 1;
    signal(before[leader], "KILL");
    eventually("the killed leader is started again", || {
        let now = pids(directory.path());
        now[leader] != before[leader] && now.iter().all(|pid| is_alive(*pid))
    })
    .await;
    assert_eq!(client.get("/kept").await.unwrap().0.as_ref(), b"1");
    client.close().await.unwrap();

    let last = pids(directory.path());
    assert!(up.stop());
    assert!(last.iter().all(|pid| !is_alive(*pid)));
    assert!(!directory.path().join("up.json").exists());

    let again = Up::start(3, port, directory.path());
    let client = Client::connect(&connect_string).await.unwrap();
    assert_eq!(client.get("/kept").await.unwrap().0.as_ref(), b"1");
    client.close().await.unwrap();
    assert!(again.stop());
}

#[tokio::test]
async fn no_server_outlives_a_supervisor_that_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let (_lease, port) = ports_in_a_row(1);
    let up = Up::start(1, port, directory.path());
    assert!(up.announced[1].contains(": standalone,"), "{:?}", up.announced);
    let servers = pids(directory.path());
    up.signal("KILL");
    eventually("the server ends", || servers.iter().all(|pid| !is_alive(*pid))).await;
}

#[test]
fn a_port_that_is_taken_is_named_and_nothing_is_started() {
    let (_lease, port) = ports_in_a_row(3);
    let _taken = TcpListener::bind(("127.0.0.1", port + 1)).unwrap();
    let output = command(3, port).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("server 2 cannot listen on 127.0.0.1:{}", port + 1)), "{said}");
}

#[test]
fn an_even_number_of_servers_is_warned_about() {
    let directory = tempfile::tempdir().unwrap();
    let (_lease, port) = ports_in_a_row(2);
    let mut process = command(2, port)
        .arg("--data-dir")
        .arg(directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut announced = String::new();
    // It has more to say, and would fail if nobody listened.
    let mut output = BufReader::new(process.stdout.take().unwrap());
    output.read_line(&mut announced).unwrap();
    signal(process.id(), "TERM");
    assert!(process.wait().unwrap().success());
    let mut said = String::new();
    process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("WARN") && said.contains("2 voters survive 0 losses"), "{said}");
}

#[test]
fn a_directory_in_use_and_one_of_another_ensemble_are_left_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let (_lease, port) = ports_in_a_row(1);
    let refused = |servers: u16, port: u16| {
        let output =
            command(servers, port).arg("--data-dir").arg(directory.path()).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let files =
        || ["cluster.toml", "up.json"].map(|file| fs::read(directory.path().join(file)).ok());
    let first = Up::start(1, port, directory.path());
    let before = files();
    assert!(before.iter().all(Option::is_some));
    let said = refused(1, port + 1);
    assert!(said.contains("another zoolet up is running on"), "{said}");
    assert_eq!(files(), before);
    drop(first);
    let before = files();
    let said = refused(3, port);
    assert!(said.contains("holds an ensemble of 1 servers, not 3"), "{said}");
    assert_eq!(files(), before);
}
