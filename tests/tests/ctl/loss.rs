//! Locks that are lost while a command runs under them.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;
use zoolet_tests::scenes::{Scene, soon};
use zoolet_tests::{tools, zooletctl};
use zoolet_torture::proxy::{Fault, Proxy};

use crate::harness::{CtlScene, command, ended, signal, start, state};

/// The session timeout of the holders that are cut off. A third of it lies between the end of the
/// command and the end of the session, in which a busy machine is to come to the assertions.
const SESSION: Duration = Duration::from_secs(8);

/// Runs a program on a terminal of its own, beside somebody who keeps the terminal when the program
/// has ended: what runs there is not hung up on by that. The first argument is a file that holds a
/// pid then; the program's exit code is passed on, unless that process lives: 99.
const TERMINAL: &str = r#"
import os, pty, signal, subprocess, sys
file, program = sys.argv[1], sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    code = subprocess.call(program)
    with open(file) as opened:
        left = int(opened.read())
    try:
        with open("/proc/%d/stat" % left) as opened:
            if opened.read().rsplit(") ", 1)[1][0] != "Z":
                code = 99
                os.kill(left, signal.SIGKILL)
    except OSError:
        pass
    os._exit(code)
screen = b""
try:
    while read := os.read(terminal, 4096):
        screen += read
except OSError:
    pass
sys.stderr.write(screen.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

pub(crate) async fn a_command_ends_with_its_lock(scene: &Scene) {
    let path = scene.znode().await;
    // Everything that the command has started ends with it.
    let script = "trap 'echo stopping; exit 0' TERM; sleep 60 & echo $!; wait";
    let mut holder = scene.begin(&["lock", &path, "--", "sh", "-c", script]);
    let mut out = std::io::BufReader::new(holder.stdout.take().unwrap());
    let mut pid = String::new();
    std::io::BufRead::read_line(&mut out, &mut pid).unwrap();
    scene.ctl(&["deleteall", &path]).well();
    let said = ended(holder);
    said.badly(125, "lost");
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut out, &mut rest).unwrap();
    assert_eq!(rest, "stopping\n", "it is asked to end first");
    soon("the end of what it started", async || !is_alive(pid.trim())).await;
}

pub(crate) async fn a_stubborn_command_is_killed(scene: &Scene) {
    let path = scene.znode().await;
    let script = "trap '' TERM; echo ready; while :; do sleep 0.05; done";
    let words = ["lock", &path, "--kill-after", "200ms", "--", "sh", "-c", script];
    let mut holder = scene.begin(&words);
    let mut ready = [0; 6];
    std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut ready).unwrap();
    scene.ctl(&["deleteall", &path]).well();
    ended(holder).badly(125, "killed");
}

/// A holder that is cut off from the servers ends its command before they can end its session.
pub(crate) async fn a_command_ends_before_its_session_can(scene: &Scene) {
    let path = scene.znode().await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let script = format!("echo $$ > {}; exec sleep 60", file.display());
    let proxy = Proxy::start(&scene.servers).await.unwrap();
    let mut held = command(
        &proxy.connect_string(),
        &["--session-timeout", &format!("{}s", SESSION.as_secs())],
    );
    held.args(["lock", &path, "--", "sh", "-c", &script]);
    let holder = start(held.stdin(Stdio::null()));
    soon("the command", async || fs::read_to_string(&file).is_ok_and(|pid| !pid.is_empty())).await;
    let pid = fs::read_to_string(&file).unwrap().trim().to_owned();
    let waiting = scene.begin(&["lock", &path, "--", "true"]);
    let contenders = scene.until_count(&path, 4).await;
    let watcher = scene.client().await;

    proxy.cut();
    let cut_at = Instant::now();
    soon("the end of the command", async || !is_alive(&pid)).await;
    assert!(cut_at.elapsed() < SESSION, "a loss is seen before the servers can end the session");
    watcher.sync(&path).await.unwrap();
    let (still, _) = watcher.children(&path).await.unwrap();
    assert!(contenders.iter().all(|name| still.contains(name)), "{contenders:?} became {still:?}");
    ended(waiting).well();
    // It tries to give back what it has lost until its time for that is over.
    proxy.heal();
    ended(holder).badly(125, "the session has ended");
    scene.until_count(&path, 0).await;
}

