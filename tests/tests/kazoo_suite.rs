//! kazoo's own suite (`make kazoo`): every test that passes on Apache ZooKeeper passes on zoolet,
//! TLS and SASL aside.
//!
//! Each run takes about three minutes, so they belong to the tier `kazoo`:
//! `ZOOLET_TIER=kazoo cargo test --workspace --test kazoo_suite`. With `ZOOLET_RECORD=1` the
//! run on Apache writes the list that both are held to.

#![allow(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use std::ffi::OsString;
use std::fmt::Write as _;
use std::{env, fs};

use zoolet_tests::kazoo::{self, Outcomes};
use zoolet_tests::tools::{announce, is_tier, require_foreign};
use zoolet_tests::{apache, zoolet};

/// Does this run want the suite, and can it?
fn wanted(needs: &[&str]) -> bool {
    if !is_tier("kazoo") {
        announce("NOT RUN: kazoo's own suite is run by `make kazoo`");
        return false;
    }
    require_foreign("kazoo_suite", needs).unwrap()
}

/// The list is not shorter than this, whatever happens to the file: it had 485 tests when it was
/// recorded.
const LISTED_MIN: usize = 400;

/// Every listed test passes; answers all that pass.
fn held_to_the_list(name: &str, command: &[OsString]) -> Vec<String> {
    let outcomes = kazoo::run_suite(name, command).unwrap();
    let required = kazoo::passes_on_apache().unwrap();
    assert!(required.len() > LISTED_MIN, "the list has {} tests", required.len());
    let missing: Vec<&String> = required.iter().filter(|test| !outcomes.passed(test)).collect();
    announce(&format!(
        "kazoo: its suite on {name}: {} of {} pass",
        required.len() - missing.len(),
        required.len()
    ));
    assert!(missing.is_empty(), "{}", columns(name, &missing, &outcomes));
    let names = outcomes.by_name.keys().filter(|test| outcomes.passed(test));
    names.cloned().collect()
}

/// The tests that do not pass, in two columns, and what pytest said of them.
fn columns(name: &str, missing: &[&String], outcomes: &Outcomes) -> String {
    let mut text = format!("{:8} {name:8} test\n", "apache");
    for test in missing {
        let outcome = outcomes.by_name.get(*test).map_or("absent", String::as_str);
        let _ = writeln!(text, "{:8} {outcome:8} {test}", "passed");
    }
    text.push_str(&outcomes.said);
    text
}

#[test]
fn all_that_passes_is_listed_on_apache() {
    if !wanted(&["python3", "java", "mvn"]) {
        return;
    }
    let read_only = ["-Dreadonlymode.enabled=true".to_owned()];
    let command = apache::server_command(&apache::classpath().unwrap(), &read_only);
    if env::var_os("ZOOLET_RECORD").is_some() {
        let outcomes = kazoo::run_suite("apache", &command).unwrap();
        let names = outcomes.by_name.keys().map(String::as_str);
        let passed: Vec<&str> = names.filter(|test| outcomes.passed(test)).collect();
        fs::write(kazoo::reference_file(), passed.join("\n") + "\n").unwrap();
        return;
    }
    let listed = kazoo::passes_on_apache().unwrap();
    let mut passed = held_to_the_list("apache", &command);
    passed.retain(|test| !listed.contains(test));
    assert!(passed.is_empty(), "pass on Apache and are not listed: {passed:?}");
}

#[test]
fn all_that_is_listed_passes_on_zoolet() {
    if !wanted(&["python3"]) {
        return;
    }
    held_to_the_list("zoolet", &zoolet::server_command().unwrap());
}
