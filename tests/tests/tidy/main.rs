//! The house rules that a machine can check: which layer names which, and how long files are.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod findings;
mod imports;
mod words;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use toml::de::DeTable;
use zoolet_jute::{ErrorCode, OpCode};

/// The longest file, in lines; longer ones hold more than one idea.
const LINES_MAX: usize = 500;

/// The sources of the packages that make up the product, and of the harness.
const SOURCES: [&str; 15] = [
    "jute/src",
    "server/src",
    "server/cli/src",
    "server/console/src",
    "server/history/src",
    "server/http/src",
    "server/migrate/src",
    "server/replica/src",
    "server/storage/src",
    "client/src",
    "client/ctl/src",
    "client/survey/src",
    "client/torture/src",
    "tests/src",
    "jute/tls/src",
];

/// The suites of the packages. Their files have the same limit.
const SUITES: [&str; 7] = [
    "jute/tests",
    "server/tests",
    "server/replica/tests",
    "server/storage/tests",
    "client/tests",
    "tests/tests",
    "jute/tls/tests",
];

/// For each module of the server (or package), what its files must not name.
const FORBIDDEN: [(&str, &[&str]); 32] = [
    ("jute/src", &["tokio", "openraft", "std::net", "std::fs", "std::io", "zoolet_server"]),
    // The rest of what is impure is forbidden by the package's dependencies and its clippy.toml.
    ("server/replica/src", &["std::os"]),
    (
        "server/src/peer",
        &[
            "openraft",
            "std::fs",
            "zoolet_replica",
            "crate::raft",
            "crate::replication",
            "crate::net",
            "crate::host",
        ],
    ),
    (
        "server/src/host",
        &[
            "openraft",
            "std::fs",
            "crate::raft",
            "crate::replication",
            "crate::net",
            "zoolet_storage",
            "crate::peer",
        ],
    ),
    (
        "server/src/audit",
        &["std::fs", "tokio", "crate::raft", "crate::replication", "crate::net", "crate::peer"],
    ),
    (
        "server/src/net",
        &[
            "openraft",
            "std::fs",
            "crate::raft",
            "crate::replication",
            "zoolet_storage",
            "crate::peer",
        ],
    ),
    (
        "server/src/raft",
        &["std::fs", "crate::net", "crate::host", "crate::replication", "zoolet_replica", "sled"],
    ),
    // `reconfig` reads and writes member lists as `config` does.
    ("server/src/replication", &["openraft", "std::fs", "crate::net", "sled"]),
    (
        "server/src/config",
        &[
            "tokio",
            "crate::raft",
            "crate::replication",
            "crate::net",
            "crate::host",
            "zoolet_storage",
            "crate::peer",
        ],
    ),
    // The seams, and what the layers share, know no layer; `clock` passes `Now` of the replica on,
    // and `fatal` catches panics as the storage does.
    ("server/src/clock.rs", &["crate::", "zoolet_storage"]),
    ("server/src/transport.rs", &["crate::", "std::fs", "zoolet_replica", "zoolet_storage"]),
    (
        "server/src/consensus.rs",
        &["openraft", "std::fs", "crate::raft", "crate::replication", "crate::peer", "crate::host"],
    ),
    ("server/src/snapshots.rs", &["openraft", "std::fs", "crate::raft", "crate::replication"]),
    (
        "server/src/node_id.rs",
        &["crate::", "openraft", "tokio", "std::fs", "zoolet_replica", "zoolet_storage"],
    ),
    ("server/src/wire.rs", &["crate::", "tokio", "std::fs", "zoolet_replica"]),
    ("server/src/process.rs", &["crate::", "zoolet_replica", "zoolet_storage"]),
    ("server/src/fatal.rs", &["crate::", "std::fs", "zoolet_replica"]),
    ("server/src/metrics.rs", &["crate::", "tokio", "std::fs", "zoolet_replica", "zoolet_storage"]),
    ("server/src/limits.rs", &["crate::", "tokio", "std::fs", "zoolet_storage"]),
    ("server/src/outbox_budget.rs", &["crate::", "tokio", "std::fs", "zoolet_replica"]),
    (
        "server/src/histogram.rs",
        &["crate::", "tokio", "std::fs", "zoolet_replica", "zoolet_storage"],
    ),
    // It is a client of the ensemble: what it may do, the servers decide.
    (
        "server/console/src",
        &["std::fs", "zoolet_server", "zoolet_replica", "zoolet_storage", "zoolet_jute"],
    ),
    ("server/http/src", &["std::fs", "zoolet_replica", "zoolet_storage", "zoolet_jute"]),
    ("server/src/entropy.rs", &["crate::", "tokio", "std::fs", "zoolet_replica", "zoolet_storage"]),
    (
        "server/src/outbox.rs",
        &[
            "tokio",
            "std::fs",
            "crate::host",
            "crate::net",
            "crate::raft",
            "crate::replication",
            "zoolet_replica",
        ],
    ),
    // What puts the layers together, and what starts that; the program has the API alone.
    ("server/src/node", &["std::fs", "sled", "crate::embed"]),
    (
        "server/src/embed",
        &[
            "std::fs",
            "crate::raft",
            "crate::replication",
            "crate::host",
            "crate::net",
            "crate::peer",
        ],
    ),
    ("server/history/src", &["tokio", "zoolet_storage", "zoolet_server"]),
    ("client/src", &["zoolet_server", "sled"]),
    ("client/ctl/src", &["zoolet_jute", "zoolet_server"]),
    // It looks at an ensemble from outside, and leaves to programs how that is shown.
    (
        "client/survey/src",
        &["std::fs", "zoolet_server", "zoolet_replica", "zoolet_storage", "zoolet_jute"],
    ),
    ("client/torture/src", &["zoolet_server", "sled"]),
];

