//! Bugs that are planted to test the suites. `make planted` plants them; see `docs/testing.md`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use aho_corasick::AhoCorasick;
use zoolet_tests::planted::{Bug, Found, SEEDS_MAX, SIMULATOR, Suites, catalog, group};
use zoolet_tests::planted_seeds::{self, FirstSeed};
use zoolet_tests::tools::announce;

/// Fewer are not enough to tell what the suites find.
const BUGS_MIN: usize = 80;
/// The gate has a tier for each of them.
const GROUPS: usize = 3;
/// The parts of the product that have bugs.
const AREAS: [&str; 7] =
    ["recipes", "session core", "replica", "watches", "WAL", "raft glue", "replication"];
/// The document with the table of seeds.
const DOCUMENT: &str = "docs/testing.md";

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn bugs() -> Vec<Bug> {
    catalog(&workspace().join("tests/planted.toml")).unwrap()
}

/// The names in all `planted!("…")` of a directory.
fn planted_in(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            planted_in(&path, found);
        } else if path.file_name().is_some_and(|name| name != "planted.rs") {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let names = text.split("planted!(\"").skip(1);
            found.extend(names.map(|rest| rest.split('"').next().unwrap().to_owned()));
        }
    }
}

#[test]
fn every_planted_bug_is_in_the_catalog_once_for_a_suite_and_in_the_source() {
    let mut planted = BTreeSet::new();
    for source in ["client/src", "server/src", "server/replica/src", "server/storage/src"] {
        planted_in(&workspace().join(source), &mut planted);
    }
    let bugs = bugs();
    let names: BTreeSet<String> = bugs.iter().map(|bug| bug.name.clone()).collect();
    let runs: BTreeSet<(&str, &str)> =
        bugs.iter().map(|bug| (bug.name.as_str(), bug.suite.as_str())).collect();
    assert_eq!(runs.len(), bugs.len(), "a name is there twice for a suite");
    assert_eq!(names, planted);
    assert!(names.len() >= BUGS_MIN, "{} bugs", names.len());
    let areas: BTreeSet<&str> = bugs.iter().map(|bug| bug.area.as_str()).collect();
    assert_eq!(areas, BTreeSet::from(AREAS));
}

/// A test fails, and a contender waits, for many reasons: a finding is more than that.
#[test]
fn every_finding_names_what_the_bug_breaks() {
    let is_lax = |text: &&String| match text.strip_prefix("BROKEN ") {
        Some(promise) => !promise.contains(" … "),
        None => text.ends_with("FAILED"),
    };
    let lax: Vec<String> = bugs()
        .into_iter()
        .filter(|bug| bug.finds.iter().all(|text| is_lax(&text)))
        .map(|bug| bug.name)
        .collect();
    assert_eq!(lax, Vec::<String>::new());
}

