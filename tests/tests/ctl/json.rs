//! The results of every command as JSON: one naming, and no number that a reader cuts short.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};

use serde_json::Value;
use zoolet_client::CreateMode;
use zoolet_tests::ports::PortLease;
use zoolet_tests::scenes::Scene;
use zoolet_tests::zooletctl;

use crate::harness::{CtlScene, Said, ended, said, signal, start};

/// The largest integer that every reader of JSON keeps: 2⁵³ − 1.
const INTEGER_MAX: u64 = (1 << 53) - 1;

/// Milliseconds since 1970 are more, and durations in a test are less.
const TIME_MS_MIN: f64 = 1e12;

/// Members whose own members are named by recipes, kinds of faults or bounds.
const MAPS: [&str; 5] = ["faults", "grants", "others", "by_recipe", "histogram"];

/// Commands that other scenes look at; `locks` is looked at by itself.
const ELSEWHERE: [&str; 5] = ["history", "locks", "snapshot", "torture", "watch"];

/// Takes it for granted that a result has the names and the types of docs/zooletctl.md.
#[track_caller]
pub(crate) fn check(result: &Value) {
    assert_eq!(wrong("", result), None, "{result}");
}

/// The first thing that is wrong with a value.
fn wrong(name: &str, value: &Value) -> Option<String> {
    let hexadecimal = |text: &str| {
        let digits = text.strip_prefix("0x")?;
        u64::from_str_radix(digits, 16).ok()
    };
    match name {
        "zxid" | "czxid" | "mzxid" | "pzxid" | "session" | "ephemeral_owner" => {
            let is_text = value.as_str().is_some_and(|text| hexadecimal(text).is_some());
            return (!is_text && !value.is_null()).then(|| format!("{name} is {value}"));
        }
        "token" => {
            let is_text = value.as_str().is_some_and(|text| text.parse::<i64>().is_ok());
            return (!is_text).then(|| format!("{name} is {value}"));
        }
        "at" | "since" | "client" => {
            return Some(format!("the name {name:?}, of something with another name"));
        }
        _ => {}
    }
    if let Some(ms) = value.as_f64().filter(|_| name.ends_with("_ms")) {
        let is_time = matches!(name, "time_ms" | "since_ms") || name.ends_with("_at_ms");
        if is_time != (ms > TIME_MS_MIN) {
            return Some(format!("{name} is {ms}"));
        }
    }
    match value {
        Value::Object(members) => members.iter().find_map(|(key, value)| {
            let is_snake =
                key.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
            if !is_snake && !MAPS.contains(&name) {
                return Some(format!("the name {key:?}"));
            }
            wrong(key, value)
        }),
        Value::Array(values) => values.iter().find_map(|value| wrong(name, value)),
        Value::Number(number) => {
            let integer = number.as_i64().map(i64::unsigned_abs).or(number.as_u64());
            integer.is_some_and(|n| n > INTEGER_MAX).then(|| format!("{name} is {number}"))
        }
        Value::Null | Value::Bool(_) | Value::String(_) => None,
    }
}

#[test]
fn what_is_wrong_with_json_is_found() {
    for good in [
        serde_json::json!({ "path": "/A", "stat": { "czxid": "0x100000002", "mtime": 1_700_000_000_000_u64 } }),
        serde_json::json!([{ "session": null, "grants": { "read-write": 1 } }]),
        serde_json::json!({ "token": "4294967298" }),
    ] {
        assert_eq!(wrong("", &good), None, "{good}");
    }
    for bad in [
        serde_json::json!({ "forMs": 1 }),
        serde_json::json!({ "held_ms": 1_700_000_000_000_u64 }),
        serde_json::json!({ "held_at_ms": 12 }),
        serde_json::json!({ "client": "127.0.0.1:1" }),
        serde_json::json!({ "stat": { "czxid": 4_294_967_298_u64 } }),
        serde_json::json!([{ "a": [{ "ephemeral_owner": "12" }] }]),
        serde_json::json!({ "token": 1 }),
        serde_json::json!({ "count": 1_u64 << 53 }),
    ] {
        assert!(wrong("", &bad).is_some(), "{bad}");
    }
}

