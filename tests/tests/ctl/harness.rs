//! What the scenes of `zooletctl` have in common, beside what all scenes have.

use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use zoolet_client::CreateMode;
use zoolet_tests::scenes::Scene;
use zoolet_tests::zooletctl;

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

/// What the scenes of `zooletctl` do beside what all scenes do.
pub(crate) trait CtlScene {
    /// Creates a znode, and returns its path.
    async fn znode(&self) -> String;

    /// A command that is still to be started.
    fn command(&self, words: &[&str]) -> Command;

    /// Runs a command to its end.
    fn ctl(&self, words: &[&str]) -> Said;

    /// The same, with its results as JSON.
    fn json(&self, words: &[&str]) -> Value;

    /// Runs a command with an identity.
    fn ctl_as(&self, identity: &str, words: &[&str]) -> Said;

    /// Runs the shell with these lines.
    fn script(&self, lines: &str) -> Said;

    /// Starts a command without stdin, whose output is read later, see [`ended`].
    fn begin(&self, words: &[&str]) -> Child;

    /// Waits until a znode has `count` children, and returns them.
    async fn until_count(&self, path: &str, count: usize) -> Vec<String>;
}

impl CtlScene for Scene {
    async fn znode(&self) -> String {
        let path = self.path();
        self.client().await.create(&path, b"", CreateMode::Persistent).await.unwrap();
        path
    }

    fn command(&self, words: &[&str]) -> Command {
        command(&self.servers, words)
    }

    fn ctl(&self, words: &[&str]) -> Said {
        said(self.command(words).stdin(Stdio::null()))
    }

    fn json(&self, words: &[&str]) -> Value {
        self.ctl(&[&["--json"], words].concat()).json()
    }

    fn ctl_as(&self, identity: &str, words: &[&str]) -> Said {
        let mut command = self.command(words);
        said(command.env("ZOOLETCTL_AUTH", identity).stdin(Stdio::null()))
    }

    fn script(&self, lines: &str) -> Said {
        let mut child = start(self.command(&[]).stdin(Stdio::piped()));
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        ended(child)
    }

    fn begin(&self, words: &[&str]) -> Child {
        begin(&self.servers, words)
    }

    async fn until_count(&self, path: &str, count: usize) -> Vec<String> {
        let client = self.client().await;
        self.until_children(&client, path, count).await;
        self.children(&client, path).await
    }
}

/// A command of these servers, with a long timeout: the machine may be busy.
pub(crate) fn command(servers: &str, words: &[&str]) -> Command {
    let mut command = zooletctl::command().unwrap();
    command.env("ZOOLETCTL_SERVERS", servers);
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

/// Starts a command without stdin, whose output is read later, see [`ended`].
pub(crate) fn begin(servers: &str, words: &[&str]) -> Child {
    start(command(servers, words).stdin(Stdio::null()))
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

/// The exit code of a command that such a signal has ended.
pub(crate) fn code_of(signal: &str) -> Option<i32> {
    let numbers = [("HUP", 1), ("INT", 2), ("TERM", 15)];
    numbers.into_iter().find(|(name, _)| *name == signal).map(|(_, number)| 128 + number)
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