/// The dependencies of the packages whose layer is kept by what they depend on.
const DEPENDENCIES: [(&str, &[&str]); 3] = [
    (
        "server/history/Cargo.toml",
        &["bytes", "sled", "thiserror", "tracing", "zoolet-jute", "zoolet-replica"],
    ),
    (
        "server/replica/Cargo.toml",
        &["base64", "bytes", "sha1", "sha2", "sha3", "thiserror", "zoolet-jute"],
    ),
    ("server/storage/Cargo.toml", &["bytes", "crc32c", "thiserror"]),
];

/// The files that may name openraft: the layer that it is in, and the filter of its log lines.
const NAMES_OPENRAFT: [&str; 2] = ["server/src/raft/", "server/cli/src/logging.rs"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The source files of a directory, or the one file.
fn rust_files(directory: &Path) -> Vec<PathBuf> {
    if directory.is_file() {
        return vec![directory.to_owned()];
    }
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files
}

/// The lines of code in front of the file's unit tests, which may use what they like.
fn violations(name: &str, text: &str, forbidden: &[&str]) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let mut found = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let line = line.split("//").next().unwrap_or(line);
        for word in forbidden {
            if line.contains(word) {
                found.push(format!("{name}:{}: names {word}", number + 1));
            }
        }
    }
    found
}

#[test]
fn a_layer_names_only_what_is_below_it() {
    let mut found = Vec::new();
    let mut files = 0;
    for (directory, forbidden) in FORBIDDEN {
        for path in rust_files(&root().join(directory)) {
            let name = path.strip_prefix(root()).unwrap().display().to_string();
            if name.contains("/tests") {
                continue;
            }
            files += 1;
            found.extend(violations(&name, &fs::read_to_string(&path).unwrap(), forbidden));
        }
    }
    assert!(files > 50, "only {files} files were looked at");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// What a package is built with: its dependencies and build-dependencies, those of single targets
/// too. What its tests depend on is not looked at.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let manifest = DeTable::parse(manifest).unwrap();
    let mut tables = vec![manifest.get_ref()];
    if let Some(targets) = manifest.get_ref().get("target") {
        let targets = targets.get_ref().as_table().unwrap().values();
        tables.extend(targets.map(|target| target.get_ref().as_table().unwrap()));
    }
    let kinds = ["dependencies", "build-dependencies", "build_dependencies"];
    let lists = tables.iter().flat_map(|table| kinds.iter().filter_map(|kind| table.get(*kind)));
    lists
        .flat_map(|list| list.get_ref().as_table().unwrap().keys())
        .map(|name| name.get_ref().to_string())
        .collect()
}

#[test]
fn a_package_depends_only_on_what_it_may() {
    for (manifest, allowed) in DEPENDENCIES {
        let text = fs::read_to_string(root().join(manifest)).unwrap();
        let allowed: BTreeSet<String> = allowed.iter().map(ToString::to_string).collect();
        assert_eq!(dependencies(&text), allowed, "{manifest}");
        let build = root().join(manifest).with_file_name("build.rs");
        assert!(!build.exists(), "{} runs on the machine that compiles", build.display());
    }
}

#[test]
fn dependencies_of_every_kind_but_those_of_tests_are_found() {
    let manifest = "[dependencies]\na = \"1\"\nb = { workspace = true }\n\
                    [dependencies.c]\nversion = \"1\"\n\
                    [build-dependencies]\nd = \"1\"\n\
                    [target.'cfg(unix)'.dependencies]\ne = \"1\"\n\
                    [target.x86_64-unknown-linux-gnu.build-dependencies]\nf = \"1\"\n\
                    [dev-dependencies]\ng = \"1\"\n\
                    [target.'cfg(unix)'.dev-dependencies]\nh = \"1\"\n";
    assert_eq!(dependencies(manifest), ["a", "b", "c", "d", "e", "f"].map(str::to_owned).into());
    assert_eq!(dependencies("[package]\nname = \"alone\"\n"), BTreeSet::new());
}

