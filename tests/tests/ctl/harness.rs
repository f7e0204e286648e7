//! What the scenes have in common.

use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use zoolet_client::{Client, ClientOptions, CreateMode};
use zoolet_tests::wait::until_so;
use zoolet_tests::zooletctl;

/// How long something may take that happens by itself.
const SOON: Duration = Duration::from_secs(30);

/// A running server, and a part of its tree for each scene.
pub(crate) struct Scene {
    pub(crate) servers: String,
    paths: AtomicUsize,
}

/// What a command said, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// Takes it for granted that it went well.
    #[track_caller]
    pub(crate) fn well(self) -> String {
        assert!(self.code == Some(0) && self.err.is_empty(), "{self:?}");
        self.out
    }

    /// The result as JSON; there is exactly one.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        let out = self.well();
        assert_eq!(out.lines().count(), 1, "{out}");
        serde_json::from_str(&out).unwrap()
    }

    /// Takes it for granted that it failed so, and said this.
    #[track_caller]
    pub(crate) fn badly(self, code: i32, why: &str) {
        assert!(self.code == Some(code) && self.err.contains(why), "not {code}, {why}: {self:?}");
    }
}

impl Scene {
    pub(crate) fn new(servers: String) -> Self {
        Self { servers, paths: AtomicUsize::new(0) }
    }

    pub(crate) async fn play(&self, name: &str, scene: impl AsyncFnOnce(&Self)) {
        println!("{name}");
        scene(self).await;
    }

    /// A path that was not used before. Its znode exists.
    pub(crate) async fn path(&self) -> String {
        let path = format!("/scene-{}", self.paths.fetch_add(1, Ordering::Relaxed));
        self.client().await.create(&path, b"", CreateMode::Persistent).await.unwrap();
        path
    }

    pub(crate) async fn client(&self) -> Client {
        let options = ClientOptions::new().connect_timeout(SOON);
        options.connect(&self.servers).await.unwrap()
    }

    /// A command that is still to be started.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        command(&self.servers, words)
    }

    /// Runs a command to its end.
    pub(crate) fn ctl(&self, words: &[&str]) -> Said {
        said(self.command(words).stdin(Stdio::null()))
    }

    /// The same, with its results as JSON.
    pub(crate) fn json(&self, words: &[&str]) -> Value {
        self.ctl(&[&["--json"], words].concat()).json()
    }

    /// Runs the shell with these lines.
    pub(crate) fn script(&self, lines: &str) -> Said {
        let mut child = start(self.command(&[]).stdin(Stdio::piped()));
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        ended(child)
    }

    /// Starts a command without stdin, whose output is read later, see [`ended`].
    pub(crate) fn begin(&self, words: &[&str]) -> Child {
        start(self.command(words).stdin(Stdio::null()))
    }

    /// Waits until a znode has `count` children.
    pub(crate) async fn until_children(&self, path: &str, count: usize) -> Vec<String> {
        let client = self.client().await;
        let mut names = Vec::new();
        soon(&format!("{count} children of {path}"), async || {
            client.sync(path).await.unwrap();
            names = client.children(path).await.map(|(names, _)| names).unwrap_or_default();
            names.len() == count
        })
        .await;
        names
    }
}

/// A command of these servers, with a long timeout: the machine may be busy.
pub(crate) fn command(servers: &str, words: &[&str]) -> Command {
    let mut command = Command::new(zooletctl::binary().unwrap());
    command.env("ZOOLETCTL_SERVERS", servers).env("ZOOLETCTL_HISTORY", "");
    command.args(["--timeout", "30s"]).args(words);
    command
}

pub(crate) fn said(command: &mut Command) -> Said {
    let output = command.output().unwrap();
    Said {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Starts a command whose output is read later.
pub(crate) fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until a command ends.
pub(crate) fn ended(child: Child) -> Said {
    let output = child.wait_with_output().unwrap();
    Said {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Sends a signal by its name.
pub(crate) fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(status.unwrap().success());
}

/// The letter for what a process does: T for one that is stopped, Z for one that has ended.
pub(crate) fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Waits until something is so.
pub(crate) async fn soon(what: &str, reached: impl AsyncFnMut() -> bool) {
    assert!(until_so(SOON, reached).await, "no {what} after {SOON:?}");
}
