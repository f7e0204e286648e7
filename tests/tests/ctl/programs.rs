//! `locks` beside programs that lock with the libraries of others. The names in `locks.rs` are what these
//! libraries write; here they write them.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use zoolet_tests::contenders::programs::{go, java, kazoo};
use zoolet_tests::servers::Servers;
use zoolet_tests::tools::{self, ToolError};
use zoolet_tests::wait;

use crate::harness::{command, said};

/// How long the one that waits may take to come.
const SOON: Duration = Duration::from_secs(30);

#[test]
fn a_lock_of_curator_is_shown() {
    let program = || java("curator-5.9", &["../curator/Curated.java"], "Curated");
    is_shown("ctl: Curator's locks", &["java", "mvn"], &program, "curator");
}

#[test]
fn a_lock_of_kazoo_is_shown() {
    is_shown("ctl: kazoo's locks", &["python3"], &kazoo, "kazoo");
}

#[test]
fn a_lock_of_go_is_shown() {
    is_shown("ctl: Go's locks", &["go"], &go, "go");
}

/// A program, which ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended before.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Of two contenders one holds, because its line is not answered, and the other one waits.
fn is_shown(
    suite: &str,
    needs: &[&str],
    program: &dyn Fn() -> Result<Command, ToolError>,
    family: &str,
) {
    if !tools::require_foreign(suite, needs).unwrap() {
        return;
    }
    let mut program = match program() {
        Err(error) => return tools::skip_unless_required(suite, error).unwrap(),
        Ok(program) => program,
    };
    let servers = Servers::zoolet().start().unwrap();
    program.args(["mutex:/locked", "mutex:/locked"]);
    program.env("ZK_CONNECT", servers.connect_string());
    program.env("ZK_SESSION_TIMEOUT_MS", "20000");
    program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = Running(program.spawn().unwrap());
    let mut lines = BufReader::new(running.0.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "READY");
    writeln!(running.0.stdin.as_mut().unwrap(), "GO").unwrap();
    loop {
        let line = lines.next().expect("it goes on").unwrap();
        if line.starts_with("HELD") {
            break;
        }
        let number = line.split(' ').nth(1).unwrap();
        writeln!(running.0.stdin.as_mut().unwrap(), "OK {number}").unwrap();
    }

    let connect_string = servers.connect_string();
    let look = || said(&mut command(&connect_string, &["--json", "locks", "/locked"])).json();
    let is_so = |shown: &Value| {
        shown.as_array().is_some_and(|all| all.len() == 1) && shown[0]["queue"][0].is_object()
    };
    let shown = wait::until(SOON, || Some(look()).filter(is_so));
    let Some(shown) = shown else { panic!("no lock with a queue: {}", look()) };
    let lock = &shown[0];
    assert_eq!((&lock["path"], &lock["kind"]), (&json!("/locked"), &json!("mutex")), "{lock}");
    assert_eq!(lock["warnings"], json!([]), "{lock}");
    for place in ["holders", "queue"] {
        let members = lock[place].as_array().unwrap();
        assert_eq!(members.len(), 1, "{lock}");
        assert_eq!(members[0]["family"], family, "{lock}");
        assert!(members[0]["session"].as_str().unwrap().starts_with("0x"), "{lock}");
        assert!(members[0]["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{lock}");
    }
    assert_ne!(lock["holders"][0]["path"], lock["queue"][0]["path"], "{lock}");
}
