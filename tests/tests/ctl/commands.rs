//! Commands one by one.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};
use zoolet_client::{CreateMode, Version};
use zoolet_tests::scenes::{Scene, soon};

use crate::harness::{CtlScene, command, ended, said, signal};

pub(crate) async fn znodes_come_and_go(scene: &Scene) {
    let top = scene.znode().await;
    let path = format!("{top}/a");
    assert_eq!(scene.ctl(&["create", &path, "some data"]).well(), format!("Created {path}\n"));
    assert_eq!(scene.ctl(&["get", &path]).well(), "some data\n");
    let read = scene.json(&["get", &path]);
    assert_eq!((&read["path"], &read["data"]), (&json!(path), &json!("some data")));
    assert_eq!(read["stat"]["data_length"], 9);
    assert_eq!(read["stat"]["ephemeral_owner"], "0x0");
    assert_eq!(scene.ctl(&["set", &path, "other"]).well(), "");
    let text = scene.ctl(&["get", "-s", &path]).well();
    assert!(text.starts_with("other\ncZxid = 0x"), "{text}");
    assert!(text.contains("\ndataVersion = 1\n") && text.contains("\nctime = 2"), "{text}");
    assert_eq!(scene.ctl(&["stat", &path]).well().lines().count(), 11);
    assert_eq!(scene.json(&["set", &path, ""])["stat"]["version"], 2);
    assert_eq!(scene.ctl(&["get", &path]).well(), "\n");
    assert_eq!(
        scene.json(&["delete", &path]),
        json!({ "path": path, "deleted": 1, "complete": true })
    );
    scene.ctl(&["get", &path]).badly(1, "does not exist");
}

pub(crate) async fn versions_are_heeded(scene: &Scene) {
    let path = scene.znode().await;
    scene.ctl(&["set", "-v", "3", &path, "x"]).badly(1, "another version");
    let text = scene.ctl(&["set", "-s", "-v", "0", &path, "x"]).well();
    assert!(text.contains("dataVersion = 1\n"), "{text}");
    scene.ctl(&["set", "-v", "-1", &path, "-5"]).badly(128, "-5");
    scene.ctl(&["set", "-v", "-1", &path, "--", "-5"]).well();
    assert_eq!(scene.ctl(&["get", &path]).well(), "-5\n");
    scene.ctl(&["delete", "-v", "1", &path]).badly(1, "another version");
    scene.ctl(&["delete", "-v", "2", &path]).well();
}

pub(crate) async fn the_flags_of_new_shells_and_the_forms_of_old_ones_are_understood(
    scene: &Scene,
) {
    let path = scene.znode().await;
    scene.ctl(&["set", "-b", &path, "AP9hYg=="]).well();
    assert_eq!(scene.ctl(&["get", "-b", &path]).well(), "AP9hYg==\n");
    let dump = scene.ctl(&["get", "-x", &path]).well();
    let line = dump.lines().nth(3).unwrap();
    assert_eq!(line, format!("|00000000| 00 ff 61 62{}|..ab{}|", " ".repeat(37), " ".repeat(12)));
    scene.ctl(&["set", &path, "0123456789abcdefg"]).well();
    let dump = scene.ctl(&["get", "-x", &path]).well();
    assert!(dump.contains("|00000010| 67 ") && dump.lines().count() == 6, "{dump}");
    scene.ctl(&["set", &path, ""]).well();
    assert_eq!(scene.ctl(&["get", "-x", &path]).well(), "\n");
    scene.ctl(&["set", "-b", &path, "no base64!"]).badly(3, "not in base64");
    scene.ctl(&["set", &path, "x", "7"]).badly(1, "another version");
    scene.ctl(&["set", &path, "x", "3"]).well();
    scene.ctl(&["set", "-v", "4", &path, "x", "4"]).badly(128, "cannot be used with");
    scene.ctl(&["get", &path, "/other"]).badly(128, "/other");
    scene.ctl(&["get", "--raw", &path, "watch"]).badly(128, "cannot be used with");
    scene.ctl(&["delete", &path, "1"]).badly(1, "another version");
    scene.ctl(&["delete", &path, "4"]).well();
}

