//! What a person sees on a terminal, which a small Python program plays.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use zoolet_client::CreateMode;
use zoolet_tests::scenes::{Scene, soon};
use zoolet_tests::{tools, zooletctl};
use zoolet_torture::proxy::Proxy;

use crate::harness::{CtlScene, ended, said, signal, start};

/// Starts a program on a terminal of its own: the words up to THEN. Each pair of arguments behind it
/// is what to wait for on the screen and what to type then; the program's exit code is passed on.
/// Instead of typing [`GATE`] it makes the file that the variable of this name names, and waits until
/// that is removed.
const TERMINAL: &str = r#"
import os, pty, sys, time, select
then = sys.argv.index("THEN")
program, steps = sys.argv[1:then], sys.argv[then + 1:]
pid, terminal = pty.fork()
if pid == 0:
    os.execv(program[0], program)
screen = b""
deadline = time.monotonic() + 60
for expected, typed in zip(steps[::2], steps[1::2]):
    while expected.encode() not in screen:
        left = deadline - time.monotonic()
        if left < 0 or not select.select([terminal], [], [], left)[0]:
            sys.exit("not on the screen: %r; at its end there is: %r" % (expected, screen[-999:]))
        try:
            screen += os.read(terminal, 4096)
        except OSError:
            sys.exit("it ended before %r; there is: %r" % (expected, screen))
    screen = screen.split(expected.encode(), 1)[1]
    if typed == "GATE":
        gate, typed = os.environ["GATE"], ""
        open(gate, "w").close()
        while os.path.exists(gate):
            time.sleep(0.01)
    os.write(terminal, typed.encode())
try:
    while os.read(terminal, 4096):
        pass
except OSError:
    pass
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

/// What is typed where the test does something first.
pub(crate) const GATE: &str = "GATE";

/// What the line editor writes when it begins to read: it switches bracketed paste on.
const READY: &str = "\x1b[?2004h";

pub(crate) async fn a_person_has_history_and_completion(scene: &Scene) {
    if !tools::require_foreign("the shell on a terminal", &["python3"]).unwrap() {
        return;
    }
    let client = scene.client().await;
    let top = scene.znode().await;
    let path = format!("{top}/a-long-name");
    client.create(&path, b"found", CreateMode::Persistent).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let history = directory.path().join("history");
    let play = |steps: &[(&str, &str)]| {
        said(on_terminal(scene, &[], steps).env("ZOOLETCTL_HISTORY", &history))
    };
    let get = format!("get {top}/a-l\t\r");
    let count = format!("getAllCh\t {path}\r");
    let watch = format!("get -w {path}\r");
    let set = format!("set {path} changed\r");
    // A command and a path are completed, Ctrl-C throws a line away, an event is shown, Ctrl-D
    // leaves.
    play(&[
        (READY, &get),
        ("found", ""),
        (READY, &count),
        ("\n0\r", ""),
        (READY, "half a line\x03"),
        (READY, &watch),
        ("found", ""),
        (READY, &set),
        ("WatchedEvent type:NodeDataChanged", ""),
        (READY, "\x04"),
    ])
    .well();
    // The next shell remembers: two lines up is the watch.
    play(&[(READY, "\x1b[A\x1b[A\r"), ("changed", ""), (READY, "quit\r")]).well();
}

/// A person sees in the prompt whether a server serves the session, also while a line is typed, and
/// what Tab could complete.
pub(crate) async fn the_prompt_follows_the_session(scene: &Scene) {
    if !tools::require_foreign("the prompt on a terminal", &["python3"]).unwrap() {
        return;
    }
    let top = scene.znode().await;
    let proxy = Proxy::start(&scene.servers).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let history = directory.path().join("history");
    let servers = format!("{}{top}", proxy.connect_string());
    let host = servers.split('/').next().unwrap().to_owned();
    let steps = [
        (&*format!("[zk: {host} (connected) {top}]"), "get\t"),
        ("getEphemerals", "\x03"),
        (READY, "create /begun\r"),
        ("Created /begun", ""),
        (&*format!("[zk: {host} (connecting) {top}]"), "version\r"),
        (&*format!("[zk: {host} (connected) {top}]"), "close\r"),
        (&*format!("[zk: {host} (closed) {top}]"), "quit\r"),
    ];
    let mut shell = on_terminal(scene, &["--session-timeout", "4s"], &steps);
    shell.env("ZOOLETCTL_SERVERS", &servers).env("ZOOLETCTL_HISTORY", &history);
    let shell = start(&mut shell);
    scene.until_count(&top, 1).await;
    proxy.cut();
    soon("a line at the prompt of a lost connection", async || {
        fs::read_to_string(&history).is_ok_and(|lines| lines.contains("version"))
    })
    .await;
    proxy.heal();
    assert_eq!(ended(shell).code, Some(0));
}

/// A person sees long work before it is done: who precedes it at a lock, and how far the
/// preparation of a bench is.
pub(crate) async fn a_person_sees_what_takes_long(scene: &Scene) {
    if !tools::require_foreign("progress on a terminal", &["python3"]).unwrap() {
        return;
    }
    for kind in [&[][..], &["--exclusive"], &["--permits", "1"]] {
        let path = scene.znode().await;
        let lock = [&["lock", &path], kind].concat();
        let mut holder = scene.begin(&[&lock[..], &["--data", "the holder"]].concat());
        let mut held = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut held).unwrap();
        let first = scene.begin(&[&lock[..], &["--", "true"]].concat());
        soon("one who waits", async || {
            scene.json(&["locks", &path])[0]["queue"].as_array().is_some_and(|all| all.len() == 1)
        })
        .await;
        let behind = "waiting behind 2, held by the holder";
        let second = [&lock[..], &["--", "true"]].concat();
        let said = said(&mut on_terminal(scene, &second, &[(behind, "\x03")]));
        assert_eq!(said.code, Some(130), "{said:?}");
        signal(&holder, "TERM");
        assert_eq!(holder.wait().unwrap().code(), Some(0));
        // Who is on no terminal waits without a word.
        assert_eq!(ended(first).well(), "");
    }

    let bench = ["bench", "--mix", "get", "--duration", "100ms", "--keys", "2000"];
    let steps = [("preparing", ""), ("/2000", ""), ("get, warming up", ""), ("deleting", "")];
    let said = said(&mut on_terminal(scene, &bench, &steps));
    assert_eq!(said.code, Some(0), "{said:?}");
}

/// A command of `zooletctl` on a terminal, and what to wait for there and to type then.
pub(crate) fn on_terminal(scene: &Scene, words: &[&str], steps: &[(&str, &str)]) -> Command {
    let mut python = Command::new("python3");
    python
        .args(["-c", TERMINAL])
        .arg(zooletctl::binary().unwrap())
        .args(words)
        .arg("THEN")
        .args(steps.iter().flat_map(|(expected, typed)| [expected, typed]))
        .env("ZOOLETCTL_SERVERS", &scene.servers)
        .env("ZOOLETCTL_CONFIG", "")
        .env("TERM", "xterm")
        .stdin(Stdio::null());
    python
}
