//! `zoolet up`, as a user types it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use zoolet_client::{Client, CreateMode};
use zoolet_tests::http;
use zoolet_tests::ports::PortLease;
use zoolet_tests::process::{is_alive, signal};
use zoolet_tests::up::{self, Up};
use zoolet_tests::wait::until_so;
use zoolet_tests::zoolet;

/// How long a server may take to come back, or to end, on a busy machine.
const BACK_MAX: Duration = Duration::from_mins(1);

fn command(servers: u16, first_port: u16) -> Command {
    up::on_ports(servers, first_port).unwrap()
}

/// Starts servers whose files are in a directory.
fn start(servers: u16, first_port: u16, directory: &Path) -> Up {
    let mut command = command(servers, first_port);
    command.arg("--data-dir").arg(directory).stderr(Stdio::null());
    Up::spawn(&mut command, servers).unwrap()
}

fn stops_well(up: Up) -> bool {
    up.stop().unwrap().success()
}

fn pids(directory: &Path) -> Vec<u32> {
    up::members(directory).unwrap().iter().map(|member| member.pid).collect()
}

fn ports_in_a_row(count: u16) -> (PortLease, u16) {
    PortLease::take_in_a_row(count).unwrap()
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    assert!(until_so(BACK_MAX, async || holds()).await, "never: {what}");
}

#[tokio::test]
async fn three_servers_serve_outlive_a_kill_and_keep_their_files() {
    let directory = tempfile::tempdir().unwrap();
    let (_lease, port) = ports_in_a_row(3);
    let up = start(3, port, directory.path());
    let connect_string = format!("127.0.0.1:{port},127.0.0.1:{},127.0.0.1:{}", port + 1, port + 2);
    assert_eq!(up.announced[0], format!("connect string: {connect_string}"));
    let leaders = up.announced.iter().filter(|line| line.contains(": leader,")).count();
    assert_eq!(leaders, 1, "{:?}", up.announced);

    let client = Client::connect(&connect_string).await.unwrap();
    client.create("/kept", b"1", CreateMode::Persistent).await.unwrap();
    let before = pids(directory.path());
    let leader = up.announced.iter().position(|line| line.contains(": leader,")).unwrap() - 1;
    signal(before[leader], "KILL").unwrap();
    eventually("the killed leader is started again", || {
        let now = pids(directory.path());
        now[leader] != before[leader] && now.iter().all(|pid| is_alive(*pid))
    })
    .await;
    assert_eq!(client.get("/kept").await.unwrap().0.as_ref(), b"1");
    client.close().await.unwrap();

    let last = pids(directory.path());
    assert!(stops_well(up));
    assert!(last.iter().all(|pid| !is_alive(*pid)));
    assert!(!directory.path().join("up.json").exists());

    let again = start(3, port, directory.path());
    let client = Client::connect(&connect_string).await.unwrap();
    assert_eq!(client.get("/kept").await.unwrap().0.as_ref(), b"1");
    client.close().await.unwrap();
    assert!(stops_well(again));
}

/// It could not start a server again, and ended with all others.
#[tokio::test]
async fn a_program_that_was_replaced_still_starts_servers() {
    let directory = tempfile::tempdir().unwrap();
    let (_lease, port) = ports_in_a_row(3);
    let usual = command(3, port);
    let (program, data) = (directory.path().join("zoolet"), directory.path().join("data"));
    fs::copy(usual.get_program(), &program).unwrap();
    let mut command = Command::new(&program);
    command.args(usual.get_args()).arg("--data-dir").arg(&data).stderr(Stdio::null());
    let up = Up::spawn(&mut command, 3).unwrap();
    // As an upgrade does it.
    let newer = directory.path().join("newer");
    fs::copy(usual.get_program(), &newer).unwrap();
    fs::rename(&newer, &program).unwrap();
    for what in ["replaced", "removed"] {
        let before = pids(&data);
        signal(before[1], "KILL").unwrap();
        eventually(what, || {
            let now = pids(&data);
            now[1] != before[1] && now.iter().all(|pid| is_alive(*pid))
        })
        .await;
        let _ = fs::remove_file(&program);
    }
    assert!(stops_well(up));
}

