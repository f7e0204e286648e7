//! `zoolet serve`: what it says when it cannot start, and how it is stopped while it tries.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use zoolet_jute::OpCode;
use zoolet_tests::ports::PortLease;
use zoolet_tests::process::signal;
use zoolet_tests::raw::RawConnection;
use zoolet_tests::{four_letter, http, wait, zoolet};

/// How long something may take that happens by itself, on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// How long it may take to log more than a pipe and the queue of the log hold.
const FULL_MAX: Duration = Duration::from_mins(2);

/// How long a log is watched, and the most lines that a server may log meanwhile.
const WATCHED: Duration = Duration::from_secs(3);
const LINES_MAX: usize = 10;

/// The only running server of an ensemble of three.
struct Fixture {
    directory: tempfile::TempDir,
    lease: PortLease,
}

impl Fixture {
    fn new() -> Self {
        let fixture =
            Self { directory: tempfile::tempdir().unwrap(), lease: PortLease::take(6).unwrap() };
        fixture.configure("data", "");
        fixture
    }

    /// Writes the configuration; the servers' directories begin with `data`.
    fn configure(&self, data: &str, settings: &str) {
        let directory = self.directory.path().display();
        let server = |(at, ports): (usize, &[u16])| {
            let [client, peer] = ports else { panic!("ports come in pairs") };
            let id = at + 1;
            format!(
                "[[server]]\nid = {id}\nclient = \"127.0.0.1:{client}\"\n\
                 peer = \"127.0.0.1:{peer}\"\ndata_dir = \"{directory}/{data}{id}\"\n"
            )
        };
        let servers: String = self.lease.ports().chunks(2).enumerate().map(server).collect();
        fs::write(self.config(), format!("{servers}{settings}")).unwrap();
    }

    fn config(&self) -> std::path::PathBuf {
        self.directory.path().join("cluster.toml")
    }

    fn data(&self) -> std::path::PathBuf {
        self.directory.path().join("data1")
    }

    fn start(&self, id: u8) -> Server {
        self.start_with(id, &[])
    }

    fn start_with(&self, id: u8, options: &[&str]) -> Server {
        let mut process = Command::new(zoolet::server_command().unwrap().first().unwrap())
            .args(["serve", "--id", &id.to_string(), "--config"])
            .arg(self.config())
            .args(options)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(process.stderr.take().unwrap()).lines();
        Server { process, log }
    }

    /// The line with which a server ends that cannot start.
    fn refusal(&self, id: u8) -> String {
        let mut server = self.start(id);
        let last = server.log.by_ref().map(Result::unwrap).last().unwrap();
        assert_eq!(server.process.wait().unwrap().code(), Some(1), "{last}");
        last
    }

    /// Starts the server, and stops it when it has started.
    fn start_and_stop(&self) {
        let mut server = self.start(1);
        server.until("server started");
        assert!(server.stop());
    }
}

struct Server {
    process: Child,
    log: Lines<BufReader<ChildStderr>>,
}

impl Server {
    /// Reads the log up to a line with this in it, and returns the line.
    fn until(&mut self, text: &str) -> String {
        let found = self.log.by_ref().map(Result::unwrap).find(|line| line.contains(text));
        found.unwrap_or_else(|| panic!("it ended without: {text}"))
    }

    /// Closes the pipe of its log.
    fn close_log(&mut self) {
        let mut other = Command::new("true").stderr(Stdio::piped()).spawn().unwrap();
        self.log = BufReader::new(other.stderr.take().unwrap()).lines();
        assert!(other.wait().unwrap().success());
    }

    fn signal(&self, name: &str) {
        signal(self.process.id(), name).unwrap();
    }

