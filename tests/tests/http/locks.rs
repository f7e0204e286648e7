//! The metrics of locks, beside programs that lock with Curator, kazoo and the client's own recipes.

use std::io::{BufRead, BufReader, Lines, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use zoolet_client::{Client, ClientOptions, CreateMode, Version};
use zoolet_tests::contenders::programs::{java, kazoo, recipes};
use zoolet_tests::servers::Servers;
use zoolet_tests::tools::{self, ToolError};
use zoolet_tests::{http, wait};

use crate::support::{SOON, WithHttp};

/// The turns of a program before it is stopped.
const TURNS: usize = 6;

#[test]
fn a_mutex_of_curator_is_counted() {
    let program = || java("curator-5.9", &["../curator/Curated.java"], "Curated");
    counts("http: Curator's locks", &["java", "mvn"], &program);
}

#[test]
fn a_mutex_of_kazoo_is_counted() {
    counts("http: kazoo's locks", &["python3"], &kazoo);
}

#[test]
fn a_mutex_of_the_client_is_counted() {
    counts("http: own locks", &[], &recipes);
}

/// A program with two contenders for one mutex, which waits for an answer to each line.
struct Program {
    child: Child,
    /// `None` once it has ended: the program ends when nothing more can come.
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Program {
    fn start(mut command: Command, servers: &Servers) -> Self {
        command.args(["mutex:/locked", "mutex:/locked"]);
        command.env("ZK_CONNECT", servers.connect_string());
        command.env("ZK_SESSION_TIMEOUT_MS", "20000");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, input, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("it goes on").unwrap()
    }

    fn send(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Answers a line with `VERB NUMBER …`.
    fn allow(&mut self, line: &str) {
        let number = line.split(' ').nth(1).unwrap();
        self.send(&format!("OK {number}"));
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn counts(suite: &str, needs: &[&str], program: &dyn Fn() -> Result<Command, ToolError>) {
    if !tools::require_foreign(suite, needs).unwrap() {
        return;
    }
    let command = match program() {
        Err(error) => return tools::skip_unless_required(suite, error).unwrap(),
        Ok(command) => command,
    };
    let with_http = WithHttp::start(Servers::zoolet());
    let mut program = Program::start(command, &with_http.servers);
    assert_eq!(program.line(), "READY");
    assert_eq!(figures(with_http.http), [0, 0, 0, 0, 0, 0]);
    program.send("GO");
    let mut grants = 0;
    while grants < TURNS {
        let line = program.line();
        if line.starts_with("HELD") {
            grants += 1;
            // The other one waits, as soon as it has come.
            let expected = [1, 1, 1, grants - 1, grants, grants - 1];
            let seen = || (figures(with_http.http) == expected).then_some(());
            assert!(wait::until(SOON, seen).is_some(), "{:?}", figures(with_http.http));
        }
        program.allow(&line);
    }
    program.send("STOP");
    loop {
        let line = program.line();
        if line == "DONE" {
            break;
        }
        grants += usize::from(line.starts_with("HELD"));
        program.allow(&line);
    }
    program.input = None;
    assert!(program.child.wait().unwrap().success());
    let handed_over = TURNS - 1..grants;
    let seen = || {
        let [held, contended, waiters, holds, waits, over] = figures(with_http.http);
        let is_so = [held, contended, waiters, holds, waits] == [0, 0, 0, grants, grants];
        (is_so && handed_over.contains(&over)).then_some(())
    };
    assert!(wait::until(SOON, seen).is_some(), "{grants}: {:?}", figures(with_http.http));
}

/// The times of locks are histograms, which can be added over servers and over times; quantiles since
/// the last reset could not.
#[tokio::test(flavor = "multi_thread")]
async fn the_times_of_locks_are_histograms() {
    let with_http = WithHttp::start(Servers::zoolet());
    let client = Client::connect(&with_http.servers.connect_string()).await.unwrap();
    client.create("/lock", b"", CreateMode::Persistent).await.unwrap();
    let place = "/lock/_c_0f8fad5b-d9cb-469f-a165-70867728950e-lock-";
    let held = Duration::from_millis(100);
    for _ in 0..3 {
        let (path, _) = client.create(place, b"", CreateMode::EphemeralSequential).await.unwrap();
        tokio::time::sleep(held).await;
        client.delete(&path, Version::Any).await.unwrap();
    }
    let text = http::get(with_http.http, "/metrics").unwrap().body;
    assert!(text.contains("# TYPE zoolet_locks_hold_time histogram"), "{text}");
    let buckets = buckets(&text, "zoolet_locks_hold_time");
    let bounds: Vec<f64> = buckets.iter().map(|(bound, _)| *bound).collect();
    assert!((bounds[0] - 1.0).abs() < f64::EPSILON && bounds[19] > 300_000.0, "{bounds:?}");
    assert!(bounds[20].is_infinite() && bounds.len() == 21, "{bounds:?}");
    assert!(buckets.is_sorted_by(|one, next| one.0 < next.0 && one.1 <= next.1), "{buckets:?}");
    let (up_to_64_ms, all) = (buckets[6].1, buckets[20].1);
    assert_eq!((up_to_64_ms, all), (0, 3), "{buckets:?}");
    assert!(value(&text, "zoolet_locks_hold_time_sum") >= 300.0);
    assert_eq!(value(&text, "zoolet_locks_hold_time_count").to_string(), "3");
    let waits = self::buckets(&text, "zoolet_locks_wait_time");
    assert_eq!((waits[0].1, waits[20].1), (3, 3), "no wait: {waits:?}");
    for name in ["fsync_time", "update_time", "batch_size"] {
        let buckets = self::buckets(&text, &format!("zoolet_{name}"));
        let all = value(&text, &format!("zoolet_{name}_count"));
        assert!(all >= 7.0 && buckets[20].1.to_string() == all.to_string(), "{name}: {buckets:?}");
    }
}

/// Who gives a lock up has not lost it; the holder whose session has expired has.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_lost_with_its_session_is_counted() {
    let with_http = WithHttp::start(Servers::zoolet());
    let servers = with_http.servers.connect_string();
    let place = "/_c_0f8fad5b-d9cb-469f-a165-70867728950e-lock-";
    let expired =
        || value(&http::get(with_http.http, "/metrics").unwrap().body, "zoolet_locks_expired");
    let client = Client::connect(&servers).await.unwrap();
    client.create(place, b"", CreateMode::EphemeralSequential).await.unwrap();
    client.close().await.unwrap();
    assert_eq!(expired().to_string(), "0", "the session was closed");
    let options = ClientOptions::new().session_timeout(Duration::from_secs(4));
    let client = options.connect(&servers).await.unwrap();
    client.create(place, b"", CreateMode::EphemeralSequential).await.unwrap();
    let _left = client.detach().await;
    let seen = || (expired() > 0.0).then_some(());
    assert!(wait::until(SOON, seen).is_some(), "{}", expired());
}

/// The bounds of a histogram, and how many values do not exceed each.
fn buckets(text: &str, name: &str) -> Vec<(f64, u64)> {
    let prefix = format!("{name}_bucket{{le=\"");
    let line = |line: &str| {
        let (bound, count) = line.strip_prefix(&prefix)?.split_once("\"} ")?;
        Some((bound.parse().unwrap(), count.parse().unwrap()))
    };
    text.lines().filter_map(line).collect()
}

fn value(text: &str, name: &str) -> f64 {
    let prefix = format!("{name} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&prefix));
    value.unwrap_or_else(|| panic!("no {name}: {text}")).parse().unwrap()
}

/// Held, contended, waiters; holds that have ended, acquisitions, and hand-overs.
fn figures(address: SocketAddr) -> [usize; 6] {
    let text = http::get(address, "/metrics").unwrap().body;
    let names =
        ["held", "contended", "waiters", "hold_time_count", "wait_time_count", "handed_over"];
    names.map(|name| {
        let prefix = format!("zoolet_locks_{name} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&prefix));
        value.unwrap_or_else(|| panic!("no {prefix}: {text}")).parse().unwrap()
    })
}