/// Lines move, and the bug is then taken for one that was not found.
#[test]
fn a_finding_names_a_line_by_its_text() {
    let has_number = |text: &&String| {
        let behind = [".txt:", ".rs:"].into_iter().filter_map(|name| text.split_once(name));
        behind.into_iter().any(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let finds: Vec<String> = bugs().into_iter().flat_map(|bug| bug.finds).collect();
    assert_eq!(finds.iter().filter(has_number).collect::<Vec<_>>(), Vec::<&String>::new());
    assert!(has_number(&&"expiry.txt:473, # a leader".to_owned()));
}

/// `make planted_seeds` writes the table anew.
#[test]
fn the_documented_seeds_are_those_of_the_bugs_that_the_simulator_must_find() {
    let document = fs::read_to_string(workspace().join(DOCUMENT)).unwrap();
    let rows = planted_seeds::read(&document).expect("the document has the table");
    let documented: Vec<(&str, &str)> =
        rows.iter().map(|row| (row.bug.as_str(), row.promise.as_str())).collect();
    let bugs = bugs();
    let expected: Vec<(&str, &str)> = bugs
        .iter()
        .filter(|bug| bug.is_for_the_simulator())
        .map(|bug| (bug.name.as_str(), bug.promise()))
        .collect();
    assert_eq!(documented, expected);
    let wrong: Vec<&FirstSeed> =
        rows.iter().filter(|row| !(1..=SEEDS_MAX).contains(&row.seed)).collect();
    assert_eq!(wrong, Vec::<&FirstSeed>::new());
}

#[test]
fn bugs_are_chosen_by_names_and_groups() {
    let bugs = bugs();
    let both = choose(&bugs, "group:0,group:2");
    let expected = [group(&bugs, 0, GROUPS), group(&bugs, 2, GROUPS)].concat();
    assert_eq!(both, expected);
    let of_simulator = choose(&bugs, SIMULATOR);
    assert!(of_simulator.iter().all(Bug::is_for_the_simulator) && of_simulator.len() > 10);
    assert_eq!(choose(&bugs, &bugs[1].name), [bugs[1].clone()]);
    for wrong in ["group:3", "group:", "no-such-bug", ""] {
        std::panic::catch_unwind(|| choose(&bugs, wrong)).unwrap_err();
    }
}

/// A name that only one of both has would never be due.
#[test]
fn the_gate_has_a_day_for_each_tier_and_for_each_group() {
    let gate = fs::read_to_string(workspace().join(".ci/run")).unwrap();
    let groups = gate.lines().find_map(|line| line.strip_prefix("groups=(")).unwrap();
    let mut due: Vec<String> =
        groups.trim_end_matches(')').split([' ', ',']).map(str::to_owned).collect();
    let after = |word| gate.split(word).skip(1).filter_map(|rest| rest.split_whitespace().next());
    let asked = after("\ntier ").chain(after("if is_due ")).map(|name| name.trim_matches(';'));
    let mut tiers: BTreeSet<String> =
        asked.filter(|name| !name.starts_with('"')).map(str::to_owned).collect();
    tiers.extend((0..GROUPS).map(|number| format!("planted_{number}")));
    due.sort_unstable();
    assert_eq!(due, tiers.into_iter().collect::<Vec<_>>());
}

#[test]
fn the_groups_together_are_all_bugs() {
    let bugs = bugs();
    let mut run: Vec<Bug> = (0..GROUPS).flat_map(|number| group(&bugs, number, GROUPS)).collect();
    assert_eq!(run.len(), bugs.len());
    run.retain(|bug| !bugs.contains(bug));
    assert_eq!(run, []);
}

/// A bug's name is in no program that is built without the cfg.
#[test]
fn a_build_without_the_cfg_has_no_bug_and_no_name_of_one() {
    let bugs = bugs();
    let names: Vec<&str> = bugs.iter().map(|bug| bug.name.as_str()).collect();
    let names = [names.as_slice(), &["ZOOLET_PLANTED"]].concat();
    let programs = [
        ("zoolet", zoolet_tests::zoolet::binary().unwrap()),
        ("zooletctl", zoolet_tests::zooletctl::binary().unwrap()),
    ];
    for (name, path) in programs {
        let program = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let shown = path.display();
        assert_eq!(texts_in(&program, &[name]), BTreeSet::from([name]), "{shown} is not {name}");
        assert_eq!(texts_in(&program, &names), BTreeSet::new(), "{shown}");
    }
}

/// Those of `texts` that a program contains.
fn texts_in<'a>(program: &[u8], texts: &[&'a str]) -> BTreeSet<&'a str> {
    let automaton = AhoCorasick::new(texts).unwrap();
    automaton.find_overlapping_iter(program).map(|found| texts[found.pattern()]).collect()
}

