//! `locks` beside programs that lock with the libraries of others, with a queue of their own, and with
//! this client. The names in `locks.rs` are what they write; here they write them.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use zoolet_tests::contenders::programs::{c, go, java, kazoo, recipes};
use zoolet_tests::servers::Servers;
use zoolet_tests::tools::{self, ToolError};
use zoolet_tests::wait;

use crate::harness::{command, said};

/// How long the one that waits may take to come.
const SOON: Duration = Duration::from_secs(30);

#[test]
fn a_lock_of_curator_is_shown() {
    let program = || java("curator-5.9", &["../curator/Curated.java"], "Curated");
    is_shown("ctl: Curator's locks", &["java", "mvn"], &program, "mutex", "curator");
}

#[test]
fn a_lock_of_kazoo_is_shown() {
    is_shown("ctl: kazoo's locks", &["python3"], &kazoo, "mutex", "kazoo");
}

#[test]
fn a_lock_of_go_is_shown() {
    is_shown("ctl: Go's locks", &["go"], &go, "mutex", "go");
}

/// Its queue has names of no known form.
#[test]
fn a_lock_of_an_unknown_client_is_shown() {
    is_shown("ctl: locks of a program in C", &["gcc"], &c, "mutex", "unknown");
}

/// It writes Curator's names.
#[test]
fn a_lock_of_this_client_is_shown() {
    is_shown("ctl: this client's locks", &[], &recipes, "mutex", "curator");
}

#[test]
fn a_bilingual_lock_is_shown() {
    is_shown("ctl: this client's bilingual locks", &[], &recipes, "bilingual", "bilingual");
}

/// A program with two contenders, which ends with this.
struct Contest {
    process: Child,
    orders: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Contest {
    fn begin(mut program: Command, recipe: &str, connect_string: &str) -> Self {
        let contender = format!("{recipe}:/locked");
        program.args([&contender, &contender]);
        program.env("ZK_CONNECT", connect_string);
        program.env("ZK_SESSION_TIMEOUT_MS", "20000");
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = program.spawn().unwrap();
        let (orders, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut contest = Self { process, orders, lines: BufReader::new(output).lines() };
        assert_eq!(contest.line(), "READY");
        writeln!(contest.orders, "GO").unwrap();
        contest
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("it goes on").unwrap()
    }

    /// Has the contenders go on until one holds the lock, which gets no answer. Returns its number.
    fn until_held(&mut self) -> String {
        loop {
            let line = self.line();
            let number = line.split(' ').nth(1).unwrap().to_owned();
            if line.starts_with("HELD") {
                return number;
            }
            self.go_on(&number);
        }
    }

    fn go_on(&mut self, number: &str) {
        writeln!(self.orders, "OK {number}").unwrap();
    }
}

impl Drop for Contest {
    fn drop(&mut self) {
        // It may have ended before.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Of two contenders one holds, because its line is not answered, and the other one waits. The lock is
/// handed over, and then taken away from its holder.
fn is_shown(
    suite: &str,
    needs: &[&str],
    program: &dyn Fn() -> Result<Command, ToolError>,
    recipe: &str,
    family: &str,
) {
    if !tools::require_foreign(suite, needs).unwrap() {
        return;
    }
    let program = match program() {
        Err(error) => return tools::skip_unless_required(suite, error).unwrap(),
        Ok(program) => program,
    };
    let servers = Servers::zoolet().start().unwrap();
    let connect_string = servers.connect_string();
    let mut contest = Contest::begin(program, recipe, &connect_string);
    let first = contest.until_held();
    let lock = queue_behind(&connect_string, family, |_| true);
    let (holder, waiter) = (&lock["holders"][0], &lock["queue"][0]);

    // The one that waited holds, with the znode that it waited with, and the other one queues anew.
    contest.go_on(&first);
    let second = contest.until_held();
    assert_ne!(first, second, "a queue is in order");
    let handed = queue_behind(&connect_string, family, |lock| lock["holders"][0] != *holder);
    let (held, next) = (&handed["holders"][0], &handed["queue"][0]);
    assert_eq!((&held["path"], &held["session"]), (&waiter["path"], &waiter["session"]));
    assert_eq!(next["session"], holder["session"], "{handed}");
    assert_ne!(next["path"], holder["path"], "{handed}");
    assert_eq!(held["since_ms"], waiter["since_ms"], "{handed}");
    assert!(held["for_ms"].as_u64() >= waiter["for_ms"].as_u64(), "{lock} {handed}");

    let release = ["--json", "locks", "--release", "/locked", "--yes"];
    let released = said(&mut command(&connect_string, &release)).json();
    assert_eq!((&released["path"], &released["held"]), (&held["path"], &json!(true)));
    assert_eq!(released["session"], held["session"], "{released}");
    assert_eq!(contest.until_held(), first, "the next one has got it");
    let taken = look(&connect_string);
    assert_eq!(taken[0]["holders"][0]["path"], next["path"], "{taken}");
}

fn look(connect_string: &str) -> Value {
    said(&mut command(connect_string, &["--json", "locks", "/locked"])).json()
}

/// The lock, once one waits behind its holder.
fn queue_behind(connect_string: &str, family: &str, is_meant: impl Fn(&Value) -> bool) -> Value {
    let is_so = |shown: &Value| {
        let is_one = shown.as_array().is_some_and(|all| all.len() == 1);
        is_one && shown[0]["queue"][0].is_object() && is_meant(&shown[0])
    };
    let shown = wait::until(SOON, || Some(look(connect_string)).filter(is_so));
    let Some(shown) = shown else { panic!("no lock with a queue: {}", look(connect_string)) };
    let lock = shown[0].clone();
    assert_eq!((&lock["path"], &lock["kind"]), (&json!("/locked"), &json!("mutex")), "{lock}");
    let warnings = lock["warnings"].to_string();
    match family {
        "unknown" => assert!(warnings.contains("clients are unknown"), "{lock}"),
        _ => assert_eq!(warnings, "[]", "{lock}"),
    }
    for place in ["holders", "queue"] {
        let members = lock[place].as_array().unwrap();
        assert_eq!(members.len(), 1, "{lock}");
        assert_eq!(members[0]["family"], family, "{lock}");
        assert!(members[0]["session"].as_str().unwrap().starts_with("0x"), "{lock}");
        assert!(members[0]["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{lock}");
    }
    assert_ne!(lock["holders"][0]["path"], lock["queue"][0]["path"], "{lock}");
    lock
}