pub(crate) async fn every_kind_of_znode_is_created(scene: &Scene) {
    let top = scene.znode().await;
    let below = |name: &str| format!("{top}/{name}");
    let first = scene.ctl(&["create", "-s", &below("n-"), "x"]).well();
    assert_eq!(first, format!("Created {}\n", below("n-0000000000")));
    let unnamed = scene.json(&["create", "-s", &below("")]);
    assert_eq!(unnamed["path"], below("0000000001"));
    scene.ctl(&["create", "-c", &below("container")]).well();
    scene.ctl(&["create", "-t", "60000", &below("ttl"), "x"]).well();
    scene.ctl(&["create", "-s", "-t", "60000", &below("ttl-"), "x"]).well();
    // So `cp` and `mv` cannot keep the kind.
    for kind in ["container", "ttl"] {
        let shown = scene.json(&["stat", &below(kind)]);
        assert_eq!(shown["stat"]["ephemeral_owner"], "0x0", "{kind}: {shown}");
    }
    let ephemeral = scene.json(&["create", "-e", &below("e")]);
    assert_ne!(ephemeral["stat"]["ephemeral_owner"], "0x0");
    scene.ctl(&["stat", &below("e")]).badly(1, "does not exist");
    scene.ctl(&["create", "-e", "-s", &below("e-")]).well();
    scene.ctl(&["create", &below("nowhere/a")]).badly(1, "parent does not exist");
    scene.ctl(&["create", &top]).badly(1, "exists already");
    assert_eq!(scene.until_count(&top, 5).await.len(), 5);
}

pub(crate) async fn what_is_below_is_listed_and_deleted(scene: &Scene) {
    let top = scene.znode().await;
    for name in ["b", "a", "a/x", "a/x/y"] {
        scene.ctl(&["create", &format!("{top}/{name}"), name]).well();
    }
    assert_eq!(scene.ctl(&["ls", &top]).well(), "a\nb\n");
    assert!(scene.ctl(&["ls", "-s", &top]).well().contains("\nnumChildren = 2\n"));
    assert_eq!(scene.json(&["ls", &top])["children"], json!(["a", "b"]));
    assert_eq!(scene.ctl(&["ls", &format!("{top}/b")]).well(), "");
    let paths = format!("{top}\n{top}/a\n{top}/a/x\n{top}/a/x/y\n{top}/b\n");
    assert_eq!(scene.ctl(&["ls", "-R", &top]).well(), paths);
    let stats = scene.ctl(&["ls", "-R", "-s", &top]).well();
    assert_eq!(stats.lines().count(), 5 * 12, "{stats}");
    assert!(stats.starts_with(&format!("{top}\ncZxid = ")), "{stats}");
    let tree = format!("{top}\n├── a\n│   └── x\n│       └── y\n└── b\n");
    assert_eq!(scene.ctl(&["tree", &top]).well(), tree);
    assert_eq!(scene.ctl(&["tree", "-L", "1", &top]).well(), format!("{top}\n├── a\n└── b\n"));
    assert_eq!(scene.ctl(&["getAllChildrenNumber", &top]).well(), "4\n");
    scene.ctl(&["delete", &top]).badly(1, "deleteall");
    assert_eq!(scene.json(&["deleteall", "-b", "1", &top])["deleted"], 5);
    scene.ctl(&["ls", &top]).badly(1, "does not exist");
    scene.ctl(&["deleteall", "/"]).badly(3, "cannot be deleted");
    scene.ctl(&["deleteall", "-b", "0", &top]).badly(128, "0");
}

pub(crate) async fn data_that_is_not_text_survives(scene: &Scene) {
    let path = scene.znode().await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("data");
    fs::write(&file, b"a\x1b\xff\n").unwrap();
    scene.ctl(&["set", &path, "--file", file.to_str().unwrap()]).well();
    assert_eq!(scene.ctl(&["get", &path]).well(), "a\\u{1b}\\xff\n\n");
    assert_eq!(scene.json(&["get", &path])["base64"], "YRv/Cg==");
    let raw = scene.command(&["get", "--raw", &path]).output().unwrap();
    assert_eq!(raw.stdout, b"a\x1b\xff\n");
    let mut piped = scene.command(&["set", &path, "--file", "-"]);
    let said = said(piped.stdin(fs::File::open(&file).unwrap()));
    assert_eq!(said.well(), "");
    let nowhere = directory.path().join("nowhere");
    scene.ctl(&["set", &path, "--file", nowhere.to_str().unwrap()]).badly(6, "No such file");
}

