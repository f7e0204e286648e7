//! What `zoolet` does with a command line before it starts a server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output};

fn zoolet(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zoolet")).args(words).output().unwrap()
}

#[test]
fn a_wrong_command_line_ends_with_2_and_says_why() {
    for (words, why) in [
        (&["frobnicate"][..], "frobnicate"),
        (&["serve"], "--config"),
        (&["serve", "--config", "a.toml", "--join", "--force-new-ensemble"], "cannot be used with"),
        (&["up", "--servers", "255"], "255"),
    ] {
        let output = zoolet(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(why), "{words:?}: {said}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
}

#[test]
fn help_and_version_go_to_stdout() {
    for words in [&["--help"][..], &["--version"], &["serve", "--help"]] {
        let output = zoolet(words);
        assert_eq!(output.status.code(), Some(0));
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{words:?}");
    }
}

#[test]
fn a_server_that_cannot_start_ends_with_1_and_one_line() {
    for (words, line) in [
        (
            &["serve", "--config", "absent.toml"][..],
            "zoolet: absent.toml: the file cannot be read: ",
        ),
        (&["--log", "a=b=c", "up"], "zoolet: cannot log: "),
    ] {
        let output = zoolet(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.starts_with(line) && said.lines().count() == 1, "{words:?}: {said}");
    }
}

#[test]
fn completions_and_man_pages_cover_the_commands() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = zoolet(&["completions", shell]);
        let script = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && script.contains("force-new-ensemble"), "{shell}");
    }
    let directory = tempfile::tempdir().unwrap();
    assert!(zoolet(&["man-pages", directory.path().to_str().unwrap()]).status.success());
    let page = std::fs::read_to_string(directory.path().join("zoolet-serve.1")).unwrap();
    assert!(page.contains("force\\-new\\-ensemble"), "{page}");
    assert_eq!(zoolet(&["man-pages", "/absent"]).status.code(), Some(1));
}
