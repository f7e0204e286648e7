//! SIGINT and SIGTERM while a command works through a subtree: it says how far it has come.

use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Read, Write};
use std::process::{ChildStdout, Stdio};
use std::time::Duration;

use rustix::io::{ioctl_fionbio, ioctl_fionread};
use serde_json::{Value, json};
use zoolet_client::{Client, CreateMode};
use zoolet_tests::scenes::{Scene, soon};
use zoolet_tests::wait::until;
use zoolet_torture::proxy::Proxy;

use crate::harness::{CtlScene, Said, code_of, command, ended, signal, start};

/// More than a command gets through between two looks of a test: thousands of requests, one after the
/// other.
const ZNODES: usize = 3000;

/// The same of a move, which reads each of them several times before it deletes the first.
const MOVED: usize = 1000;

/// The longest time for a command to end at a signal while its reader stalls: a second, and more on a
/// busy machine. Without a limit for writes a command took at least three seconds.
const STALLED_MAX: Duration = Duration::from_millis(2500);

/// A znode with this many below it.
async fn wide(scene: &Scene, client: &Client, znodes: usize) -> String {
    let top = scene.znode().await;
    for batch in (0..znodes).collect::<Vec<_>>().chunks(500) {
        let mut transaction = client.transaction();
        for number in batch {
            let open = zoolet_client::Acl::open();
            let path = format!("{top}/{number:05}");
            transaction = transaction.create(&path, b"", open, CreateMode::Persistent);
        }
        transaction.commit().await.unwrap();
    }
    top
}

/// How many children a znode has; none without the znode.
async fn count(client: &Client, path: &str) -> usize {
    client.children(path).await.map_or(0, |(names, _)| names.len())
}

/// What it has said as JSON: the one line on stdout, and the message on stderr.
#[track_caller]
fn interrupted(said: &Said, name: &str) -> (Value, String) {
    assert_eq!((said.code, said.out.lines().count()), (code_of(name), 1), "{said:?}");
    let error: Value = serde_json::from_str(&said.err).unwrap();
    assert_eq!(Some(error["error"]["exit"].as_i64().unwrap()), said.code.map(i64::from));
    let message = error["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with(&format!("interrupted by SIG{name}")), "{message}");
    (serde_json::from_str(&said.out).unwrap(), message)
}

/// The count was not given, and a transaction that was under way was done or not.
pub(crate) async fn an_interrupted_copy_counts_what_it_has_written(scene: &Scene) {
    let client = scene.client().await;
    let top = wide(scene, &client, ZNODES).await;
    for (at, name) in ["INT", "TERM"].into_iter().enumerate() {
        let copy = format!("{top}-copy{at}");
        let copying = scene.begin(&["--json", "cp", "-r", &top, &copy]);
        soon("some copies", async || count(&client, &copy).await >= 100).await;
        signal(&copying, name);
        let (result, message) = interrupted(&ended(copying), name);
        // The root of the copy is one of them.
        let copied = count(&client, &copy).await + 1;
        assert!(copied < ZNODES, "it was not interrupted");
        assert_eq!((&result["znodes"], &result["complete"]), (&json!(copied), &json!(false)));
        assert!(message.ends_with(&format!("; {copied} znodes were copied before and stay")));
    }
    // The same in words.
    let copy = format!("{top}-copy");
    let copying = scene.begin(&["cp", "-r", &top, &copy]);
    soon("some copies", async || count(&client, &copy).await >= 100).await;
    signal(&copying, "INT");
    let said = ended(copying);
    let copied = count(&client, &copy).await + 1;
    let why =
        format!("Error: interrupted by SIGINT; {copied} znodes were copied before and stay\n");
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (Some(130), "", why.as_str()));
    for rest in [format!("{top}-copy0"), format!("{top}-copy1"), copy, top] {
        scene.ctl(&["deleteall", &rest]).well();
    }
}

pub(crate) async fn an_interrupted_delete_counts_what_it_has_deleted(scene: &Scene) {
    let client = scene.client().await;
    let top = wide(scene, &client, ZNODES).await;
    let deleting = scene.begin(&["--json", "deleteall", "-b", "1", &top]);
    soon("some deletes", async || count(&client, &top).await < ZNODES).await;
    signal(&deleting, "INT");
    let (result, message) = interrupted(&ended(deleting), "INT");
    let deleted = ZNODES - count(&client, &top).await;
    assert!(deleted < ZNODES, "it was not interrupted");
    assert_eq!((&result["deleted"], &result["complete"]), (&json!(deleted), &json!(false)));
    let all = ZNODES + 1;
    assert!(
        message.ends_with(&format!("; {deleted} of {all} znodes were deleted before")),
        "{message}"
    );

    let deleted = scene.json(&["deleteall", &top]);
    assert_eq!(deleted["complete"], true, "{deleted}");
}