    fn stop(mut self) -> bool {
        self.signal("TERM");
        // It must not wait for somebody to read what it has to say.
        self.log.by_ref().for_each(drop);
        self.process.wait().unwrap().success()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// Returns whether a server answers at its client port, with or without a leader.
fn answers(client: SocketAddr) -> bool {
    four_letter::ask(client, "srvr").is_ok_and(|answer| !answer.is_empty())
}

#[track_caller]
fn assert_says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "no {part} in: {said}");
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    for (at, whom) in ["clients", "peers"].into_iter().enumerate() {
        // Each has ports of its own: a child of another test may keep a copy of the listener for
        // a moment after it was dropped.
        let fixture = Fixture::new();
        let port = fixture.lease.ports().get(at).unwrap();
        let _taken = TcpListener::bind(("127.0.0.1", *port)).unwrap();
        let expected = format!("cannot listen for {whom} on 127.0.0.1:{port}: ");
        assert_says(&fixture.refusal(1), &[&expected, "in use"]);
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let fixture = Fixture::new();
    // A user that may write everywhere cannot write below a file either.
    fs::write(fixture.directory.path().join("file"), "").unwrap();
    fixture.configure("file/", "");
    assert_says(&fixture.refusal(1), &["zoolet: cannot create ", "/file/1: "]);
}

#[test]
fn the_directory_of_another_server_is_refused() {
    let fixture = Fixture::new();
    fixture.start_and_stop();
    fs::rename(fixture.data(), fixture.directory.path().join("data2")).unwrap();
    let expected = ["data2/identity belongs to server 1, but this is server 2"];
    assert_says(&fixture.refusal(2), &expected);
    assert_says(&fixture.refusal(4), &["this server's id is 4", "lists only server 1, 2, 3"]);
}

#[test]
fn a_damaged_log_is_named_with_its_offset() {
    let fixture = Fixture::new();
    fixture.start_and_stop();
    fixture.start_and_stop();
    let damaged = damage_first_segment(&fixture.data());
    assert_says(&fixture.refusal(1), &[&damaged, " is damaged at byte "]);
}

/// Writes over the beginning of a log's first segment, and answers its name.
fn damage_first_segment(data: &Path) -> String {
    let mut segments: Vec<_> =
        fs::read_dir(data.join("wal")).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.retain(|path| path.extension().is_some_and(|extension| extension == "wal"));
    segments.sort();
    let first = segments.first().unwrap();
    let mut bytes = fs::read(first).unwrap();
    bytes.get_mut(..8).unwrap().fill(0xff);
    fs::write(first, bytes).unwrap();
    first.display().to_string()
}

#[test]
fn a_server_does_not_start_beside_its_log() {
    let fixture = Fixture::new();
    fixture.start_and_stop();
    let config = fs::read_to_string(fixture.config()).unwrap();
    let log = fixture.directory.path().join("log");
    let apart = format!("data1\"\ndata_log_dir = \"{}\"\n", log.display());
    fs::write(fixture.config(), config.replacen("data1\"\n", &apart, 1)).unwrap();
    assert_says(&fixture.refusal(1), &["the log is in ", "data1/wal, and should be in "]);
    // Looking for it has made the directory already.
    fs::rename(fixture.data().join("wal"), log.join("wal")).unwrap();
    fs::copy(fixture.data().join("identity"), log.join("identity")).unwrap();
    fixture.start_and_stop();
    assert!(!fixture.data().join("wal").exists());
    fs::write(fixture.config(), config).unwrap();
    assert_says(&fixture.refusal(1), &["has served before, but its log is not in "]);
}

#[test]
fn a_server_that_finds_no_leader_says_so() {
    let fixture = Fixture::new();
    fixture.configure("data", "[ensemble]\ntick_time_ms = 100\ninit_limit_ticks = 2\n");
    let mut server = fixture.start(1);
    server.until("no leader found within initLimit");
    assert!(server.stop());
}

#[test]
fn a_server_can_be_stopped_while_it_starts() {
    // A start takes as long as its log: here the lock file is a pipe, and opening it takes for ever.
    let fixture = Fixture::new();
    fs::create_dir(fixture.data()).unwrap();
    let pipe = fixture.data().join("lock");
    assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    let mut server = fixture.start(1);
    server.until("starting");
    assert!(server.stop());
}

/// SIGHUP ended the process without a word: there was no handler for it.
#[test]
fn a_hangup_stops_nothing() {
    let fixture = Fixture::new();
    let mut server = fixture.start(1);
    server.until("server started");
    server.signal("HUP");
    server.until("SIGHUP ignored: the server does not log to a file");
    assert!(server.stop());
}

#[test]
fn a_hangup_opens_a_renamed_log_file_again() {
    let fixture = Fixture::new();
    let path = |name: &str| fixture.directory.path().join(name);
    let (log, old) = (path("zoolet.log"), path("zoolet.log.1"));
    let has = |file: &Path, text: &str| {
        let has_it = || fs::read_to_string(file).is_ok_and(|all| all.contains(text)).then_some(());
        assert!(wait::until(SOON, has_it).is_some(), "{}: no {text}", file.display());
    };
    let server = fixture.start_with(1, &["--log-file", log.to_str().unwrap()]);
    has(&log, "server started");
    fs::rename(&log, &old).unwrap();
    server.signal("HUP");
    has(&log, "SIGHUP: the log file was opened again");
    assert!(server.stop());
    has(&log, "stopped");
    assert!(!fs::read_to_string(&old).unwrap().contains("stopp"));
}

#[test]
fn a_log_in_json_has_an_object_in_each_line() {
    let fixture = Fixture::new();
    let options = ["--log-format", "json"];
    let mut server = fixture.start_with(1, &options);
    let mut started = false;
    while !started {
        let line = server.log.next().unwrap().unwrap();
        let event: Value = serde_json::from_str(&line).unwrap();
        assert!(event["timestamp"].is_string() && event["level"].is_string(), "{line}");
        started = event["message"] == "server started";
        assert!(!started || event["server"] == 1, "{line}");
    }
    assert!(server.stop());
    // What ends a server is an event as well.
    fixture.start_and_stop();
    fs::rename(fixture.data(), fixture.directory.path().join("data2")).unwrap();
    let mut server = fixture.start_with(2, &options);
    let last = server.log.by_ref().map(Result::unwrap).last().unwrap();
    let event: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(event["level"], "ERROR");
    assert_says(event["message"].as_str().unwrap(), &["belongs to server 1"]);
}

#[test]
fn a_log_file_that_cannot_be_opened_is_named() {
    let fixture = Fixture::new();
    let mut server = fixture.start_with(1, &["--log-file", "/proc/none/zoolet.log"]);
    let last = server.log.by_ref().map(Result::unwrap).last().unwrap();
    assert_says(&last, &["zoolet: cannot log: /proc/none/zoolet.log: "]);
    assert_eq!(server.process.wait().unwrap().code(), Some(1));
}

/// Every thread of the server wrote its own lines: the server stopped until they were read, and SIGTERM
/// had no effect.
#[test]
fn a_log_without_a_reader_stops_nothing() {
    let fixture = Fixture::new();
    let [client, .., http] = fixture.lease.ports() else { panic!("there are six ports") };
    let (client, http) = (local(*client), local(*http));
    fixture.configure("data", "");
    let config = fs::read_to_string(fixture.config()).unwrap();
    let server = format!("data_dir = \"{}\"\n", fixture.data().display());
    let with_http = format!("{server}http = \"{http}\"\n");
    fs::write(fixture.config(), config.replacen(&server, &with_http, 1)).unwrap();
    let mut server = fixture.start_with(1, &["--log", "trace,openraft=trace"]);
    let lost = || {
        // Each connection is worth some lines.
        answers(client);
        let metrics = http::get(http, "/metrics").ok()?.body;
        metrics
            .lines()
            .find_map(|line| line.strip_prefix("zoolet_log_lines_lost ")?.parse::<u64>().ok())
    };
    let more_than = |known| wait::until(FULL_MAX, || lost().filter(|lost| *lost > known));
    assert!(more_than(0).is_some(), "no line is lost");
    assert!(answers(client));
    server.until("lines of the log were lost");
    // The reader stalls again.
    let known = wait::until(SOON, lost).unwrap();
    assert!(more_than(known).is_some(), "no further line is lost");
    server.signal("TERM");
    let ended = || server.process.try_wait().unwrap();
    assert!(wait::until(SOON, ended).expect("it ends").success());
}

/// The library wrote "cannot write" with `eprintln!`, whose panic ended the process.
#[test]
fn a_log_whose_reader_is_gone_stops_nothing() {
    let fixture = Fixture::new();
    let client = local(*fixture.lease.ports().first().unwrap());
    let mut server = fixture.start_with(1, &["--log", "trace"]);
    server.until("server started");
    server.close_log();
    for _ in 0..3 {
        server.signal("HUP");
        assert!(answers(client));
    }
    assert!(server.stop());
}

#[test]
fn a_log_file_on_a_full_disk_stops_nothing() {
    let fixture = Fixture::new();
    let client = local(*fixture.lease.ports().first().unwrap());
    let server = fixture.start_with(1, &["--log-file", "/dev/full"]);
    assert!(wait::until(SOON, || answers(client).then_some(())).is_some());
    assert!(server.stop());
}

/// `--log inof` logged nothing at all.
#[test]
fn a_word_that_names_no_log_level_is_refused() {
    let fixture = Fixture::new();
    let mut server = fixture.start_with(1, &["--log", "inof"]);
    let last = server.log.by_ref().map(Result::unwrap).last().unwrap();
    assert_says(&last, &["zoolet: cannot log: --log: invalid log level `inof`", "info, debug"]);
    assert_eq!(server.process.wait().unwrap().code(), Some(1));
}

/// With `--log info`, a leader whose followers had died logged a warning for each heartbeat, and before
/// leaders gave up 240 of them a second.
#[test]
fn followers_that_have_died_do_not_fill_the_log() {
    let fixture = Fixture::new();
    let mut servers: Vec<Server> =
        (1..=3).map(|id| fixture.start_with(id, &["--log", "info"])).collect();
    let leads = |server: &mut Server| server.until("role from=Looking").contains("to=Leader");
    let leader = servers.iter_mut().map(leads).collect::<Vec<_>>().iter().position(|it| *it);
    let mut leader = servers.remove(leader.unwrap());
    // The others are killed.
    drop(servers);
    let nothing = wait::until(WATCHED, || None::<()>);
    assert!(nothing.is_none());
    leader.signal("TERM");
    let lines: Vec<String> = leader.log.by_ref().map(Result::unwrap).collect();
    assert!(lines.len() < LINES_MAX, "{} lines:\n{}", lines.len(), lines.join("\n"));
    assert!(leader.process.wait().unwrap().success());
}

/// Two peers that do not run are named once each, for their outage and not for each attempt.
#[test]
fn two_peers_that_do_not_run_are_a_line_each() {
    let fixture = Fixture::new();
    let mut server = fixture.start_with(1, &["--log", "info"]);
    // An outage is worth a line when it has lasted for 5 s.
    let mut lines = Vec::new();
    let unreachable = |line: &String| line.contains("cannot reach peer");
    while lines.iter().filter(|line| unreachable(line)).count() < 2 {
        lines.push(server.log.next().unwrap().unwrap());
    }
    let nothing = wait::until(WATCHED, || None::<()>);
    assert!(nothing.is_none());
    server.signal("TERM");
    lines.extend(server.log.by_ref().map(Result::unwrap));
    let named: Vec<_> = lines.iter().filter(|line| unreachable(line)).collect();
    assert_eq!(named.len(), 2, "{lines:#?}");
    for peer in ["peer=2", "peer=3"] {
        assert!(named.iter().any(|line| line.contains(peer)), "{named:#?}");
    }
    let warnings = lines.iter().filter(|line| line.contains(" WARN ")).count();
    assert!(warnings < LINES_MAX, "{lines:#?}");
}

/// A client whose request is too long was cut off, and no line at the default level said why.
#[test]
fn a_request_that_is_too_long_is_named_with_client_session_and_limit() {
    let fixture = Fixture::new();
    let mut servers: Vec<Server> =
        (1..=2).map(|id| fixture.start_with(id, &["--log", "info"])).collect();
    let address = SocketAddr::from(([127, 0, 0, 1], fixture.lease.ports()[0]));
    let opened = wait::until(SOON, || RawConnection::open(address, 10_000).ok());
    let mut connection = opened.unwrap();
    let session = connection.session.session_id.to_string();
    // The server may close before it has all of it.
    let _ = connection.send_payload(&vec![0; 1_100_000], OpCode::SetData);
    let line = servers[0].until("a request of 1100000 bytes");
    let limit = "the limit is 1048575 (frame_bytes_max, jute.maxbuffer)";
    assert_says(&line, &["WARN", "peer=127.0.0.1:", &session, limit]);
}