/// Each start by an order counted as one after which the server does not serve.
#[tokio::test]
async fn a_server_that_was_stopped_by_orders_is_restarted_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let (_lease, port) = ports_in_a_row(3);
    let up = start(3, port, directory.path());
    for order in ["stop", "start"].repeat(6) {
        let mut ctl = Command::new(up::command().unwrap().get_program());
        ctl.args(["ctl", "--data-dir"]).arg(directory.path()).args([order, "2"]);
        assert!(ctl.stdout(Stdio::null()).status().unwrap().success(), "{order}");
    }
    let before = pids(directory.path());
    signal(before[1], "KILL").unwrap();
    // It was a minute.
    let limit = Duration::from_secs(30);
    assert!(until_so(limit, async || pids(directory.path())[1] != before[1]).await);
    assert!(stops_well(up));
}

/// The log of each server gave "the supervisor is gone" as the reason.
#[test]
fn servers_log_why_they_are_stopped() {
    for name in ["TERM", "HUP"] {
        let (_lease, port) = ports_in_a_row(1);
        let mut command = command(1, port);
        command.args(["--log", "info"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap()).lines();
        assert!(output.by_ref().take(2).all(|line| line.is_ok()));
        signal(process.id(), name).unwrap();
        let mut log = String::new();
        process.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        assert!(process.wait().unwrap().success(), "{log}");
        let own = format!("stopping the ensemble reason=\"SIG{name}\"");
        let of_server = format!("stopping reason=\"zoolet up: SIG{name}\"");
        assert!(log.contains(&own) && log.contains(&of_server), "{log}");
    }
}

/// `up` wrote the lines of its servers with blocking writes: it stopped until they were read, and its
/// servers did when their pipes were full.
#[test]
fn output_without_a_reader_stops_no_server() {
    let (_lease, port) = ports_in_a_row(3);
    let mut command = command(3, port);
    command.args(["--log", "trace,openraft=trace"]);
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap()).lines();
    assert!(output.by_ref().take(2).all(|line| line.is_ok()));
    let unread = process.stderr.take().unwrap();
    let unread_bytes = || rustix::io::ioctl_fionread(&unread).unwrap();
    let servers = (0..3).map(|at| std::net::SocketAddr::from(([127, 0, 0, 1], port + at)));
    // Each question is logged.
    let ask_all = |times: usize| {
        for server in servers.clone().cycle().take(3 * times) {
            // A busy machine may be slow to answer.
            let limit = Duration::from_secs(20);
            let answers = || zoolet_tests::four_letter::ask(server, "srvr").ok();
            assert!(zoolet_tests::wait::until(limit, answers).is_some(), "{server}");
        }
    };
    let fills = || {
        let before = unread_bytes();
        ask_all(10);
        // It holds 64 KiB, with gaps.
        (before > 32 << 10 && unread_bytes() == before).then_some(before)
    };
    let full = zoolet_tests::wait::until(Duration::from_mins(1), fills).expect("the pipe is full");
    ask_all(300);
    assert_eq!(unread_bytes(), full, "the reader stalls, and the pipe stays full");
    signal(process.id(), "TERM").unwrap();
    let ended = || process.try_wait().unwrap();
    let ended = zoolet_tests::wait::until(Duration::from_mins(1), ended);
    assert!(ended.expect("it ends").success());
}

/// A line of `up` itself ended it, and so all of its servers.
#[tokio::test]
async fn output_whose_reader_is_gone_stops_no_server() {
    let directory = tempfile::tempdir().unwrap();
    let (_lease, port) = ports_in_a_row(1);
    let mut command = command(1, port);
    command.arg("--data-dir").arg(directory.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap()).lines();
    assert!(output.by_ref().take(2).all(|line| line.is_ok()));
    drop((output, process.stderr.take()));
    let before = pids(directory.path());
    signal(before[0], "KILL").unwrap();
    let is_back = || pids(directory.path())[0] != before[0];
    eventually("up restarts its server", is_back).await;
    signal(process.id(), "TERM").unwrap();
    assert!(process.wait().unwrap().success());
}

#[tokio::test]
async fn no_server_outlives_a_supervisor_that_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let (_lease, port) = ports_in_a_row(1);
    let up = start(1, port, directory.path());
    assert!(up.announced[1].contains(": standalone,"), "{:?}", up.announced);
    let servers = pids(directory.path());
    up.signal("KILL").unwrap();
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
    // It prints more, and would fail without a reader.
    let mut output = BufReader::new(process.stdout.take().unwrap());
    output.read_line(&mut announced).unwrap();
    signal(process.id(), "TERM").unwrap();
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
    let first = start(1, port, directory.path());
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

