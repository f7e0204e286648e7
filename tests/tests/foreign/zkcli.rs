//! ZooKeeper's own command line through every command it has, as scripts with their answers.
//!
//! The answers were recorded from Apache ZooKeeper: `ZOOLET_TIER=apache ZOOLET_RECORD=1 cargo test
//! --workspace --test foreign zkcli::` writes them anew, and a person reads the diff.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use zoolet_tests::apache;
use zoolet_tests::servers::{LEADER_MAX, Servers};
use zoolet_tests::tools;
use zoolet_tests::zk_cli::{self, Surroundings};

const SCRIPTS: [&str; 7] = ["create", "read", "write", "acl", "watches", "quota", "session"];
/// The scripts whose sessions start at the leader. A leader of Apache checks quotas against what it
/// has applied itself, and a `create` against the parent's ACL before a `setAcl` that it has not
/// applied yet (its record of changes under way keeps the old one). A follower may have answered
/// the change before that; the leader itself has not.
const AT_LEADER: [&str; 2] = ["acl", "quota"];
/// How long a recording waits for events that it does not know of.
const EVENTS_WHILE_RECORDING: Duration = Duration::from_millis(700);

#[test]
fn every_command_answers_as_recorded_on_apache() {
    if !tools::is_due_on_apache("zkcli", &[]).unwrap() {
        return;
    }
    let apache = Servers::apache().servers(3).property("enforceQuota", "true").start().unwrap();
    all_scripts(&apache, env::var_os("ZOOLET_RECORD").is_some());
}

#[test]
fn every_command_has_the_same_output_on_zoolet() {
    if !tools::require_foreign("zkcli", &["java", "mvn"]).unwrap() {
        return;
    }
    let zoolet = Servers::zoolet().servers(3).property("enforceQuota", "true").start().unwrap();
    all_scripts(&zoolet, false);
}

fn all_scripts(servers: &Servers, record: bool) {
    let classpath = apache::classpath().unwrap();
    let connect_string = servers.connect_string();
    let addresses: Vec<String> = connect_string.split(',').map(str::to_owned).collect();
    let leader_first = leader_first(servers, &addresses);
    let run = |script: &&str| {
        let at_leader = AT_LEADER.contains(script);
        check(script, &classpath, if at_leader { &leader_first } else { &addresses }, record)
    };
    let differences: Vec<String> = SCRIPTS.iter().filter_map(run).collect();
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
    one_shot_commands_report_by_their_exit_code(&classpath, &addresses);
}

/// Returns the addresses with the leader's first, where sessions start.
fn leader_first(servers: &Servers, addresses: &[String]) -> Vec<String> {
    let leader = servers.wait_for_leader(LEADER_MAX).unwrap();
    let mut addresses = addresses.to_vec();
    addresses.swap(0, leader);
    addresses
}

/// Runs a script and compares it with itself, or records it; gives the first difference.
fn check(name: &str, classpath: &OsStr, servers: &[String], record: bool) -> Option<String> {
    let file = tools::interop_dir("zkcli").join(format!("{name}.script"));
    let script = fs::read_to_string(&file).unwrap();
    let unknown_events = if record { EVENTS_WHILE_RECORDING } else { Duration::ZERO };
    let around = Surroundings { classpath, servers, unknown_events };
    let answered = zk_cli::run_script(&script, &around).unwrap();
    if record {
        fs::write(&file, answered).unwrap();
        return None;
    }
    let (script, answered) = (without_closing_lines(&script), without_closing_lines(&answered));
    (script != answered).then(|| difference(&file, &script, &answered))
}

/// Returns the text without the lines about its own closing that a client prints when it quits, if
/// its JVM does not end before.
fn without_closing_lines(text: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for line in text.lines() {
        let quits = kept.last().is_some_and(|last| last.ends_with("> quit"));
        if !(quits && line == "event Closed") {
            kept.push(line);
        }
    }
    kept.join("\n")
}

/// The first line that differs, with what stands before it.
fn difference(file: &Path, expected: &str, answered: &str) -> String {
    let same = expected.lines().zip(answered.lines()).take_while(|(a, b)| a == b).count();
    let around = |text: &str| {
        let lines: Vec<&str> = text.lines().skip(same.saturating_sub(3)).take(8).collect();
        lines.join("\n")
    };
    format!(
        "{} line {}\n--- expected\n{}\n--- answered\n{}",
        file.display(),
        same + 1,
        around(expected),
        around(answered)
    )
}

fn one_shot_commands_report_by_their_exit_code(classpath: &OsStr, servers: &[String]) {
    let run = |words: &[&str]| {
        let mut command: Command = apache::java(classpath);
        command.args(["org.apache.zookeeper.ZooKeeperMain", "-server", &servers[0]]).args(words);
        command.output().unwrap()
    };
    let created = run(&["create", "/one-shot", "data"]);
    assert!(created.status.success(), "{created:?}");
    let got = run(&["get", "/one-shot"]);
    assert!(got.status.success());
    assert!(String::from_utf8_lossy(&got.stdout).lines().any(|line| line == "data"), "{got:?}");
    assert_eq!(run(&["get", "/missing"]).status.code(), Some(1));
    assert_eq!(run(&["delete", "/one-shot"]).status.code(), Some(0));
}
