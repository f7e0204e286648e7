//! Commands for a znode and everything below it: `find`, `cp`, `mv`, `diff`.

use std::fs;
use std::process::Stdio;

use serde_json::json;
use zoolet_client::{CreateMode, ErrorCode};
use zoolet_tests::scenes::Scene;

use crate::harness::{CtlScene, Said, said};

/// A znode with these below it, each with its data.
async fn subtree(scene: &Scene, znodes: &[(&str, &str)]) -> String {
    let (client, top) = (scene.client().await, scene.znode().await);
    for (name, data) in znodes {
        let path = format!("{top}/{name}");
        client.create(&path, data.as_bytes(), CreateMode::Persistent).await.unwrap();
    }
    top
}

/// Runs a command with the ensembles `one` and `two`, which are below these znodes.
fn between(scene: &Scene, one: &str, two: &str, words: &[&str]) -> Said {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config.toml");
    let servers = &scene.servers;
    let text = format!(
        "[ensembles.one]\nservers = \"{servers}{one}\"\n[ensembles.two]\nservers = \"{servers}{two}\"\n"
    );
    fs::write(&file, text).unwrap();
    said(scene.command(words).env("ZOOLETCTL_CONFIG", &file).stdin(Stdio::null()))
}

pub(crate) async fn znodes_are_found(scene: &Scene) {
    let znodes =
        [("a", "needle"), ("a/b1", ""), ("a/b1/c", "hay needle hay"), ("b2", "12345678901")];
    let top = subtree(scene, &znodes).await;
    let client = scene.client().await;
    let ephemeral = format!("{top}/e");
    client.create(&ephemeral, b"", CreateMode::Ephemeral).await.unwrap();
    let find = |words: &[&str]| {
        let found = scene.ctl(&[&["find", &top], words].concat()).well();
        found.lines().map(|line| line[top.len()..].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(find(&[]), ["", "/a", "/a/b1", "/a/b1/c", "/b2", "/e"]);
    assert_eq!(find(&["--name", "b?"]), ["/a/b1", "/b2"]);
    assert_eq!(find(&["-name", "[a-b]*", "-maxdepth", "1"]), ["/a", "/b2"]);
    assert_eq!(find(&["--min-depth", "2"]), ["/a/b1", "/a/b1/c"]);
    assert_eq!(find(&["--ephemeral"]), ["/e"]);
    let session = client.session().id.to_string();
    assert_eq!(find(&["--owner", &session]), ["/e"]);
    assert_eq!(find(&["--owner", "0x1"]), [""; 0]);
    assert_eq!(find(&["--leaf", "--size", "0"]), ["/e"]);
    assert_eq!(find(&["--size", "+10"]), ["/a/b1/c", "/b2"]);
    assert_eq!(find(&["--size", "-7", "--size", "6"]), ["/a"]);
    assert_eq!(find(&["--contains", "needle"]), ["/a", "/a/b1/c"]);
    assert_eq!(find(&["--newer", "1h", "--name", "a"]), ["/a"]);
    assert_eq!(find(&["--older", "1h"]), [""; 0]);
    let stats = scene.ctl(&["find", "-s", &top, "--name", "b2"]).well();
    assert!(stats.starts_with(&format!("{top}/b2\ncZxid = 0x")), "{stats}");
    let found = scene.json(&["find", &top, "--ephemeral"]);
    assert_eq!(
        (&found["path"], &found["stat"]["ephemeral_owner"]),
        (&json!(ephemeral), &json!(session))
    );
    scene.ctl(&["find", &format!("{top}/none")]).badly(1, "does not exist");
    scene.ctl(&["find", "--size", "many"]).badly(128, "a size is");
    scene.ctl(&["find", "--name", "[a"]).badly(128, "[a");
}

pub(crate) async fn subtrees_are_copied(scene: &Scene) {
    let top = subtree(scene, &[("a", "1"), ("a/b", "2"), ("a/b/c", "\u{1b}3")]).await;
    let client = scene.client().await;
    let (a, copy) = (format!("{top}/a"), format!("{top}/copy"));
    client.create(&format!("{a}/e"), b"", CreateMode::Ephemeral).await.unwrap();
    scene.ctl(&["cp", &a, &copy]).badly(3, "cp -r");
    let copied = scene.ctl(&["cp", "-r", &a, &copy]);
    assert_eq!((copied.code, copied.out.as_str()), (Some(0), "3 znodes\n"), "{copied:?}");
    assert_eq!(copied.err, format!("{a}/e is ephemeral, and is left out\n"));
    scene.ctl(&["diff", "--persistent", &a, &copy]).well();
    scene.ctl(&["cp", "-r", &a, &copy]).badly(1, "exists already; nothing was copied");
    // Into itself it would never end.
    scene.ctl(&["cp", "-r", &a, &format!("{a}/b/d")]).badly(3, "or below it");
    scene.ctl(&["cp", "-r", &a, &format!("{top}/x/y")]).badly(1, "its parent does not exist");
    scene.ctl(&["cp", &format!("{a}/e"), &format!("{top}/x")]).badly(3, "is ephemeral");

    client.set_data(&format!("{a}/b"), b"new", zoolet_client::Version::Any).await.unwrap();
    let forced = scene.ctl(&["--json", "cp", "-r", "--force", &a, &copy]);
    assert!(
        forced.out.contains("\"znodes\":3") && forced.out.contains("\"left_out\":1"),
        "{forced:?}"
    );
    assert_eq!(&*client.get(&format!("{copy}/b")).await.unwrap().0, b"new");
    let leaf = format!("{a}/b/c");
    assert_eq!(scene.ctl(&["cp", &leaf, &format!("{top}/")]).well(), "1 znodes\n");
    assert_eq!(scene.ctl(&["get", &format!("{top}/c")]).well(), "\\u{1b}3\n");

    scene.ctl(&["setAcl", &leaf, "world:anyone:rw"]).well();
    scene.ctl(&["cp", "--acl", &leaf, &format!("{top}/kept")]).well();
    assert_eq!(scene.ctl(&["getAcl", &format!("{top}/kept")]).well(), "world:anyone:rw\n");
    scene.ctl(&["diff", "--acl", &leaf, &format!("{top}/kept")]).well();
    let differs = scene.ctl(&["diff", "--acl", &leaf, &format!("{top}/c")]);
    assert_eq!(differs.code, Some(1), "{differs:?}");
    assert_eq!(differs.out, "! /  acl: world:anyone:rw | world:anyone:cdrwa\n");
}

pub(crate) async fn large_subtrees_are_copied_and_moved(scene: &Scene) {
    let (client, top) = (scene.client().await, scene.znode().await);
    let (a, b, c) = (format!("{top}/a"), format!("{top}/b"), format!("{top}/c"));
    client.create(&a, b"", CreateMode::Persistent).await.unwrap();
    let data = vec![b'x'; 300_000];
    for number in 0..5 {
        client.create(&format!("{a}/{number}"), &data, CreateMode::Persistent).await.unwrap();
    }
    for number in 0..250 {
        client.create(&format!("{a}/0/{number}"), b"", CreateMode::Persistent).await.unwrap();
    }
    assert_eq!(scene.ctl(&["cp", "-r", &a, &b]).well(), "256 znodes\n");
    scene.ctl(&["diff", &a, &b]).well();
    scene.ctl(&["mv", &a, &c]).badly(1, "does not fit into one transaction: nothing was moved");
    scene.ctl(&["stat", &c]).badly(1, "does not exist");
    assert_eq!(scene.ctl(&["mv", "--by-steps", &a, &c]).well(), "256 znodes\n");
    scene.ctl(&["stat", &a]).badly(1, "does not exist");
    scene.ctl(&["diff", &b, &c]).well();
    scene.ctl(&["deleteall", &top]).well();
}

pub(crate) async fn subtrees_are_moved(scene: &Scene) {
    let top = subtree(scene, &[("a", "1"), ("a/b", "2"), ("a/b/c", "3"), ("d", "")]).await;
    let client = scene.client().await;
    let (a, d) = (format!("{top}/a"), format!("{top}/d"));
    scene.ctl(&["setAcl", &format!("{a}/b"), "world:anyone:cdrw"]).well();
    assert_eq!(scene.json(&["mv", &a, &format!("{d}/")])["target"], format!("{d}/a"));
    let all = scene.ctl(&["ls", "-R", &top]).well();
    assert_eq!(
        all.lines().map(|line| &line[top.len()..]).collect::<Vec<_>>(),
        ["", "/d", "/d/a", "/d/a/b", "/d/a/b/c"]
    );
    assert_eq!(scene.ctl(&["getAcl", &format!("{d}/a/b")]).well(), "world:anyone:cdrw\n");
    assert_eq!(scene.ctl(&["get", &format!("{d}/a/b/c")]).well(), "3\n");

    let (a, e) = (format!("{d}/a"), format!("{top}/e"));
    scene.ctl(&["mv", &a, &format!("{a}/x")]).badly(3, "or below it: nothing was moved");
    scene.ctl(&["mv", &a, &format!("{d}/")]).badly(3, "is there already: nothing was moved");
    scene.ctl(&["mv", &a, &d]).badly(1, "exists already: nothing was moved");
    scene.ctl(&["mv", &a, &format!("{top}/x/y")]).badly(1, "parent does not exist: nothing was");
    scene.ctl(&["mv", "/", &e]).badly(3, "cannot be moved");
    scene.ctl(&["mv", "/zookeeper", &e]).badly(3, "cannot be moved");
    scene.ctl(&["mv", &format!("{top}/none"), &e]).badly(1, "does not exist");
    client.create(&format!("{a}/mine"), b"", CreateMode::Ephemeral).await.unwrap();
    for words in [&["mv"][..], &["mv", "--by-steps"]] {
        scene.ctl(&[words, &[&a, &e]].concat()).badly(1, "is ephemeral, and cannot be moved");
    }
    assert_eq!(client.exists(&e).await.unwrap(), None);
    client.delete(&format!("{a}/mine"), zoolet_client::Version::Any).await.unwrap();

    // Whose ACL is hidden keeps its place.
    let (user, secret) = ("digest:user:secret", format!("{a}/secret"));
    scene.ctl_as(user, &["create", &secret, "x", "auth::cdrwa,world:anyone:cdrw"]).well();
    let refused = scene.ctl(&["mv", &a, &e]);
    if refused.code != Some(0) {
        refused.badly(1, "do not show its whole ACL");
        scene.ctl_as(user, &["mv", &a, &e]).well();
    }
    let moved = client.acl(&format!("{e}/secret")).await;
    assert!(!matches!(moved, Err(error) if error.code() == Some(ErrorCode::NoNode)));
    assert_eq!(scene.ctl_as(user, &["get", &format!("{e}/secret")]).well(), "x\n");
    scene.ctl(&["stat", &a]).badly(1, "does not exist");
}

pub(crate) async fn differences_are_shown(scene: &Scene) {
    let left = subtree(scene, &[("a", "1"), ("a/x", ""), ("b", "same"), ("c", "12")]).await;
    let right = subtree(scene, &[("b", "same"), ("c", "123"), ("d", "")]).await;
    let differs = scene.ctl(&["diff", &left, &right]);
    assert_eq!((differs.code, differs.err.as_str()), (Some(1), ""), "{differs:?}");
    assert_eq!(differs.out, "- /a\n! /c  data: 2 bytes, 3 bytes\n+ /d\n");
    let lines = scene.ctl(&["--json", "diff", &left, &right]).out;
    let first: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(first, json!({ "path": "/a", "difference": "only_a" }));
    assert_eq!(scene.ctl(&["diff", &left, &left]).well(), "");
    let none = format!("{left}/none");
    scene.ctl(&["diff", &none, &none]).badly(2, "does not exist");
    let missing = scene.ctl(&["diff", &left, &none]);
    assert_eq!((missing.code, missing.out.as_str()), (Some(1), "- /\n"));
}

/// A program could not tell what differs from what is not known, nor read what was left out.
pub(crate) async fn what_may_not_be_read_is_named(scene: &Scene) {
    let names: Vec<String> = (100..201).map(|number| format!("{number}")).collect();
    let znodes: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let top = subtree(scene, &znodes).await;
    let secret = format!("{top}/secret");
    scene.ctl_as("digest:user:secret", &["create", &secret, "x", "auth::cdrwa"]).well();
    let not_permitted = format!("{secret}: the ACL does not permit it");

    let found = scene.ctl(&["--json", "find", &top]);
    assert_eq!((found.code, found.out.lines().count()), (Some(0), 102), "{found:?}");
    let warning: serde_json::Value = serde_json::from_str(&found.err).unwrap();
    let message = format!("{not_permitted}, and is left out");
    assert_eq!(warning, json!({ "warning": { "message": message } }));
    assert_eq!(scene.ctl(&["find", &top]).err, format!("{message}\n"));

    let other = subtree(scene, &[("secret", "")]).await;
    let differs = scene.ctl(&["--json", "diff", &top, &other]);
    let error: serde_json::Value = serde_json::from_str(&differs.err).unwrap();
    assert_eq!((differs.code, &error["error"]["exit"]), (Some(2), &json!(2)), "{differs:?}");

    // A transaction has a hundred at most.
    let copy = format!("{top}-copy");
    let why = format!("{not_permitted}; 100 znodes were copied before and stay");
    scene.ctl(&["cp", "-r", &top, &copy]).badly(1, &why);
    scene
        .ctl(&["mv", "other:/a", &copy])
        .badly(3, "`cp -r --acl SRC DST`, and then `deleteall SRC`");

    // What a transaction has written was not counted if an ACL could not be set behind it.
    let fixed = subtree(scene, &[("secret", "")]).await;
    scene.ctl(&["setAcl", &fixed, "world:anyone:crwd"]).well();
    let why = format!("{fixed}: the ACL does not permit it; 2 znodes were copied before and stay");
    scene.ctl(&["cp", "-r", "--force", "--acl", &other, &fixed]).badly(1, &why);
    scene.ctl(&["mv", &secret, "other:/a"]).badly(3, "nothing was moved");

    for words in [["--json", "lss"], ["get", "--json"]] {
        let usage = scene.ctl(&words);
        let error: serde_json::Value = serde_json::from_str(&usage.err).unwrap();
        assert_eq!((usage.code, &error["error"]["exit"]), (Some(128), &json!(128)), "{usage:?}");
    }
    assert_eq!(scene.ctl(&["--config", "", "ls", &other]).well(), "secret\n");
    scene.ctl(&["deleteall", &copy]).well();
}

pub(crate) async fn subtrees_of_two_ensembles_are_compared_and_copied(scene: &Scene) {
    let one = subtree(scene, &[("a", "1"), ("a/b", "2")]).await;
    let two = subtree(scene, &[("z", "")]).await;
    let run = |words: &[&str]| between(scene, &one, &two, words);
    let differs = run(&["diff", "one:/a", "two:/"]);
    assert_eq!(
        (differs.code, differs.out.as_str()),
        (Some(1), "! /  data: 1 bytes, 0 bytes\n- /b\n+ /z\n")
    );
    assert_eq!(run(&["cp", "-r", "one:/a", "two:/z/"]).well(), "2 znodes\n");
    assert_eq!(run(&["diff", "one:/a", "two:/z/a"]).well(), "");
    assert_eq!(run(&["cp", "-r", "one:/", "two:/"]).well(), "3 znodes\n");
    assert_eq!(run(&["diff", "one:/", "two:/"]).out, "+ /z\n");
    run(&["cp", "-r", "one:/a", "one:/a/c"]).badly(3, "or below it");
    run(&["cp", "-r", "three:/a", "two:/"]).badly(3, "unknown ensemble \"three\"");
    // Paths without a name are those of the servers of the command.
    assert_eq!(run(&["diff", &format!("{one}/a"), "two:/a"]).well(), "");
}