#[tokio::test]
async fn one_damaged_log_of_three_stops_no_other_server() {
    let directory = tempfile::tempdir().unwrap();
    let (_lease, port) = ports_in_a_row(3);
    // Each start begins a segment.
    for _ in 0..2 {
        assert!(stops_well(start(3, port, directory.path())));
    }
    let damaged = first_segment(&directory.path().join("2/wal"));
    let mut bytes = fs::read(&damaged).unwrap();
    bytes[..8].fill(0xff);
    fs::write(&damaged, bytes).unwrap();

    let log = directory.path().join("log");
    let mut command = command(3, port);
    command.arg("--data-dir").arg(directory.path()).stderr(fs::File::create(&log).unwrap());
    let up = Up::spawn(&mut command, 3).unwrap();
    let why = format!("{} is damaged at byte 0", damaged.display());
    assert!(up.announced[2].starts_with("server 2: not running, "), "{:?}", up.announced);
    assert!(up.announced[2].contains(&why), "{:?}", up.announced);
    let client = Client::connect(up.announced[0].split_once(": ").unwrap().1).await.unwrap();
    client.create("/served", b"", CreateMode::Persistent).await.unwrap();
    client.close().await.unwrap();
    let said = fs::read_to_string(&log).unwrap();
    let warning = said.lines().find(|line| line.contains("WARN") && line.contains(&why));
    assert!(warning.is_some(), "{said}");
    assert!(said.contains("move its directory away"), "{said}");

    // It does what it said: without the directory the server is rebuilt by the others.
    fs::rename(directory.path().join("2"), directory.path().join("away")).unwrap();
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port + 1));
    eventually("the damaged server is rebuilt", || {
        zoolet_tests::four_letter::mode(address).as_deref() == Some("follower")
    })
    .await;
    assert!(stops_well(up));
}

fn first_segment(wal: &Path) -> std::path::PathBuf {
    let entries = fs::read_dir(wal).unwrap().map(|entry| entry.unwrap().path());
    let segments = entries.filter(|path| path.extension().is_some_and(|name| name == "wal"));
    segments.min().unwrap()
}

#[test]
fn without_a_majority_up_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let (_lease, port) = ports_in_a_row(3);
    for _ in 0..2 {
        assert!(stops_well(start(3, port, directory.path())));
    }
    let mut damaged = Vec::new();
    for server in ["1", "3"] {
        let segment = first_segment(&directory.path().join(server).join("wal"));
        let mut bytes = fs::read(&segment).unwrap();
        bytes[..8].fill(0xff);
        fs::write(&segment, bytes).unwrap();
        damaged.push(format!("server {server}: {} is damaged at byte 0", segment.display()));
    }
    let output = command(3, port).arg("--data-dir").arg(directory.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("zoolet: no majority of the servers runs: "), "{last}");
    for why in damaged {
        assert!(last.contains(&why), "{last}");
    }
}

#[tokio::test]
async fn options_go_before_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let (_lease, port) = ports_in_a_row(4);
    let config = directory.path().join("cluster.toml");
    let server = |id: u16| {
        let (client, peer) = (port + 3, port + id - 1);
        format!(
            "[[server]]\nid = {id}\nclient = \"127.0.0.{id}:{client}\"\n\
             peer = \"127.0.0.1:{peer}\"\ndata_dir = \"unused{id}\"\n"
        )
    };
    let text =
        format!("{}{}{}[limits]\nsession_watches_max = 7\n", server(1), server(2), server(3));
    fs::write(&config, &text).unwrap();
    let configured = |options: &[&str]| {
        let mut command = up::command().unwrap();
        command.arg("--config").arg(&config).args(options).stderr(Stdio::null());
        command.current_dir(directory.path());
        command
    };
    // The file alone.
    let alone = Up::spawn(&mut configured(&[]), 3).unwrap();
    let all = format!("127.0.0.1:{0},127.0.0.2:{0},127.0.0.3:{0}", port + 3);
    assert_eq!(alone.announced[0], format!("connect string: {all}"));
    assert!(stops_well(alone));
    assert!(directory.path().join("unused1/identity").exists());
    // Every option that there is.
    let first = port.to_string();
    let options = ["--servers", "1", "--client-port", &first, "--data-dir", "data"];
    let one = Up::spawn(&mut configured(&options), 1).unwrap();
    assert_eq!(one.announced[0], format!("connect string: 127.0.0.1:{port}"));
    assert!(one.announced[1].starts_with("server 1: standalone, "), "{:?}", one.announced);
    let effective = fs::read_to_string(directory.path().join("data/up.toml")).unwrap();
    assert!(effective.contains("\nsession_watches_max = 7\n"), "the other settings stay");
    assert!(stops_well(one));
    assert!(directory.path().join("data/1/identity").exists());
    assert_eq!(fs::read_to_string(&config).unwrap(), text, "the user's file is left as it is");
    let output = configured(&["--servers", "4"]).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("cluster.toml lists 3 servers, not 4"), "{said}");
}