pub(crate) async fn an_interrupted_move_says_what_is_where(scene: &Scene) {
    let client = scene.client().await;
    let top = wide(scene, &client, MOVED).await;
    // Too much for one transaction.
    for number in 0..2 {
        let data = vec![b'x'; 500_000];
        client.create(&format!("{top}/{number}"), &data, CreateMode::Persistent).await.unwrap();
    }
    let all = MOVED + 2;
    let to = format!("{top}-moved");
    let moving = scene.begin(&["--json", "mv", "--by-steps", &top, &to]);
    soon("some copies", async || count(&client, &to).await >= 100).await;
    signal(&moving, "TERM");
    let (result, message) = interrupted(&ended(moving), "TERM");
    let copied = count(&client, &to).await + 1;
    assert_eq!(count(&client, &top).await, all, "nothing is deleted before all is copied");
    assert_eq!((&result["znodes"], &result["copied"]), (&json!(0), &json!(copied)));
    assert!(message.ends_with(&format!("; {copied} znodes were copied before and stay")));

    scene.ctl(&["deleteall", &to]).well();
    let moving = scene.begin(&["--json", "mv", "--by-steps", &top, &to]);
    soon("some deletes", async || count(&client, &top).await < all).await;
    signal(&moving, "INT");
    let (result, message) = interrupted(&ended(moving), "INT");
    let moved = all - count(&client, &top).await;
    assert!(moved < all, "it was not interrupted");
    assert_eq!(result["complete"], false, "{result}");
    assert_eq!((&result["znodes"], &result["copied"]), (&json!(moved), &json!(all + 1)));
    assert!(message.ends_with(&format!("and {moved} of them are deleted at {top}")), "{message}");
    for rest in [&top, &to] {
        scene.ctl(&["deleteall", rest]).well();
    }
}

/// Reads lines until a search has come this far, and returns the rest with them.
fn after_lines(out: ChildStdout, lines: usize) -> impl FnOnce() -> usize {
    let mut out = BufReader::new(out);
    for _ in 0..lines {
        out.read_line(&mut String::new()).unwrap();
    }
    move || {
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        lines + rest.lines().count()
    }
}

pub(crate) async fn an_interrupted_search_says_how_far_it_came(scene: &Scene) {
    let client = scene.client().await;
    let top = wide(scene, &client, ZNODES).await;
    let mut finding = scene.begin(&["find", &top, "--contains", "", "--name", "0*"]);
    let rest = after_lines(finding.stdout.take().unwrap(), 100);
    signal(&finding, "INT");
    let (lines, said) = (rest(), ended(finding));
    assert_eq!(said.code, Some(130), "{said:?}");
    let visited = said.err.split(" of ").nth(1).and_then(|text| text.split(' ').next()).unwrap();
    let visited: usize = visited.parse().unwrap();
    assert!(visited < ZNODES, "it was not interrupted");
    let why = format!("Error: interrupted by SIGINT; {lines} of {visited} znodes fitted so far\n");
    assert_eq!(said.err, why);

    scene.ctl(&["deleteall", &top]).well();
}

/// The length of a page: so much room [`nearly_full_pipe`] leaves.
const PAGE: usize = 4096;

/// A pipe with room for one page, and the bytes in it once it is full.
fn nearly_full_pipe() -> (PipeReader, PipeWriter, u64) {
    let (mut reader, mut writer) = io::pipe().unwrap();
    ioctl_fionbio(&writer, true).unwrap();
    while writer.write(&vec![b'.'; PAGE]).is_ok() {}
    ioctl_fionbio(&writer, false).unwrap();
    let full = ioctl_fionread(&reader).unwrap();
    reader.read_exact(&mut vec![0; PAGE]).unwrap();
    (reader, writer, full)
}