pub(crate) async fn permissions_are_shown_set_and_needed(scene: &Scene) {
    let path = scene.znode().await;
    assert_eq!(scene.ctl(&["getAcl", &path]).well(), "world:anyone:cdrwa\n");
    let output = scene.ctl(&["getAcl", "-s", &path]).well();
    assert!(output.starts_with("world:anyone:cdrwa\ncZxid = 0x"), "{output}");
    assert!(output.contains("\naclVersion = 0\n") && output.lines().count() == 12, "{output}");
    assert_eq!(scene.ctl(&["setAcl", &path, "world:anyone:cdrwa"]).well(), "");
    let output = scene.ctl(&["setAcl", "-s", "-v", "1", &path, "world:anyone:cdrwa"]).well();
    assert!(output.starts_with("cZxid = 0x") && output.contains("\naclVersion = 2\n"), "{output}");
    assert_eq!(scene.json(&["getAcl", &path])["stat"]["aversion"], 2);
    scene.ctl(&["setAcl", "-v", "1", &path, "world:anyone:r"]).badly(1, "another version");
    let child = format!("{path}/mine");
    let acl = "auth::cdrwa";
    let user = "digest:user:secret";
    scene.ctl_as(user, &["create", &child, "x", acl]).well();
    scene.ctl(&["get", &child]).badly(1, "--auth");
    let all = scene.ctl(&["ls", "-R", &path]);
    assert_eq!((all.code, all.out), (Some(0), format!("{path}\n")), "it lists what it may");
    assert!(all.err.contains("left out"), "{}", all.err);
    assert_eq!(scene.ctl_as(user, &["get", &child]).well(), "x\n");
    let shown = scene.ctl_as(user, &["--json", "getAcl", &child]).json();
    assert_eq!(shown["acl"][0]["scheme"], "digest");
    let id = shown["acl"][0]["id"].as_str().unwrap();
    assert!(id.starts_with("user:") && !id.contains("secret"), "{id}");
    let whoami = scene.ctl_as(user, &["whoami"]).well();
    assert!(whoami.contains("digest: user"), "{whoami}");

    let all = ["setAcl", "-R", "-s", &path, "world:anyone:cdrwa"];
    let output = scene.ctl_as(user, &all).well();
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[12], lines[24]), (25, &*path, &*child, "2 znodes"));
    assert!(
        output.contains("\naclVersion = 3\n") && output.contains("\naclVersion = 1\n"),
        "{output}"
    );
    let output = scene.ctl_as(user, &[&["--json"], &all[..]].concat()).well();
    let output: Vec<Value> =
        output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&output[1]["path"], &output[1]["stat"]["aversion"]), (&json!(child), &json!(2)));
    assert_eq!(output[2], json!({ "path": path, "znodes": 2, "complete": true }));
    let all = ["setAcl", "-R", &path, "world:anyone:r,digest:user:x:cdrwa"];
    assert_eq!(scene.ctl_as(user, &all).well(), "2 znodes\n");
    assert_eq!(
        scene.ctl(&["getAcl", &child]).well(),
        "world:anyone:r,digest:user:x:cdrwa\n".to_owned()
    );
    scene.ctl(&["set", &child, "x"]).badly(1, "ACL");
    scene.ctl(&["setAcl", "-v", "5", &path, "world:anyone:r"]).badly(1, "ACL");
    scene.ctl(&["setAcl", &path, "world"]).badly(3, "SCHEME:ID:PERMISSIONS");
    scene.ctl(&["setAcl", &path, "world:anyone:q"]).badly(3, "other than");
    scene.ctl_as("digest", &["ls", "/"]).badly(3, "no scheme");
}

pub(crate) async fn quotas_are_set_listed_and_taken_away(scene: &Scene) {
    let path = scene.znode().await;
    scene.ctl(&["listquota", &path]).badly(1, "no quota");
    scene.ctl(&["setquota", &path]).badly(128, "required");
    scene.ctl(&["setquota", "-n", "10", "-B", "1000", &path]).well();
    scene.ctl(&["setquota", "-b", "500", &path]).well();
    let listed = scene.json(&["listquota", &path]);
    let quota = json!({ "count": 10, "bytes": 500, "count_hard": null, "bytes_hard": 1000 });
    assert_eq!(listed["quota"], quota);
    assert_eq!(listed["used"]["count"], 1);
    assert!(scene.ctl(&["listquota", &path]).well().starts_with("quota count=10 bytes=500 "));
    scene.ctl(&["delquota", "-b", &path]).well();
    assert_eq!(scene.json(&["listquota", &path])["quota"]["bytes"], json!(null));
    scene.ctl(&["delquota", &path]).well();
    scene.ctl(&["listquota", &path]).badly(1, "no quota");
    scene.ctl(&["setquota", "-n", "1", &format!("{path}/nothing")]).badly(1, "does not exist");
    scene.ctl(&["setquota", "-n", "many", &path]).badly(128, "invalid digit");
}

