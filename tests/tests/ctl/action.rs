//! Commands that do more than one request: `txn`, `edit`, `watch`, `revoke`.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;
use zoolet_client::recipes::Mutex;
use zoolet_client::{CreateMode, Version};
use zoolet_tests::scenes::{Scene, soon};

use crate::harness::{CtlScene, Said, ended, said, signal, start};

pub(crate) async fn a_transaction_happens_all_together_or_not_at_all(scene: &Scene) {
    let top = scene.znode().await;
    let lines = format!(
        "# a comment\n\ncreate {top}/a 'two words'\ncreate -s {top}/s-\nset -v 0 {top}/a x\n\
         create {top}/b\ndelete {top}/b\ncheck {top}/a -v 1\n"
    );
    let piped = |lines: &str, words: &[&str]| {
        let mut child = start(scene.command(words).stdin(Stdio::piped()));
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        ended(child)
    };
    let expected = format!(
        "Created {top}/a\nCreated {top}/s-0000000001\nSet {top}/a, version 1\nCreated {top}/b\n\
         Deleted {top}/b\nChecked {top}/a\n"
    );
    assert_eq!(piped(&lines, &["txn"]).well(), expected);
    let set = format!("set {top}/a y");
    let done = scene.json(&["txn", &set, &format!("create {top}/c")]);
    assert!(done["zxid"].as_str().unwrap().starts_with("0x"), "{done}");
    assert_eq!(done["results"][0]["stat"]["version"], 2);
    assert_eq!(
        (&done["results"][1]["operation"], &done["results"][1]["path"]),
        (&json!("create"), &json!(format!("{top}/c")))
    );

    // What fails is named by line and part, and nothing has happened.
    let failing = format!("create {top}/d\n\nset -v 7 {top}/a z\n");
    let failed = piped(&failing, &["txn", "--file", "-"]);
    assert!(failed.err.contains("nothing was changed"), "{failed:?}");
    failed.badly(1, &format!("line 3: set {top}/a: znode has another version"));
    let parts = [&format!("create {top}/d"), &format!("check {top}/none")];
    scene
        .ctl(&["txn", parts[0], parts[1]])
        .badly(1, &format!("part 2: check {top}/none: znode does not exist"));
    scene.ctl(&["stat", &format!("{top}/d")]).badly(1, "does not exist");
    piped("create /x\nget /a\n", &["txn"]).badly(128, "line 2: unrecognized subcommand 'get'");
    scene.ctl(&["txn", "delete relative"]).badly(3, "part 1: path \"relative\" is relative");
    scene.ctl(&["txn", "set /a"]).badly(128, "part 1: set needs DATA");
    piped("", &["txn"]).badly(128, "no part");
    scene.ctl(&["txn", "--file", "/no/such/file"]).badly(6, "/no/such/file");
    let shell = scene.script(&format!("txn 'create {top}/e' 'delete {top}/e'\ntxn\n"));
    assert_eq!(
        (shell.code, shell.out.as_str()),
        (Some(128), &*format!("Created {top}/e\nDeleted {top}/e\n"))
    );
}

/// An editor that is a script; the file is its last argument.
fn editor(directory: &Path, script: &str) -> String {
    let file = directory.join("editor");
    fs::write(&file, format!("#!/bin/sh\nfor file; do :; done\n{script}\n")).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o700)).unwrap();
    format!("{} --wait", file.display())
}

pub(crate) async fn data_is_edited_and_no_text_is_lost(scene: &Scene) {
    let (path, client) = (scene.znode().await, scene.client().await);
    client.set_data(&path, b"one", Version::Any).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let drafts = directory.path().join("drafts");
    fs::create_dir(&drafts).unwrap();
    let edit = |script: &str| -> Said {
        let editor = editor(directory.path(), script);
        let mut command = scene.command(&["edit", &path]);
        command.env("VISUAL", "").env("EDITOR", editor).env("TMPDIR", &drafts);
        said(command.stdin(Stdio::null()))
    };
    let kept = || {
        let files = fs::read_dir(&drafts).unwrap();
        files.map(|file| file.unwrap().path()).collect::<Vec<_>>()
    };
    // The editor's own line feed is not written.
    assert_eq!(edit("test $1 = --wait && echo two >\"$file\"").well(), "written, version 2\n");
    assert_eq!(&*client.get(&path).await.unwrap().0, b"two");
    assert_eq!(edit("true").well(), "nothing was changed\n");
    edit("exit 3").badly(1, "nothing was written");
    assert_eq!(kept(), [""; 0].map(std::path::PathBuf::from), "nothing is left");

    // Another client writes meanwhile: its data stays, and the text too.
    let binary = zoolet_tests::zooletctl::binary().unwrap();
    let other = format!("{} set {path} theirs && echo mine >\"$file\"", binary.display());
    let conflict = edit(&other);
    let [file] = kept().try_into().unwrap();
    assert!(
        conflict.err.contains(&format!("your text is kept in {}", file.display())),
        "{conflict:?}"
    );
    conflict.badly(1, "another version");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine\n");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(&*client.get(&path).await.unwrap().0, b"theirs");
    fs::remove_file(&file).unwrap();
    // An editor that fails with a changed text.
    let broken = edit("echo half >\"$file\"; exit 1");
    let [file] = kept().try_into().unwrap();
    assert!(broken.err.contains(&format!("your text is kept in {}", file.display())), "{broken:?}");
    assert_eq!(&*client.get(&path).await.unwrap().0, b"theirs");

    client.set_data(&path, b"\xff", Version::Any).await.unwrap();
    edit("true").badly(3, "not text");
    let mut nowhere = scene.command(&["edit", "/"]);
    nowhere.env("VISUAL", "").env("EDITOR", "").stdin(Stdio::null());
    said(&mut nowhere).badly(128, "edit needs a terminal");
}