/// `ZOOLET_PLANT` names bugs, `all` of them, those that the `simulator` must find, and groups
/// (`group:2`), with commas between them. With `ZOOLET_PLANT_NOTHING=1` their suites run without them
/// and must pass; with `ZOOLET_PLANT_BUILD=1` they are only built.
#[test]
fn planted_bugs_are_found() {
    let Ok(chosen) = env::var("ZOOLET_PLANT") else { return };
    let wanted = choose(&bugs(), &chosen);
    let suites = Suites::build(&workspace(), &wanted).unwrap_or_else(|error| panic!("{error}"));
    if env::var_os("ZOOLET_PLANT_BUILD").is_some() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    if env::var_os("ZOOLET_PLANT_NOTHING").is_some() {
        pass_without_them(&suites, &wanted, scratch.path());
    } else {
        find_each(&suites, &wanted, scratch.path());
    }
}

fn find_each(suites: &Suites, wanted: &[Bug], scratch: &Path) {
    let mut missed = Vec::new();
    let mut seeds = Vec::new();
    for bug in wanted {
        let name = &bug.name;
        match suites.find(bug, scratch) {
            Ok(Found { took, seed }) => {
                seeds.extend(seed.map(|seed| FirstSeed {
                    bug: name.clone(),
                    seed,
                    promise: bug.promise().to_owned(),
                }));
                let seed = seed.map(|seed| format!(" with seed {seed}")).unwrap_or_default();
                announce(&format!(
                    "planted: {name}: found by {}{seed} in {took:.1?} of {} s: {}",
                    bug.suite,
                    bug.seconds,
                    bug.finds.join("; ")
                ));
            }
            Err(error) => {
                announce(&format!("planted: {name}: {error}"));
                missed.push(name);
            }
        }
    }
    let found = wanted.len() - missed.len();
    announce(&format!("planted: {found} of {} bugs found, not {missed:?}", wanted.len()));
    assert!(missed.is_empty(), "not found: {missed:?}");
    if env::var_os("ZOOLET_REWRITE").is_some() {
        let path = workspace().join(DOCUMENT);
        let document = fs::read_to_string(&path).unwrap();
        fs::write(path, planted_seeds::rewrite(&document, &seeds).unwrap()).unwrap();
    }
}

/// Runs once what several bugs have in common.
fn pass_without_them(suites: &Suites, wanted: &[Bug], scratch: &Path) {
    let mut runs: Vec<(&Bug, Vec<&str>)> = Vec::new();
    for bug in wanted {
        match runs.iter_mut().find(|(first, _)| first.has_the_run_of(bug)) {
            Some((_, names)) => names.push(&bug.name),
            None => runs.push((bug, vec![&bug.name])),
        }
    }
    let mut failed = Vec::new();
    for (bug, names) in &runs {
        let names = names.join(", ");
        match suites.passes(bug, scratch) {
            Ok(took) => announce(&format!("planted: without {names}: passes in {took:.1?}")),
            Err(error) => {
                announce(&format!("planted: without {names}: {error}"));
                failed.push(names);
            }
        }
    }
    let passed = runs.len() - failed.len();
    announce(&format!("planted: {passed} of {} runs pass without bugs", runs.len()));
    assert!(failed.is_empty(), "fail without bugs: {failed:?}");
}

fn choose(bugs: &[Bug], chosen: &str) -> Vec<Bug> {
    chosen.split(',').flat_map(|choice| chosen_by(bugs, choice)).collect()
}

fn chosen_by(bugs: &[Bug], choice: &str) -> Vec<Bug> {
    if let Some(number) = choice.strip_prefix("group:") {
        let number = number.parse().ok().filter(|number| *number < GROUPS);
        let number = number.unwrap_or_else(|| panic!("{choice}: groups are 0 to {}", GROUPS - 1));
        return group(bugs, number, GROUPS);
    }
    let is_chosen = |bug: &&Bug| match choice {
        "all" => true,
        SIMULATOR => bug.is_for_the_simulator(),
        name => bug.name == name,
    };
    let found: Vec<Bug> = bugs.iter().filter(is_chosen).cloned().collect();
    assert!(!found.is_empty(), "no planted bug has the name {choice:?}");
    found
}
