//! Commands under locks.

use std::fs;
use std::process::Stdio;

use zoolet_client::{Client, CreateMode, Version};
use zoolet_tests::scenes::{Scene, soon};

use crate::harness::{CtlScene, ended, said, signal};

const UUID: &str = "0b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed";
const HEX: &str = "0b9d6bcdbbfd4b2d9b5dab8dfbbd4bed";

pub(crate) async fn a_command_finds_its_token_and_passes_its_code(scene: &Scene) {
    let path = scene.znode().await;
    let show = ["lock", &path, "--", "sh", "-c", "echo $ZOOLET_TOKEN $ZOOLET_LOCK_PATH; exit 7"];
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let said = scene.ctl(&show);
        assert_eq!((said.code, said.err.as_str()), (Some(7), ""));
        let (token, znode) = said.out.trim_end().split_once(' ').unwrap();
        assert!(znode.starts_with(&format!("{path}/_c_")), "{znode}");
        tokens.push(token.parse::<i64>().unwrap());
    }
    assert!(tokens[0] < tokens[1], "{tokens:?}");
    assert_eq!(scene.ctl(&["lock", &path, "--", "true"]).well(), "");
    assert_eq!(scene.ctl(&["lock", &path, "--", "sh", "-c", "kill -9 $$"]).code, Some(137));
    scene.ctl(&["lock", &path, "--", "/no/such/program"]).badly(127, "/no/such/program");
    scene.ctl(&["lock", &path, "--", "/"]).badly(126, "denied");
    scene.ctl(&["lock", "relative", "--", "true"]).badly(3, "relative");
    assert_eq!(scene.until_count(&path, 0).await.len(), 0);
}

pub(crate) async fn a_lock_excludes_itself(scene: &Scene) {
    let path = scene.znode().await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("owner").display().to_string();
    // A holder that finds the file there was not alone.
    let script = "test ! -e $0 || exit 9; touch $0; sleep 0.2; rm $0";
    let contenders: Vec<_> =
        (0..4).map(|_| scene.begin(&["lock", &path, "--", "sh", "-c", script, &file])).collect();
    for contender in contenders {
        ended(contender).well();
    }
    let mut holder = scene.begin(&["lock", &path, "--", "sleep", "60"]);
    scene.until_count(&path, 2).await;
    scene.ctl(&["lock", &path, "--timeout", "200ms", "--", "true"]).badly(124, "200 ms");
    scene.ctl(&["lock", &path, "--timeout", "0", "--", "true"]).badly(124, "not acquired");
    assert_eq!(scene.until_count(&path, 2).await.len(), 2, "who gives up leaves nothing");
    signal(&holder, "TERM");
    holder.wait().unwrap();
    scene.ctl(&["lock", &path, "--timeout", "20s", "--", "true"]).well();
}

pub(crate) async fn a_lock_waits_for_every_family(scene: &Scene) {
    let client = scene.client().await;
    for name in [
        format!("_c_{UUID}-lock-"),
        format!("_c_{HEX}-lock-"),
        format!("{HEX}__lock__"),
        format!("{HEX}__rlock__"),
    ] {
        let path = scene.znode().await;
        let other = number(&client, &format!("{path}/{name}")).await;
        scene.ctl(&["lock", &path, "--timeout", "200ms", "--", "true"]).badly(124, &path);
        client.delete(&other, Version::Any).await.unwrap();
        scene.ctl(&["lock", &path, "--timeout", "20s", "--", "true"]).well();
    }
}

pub(crate) async fn every_family_finds_a_lock_in_front(scene: &Scene) {
    let path = scene.znode().await;
    // The znodes are there before the command runs, and a signal in between is an interruption.
    let command = ["lock", &path, "--", "sh", "-c", "echo ready; exec sleep 60"];
    let mut holder = begin_ready(scene, &command);
    let mut names = scene.until_count(&path, 2).await;
    names.sort_by_key(|name| !name.starts_with("_c_"));
    // What Curator and Go look at, and what kazoo does: names with the lowest numbers there are.
    assert!(names[0].ends_with("-lock-0000000000"), "{names:?}");
    assert!(names[1].ends_with("__lock__0000000001"), "{names:?}");
    signal(&holder, "TERM");
    assert_eq!(holder.wait().unwrap().code(), Some(143));
}