/// What an event takes at most from the server to another process, on a busy machine.
const ON_THEIR_WAY: Duration = Duration::from_secs(1);

/// Starts `watch` with a shell's script as command, whose output is read line by line.
fn watch(
    scene: &Scene,
    words: &[&str],
    script: &str,
) -> (Child, impl Iterator<Item = String> + use<>) {
    let words = [&["watch"], words, &["--", "sh", "-c", script]].concat();
    let mut child = scene.begin(&words);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    (child, lines)
}

pub(crate) async fn a_command_runs_at_each_change(scene: &Scene) {
    let (path, client) = (scene.znode().await, scene.client().await);
    let print = "echo $ZOOLET_WATCH_EVENT $ZOOLET_WATCH_PATH $ZOOLET_WATCH_ZXID";
    let (child, mut lines) = watch(scene, &["--initial", &path], print);
    assert_eq!(lines.next().unwrap(), format!("Initial {path} 0x0"));
    for _ in 0..2 {
        client.set_data(&path, b"x", Version::Any).await.unwrap();
        let line = lines.next().unwrap();
        assert!(line.starts_with(&format!("NodeDataChanged {path} 0x")), "{line}");
    }
    signal(&child, "INT");
    assert_eq!(ended(child).code, Some(130));
}

pub(crate) async fn changes_during_a_run_cause_one_more(scene: &Scene) {
    let (path, client) = (scene.znode().await, scene.client().await);
    let directory = tempfile::tempdir().unwrap();
    let go = directory.path().join("go");
    let script = format!(
        "echo $ZOOLET_WATCH_EVENT $ZOOLET_WATCH_PATH; until test -e {}; do sleep 0.05; done",
        go.display()
    );
    let (child, mut lines) = watch(scene, &["-R", "--initial", &path], &script);
    assert_eq!(lines.next().unwrap(), format!("Initial {path}"));
    for name in ["a", "b", "c"] {
        let child = format!("{path}/{name}");
        client.create(&child, b"", CreateMode::Persistent).await.unwrap();
    }
    // The events are on their way to another process, which says nothing when they come.
    sleep(ON_THEIR_WAY).await;
    fs::write(&go, "").unwrap();
    assert_eq!(lines.next().unwrap(), format!("NodeCreated {path}/c"));
    client.delete(&format!("{path}/a"), Version::Any).await.unwrap();
    assert_eq!(lines.next().unwrap(), format!("NodeDeleted {path}/a"));
    signal(&child, "TERM");
    assert_eq!(ended(child).code, Some(143));

    // A signal reaches a command that runs, and is waited for.
    fs::remove_file(&go).unwrap();
    let script = "trap 'echo trapped; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    let (child, mut lines) = watch(scene, &["--initial", &path], script);
    assert_eq!(lines.next().unwrap(), "ready");
    signal(&child, "TERM");
    assert_eq!(lines.next().unwrap(), "trapped");
    assert_eq!(ended(child).code, Some(143));

    let (child, _) = watch(scene, &["--initial", "--fail", &path], "exit 7");
    assert_eq!(ended(child).code, Some(7));
    scene.ctl(&["watch", "--initial", &path, "--", "/no/such/program"]).badly(127, "No such file");
    scene.ctl(&["watch", &path]).badly(128, "CMD");
    let (child, mut lines) = watch(scene, &["--initial", &path], "echo ran; exit 7");
    assert_eq!(lines.next().unwrap(), "ran");
    client.set_data(&path, b"x", Version::Any).await.unwrap();
    assert_eq!(lines.next().unwrap(), "ran", "it goes on");
    signal(&child, "TERM");
    assert!(ended(child).err.contains("sh ended with 7"));
}

pub(crate) async fn a_holder_is_asked_to_release_its_lock(scene: &Scene) {
    let (path, client) = (scene.znode().await, scene.client().await);
    scene.ctl(&["revoke", &path]).badly(1, "no holder of a lock was found");
    let guard = Mutex::new(&client, path.as_str()).acquire().await.unwrap();
    let asked = scene.ctl(&["revoke", &path]).well();
    assert_eq!(
        asked,
        format!("asked {} to release it; whether its program listens is not known\n", guard.path())
    );
    assert_eq!(&*client.get(guard.path()).await.unwrap().0, b"__REVOKE__");
    guard.revocation().await;
    // It is asked, and does nothing.
    scene.ctl(&["revoke", "--wait", "200ms", guard.path()]).badly(124, "still held 200 ms after");
    let mut waits = scene.begin(&["--json", "revoke", "--wait", "60s", &path]);
    soon("the holder is asked again", async || {
        client.get(guard.path()).await.unwrap().1.version == 3
    })
    .await;
    let held = guard.path().to_owned();
    guard.release().await.unwrap();
    let mut line = String::new();
    BufReader::new(waits.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let released: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&released["asked"][0]["path"], &released["asked"][0]["released"]),
        (&json!(held), &json!(true))
    );
    assert_eq!(waits.wait().unwrap().code(), Some(0));

    // Go's and kazoo's holders do not look at their data.
    let other = format!("{path}/_c_1b9d6bcdbbfd4b2d9b5dab8dfbbd4bed-lock-");
    let (znode, _) = client.create(&other, b"go", CreateMode::EphemeralSequential).await.unwrap();
    scene.ctl(&["revoke", &path]).badly(4, "of family go; nothing was written");
    assert_eq!(&*client.get(&znode).await.unwrap().0, b"go");
}