/// What does not end by itself was killed at nine tenths of the session timeout, where a clock that is
/// wrong by 6 % is enough for another holder. By four fifths, which the lease allows, it is gone.
pub(crate) async fn a_stubborn_command_is_killed_by_the_end_of_the_lease(scene: &Scene) {
    let path = scene.znode().await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("alive");
    // It writes down when it was alive.
    let script =
        format!("trap '' TERM; while :; do date +%s%N >> {}; sleep 0.02; done", file.display());
    let proxy = Proxy::start(&scene.servers).await.unwrap();
    let timeout = Duration::from_secs(10);
    let words = ["--session-timeout", "10s", "lock", &path, "--", "sh", "-c", &script];
    let holder = start(command(&proxy.connect_string(), &words).stdin(Stdio::null()));
    soon("the command", async || fs::metadata(&file).is_ok_and(|file| file.len() > 0)).await;
    proxy.cut();
    ended(holder).badly(125, "the session has ended");
    let lines = fs::read_to_string(&file).unwrap();
    // The last line may be cut short.
    let times: Vec<u64> =
        lines.lines().filter(|line| line.len() == 19).map(|line| line.parse().unwrap()).collect();
    let alive = Duration::from_nanos(times[times.len() - 1] - times[0]);
    // The lease began before the command did: with the session, as no ping was answered before the
    // cut.
    assert!(alive < timeout * 17 / 20, "alive for {alive:?}");
    assert!(alive > timeout / 4, "alive for {alive:?}");
}

/// On a terminal a command has no process group of its own, and nothing is left all the same: not
/// even what ignores SIGTERM and has lost its parent.
pub(crate) async fn a_command_on_a_terminal_ends_with_all_it_started(scene: &Scene) {
    if !tools::require_foreign("a lock on a terminal", &["python3"]).unwrap() {
        return;
    }
    let path = scene.znode().await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let to = file.display();
    let script = format!("(trap '' TERM; exec sleep 1000) & echo $! > {to}; wait");
    let proxy = Proxy::start(&scene.servers).await.unwrap();
    let mut python = Command::new("python3");
    python
        .args(["-c", TERMINAL])
        .arg(&file)
        .arg(zooletctl::binary().unwrap())
        .args(["--session-timeout", "4s", "lock", &path, "--", "sh", "-c", &script])
        .env("ZOOLETCTL_SERVERS", proxy.connect_string())
        .env("ZOOLETCTL_CONFIG", "")
        .stdin(Stdio::null());
    let holder = start(&mut python);
    let has_pid = async || fs::read_to_string(&file).is_ok_and(|pid| pid.ends_with('\n'));
    soon("the command", has_pid).await;
    proxy.cut();
    ended(holder).badly(125, "the session has ended");
}

/// Ctrl-Z stops the command too, and it does not go on when the lock has gone to somebody else.
pub(crate) async fn a_command_that_was_stopped_goes_on_only_under_its_lock(scene: &Scene) {
    let path = scene.znode().await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ticks");
    let ticks = || fs::metadata(&file).map_or(0, |metadata| metadata.len());
    let script = format!("while echo >> {}; do sleep 0.02; done", file.display());
    let mut lock = command(&scene.servers, &["--session-timeout", "4s", "lock", &path, "--"]);
    let holder = start(lock.args(["sh", "-c", &script]).stdin(Stdio::null()));
    let grows = async |what: &str| {
        let before = ticks();
        soon(what, async || ticks() > before + 3).await;
    };
    let stopped = async || {
        signal(&holder, "TSTP");
        soon("it stands still", async || state(holder.id()) == Some('T')).await;
        ticks()
    };
    grows("it works").await;
    let before = stopped().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(ticks(), before, "the command goes on without its holder");
    signal(&holder, "CONT");
    grows("it goes on").await;

    let before = stopped().await;
    // It gets the lock when the session of the one that stands still has ended.
    scene.ctl(&["lock", &path, "--", "true"]).well();
    signal(&holder, "CONT");
    ended(holder).badly(125, "lost");
    assert_eq!(ticks(), before, "the command goes on without its lock");
}