#[test]
fn a_port_is_looked_for_where_the_server_will_listen() {
    let directory = tempfile::tempdir().unwrap();
    // A child of another test may keep a copy of a listener for a moment after it was dropped, so
    // the server that listens has a port of its own.
    let (_lease, port) = ports_in_a_row(2);
    let config = directory.path().join("cluster.toml");
    let configured = |port| {
        let text = format!("[[server]]\nid = 1\nclient = \"127.0.0.2:{port}\"\ndata_dir = \"d\"\n");
        fs::write(&config, text).unwrap();
        let mut command = up::command().unwrap();
        command.arg("--config").arg(&config).current_dir(directory.path());
        command
    };
    let _taken = TcpListener::bind(("127.0.0.2", port)).unwrap();
    let said = String::from_utf8(configured(port).output().unwrap().stderr).unwrap();
    assert!(said.contains(&format!("server 1 cannot listen on 127.0.0.2:{port}: ")), "{said}");
    // A listener on another address does not matter.
    let port = port + 1;
    let _other = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let up = Up::spawn(&mut configured(port), 1).unwrap();
    assert_eq!(up.announced[0], format!("connect string: 127.0.0.2:{port}"));
    assert!(stops_well(up));
}

/// A person sees what to connect to, and again what is new when a leader dies; the logs are quiet.
#[test]
fn a_banner_shows_the_ensemble_and_what_changes_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let (_lease, port) = ports_in_a_row(3);
    let log = directory.path().join("log");
    let data = directory.path().join("data");
    let mut command = command(3, port);
    command.args(["--http-port", "0", "--data-dir"]).arg(&data).env_remove("RUST_LOG");
    command.stdout(Stdio::piped()).stderr(fs::File::create(&log).unwrap());
    let mut process = command.spawn().unwrap();
    let output = process.stdout.take().unwrap();
    let mut lines = BufReader::new(output).lines().map(Result::unwrap);
    let banner: Vec<String> = lines.by_ref().take(7).collect();
    let data = fs::canonicalize(&data).unwrap();
    assert_eq!(banner[4], format!("data directory: {}", data.display()), "{banner:?}");
    let url = banner[5].strip_prefix("HTTP: http://").unwrap();
    let (address, path) = url.split_once('/').unwrap();
    let page = http::get(address.parse().unwrap(), &format!("/{path}")).unwrap();
    assert_eq!(page.status, 200, "{url}");
    assert!(banner[6].starts_with("Ctrl-C stops all servers"), "{banner:?}");

    let leader = banner.iter().position(|line| line.contains(": leader,")).unwrap();
    let before = pids(&data);
    signal(before[leader - 1], "KILL").unwrap();
    let old = format!("server {leader}: ");
    let (mut said, mut has_leader, mut is_back) = (Vec::new(), false, false);
    while !has_leader || !is_back {
        let line = lines.next().expect("up goes on");
        is_back |=
            line.starts_with(&old) && !line.contains(&format!("pid {},", before[leader - 1]));
        has_leader |= line.contains(": leader, client port ");
        said.push(line);
    }
    let members = up::members(&data).unwrap();
    let pid = format!(", pid {}, since 20", members[leader - 1].pid);
    assert!(said.iter().any(|line| line.starts_with(&old) && line.contains(&pid)), "{said:?}");
    // The last one of three has no leader, and says so.
    for server in ["1", "2"] {
        let mut ctl = Command::new(zoolet::binary().unwrap());
        ctl.args(["ctl", "--data-dir"]).arg(&data).args(["kill", server]);
        assert!(ctl.output().unwrap().status.success());
    }
    let alone = lines.find(|line| line.starts_with("server 3: no leader, client port ")).unwrap();
    said.push(alone);
    signal(process.id(), "TERM").unwrap();
    assert!(process.wait().unwrap().success());
    let rest: Vec<String> = lines.collect();
    let logged = fs::read_to_string(&log).unwrap();
    let all = [banner, said, rest].concat().concat() + &logged;
    assert!(!all.contains('\x1b'), "no terminal: {all}");
    assert!(!logged.contains(" INFO "), "{logged}");
    let exit = format!("server {leader} exited: signal: 9 (SIGKILL); restarting");
    assert!(logged.contains(&exit), "{logged}");
}
