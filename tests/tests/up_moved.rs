//! `zoolet up --data-dir` on a directory that was copied or moved, that names files elsewhere, or
//! that has lost servers' files.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use zoolet_client::{Client, CreateMode};
use zoolet_jute::ErrorCode::NoNode;
use zoolet_tests::ports::PortLease;
use zoolet_tests::up::{self, Up};
use zoolet_tests::wait;

/// An ensemble of one, and a place for copies of its directory.
struct Fixture {
    parent: TempDir,
    lease: PortLease,
}

impl Fixture {
    /// Starts on the directory `first`, and stops when `/kept` is written.
    async fn new() -> Self {
        let fixture =
            Self { parent: tempfile::tempdir().unwrap(), lease: PortLease::take(1).unwrap() };
        let (up, client) = fixture.start("first").await;
        client.create("/kept", b"", CreateMode::Persistent).await.unwrap();
        stop(up, client).await;
        fixture
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.parent.path().join(name)
    }

    fn command(&self, port: u16, name: &str) -> Command {
        let mut command = up::on_ports(1, port).unwrap();
        command.arg("--data-dir").arg(self.path(name)).stderr(Stdio::null());
        command
    }

    async fn start(&self, name: &str) -> (Up, Client) {
        self.start_by(self.command(self.lease.ports()[0], name)).await
    }

    async fn start_by(&self, mut command: Command) -> (Up, Client) {
        let up = Up::spawn(&mut command, 1).unwrap();
        let servers = up.announced[0].split_once(": ").unwrap().1;
        let client = Client::connect(servers).await.unwrap();
        (up, client)
    }

    /// Changes the file that an earlier start has written.
    fn edit(&self, name: &str, from: &str, to: &str) {
        let file = self.path(name).join("cluster.toml");
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(file, text.replacen(from, to, 1)).unwrap();
    }

    /// What is said when a directory is refused.
    fn refusal(&self, name: &str) -> String {
        let mut command = self.command(self.lease.ports()[0], name);
        let output = command.stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    }
}

async fn stop(up: Up, client: Client) {
    client.close().await.unwrap();
    assert!(up.stop().unwrap().success());
}