pub(crate) async fn the_ensemble_is_asked(scene: &Scene) {
    assert!(scene.ctl(&["sync", "/"]).well().starts_with("Sync is OK"));
    assert!(scene.json(&["sync", "/"])["zxid"].as_str().unwrap().starts_with("0x"));
    assert_eq!(scene.json(&["getEphemerals"]), json!([]));
    assert!(scene.ctl(&["whoami"]).well().starts_with("ip: "));
    assert!(scene.ctl(&["version"]).well().starts_with("zooletctl "));
    // One server alone has no configuration, and none that could be changed.
    assert_eq!(scene.json(&["config"])["servers"], json!([]));
    scene.ctl(&["reconfig"]).badly(128, "--add");
    let said = scene.ctl(&["reconfig", "-remove", "5"]);
    assert!(matches!(said.code, Some(1 | 3 | 4)) && said.err.starts_with("Error: "), "{said:?}");
    scene.ctl(&["removewatches", "/"]).badly(1, "no such watch");
}

pub(crate) async fn a_watch_reports_the_next_change(scene: &Scene) {
    let client = scene.client().await;
    let top = scene.znode().await;
    let path = format!("{top}/later");
    let mut stat = scene.begin(&["--json", "stat", &path, "watch"]);
    let mut ls = scene.begin(&["ls", &top, "watch"]);
    let mut all = scene.begin(&["addWatch", "-m", "persistent_recursive", &top]);
    let output = read_until(&mut all, &format!("type:NodeCreated path:{path}"));
    // Whether a watch is there already cannot be seen from outside: change until all have reported.
    soon("events", async || {
        client.create(&path, b"", CreateMode::Persistent).await.unwrap();
        client.delete(&path, Version::Any).await.unwrap();
        let ended = [&mut stat, &mut ls].map(|child| child.try_wait().unwrap().is_some());
        ended == [true, true] && output.is_finished()
    })
    .await;
    let out = output.join().unwrap();
    signal(&all, "INT");
    assert_eq!(ended(all).code, Some(130));
    drop(out);
    let output = ended(stat).well();
    let event: Value = serde_json::from_str(output.lines().last().unwrap()).unwrap();
    assert_eq!(event["event"]["path"], path, "{output}");
    assert!(ended(ls).well().contains("type:NodeChildrenChanged"));
}

pub(crate) async fn a_recursive_list_watches_what_it_lists(scene: &Scene) {
    let top = scene.znode().await;
    for name in ["a", "a/x", "b"] {
        scene.ctl(&["create", &format!("{top}/{name}")]).well();
    }
    // Each path is reported when it is watched: what happens behind the last one is seen.
    for words in [["ls", "-w", "-R", &top], ["ls", "-R", &top, "watch"]] {
        let mut ls = scene.begin(&words);
        drop(read_until(&mut ls, &format!("{top}/b\n")).join().map(|mut out| {
            scene.ctl(&["create", "-s", &format!("{top}/a/x/n-")]).well();
            let mut rest = String::new();
            out.read_to_string(&mut rest).unwrap();
            let event = format!("WatchedEvent type:NodeChildrenChanged path:{top}/a/x zxid:0x");
            assert!(rest.starts_with(&event) && rest.lines().count() == 1, "{rest}");
        }));
        assert_eq!(ended(ls).well(), "");
    }
    // In the shell every one of them stays until it has fired or is removed.
    let said = scene.script(&format!(
        "ls -R -w {top}\nremovewatches -c {top}/a\ncreate {top}/a/y\ncreate {top}/b/z\n\
         create {top}/a/x/z\ncreate {top}/a/x/zz\ncreate {top}/c\n"
    ));
    let out = said.well();
    let events: Vec<&str> = out
        .lines()
        .filter_map(|line| line.strip_prefix("WatchedEvent type:NodeChildrenChanged path:"))
        .map(|event| event.split(' ').next().unwrap())
        .collect();
    assert_eq!(events, [&format!("{top}/b"), &format!("{top}/a/x"), &top], "{out}");
}

/// Reads what a command says until it has said this. The rest is left in what is answered: a
/// command whose reader is gone ends.
fn read_until(child: &mut Child, expected: &str) -> JoinHandle<BufReader<ChildStdout>> {
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let expected = expected.to_owned();
    thread::spawn(move || {
        let mut said = String::new();
        while !said.contains(&expected) {
            assert_ne!(out.read_line(&mut said).unwrap(), 0, "it ended: {said}");
        }
        out
    })
}

