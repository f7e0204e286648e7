//! Builds the suites with the bugs in them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{Bug, PlantedError, SIMULATOR};
use crate::tools;

/// How many files one command copies.
const FILES_AT_A_TIME: usize = 500;
const SIMULATOR_PROGRAM: &str = "zoolet-sim";
/// An example of the suites: with it, cargo builds a program with the features that they turn on.
const EXAMPLE_OF_SUITES: &str = "due";
/// Packages whose own tests find no bug, and whose absence changes no feature of a dependency.
const WITHOUT_SUITES: [&str; 10] = [
    "zoolet-console",
    "zoolet-doctest",
    "zoolet-history",
    "zoolet-http",
    "zoolet-jute",
    "zoolet-migrate",
    "zoolet-sim",
    "zoolet-survey",
    "zoolet-tls",
    "zoolet-torture",
];

/// A suite as cargo has built it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Suite {
    pub(super) executable: PathBuf,
    /// Where cargo runs it.
    pub(super) directory: PathBuf,
}

/// Builds the suites of these bugs.
pub(super) fn build(
    workspace: &Path,
    bugs: &[Bug],
) -> Result<BTreeMap<String, Suite>, PlantedError> {
    let mut tests = cargo_with_bugs(workspace, "test")?;
    tests.args(["--no-run", "--lib"]);
    for package in WITHOUT_SUITES {
        tests.args(["--exclude", package]);
    }
    let mut names: Vec<&str> = bugs.iter().map(|bug| bug.suite.as_str()).collect();
    names.retain(|name| *name != SIMULATOR && !name.starts_with("zoolet_"));
    // Suites of several processes run the server's program, which comes with the test of its
    // package.
    names.push("zoolet");
    names.sort_unstable();
    names.dedup();
    for name in names {
        tests.args(["--test", name]);
    }
    let mut text = output_of(&mut tests)?;
    if bugs.iter().any(Bug::is_for_the_simulator) {
        let mut program = cargo_with_bugs(workspace, "build")?;
        program.args(["--bin", SIMULATOR_PROGRAM, "--example", EXAMPLE_OF_SUITES]);
        text += &output_of(&mut program)?;
    }
    suites_of(&text)
}

/// A build of the workspace with the bugs in it, which says where what it has built lies. The gate has
/// clippy's driver build it.
fn cargo_with_bugs(workspace: &Path, verb: &str) -> Result<Command, PlantedError> {
    let mut command = tools::cargo();
    command.current_dir(workspace).args([verb, "--workspace", "--quiet"]);
    command.arg("--message-format=json-render-diagnostics").arg("--target-dir").arg(target_dir()?);
    let lints = std::env::var_os("CLIPPY_DRIVER").is_some();
    let wrapper = if lints { "tests/planted/clippy" } else { "tests/planted/rustc" };
    command.env("RUSTC_WORKSPACE_WRAPPER", workspace.join(wrapper));
    Ok(command)
}

/// Where cargo builds them: not in the place of what has no bugs, so that neither replaces the
/// programs of the other. A new directory begins with the dependencies that are built already.
fn target_dir() -> Result<PathBuf, PlantedError> {
    let target = tools::target_dir();
    let planted = target.join("planted");
    if !planted.exists() {
        // A copy that was cut short is none.
        let unfinished = target.join("planted.unfinished");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished)?;
        }
        copy_dependencies(&target.join("debug"), &unfinished.join("debug"))?;
        fs::rename(&unfinished, &planted)?;
    }
    Ok(planted)
}

/// Copies what cargo takes for a built dependency: libraries, what their build scripts made, and its
/// notes on both, with their times. The packages of the workspace are built anew in any case.
fn copy_dependencies(from: &Path, to: &Path) -> Result<(), PlantedError> {
    let is_dependency = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let is_ours = name.starts_with("zoolet") || name.starts_with("libzoolet");
        let ending = path.extension().and_then(OsStr::to_str);
        let ending = ending.is_some_and(|ending| matches!(ending, "rlib" | "rmeta" | "so" | "d"));
        ending && !is_ours
    };
    let deps = to.join("deps");
    fs::create_dir_all(&deps)?;
    let mut files = Vec::new();
    for entry in fs::read_dir(from.join("deps"))? {
        files.push(entry?.path());
    }
    files.retain(is_dependency);
    let copy = |into: &Path, what: &[PathBuf]| {
        let mut command = Command::new("cp");
        command.args(["--archive", "--target-directory"]).arg(into).args(what);
        output_of(&mut command)
    };
    copy(to, &[from.join("build"), from.join(".fingerprint")])?;
    for some in files.chunks(FILES_AT_A_TIME) {
        copy(&deps, some)?;
    }
    Ok(())
}

fn output_of(command: &mut Command) -> Result<String, PlantedError> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(PlantedError::Build(String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// The suites in what cargo says about a build. Two with one name would stand for each other.
fn suites_of(messages: &str) -> Result<BTreeMap<String, Suite>, PlantedError> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut by_name = BTreeMap::<String, Suite>::new();
    for (name, suite) in messages.filter_map(|message| suite_of(&message)) {
        if let Some(other) = by_name.get(&name).filter(|other| **other != suite) {
            let [one, two] = [other, &suite].map(|it| it.directory.display().to_string());
            return Err(PlantedError::TwoSuites(name, one, two));
        }
        by_name.insert(name, suite);
    }
    Ok(by_name)
}

fn suite_of(message: &Value) -> Option<(String, Suite)> {
    let is_test = message.pointer("/profile/test")?.as_bool()?;
    let executable = PathBuf::from(message.get("executable")?.as_str()?);
    let name = message.pointer("/target/name")?.as_str()?.to_owned();
    let is_bin = message.pointer("/target/kind/0")?.as_str()? == "bin";
    let manifest = Path::new(message.get("manifest_path")?.as_str()?);
    let directory = manifest.parent()?.to_owned();
    let is_simulator = !is_test && is_bin && name == SIMULATOR_PROGRAM;
    let name = if is_simulator { SIMULATOR.to_owned() } else { name };
    (is_simulator || is_test && !is_bin).then_some((name, Suite { executable, directory }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What cargo says about a target that it has built.
    fn built(package: &str, target: &str, kind: &str, is_test: bool) -> String {
        json!({
            "reason": "compiler-artifact",
            "manifest_path": format!("/{package}/Cargo.toml"),
            "target": { "name": target, "kind": [kind] },
            "profile": { "test": is_test },
            "executable": format!("/target/{package}-{target}"),
        })
        .to_string()
    }

    #[test]
    fn a_suite_is_a_test_or_the_simulator_and_has_a_name_of_its_own() {
        let builds = [
            built("client", "session", "test", true),
            built("client", "session", "test", true),
            built("sim", "zoolet-sim", "bin", false),
            built("server", "zoolet", "bin", true),
        ];
        let suites = suites_of(&builds.join("\n")).unwrap();
        assert_eq!(suites.keys().collect::<Vec<_>>(), ["session", SIMULATOR]);

        let two =
            [built("client", "recipes", "test", true), built("tests", "recipes", "test", true)];
        let error = suites_of(&two.join("\n")).unwrap_err().to_string();
        assert_eq!(error, "two suites are named \"recipes\", in /client and /tests: rename one");
    }
}
