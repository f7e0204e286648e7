//! The shell on a terminal, which a small Python program plays.

use std::process::{Command, Stdio};

use zoolet_client::CreateMode;
use zoolet_tests::{tools, zooletctl};

use crate::harness::{Scene, said};

/// Starts the program on a terminal of its own. Each pair of arguments is what to wait for on the
/// screen and what to type then; the program's exit code is passed on.
const TERMINAL: &str = r#"
import os, pty, sys, time, select
program, steps = sys.argv[1], sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    os.execv(program, [program])
screen = b""
deadline = time.monotonic() + 60
for expected, typed in zip(steps[::2], steps[1::2]):
    while expected.encode() not in screen:
        left = deadline - time.monotonic()
        if left < 0 or not select.select([terminal], [], [], left)[0]:
            sys.exit("not on the screen: %r; there is: %r" % (expected, screen))
        try:
            screen += os.read(terminal, 4096)
        except OSError:
            sys.exit("it ended before %r; there is: %r" % (expected, screen))
    screen = screen.split(expected.encode(), 1)[1]
    os.write(terminal, typed.encode())
try:
    while os.read(terminal, 4096):
        pass
except OSError:
    pass
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

/// What the line editor writes when it begins to read: it has bracketed pastes told.
const READY: &str = "\x1b[?2004h";

pub(crate) async fn a_person_has_history_and_completion(scene: &Scene) {
    if !tools::require_foreign("the shell on a terminal", &["python3"]).unwrap() {
        return;
    }
    let client = scene.client().await;
    let top = scene.path().await;
    let path = format!("{top}/a-long-name");
    client.create(&path, b"found", CreateMode::Persistent).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let history = directory.path().join("history");
    let play = |steps: &[(&str, &str)]| {
        let mut python = Command::new("python3");
        python
            .args(["-c", TERMINAL])
            .arg(zooletctl::binary().unwrap())
            .args(steps.iter().flat_map(|(expected, typed)| [expected, typed]))
            .env("ZOOLETCTL_SERVERS", &scene.servers)
            .env("ZOOLETCTL_HISTORY", &history)
            .env("TERM", "xterm")
            .stdin(Stdio::null());
        said(&mut python)
    };
    let get = format!("get {top}/a-l\t\r");
    let count = format!("getAllCh\t {path}\r");
    let watch = format!("get -w {path}\r");
    let set = format!("set {path} changed\r");
    // A command and a path are completed, Ctrl-C throws a line away, an event is told of, Ctrl-D
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