async fn exists(client: &Client, path: &str) -> bool {
    match client.get(path).await {
        Ok(_) => true,
        Err(error) if error.code() == Some(NoNode) => false,
        Err(error) => panic!("{error}"),
    }
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

/// The file of a directory named the servers' directories by their full names: what was written to
/// a copy went into the original.
#[tokio::test]
async fn a_copy_is_used_and_the_original_stays_as_it_is() {
    let fixture = Fixture::new().await;
    copy(&fixture.path("first"), &fixture.path("second"));
    let (up, client) = fixture.start("second").await;
    assert!(exists(&client, "/kept").await);
    client.create("/copied", b"", CreateMode::Persistent).await.unwrap();
    stop(up, client).await;

    let (up, client) = fixture.start("first").await;
    assert!(exists(&client, "/kept").await);
    assert!(!exists(&client, "/copied").await);
    stop(up, client).await;

    let (up, client) = fixture.start("second").await;
    assert!(exists(&client, "/copied").await);
    stop(up, client).await;
}

/// A directory that was moved started empty, at its old place.
#[tokio::test]
async fn a_moved_directory_keeps_its_data() {
    let fixture = Fixture::new().await;
    fs::rename(fixture.path("first"), fixture.path("second")).unwrap();
    let (up, client) = fixture.start("second").await;
    assert!(exists(&client, "/kept").await);
    stop(up, client).await;
    assert!(!fixture.path("first").exists());
}

#[tokio::test]
async fn files_outside_of_the_directory_are_refused() {
    let fixture = Fixture::new().await;
    let own = "data_dir = \"1\"\n";
    let elsewhere = fixture.path("elsewhere");
    let absolute = elsewhere.join("1").display().to_string();
    std::os::unix::fs::symlink(fixture.parent.path(), fixture.path("first/link")).unwrap();
    for (files, shown) in [
        (absolute.as_str(), absolute.as_str()),
        ("../elsewhere/1", "/first/../elsewhere/1"),
        ("link/elsewhere/1", "/first/link/elsewhere/1"),
        ("absent/../../elsewhere/1", "/first/absent/../../elsewhere/1"),
    ] {
        let named = format!("data_dir = \"{files}\"\n");
        for named in [named.clone(), format!("{own}data_log_dir = \"{files}\"\n")] {
            fixture.edit("first", own, &named);
            let said = fixture.refusal("first");
            assert!(said.contains("server 1 keeps its files in "), "{said}");
            assert!(said.contains(shown) && said.contains(", outside of "), "{said}");
            assert!(!elsewhere.exists());
            fixture.edit("first", &named, own);
        }
    }
    let (up, client) = fixture.start("first").await;
    assert!(exists(&client, "/kept").await);
    stop(up, client).await;
}

/// Other ports put the servers' files where a new ensemble has them, and forgot every setting.
#[tokio::test]
async fn other_ports_keep_what_the_file_says() {
    let fixture = Fixture::new().await;
    fs::rename(fixture.path("first/1"), fixture.path("first/files")).unwrap();
    fixture.edit("first", "data_dir = \"1\"\n", "data_dir = \"files\"\n");
    fixture.edit("first", "#session_watches_max = 1000000\n", "session_watches_max = 7\n");
    let other = PortLease::take(1).unwrap();
    let mut command = fixture.command(other.ports()[0], "first");
    command.arg("--change");
    let (up, client) = fixture.start_by(command).await;
    assert_eq!(up.announced[0], format!("connect string: 127.0.0.1:{}", other.ports()[0]));
    assert!(exists(&client, "/kept").await);
    stop(up, client).await;
    let text = fs::read_to_string(fixture.path("first/cluster.toml")).unwrap();
    assert!(text.contains("\nsession_watches_max = 7\n"), "{text}");
    assert!(text.contains("\ndata_dir = \"files\"\n"), "{text}");
}

/// A change of ports named the file with the secret by its full name.
#[test]
fn a_directory_on_other_ports_can_be_moved() {
    let parent = tempfile::tempdir().unwrap();
    let (first, other) =
        (PortLease::take_in_a_row(3).unwrap(), PortLease::take_in_a_row(3).unwrap());
    let run = |port: u16, name: &str, options: &[&str]| {
        let mut command = up::on_ports(3, port).unwrap();
        command.arg("--data-dir").arg(parent.path().join(name)).args(options);
        let up = Up::spawn(command.stderr(Stdio::null()), 3).unwrap();
        assert!(up.stop().unwrap().success());
    };
    run(first.1, "first", &[]);
    run(other.1, "first", &["--change"]);
    fs::rename(parent.path().join("first"), parent.path().join("second")).unwrap();
    run(other.1, "second", &[]);
}

/// Two of three servers had lost their files, and founded an ensemble beside the third one's data
/// before that one was there.
#[tokio::test]
async fn servers_without_files_found_nothing_beside_one_that_has_them() {
    let parent = tempfile::tempdir().unwrap();
    let (_lease, first_port) = PortLease::take_in_a_row(3).unwrap();
    let data = parent.path().join("data");
    let command = || {
        let mut command = up::on_ports(3, first_port).unwrap();
        command.args(["--log", "info", "--data-dir"]).arg(&data);
        command
    };
    let up = Up::spawn(command().stderr(Stdio::null()), 3).unwrap();
    assert!(up.stop().unwrap().success());
    for lost in ["1", "2"] {
        fs::remove_dir_all(data.join(lost)).unwrap();
    }
    let log = parent.path().join("log");
    let output = fs::File::create(&log).unwrap();
    let mut starting = command().stdout(Stdio::null()).stderr(output).spawn().unwrap();
    let waits = |server: u8| {
        let said = fs::read_to_string(&log).unwrap();
        said.lines().any(|line| {
            line.starts_with(&format!("{server} | ")) && line.contains("not part of the ensemble")
        })
    };
    let all_wait = wait::until(Duration::from_mins(1), || (waits(1) && waits(2)).then_some(()));
    let said = fs::read_to_string(&log).unwrap();
    starting.kill().unwrap();
    starting.wait().unwrap();
    assert!(all_wait.is_some(), "{said}");
    assert!(!said.contains("founded the ensemble"), "{said}");
}