/// clippy reads the nearest configuration alone.
#[test]
fn the_lints_of_the_replica_have_the_settings_of_the_workspace() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let (workspace, replica) = (read("clippy.toml"), read("server/replica/clippy.toml"));
    let settings = workspace.split("disallowed-methods").next().unwrap();
    assert!(replica.contains(settings), "server/replica/clippy.toml lacks some of:\n{settings}");
}

#[test]
fn one_layer_alone_names_openraft() {
    let mut found = Vec::new();
    for package in SOURCES {
        for path in rust_files(&root().join(package)) {
            let name = path.strip_prefix(root()).unwrap().display().to_string();
            if NAMES_OPENRAFT.iter().any(|allowed| name.starts_with(allowed)) {
                continue;
            }
            found.extend(violations(&name, &fs::read_to_string(&path).unwrap(), &["openraft"]));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_planted_violation_is_found() {
    let forbidden = &["openraft", "tokio"];
    let planted = "use std::collections::BTreeMap;\nuse tokio::sync::mpsc;\n// openraft\n";
    assert_eq!(violations("planted.rs", planted, forbidden), ["planted.rs:2: names tokio"]);
}

#[test]
fn no_file_is_longer_than_its_idea() {
    for directory in SOURCES.iter().chain(&SUITES) {
        for path in rust_files(&root().join(directory)) {
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            assert!(lines <= LINES_MAX, "{} has {lines} lines", path.display());
        }
    }
}

/// The rows of a table in Markdown: a code and a name, in the first two columns.
fn coded_rows(text: &str) -> Vec<(i32, String)> {
    let row = |line: &str| {
        let mut columns = line.strip_prefix('|')?.split('|').map(str::trim);
        Some((columns.next()?.parse().ok()?, columns.next()?.to_owned()))
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn the_tables_of_the_protocol_are_those_of_the_source() {
    let text = fs::read_to_string(root().join("docs/protocol.md")).unwrap();
    let (operations, errors) = text.split_once("\n## Errors\n").unwrap();
    let ops = OpCode::ALL.iter().map(|op| (*op as i32, op.name().to_owned()));
    assert_eq!(coded_rows(operations), ops.collect::<Vec<_>>());
    let codes = ErrorCode::ALL.iter().map(|code| (*code as i32, code.name().to_owned()));
    assert_eq!(coded_rows(errors), codes.collect::<Vec<_>>());
}

/// The numbers of protocol sections that a text cites, such as `8.6` of "protocol §8.6".
fn cited_sections(text: &str) -> impl Iterator<Item = &str> {
    text.split('§').skip(1).map(|behind| {
        let end = behind.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(behind.len());
        behind[..end].trim_end_matches('.')
    })
}

/// The numbers of the sections that have a heading in a document, such as `8.6` of "#### 8.6 …".
fn headings(document: &str) -> BTreeSet<&str> {
    let titles = document.lines().filter_map(|line| line.strip_prefix("##"));
    let numbers =
        titles.filter_map(|title| title.trim_start_matches('#').split_whitespace().next());
    numbers.map(|number| number.trim_end_matches('.')).collect()
}

#[test]
fn every_cited_section_of_the_protocol_is_written_down() {
    let document = fs::read_to_string(root().join("docs/protocol.md")).unwrap();
    let headings = headings(&document);
    let (mut citations, mut unknown) = (0, Vec::new());
    for package in ["jute", "server", "client", "tests"] {
        for path in rust_files(&root().join(package)) {
            if path.ends_with(file!()) {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            for section in cited_sections(&text) {
                citations += 1;
                if !headings.contains(section) {
                    unknown.push(format!("{}: §{section}", path.display()));
                }
            }
        }
    }
    assert!(citations > 100, "only {citations} citations were found");
    assert!(unknown.is_empty(), "not in docs/protocol.md:\n{}", unknown.join("\n"));
}

#[test]
fn a_citation_of_no_section_is_found() {
    let cited: Vec<_> = cited_sections("(protocol §8.6, §19). And §2.3 to §2.9").collect();
    assert_eq!(cited, ["8.6", "19", "2.3", "2.9"]);
    let headings = headings("## Rules\n### 8. Watches\n#### 8.6 setWatches\n");
    assert!(headings.contains("8") && headings.contains("8.6") && !headings.contains("19"));
}