pub(crate) async fn readers_share_and_a_writer_does_not(scene: &Scene) {
    let path = scene.znode().await;
    let readers: Vec<_> =
        (0..2).map(|_| scene.begin(&["lock", &path, "--shared", "--", "sleep", "60"])).collect();
    scene.until_count(&path, 2).await;
    scene.ctl(&["lock", &path, "--shared", "--timeout", "20s", "--", "true"]).well();
    let write = ["lock", &path, "--exclusive", "--timeout"];
    scene.ctl(&[&write[..], &["200ms", "--", "true"]].concat()).badly(124, "not acquired");
    for mut reader in readers {
        signal(&reader, "TERM");
        reader.wait().unwrap();
    }
    scene.ctl(&[&write[..], &["20s", "--", "true"]].concat()).well();
}

pub(crate) async fn as_many_as_there_are_permits(scene: &Scene) {
    let path = scene.znode().await;
    let permits = ["lock", &path, "--permits", "2"];
    let holders: Vec<_> =
        (0..2).map(|_| scene.begin(&[&permits[..], &["--", "sleep", "60"]].concat())).collect();
    scene.until_count(&format!("{path}/leases"), 2).await;
    scene.until_count(&format!("{path}/locks"), 0).await;
    let third = [&permits[..], &["--timeout", "300ms", "--", "true"]].concat();
    scene.ctl(&third).badly(124, "not acquired");
    for mut holder in holders {
        signal(&holder, "TERM");
        holder.wait().unwrap();
    }
    scene.ctl(&[&permits[..], &["--timeout", "20s", "--", "true"]].concat()).well();
    scene.ctl(&["lock", &path, "--permits", "0", "--", "true"]).badly(128, "permits");
}

/// Each of several holders got a token, and the advice to refuse lower ones: a resource that did so
/// refused those who had come first, and held as rightly as the others.
pub(crate) async fn holders_beside_each_other_get_no_token(scene: &Scene) {
    let script = "echo ${ZOOLET_TOKEN-none} $ZOOLET_LOCK_PATH";
    for (kind, has_token) in [
        (&["--shared"][..], false),
        (&["--permits", "2"], false),
        (&["--exclusive"], true),
        (&["--data", "x"], true),
    ] {
        let path = scene.znode().await;
        let words = [&["lock", &path], kind, &["--", "sh", "-c", script]].concat();
        // What a lock around this one has set is not of this lock.
        let said = said(scene.command(&words).env("ZOOLET_TOKEN", "around").stdin(Stdio::null()));
        let out = said.well();
        let (token, znode) = out.trim_end().split_once(' ').unwrap();
        assert!(znode.starts_with(&path), "{kind:?}: {out}");
        if has_token {
            assert!(token.parse::<i64>().unwrap() > 0, "{kind:?}: {out}");
        } else {
            assert_eq!(token, "none", "{kind:?}");
        }
        let path = scene.znode().await;
        let mut child = scene.begin(&[&["--json", "lock", &path], kind].concat());
        let mut line = String::new();
        let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        let held: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(held.get("token").is_some(), has_token, "{kind:?}: {held}");
        assert!(held["path"].as_str().unwrap().starts_with(&path), "{held}");
        signal(&child, "TERM");
        child.wait().unwrap();
    }
}

pub(crate) async fn kinds_are_not_mixed(scene: &Scene) {
    let client = scene.client().await;
    for (name, refused, taken) in [
        (format!("_c_{UUID}-lock-"), "--shared", None),
        (format!("_c_{UUID}-__READ__"), "--data=x", Some("--shared")),
        (format!("_c_{UUID}-latch-"), "--data=x", None),
        ("leases".to_owned(), "--exclusive", Some("--permits=1")),
        ("members".to_owned(), "--nothing", Some("--data=x")),
    ] {
        let path = scene.znode().await;
        number(&client, &format!("{path}/{name}")).await;
        if name == "leases" {
            client.create(&format!("{path}/leases"), b"", CreateMode::Persistent).await.unwrap();
        }
        if refused != "--nothing" {
            scene.ctl(&["lock", &path, refused, "--", "true"]).badly(3, "kind");
        }
        if let Some(taken) = taken {
            scene.ctl(&["lock", &path, taken, "--timeout", "20s", "--", "true"]).well();
        }
    }
}