/// The commands that the help lists.
fn commands(scene: &Scene) -> Vec<String> {
    let help = scene.ctl(&["--help"]).well();
    let listed = help.split("\nCommands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

/// The first line of a command that goes on.
fn first_line(child: &mut Child) -> Value {
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

/// Runs each of these, and looks at all that it prints on stdout.
fn run_all(scene: &Scene, all: &[&[&str]], seen: &mut Vec<String>) {
    for words in all {
        let said = scene.ctl(&[&["--json"], *words].concat());
        assert!(said.code == Some(0) && said.err.is_empty(), "{words:?}: {said:?}");
        assert!(!said.out.is_empty(), "{words:?} prints nothing");
        for line in said.out.lines() {
            check(&serde_json::from_str(line).unwrap());
        }
        seen.push(words[0].to_owned());
    }
}

pub(crate) async fn every_command_prints_the_same_kind_of_json(scene: &Scene) {
    let mut seen = Vec::new();
    let path = scene.znode().await;
    let (a, b) = (format!("{path}/a"), format!("{path}/b"));
    let client = scene.client().await;
    let lock = format!("{path}/lock");
    client.create(&format!("{path}/e"), b"", CreateMode::Ephemeral).await.unwrap();
    let all: &[&[&str]] = &[
        &["create", &a, "x"],
        &["create", &b, "x"],
        &["set", &a, "y"],
        &["get", &a],
        &["stat", &format!("{path}/e")],
        &["ls", &path],
        &["ls", "-R", "-s", &path],
        &["tree", &path],
        &["getAcl", &a],
        &["setAcl", &a, "world:anyone:cdrwa"],
        &["setAcl", "-R", "-s", &path, "world:anyone:cdrwa"],
        &["setquota", "-n", "100", &a],
        &["listquota", &a],
        &["delquota", "-n", &a],
        &["getAllChildrenNumber", &path],
        &["getEphemerals"],
        &["whoami"],
        &["sync", "/"],
        &["config"],
        &["version"],
        &["--version"],
        &["ls", "--help"],
        &["completions", "bash"],
        &["status"],
        &["delete", &b],
        &["find", &path],
        &["cp", &a, &format!("{path}/copy")],
        &["mv", &format!("{path}/copy"), &b],
        &["txn", &format!("set {b} z"), &format!("create {b}/c"), &format!("delete {b}/c")],
        &["bench", "--mix", "get", "--duration", "50ms", "--keys", "5", "--path", &path],
    ];
    run_all(scene, all, &mut seen);
    others(scene, &path, &lock, &mut seen);
    run_all(scene, &[&["deleteall", &a]], &mut seen);

    let missing: Vec<String> = commands(scene)
        .into_iter()
        .filter(|name| !seen.contains(name) && !ELSEWHERE.contains(&name.as_str()))
        .collect();
    assert!(missing.is_empty(), "commands whose JSON is not looked at: {missing:?}");
}

/// Commands that go on until a signal, that need the shell or stdin, or that fail here.
fn others(scene: &Scene, path: &str, lock: &str, seen: &mut Vec<String>) {
    for command in ["lock", "elect"] {
        let mut holder = scene.begin(&["--json", command, lock]);
        check(&first_line(&mut holder));
        signal(&holder, "TERM");
        assert_eq!(holder.wait().unwrap().code(), Some(0));
        seen.push(command.to_owned());
    }
    let shell = format!(
        "addauth digest user:secret --json\naddWatch {path} --json\nset {path} z --json\n\
         removewatches {path} --json\nprintwatches --json\nhistory --json\n"
    );
    for line in scene.script(&shell).well().lines().filter(|line| line.starts_with(['{', '['])) {
        check(&serde_json::from_str(line).unwrap());
    }
    seen.extend(["addauth", "removewatches"].map(str::to_owned));
    let mut watch = scene.begin(&["--json", "get", "-w", path]);
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    check(&serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap());
    scene.ctl(&["set", path, "changed"]).well();
    let event: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    check(&event);
    assert!(event["event"]["zxid"].is_string(), "{event}");
    assert_eq!(watch.wait().unwrap().code(), Some(0));
    seen.push("addWatch".to_owned());

    let mut edit = scene.command(&["--json", "edit", path]);
    edit.env("VISUAL", "true").stdin(Stdio::null());
    check(&said(&mut edit).json());
    let differs = scene.ctl(&["--json", "diff", "--acl", path, "/"]);
    for line in differs.out.lines() {
        check(&serde_json::from_str(line).unwrap());
    }
    assert_eq!(differs.code, Some(1));
    seen.extend(["edit", "diff"].map(str::to_owned));

    let mut digest = scene.command(&["--json", "digest", "user"]);
    let mut digest = start(digest.stdin(Stdio::piped()));
    digest.stdin.take().unwrap().write_all(b"secret\n").unwrap();
    check(&serde_json::from_str(&ended(digest).well()).unwrap());
    seen.push("digest".to_owned());
    // A server alone is not changed; the failure is JSON as well.
    let refused = scene.ctl(&["--json", "reconfig", "-remove", "5"]);
    check(&serde_json::from_str(refused.err.trim()).unwrap());
    seen.push("reconfig".to_owned());

    let mut holder = scene.begin(&["lock", lock]);
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    run_all(scene, &[&["revoke", lock]], seen);
    check(&scene.json(&["locks", lock]));
    check(&scene.json(&["locks", "--graph", lock]));
    check(&scene.json(&["locks", "--release", lock, "--yes"]));
    signal(&holder, "TERM");
    holder.wait().unwrap();
}

/// Takes it for granted that a command has failed so, and that all it said is one line of JSON.
#[track_caller]
fn check_failure(failed: &Said, code: i32) {
    assert!(failed.code == Some(code) && failed.out.is_empty(), "not {code}: {failed:?}");
    let error: Value = serde_json::from_str(&failed.err).unwrap();
    assert_eq!(error["error"]["exit"], code, "{failed:?}");
    assert!(error["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{failed:?}");
}

/// A line of a script with `--json` failed in plain text, and notes were plain text.
pub(crate) async fn mistakes_are_json_with_the_code_of_the_manual(scene: &Scene) {
    for name in commands(scene) {
        check_failure(&scene.ctl(&["--json", &name, "--no-such-option"]), 128);
    }
    let path = scene.znode().await;
    let none = format!("{path}/none");
    let failures: &[(i32, &[&str])] = &[
        (1, &["get", &none]),
        (1, &["deleteall", &none]),
        (1, &["cp", &none, &path]),
        (2, &["diff", &none, &none]),
        (3, &["ls", "relative"]),
        (3, &["mv", "other:/a", &path]),
        (128, &["get", "--raw", &path]),
        (128, &["get", "-b", &path]),
        (128, &["get", "-x", &path, "--json"]),
        (128, &["locks", "--graph", "--dot", &path]),
    ];
    for (code, words) in failures {
        check_failure(&scene.ctl(&[&["--json"], *words].concat()), *code);
    }
    let lease = PortLease::take(1).unwrap();
    let nowhere = format!("127.0.0.1:{}", lease.ports()[0]);
    let waits: &[&[&str]] = &[
        &["ls", "/"],
        &["set", "/a", "b"],
        &["lock", "/a"],
        &["elect", "/a"],
        &["locks", "/"],
        &["watch", "/", "--", "true"],
        &["bench"],
        &["history", "--http", &nowhere, "/a"],
    ];
    for words in waits {
        let options = ["--json", "--servers", &nowhere, "--timeout", "300ms"];
        check_failure(&said(zooletctl::command().unwrap().args(options).args(*words)), 2);
    }
    let script = format!("get {none} --json\nget {none}\nls --help --json\nhelp --json\nredo 1\n");
    let failed = scene.script(&script);
    let is_json = |line: &str| serde_json::from_str::<Value>(line).is_ok();
    assert!(failed.out.lines().count() == 2 && failed.out.lines().all(is_json), "{failed:?}");
    let errors: Vec<bool> = failed.err.lines().map(is_json).collect();
    assert_eq!(errors, [true, false, true], "{failed:?}");
}