/// A command wrote on the thread that would have seen the signal: `lock` and `locks --watch` never
/// ended, others after some seconds.
pub(crate) async fn a_command_with_a_stalled_reader_ends(scene: &Scene) {
    let client = scene.client().await;
    // Its path alone is longer than a page.
    let top = format!("{}/{}", scene.znode().await, "x".repeat(PAGE + 1000));
    client.create(&top, b"", CreateMode::Persistent).await.unwrap();
    let (lock, election, none) =
        (format!("{top}/lock"), format!("{top}/election"), format!("{top}/none"));
    let commands: [&[&str]; 6] = [
        &["lock", &lock],
        &["elect", &election],
        &["locks", "--watch", &top],
        &["find", "-s", &top],
        &["--json", "get", &top],
        // The message on standard error.
        &["ls", &none],
    ];
    for (at, words) in commands.into_iter().enumerate() {
        let (reader, writer, full) = nearly_full_pipe();
        let mut command = scene.command(words);
        command.stdin(Stdio::null()).stdout(writer.try_clone().unwrap()).stderr(writer);
        let mut running = command.spawn().unwrap();
        drop(command);
        let is_full = async || ioctl_fionread(&reader).unwrap() == full;
        soon(&format!("{}: a full pipe", words[0]), is_full).await;
        let name = if at % 2 == 0 { "TERM" } else { "INT" };
        signal(&running, name);
        let code = until(STALLED_MAX, || running.try_wait().unwrap()).map(|status| status.code());
        if code.is_none() {
            running.kill().unwrap();
        }
        assert_eq!(code, Some(code_of(name)), "{}", words[0]);
    }
    scene.ctl(&["deleteall", &top]).well();
}

pub(crate) async fn an_interrupted_script_ends_with_its_line(scene: &Scene) {
    let client = scene.client().await;
    let top = wide(scene, &client, ZNODES).await;
    let copy = format!("{top}-copy");
    let mut script = start(scene.command(&[]).stdin(Stdio::piped()));
    let lines = format!("cp -r {top} {copy}\ncreate {top}/behind\n");
    let mut stdin = script.stdin.take().unwrap();
    stdin.write_all(lines.as_bytes()).unwrap();
    soon("some copies", async || count(&client, &copy).await >= 100).await;
    signal(&script, "INT");
    let said = ended(script);
    let copied = count(&client, &copy).await + 1;
    let why =
        format!("Error: interrupted by SIGINT; {copied} znodes were copied before and stay\n");
    assert_eq!((said.code, said.err.as_str()), (Some(130), why.as_str()), "{said:?}");
    assert_eq!(count(&client, &top).await, ZNODES, "the next line is not carried out");

    // One that waits for a line ends as well.
    let mut script = start(scene.command(&[]).stdin(Stdio::piped()));
    let mut out = BufReader::new(script.stdout.take().unwrap());
    // Held: its end, which `wait` closes, would be an end of the script beside the signal.
    let mut stdin = script.stdin.take().unwrap();
    stdin.write_all(b"version\n").unwrap();
    out.read_line(&mut String::new()).unwrap();
    signal(&script, "TERM");
    assert_eq!(script.wait().unwrap().code(), Some(143));
    drop(stdin);
    for rest in [&copy, &top] {
        scene.ctl(&["deleteall", rest]).well();
    }
}

/// Interrupted while its last request has no answer, `cp` says how much of it may have happened.
pub(crate) async fn a_write_that_is_not_answered_is_named(scene: &Scene) {
    let client = scene.client().await;
    let top = wide(scene, &client, ZNODES).await;
    let copy = format!("{top}-copy");
    let proxy = Proxy::start(&scene.servers).await.unwrap();
    let mut words = command(&proxy.connect_string(), &["--json", "cp", "-r", &top, &copy]);
    let copying = start(words.stdin(Stdio::null()));
    soon("some copies", async || count(&client, &copy).await >= 100).await;
    proxy.silence();
    // It may have been between two requests.
    soon("a request without an answer", async || proxy.held() > 0).await;
    signal(&copying, "INT");
    let (result, message) = interrupted(&ended(copying), "INT");
    let (said, copied) = (result["znodes"].as_u64().unwrap(), count(&client, &copy).await + 1);
    let copied = u64::try_from(copied).unwrap();
    assert!(message.contains("was not answered yet"), "{message}");
    // A read or a write was under way.
    let may_have = message.ends_with(" and 100 more may have been");
    assert!(said == copied || (may_have && said + 100 == copied), "{said} {copied} {message}");
    proxy.heal();
    for rest in [&copy, &top] {
        scene.ctl(&["deleteall", rest]).well();
    }
}