/// SIGTERM ends a holder that has stood still, and one that stands still as soon as it goes on; with
/// a command and without. The lock is free when it has ended: its session has not just expired.
pub(crate) async fn a_stopped_holder_gives_the_lock_back_when_asked_to_end(scene: &Scene) {
    let client = scene.client().await;
    // A shell may report its child that was ended too, which is of no interest.
    let script =
        "exec 2>&-; trap 'echo stopping; exit 7' TERM; echo ready; while :; do sleep 0.02; done";
    let work = ["--", "sh", "-c", script];
    for (command, code) in [(&work[..], 7), (&[], 0)] {
        for signaled_while_stopped in [false, true] {
            let path = scene.znode().await;
            let lock = ["--session-timeout", "10s", "lock", &path];
            let mut holder = scene.begin(&[&lock[..], command].concat());
            // It says that it holds, and its command that it is ready.
            let mut first = [0; 6];
            std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut first).unwrap();
            assert_eq!(&first == b"ready\n", !command.is_empty());
            signal(&holder, "TSTP");
            soon("it stands still", async || state(holder.id()) == Some('T')).await;
            if signaled_while_stopped {
                signal(&holder, "TERM");
                signal(&holder, "CONT");
            } else {
                signal(&holder, "CONT");
                soon("it goes on", async || state(holder.id()) != Some('T')).await;
                signal(&holder, "TERM");
            }
            soon("its end", async || holder.try_wait().unwrap().is_some()).await;
            let said = ended(holder);
            assert_eq!((said.code, said.err.as_str()), (Some(code), ""), "{said:?}");
            assert_eq!(said.out.ends_with("stopping\n"), !command.is_empty(), "{said:?}");
            client.sync(&path).await.unwrap();
            assert_eq!(client.children(&path).await.unwrap().0, [""; 0], "{said:?}");
        }
    }
}

/// A try waits for no holder, and for servers that are gone no longer than any other call.
pub(crate) async fn a_try_ends_when_the_servers_vanish(scene: &Scene) {
    /// More than a try makes.
    const REQUESTS: usize = 16;
    let top = scene.znode().await;
    let tries = (0..REQUESTS).map(async |after| {
        let proxy = Proxy::start(&scene.servers).await.unwrap();
        proxy.strike(Fault::Servers, after);
        let path = format!("{top}/{after}");
        let mut command = zooletctl::command().unwrap();
        command.env("ZOOLETCTL_SERVERS", proxy.connect_string()).stdin(Stdio::null());
        // The session outlasts the call by far: a slow machine is not to make a lost lock of it.
        command.args(["--timeout", "2s", "--session-timeout", "10s"]);
        command.args(["lock", &path, "--timeout", "0", "--", "true"]);
        let mut run = start(&mut command);
        soon("the end of the try", async || run.try_wait().unwrap().is_some()).await;
        // What its end leaves behind goes with the session, and the empty parents with that.
        scene.until_count(&path, 0).await;
        (proxy.calm(), ended(run))
    });
    let ends = join_all(tries).await;
    let unanswered = ends.iter().filter(|(_, said)| said.code == Some(2)).count();
    let well = ends.iter().filter(|(_, said)| said.code == Some(0)).count();
    assert!(unanswered >= 2 && unanswered + well == REQUESTS, "{ends:?}");
    assert!(!ends[REQUESTS - 1].0 && ends[REQUESTS - 1].1.code == Some(0), "{ends:?}");
}

fn is_alive(pid: &str) -> bool {
    pid.parse().ok().and_then(state).is_some_and(|state| state != 'Z')
}