/// Each looked whether a lock of another kind was there, found none, and entered its own queue: all
/// of them held the path. One of those that start together may have it; the others are refused.
pub(crate) async fn kinds_that_start_together_do_not_both_hold(scene: &Scene) {
    let directory = tempfile::tempdir().unwrap();
    let inside = directory.path().join("inside").display().to_string();
    // The second one inside cannot create the directory.
    let script = "mkdir $0 || exit 9; sleep 1; rmdir $0";
    let kinds = [&["--data=x"][..], &["--exclusive"], &["--shared"], &["--permits=2"]];
    for (number, one) in kinds.iter().enumerate() {
        for other in &kinds[number + 1..] {
            if one == &["--exclusive"] && other == &["--shared"] {
                continue;
            }
            for _ in 0..3 {
                let path = scene.znode().await;
                let begun = [one, other].map(|kind| {
                    let words = [&["lock", &path], *kind, &["--", "sh", "-c", script, &inside]];
                    scene.begin(&words.concat())
                });
                let said = begun.map(ended);
                let codes = said.each_ref().map(|said| said.code);
                assert!(codes.contains(&Some(0)), "{one:?} {other:?}: {said:?}");
                let ended_well = [Some(0), Some(3)];
                assert!(codes.iter().all(|code| ended_well.contains(code)), "{said:?}");
            }
        }
    }
}

pub(crate) async fn signals_reach_the_command(scene: &Scene) {
    for (name, number) in [("TERM", 143), ("INT", 130), ("HUP", 129), ("USR1", 138)] {
        let path = scene.znode().await;
        let script = format!("trap 'exit 3' {name}; echo ready; while :; do sleep 0.05; done");
        let child = begin_ready(scene, &["lock", &path, "--", "sh", "-c", &script]);
        signal(&child, name);
        assert_eq!(ended(child).code, Some(3), "{name}");
        let script = "echo ready; exec sleep 60";
        let child = begin_ready(scene, &["lock", &path, "--", "sh", "-c", script]);
        signal(&child, name);
        assert_eq!(ended(child).code, Some(number), "{name}");
    }
    // Who only waits leaves the queue, and its command does not run.
    let path = scene.znode().await;
    let client = scene.client().await;
    number(&client, &format!("{path}/_c_{UUID}-lock-")).await;
    let waiting = scene.begin(&["lock", &path, "--", "echo", "ran"]);
    scene.until_count(&path, 3).await;
    signal(&waiting, "INT");
    let said = ended(waiting);
    assert_eq!((said.code, said.out.as_str()), (Some(130), ""));
    scene.until_count(&path, 1).await;
}

/// Starts a command and waits until it has said that it is ready.
fn begin_ready(scene: &Scene, words: &[&str]) -> std::process::Child {
    let mut child = scene.begin(words);
    let mut ready = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
    assert_eq!(&ready, b"ready\n");
    child
}

pub(crate) async fn without_a_command_a_signal_ends_it(scene: &Scene) {
    let path = scene.znode().await;
    let mut child = scene.begin(&["--json", "lock", &path]);
    let mut line = String::new();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    let held: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert!(held["token"].as_str().unwrap().parse::<i64>().unwrap() > 0);
    assert!(held["path"].as_str().unwrap().starts_with(&path));
    scene.ctl(&["lock", &path, "--timeout", "0", "--", "true"]).badly(124, "not acquired");
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    scene.ctl(&["lock", &path, "--timeout", "20s", "--", "true"]).well();
}

pub(crate) async fn the_next_one_is_elected(scene: &Scene) {
    let path = scene.znode().await;
    let directory = tempfile::tempdir().unwrap();
    let file = |id: &str| directory.path().join(id).display().to_string();
    let script = "touch $0; exec sleep 60";
    let contend =
        |id: &str| scene.begin(&["elect", &path, "--id", id, "--", "sh", "-c", script, &file(id)]);
    let mut first = contend("first");
    soon("a leader", async || fs::exists(file("first")).unwrap()).await;
    let mut second = contend("second");
    scene.until_count(&path, 4).await;
    let shown = scene.json(&["locks", &path]);
    assert_eq!(shown[0]["holders"][0]["data"], "first", "{shown}");
    assert_eq!(shown[0]["queue"][0]["data"], "second", "{shown}");
    assert!(!fs::exists(file("second")).unwrap());
    signal(&first, "TERM");
    assert_eq!(first.wait().unwrap().code(), Some(143));
    soon("the next leader", async || fs::exists(file("second")).unwrap()).await;
    signal(&second, "TERM");
    second.wait().unwrap();
}

/// Creates an ephemeral znode with a number, as another client does.
pub(crate) async fn number(client: &Client, path: &str) -> String {
    client.create(path, b"", CreateMode::EphemeralSequential).await.unwrap().0
}
