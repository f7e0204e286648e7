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

/// They warned of the configuration, read everything and logged `writing` before they refused.
#[test]
fn a_directory_in_use_is_refused_before_anything_else_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let text = |name: &str| path(name).to_str().unwrap().to_owned();
    let zoo_cfg = format!("dataDir={}\nclientPort=2181\nadmin.serverPort=81\n", text("data"));
    std::fs::write(path("zoo.cfg"), zoo_cfg).unwrap();
    for file in ["data/boot", "to/version-2/log.1"] {
        std::fs::create_dir_all(path(file).parent().unwrap()).unwrap();
        std::fs::write(path(file), "").unwrap();
    }
    let config = text("zoo.cfg");
    for (words, used) in [
        (["import", "--from", "absent"], "data"),
        (["restore", "--from", "absent"], "data"),
        (["export", "--to", &text("to")], "to/version-2"),
    ] {
        let output = zoolet(&[&words[..], &["--config", &config]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        let line = format!("zoolet: {} holds files already (", text(used));
        assert!(said.starts_with(&line) && said.lines().count() == 1, "{words:?}: {said}");
    }
}

#[test]
fn what_an_interrupted_import_has_left_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    std::fs::create_dir_all(data.join("snapshots")).unwrap();
    std::fs::write(data.join("snapshots/left"), "").unwrap();
    let config = directory.path().join("zoo.cfg");
    std::fs::write(&config, format!("dataDir={}\nclientPort=2181\n", data.display())).unwrap();
    let output = zoolet(&["serve", "--config", config.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = "after an import or a restore that was interrupted, empty the directory";
    assert!(said.contains("identity") && said.contains(expected), "{said}");
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