pub(crate) async fn failures_have_codes_and_say_what_is_wrong(scene: &Scene) {
    for (path, why) in [
        ("a", "relative"),
        ("", "relative"),
        ("/a/", "ends with /"),
        ("//a", "empty name"),
        ("/a/../b", "relative name"),
    ] {
        for command in ["ls", "get", "stat", "create", "delete", "deleteall", "sync", "getAcl"] {
            scene.ctl(&[command, path]).badly(3, why);
        }
    }
    let refused = scene.ctl(&["--json", "get", "/nothing"]);
    assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""));
    let error: Value = serde_json::from_str(&refused.err).unwrap();
    assert_eq!(error["error"]["name"], "NoNode");
    assert_eq!(error["error"]["code"], -101);
    scene.ctl(&["frobnicate"]).badly(128, "frobnicate");
    scene.ctl(&["lss", "/"]).badly(128, "'ls'");
    scene.ctl(&["ls", "--frobnicate", "/"]).badly(128, "--frobnicate");
    let top = scene.znode().await;
    scene.ctl(&["create", &format!("{top}/a"), "x"]).well();
    let below = format!("{}{top}", scene.servers);
    assert_eq!(said(&mut command(&below, &["get", "/a"])).well(), "x\n", "a root of its own");
    let unreachable = &mut command("127.0.0.1:1", &["--timeout", "300ms", "ls", "/"]);
    said(unreachable).badly(2, "--servers");
    said(&mut command("a:b", &["ls", "/"])).badly(3, "a:b");
    let nowhere = format!("{}{top}/nowhere", scene.servers);
    let no_root = "the path behind the servers in the connect string is the root here";
    said(&mut command(&nowhere, &["ls", "/"])).badly(1, no_root);
    said(&mut command(&nowhere, &["create", "/a", "x"])).badly(1, no_root);
}

/// Numbers that were too large ended the program with a panic, or without memory.
pub(crate) async fn numbers_have_limits(scene: &Scene) {
    let huge = "18446744073709551615";
    for (option, why) in [
        ("--size", "1000000 at most"),
        ("--connections", "from 1 to 10000"),
        ("--depth", "from 1 to 10000"),
        ("--keys", "from 1 to 10000000"),
        ("--duration", "a million hours at most"),
    ] {
        scene.ctl(&["bench", "--mix", "get", option, huge]).badly(128, why);
    }
    for option in ["--clients", "--locks"] {
        scene.ctl(&["torture", option, huge]).badly(128, "from 1 to 1000");
    }
    for words in [
        &["--timeout", huge, "ls", "/"][..],
        &["--session-timeout", huge, "ls", "/"],
        &["find", "--older", huge],
        &["lock", "/a", "--timeout", huge, "--", "true"],
        &["locks", "--watch", "--interval", huge],
        &["revoke", "/a", "--wait", huge],
        &["history", "--since", huge],
    ] {
        scene.ctl(words).badly(128, "a million hours at most");
    }
    // The connection is not to blame.
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("data");
    fs::write(&file, vec![0; 2_000_000]).unwrap();
    let path = scene.znode().await;
    let set = ["set", &path, "--file", file.to_str().unwrap()];
    scene.ctl(&set).badly(3, "the request has 2000");
}

/// A name that turns the direction of writing showed as another name.
pub(crate) async fn names_do_nothing_to_a_terminal(scene: &Scene) {
    let (top, name) = (scene.znode().await, "a\u{202e}b\u{2028}c");
    let path = format!("{top}/{name}");
    let shown = "a\\u{202e}b\\u{2028}c";
    assert_eq!(scene.ctl(&["create", &path, ""]).well(), format!("Created {top}/{shown}\n"));
    assert_eq!(scene.ctl(&["ls", &top]).well(), format!("{shown}\n"));
    assert_eq!(scene.ctl(&["ls", "-R", &top]).well(), format!("{top}\n{top}/{shown}\n"));
    assert_eq!(scene.json(&["ls", &top])["children"], json!([name]));
    let missing = format!("{path}\n");
    scene.ctl(&["get", &missing]).badly(1, &format!("Error: {top}/{shown}\\n: znode does not"));
}

pub(crate) async fn a_reader_that_leaves_ends_it_quietly(scene: &Scene) {
    let client = scene.client().await;
    let top = scene.znode().await;
    let name = "x".repeat(1000);
    for number in 0..300 {
        let path = format!("{top}/{name}{number}");
        client.create(&path, b"", CreateMode::Persistent).await.unwrap();
    }
    for json in [&[][..], &["--json"]] {
        let mut child = scene
            .command(&[json, &["ls", "-R", &top]].concat())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let said = ended(child);
        assert_eq!((said.code, said.err.as_str()), (Some(141), ""));
    }
}
