//! The metrics of locks, beside programs that lock with Curator, kazoo and the client's own recipes.

use std::io::{BufRead, BufReader, Lines, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

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
    assert_eq!(figures(with_http.http), [0, 0, 0, 0, 0]);
    program.send("GO");
    let mut grants = 0;
    while grants < TURNS {
        let line = program.line();
        if line.starts_with("HELD") {
            grants += 1;
            // The other one waits, as soon as it has come.
            let expected = [1, 1, 1, grants - 1, grants];
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
    let seen = || (figures(with_http.http) == [0, 0, 0, grants, grants]).then_some(());
    assert!(wait::until(SOON, seen).is_some(), "{grants}: {:?}", figures(with_http.http));
}

/// Held, contended, waiters; holds that have ended, and acquisitions.
fn figures(address: SocketAddr) -> [usize; 5] {
    let text = http::get(address, "/metrics").unwrap().body;
    ["held", "contended", "waiters", "hold_time_count", "wait_time_count"].map(|name| {
        let prefix = format!("zoolet_locks_{name} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&prefix));
        value.unwrap_or_else(|| panic!("no {prefix}: {text}")).parse().unwrap()
    })
}
