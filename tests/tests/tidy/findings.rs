//! Whatever has been found stays found: the tests that `docs/simulator-findings.md` names are there.

use std::fs;

use super::{root, rust_files};

/// The document, the place of its column of names, and where planted bugs are.
const DOCUMENT: &str = "docs/simulator-findings.md";
const PLANTED: &str = "tests/planted.toml";

/// The names in the last column of the tables.
fn names(document: &str) -> Vec<String> {
    let rows = document.lines().filter(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.trim_end_matches('|').rsplit('|').next());
    let quoted = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    quoted.map(str::to_owned).collect()
}

/// Those of the names that are none of a test, of a script or of a planted bug.
fn missing(names: Vec<String>) -> Vec<String> {
    let files: Vec<_> = ["server", "client", "tests"]
        .into_iter()
        .flat_map(|directory| rust_files(&root().join(directory)))
        .collect();
    let sources: Vec<String> = files.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let planted = fs::read_to_string(root().join(PLANTED)).unwrap();
    let scripts = fs::read_dir(root().join("server/replica/tests/replica/scripts")).unwrap();
    let scripts: Vec<String> =
        scripts.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    let is_there = |name: &String| {
        let function = format!("fn {name}(");
        scripts.contains(name)
            || planted.contains(&format!("name = \"{name}\""))
            || sources.iter().any(|source| source.contains(&function))
    };
    names.into_iter().filter(|name| !is_there(name)).collect()
}

#[test]
fn each_finding_has_a_test_that_is_there() {
    let document = fs::read_to_string(root().join(DOCUMENT)).unwrap();
    let names = names(&document);
    assert!(names.len() >= 20, "{names:?}");
    assert_eq!(missing(names), Vec::<String>::new());
}

#[test]
fn a_name_of_no_test_is_found() {
    let row = "| 7 | P9 | a `cause` | `no_such_test`, `leading.txt` |";
    assert_eq!(names(row), ["no_such_test", "leading.txt"]);
    assert_eq!(missing(names(row)), ["no_such_test"]);
}
