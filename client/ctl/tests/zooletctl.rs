//! What `zooletctl` does with a command line before it needs a server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output, Stdio};

fn zooletctl(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zooletctl"))
        .env_remove("ZOOLETCTL_SERVERS")
        .env("ZOOLETCTL_CONFIG", "")
        .args(words)
        .output()
        .unwrap()
}

#[test]
fn a_wrong_command_line_ends_with_128_and_says_why() {
    for (words, why) in [
        (&["frobnicate"][..], "frobnicate"),
        (&["ls", "--frobnicate", "/"], "--frobnicate"),
        (&["get"], "PATH"),
        (&["--timeout", "soon", "ls", "/"], "a duration is written"),
        (&["create", "-e", "-c", "/a"], "cannot be used with"),
        (&["set", "-v", "x", "/a", "b"], "invalid digit"),
    ] {
        let output = zooletctl(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(128), "{words:?}: {said}");
        assert!(said.contains(why), "{words:?}: {said}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
}

#[test]
fn what_is_not_utf_8_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_zooletctl"))
        .args([OsStr::new("digest"), OsStr::from_bytes(b"bob:\xff")])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(128), "{said}");
    assert!(said.ends_with("argument 2 is not UTF-8\n"), "{said}");

    let mut digest = Command::new(env!("CARGO_BIN_EXE_zooletctl"));
    digest.args(["digest", "bob"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut digest = digest.spawn().unwrap();
    digest.stdin.take().unwrap().write_all(b"\xff\n").unwrap();
    let output = digest.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert_eq!(said, "Error: the password on standard input is not UTF-8\n");
}

#[test]
fn help_and_version_go_to_stdout() {
    for words in [&["--help"][..], &["--version"], &["create", "--help"]] {
        let output = zooletctl(words);
        assert_eq!(output.status.code(), Some(0));
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{words:?}");
    }
}

#[test]
fn a_server_that_is_not_there_ends_with_2() {
    let output = zooletctl(&["--servers", "127.0.0.1:1", "--timeout", "300ms", "ls", "/"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("127.0.0.1:1") && said.contains("--servers"), "{said}");
}
