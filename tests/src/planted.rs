//! Bugs that are planted to test the suites: the catalog `tests/planted.toml`, and what plants one.
//!
//! A bug is found if its suite fails within its budget, prints what the bug breaks, and the bug was
//! reached. A suite that fails for another reason does not find it.

mod build;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::Duration;

use thiserror::Error;
use tokio::time::Instant;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use build::Suite;

/// How often a suite under way is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// The end of a suite's output that an error shows, in bytes.
const OUTPUT_SHOWN: usize = 3000;

/// The suite that is not a test target, but the program `zoolet-sim`.
pub const SIMULATOR: &str = "simulator";
/// How many seeds the simulator runs from the first on, if no promise is broken.
pub const SEEDS_MAX: u64 = 10;
const FIRST_SEEDS: RangeInclusive<u64> = 1..=SEEDS_MAX;
/// What the simulator is called with, beside what the catalog says.
const SIMULATOR_ARGUMENTS: [&str; 3] = ["--night=3600", "--jobs=1", "--twice=0"];

/// Why a bug was not found, or could not be planted.
#[derive(Debug, Error)]
pub enum PlantedError {
    #[error("tests/planted.toml: {0}")]
    Catalog(String),
    #[error("no suite {0:?} was built")]
    NoSuite(String),
    #[error("two suites are named {0:?}, in {1} and {2}: rename one")]
    TwoSuites(String, String, String),
    #[error("cannot run it: {0}")]
    Io(#[from] io::Error),
    #[error("the suites cannot be built:\n{0}")]
    Build(String),
    #[error("NOT FOUND within {0:?}: the suite was still running:\n{1}")]
    Late(Duration, String),
    #[error("NOT FOUND: the suite passed")]
    Passed,
    #[error("NOT FOUND: the suite did not reach the bug; it ended with:\n{0}")]
    NotReached(String),
    #[error("NOT FOUND: the suite failed without {missing:?}; it ended with:\n{output}")]
    OtherReason { missing: String, output: String },
    #[error("the suite fails without any bug; it ended with:\n{0}")]
    Unsound(String),
    #[error("NOT FOUND: seed {0} breaks a promise without the bug, too; it ended with:\n{1}")]
    UnsoundSeed(u64, String),
}

/// A bug and the suite that must find it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bug {
    pub name: String,
    /// The part of the product that has it.
    pub area: String,
    /// What it breaks.
    pub breaks: String,
    /// The name of the test target, such as `torture`; for unit tests that of the library.
    pub suite: String,
    /// The arguments of the suite: names of tests.
    pub tests: Vec<String>,
    /// What the suite finds in its environment.
    pub env: Vec<(String, String)>,
    /// What the suite prints when it has found the bug: all of these, each within one line; ` … `
    /// in it is any text.
    pub finds: Vec<String>,
    /// How long that may take on a machine that has other things to do.
    pub seconds: u64,
}

impl Bug {
    /// Whether the simulator has to find it.
    pub fn is_for_the_simulator(&self) -> bool {
        self.suite == SIMULATOR
    }

    /// The promise that it breaks: the beginning of the line that the simulator prints.
    pub fn promise(&self) -> &str {
        self.finds.first().and_then(|text| text.split(':').next()).unwrap_or_default()
    }

    /// What its suite is called with, the simulator with these seeds.
    fn arguments(&self, seeds: RangeInclusive<u64>) -> Vec<String> {
        let mut arguments = self.tests.clone();
        if self.is_for_the_simulator() {
            arguments.extend(SIMULATOR_ARGUMENTS.map(str::to_owned));
            arguments.push(format!("--from={}", seeds.start()));
            arguments.push(format!("--seeds={}", seeds.count()));
            arguments.push(format!("--stop-at={}", self.promise()));
        }
        arguments
    }

    /// Whether the suite of `other` is run in the same way.
    pub fn has_the_run_of(&self, other: &Self) -> bool {
        (&self.suite, &self.tests, &self.env) == (&other.suite, &other.tests, &other.env)
    }
}

/// How a bug was found.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// How long it took.
    pub took: Duration,
    /// The seed with which the simulator has found it.
    pub seed: Option<u64>,
}

/// The catalog, in the order of the file.
pub fn catalog(path: &Path) -> Result<Vec<Bug>, PlantedError> {
    let wrong = |why: String| PlantedError::Catalog(why);
    let text = fs::read_to_string(path)?;
    let table = DeTable::parse(&text).map_err(|error| wrong(error.to_string()))?;
    let bugs = table.get_ref().get("bug").map(Spanned::get_ref);
    let Some(DeValue::Array(bugs)) = bugs else {
        return Err(wrong("there is no [[bug]]".to_owned()));
    };
    bugs.iter()
        .map(|bug| match bug.get_ref().as_table() {
            Some(table) => read_bug(table),
            None => Err(wrong("a bug is a table".to_owned())),
        })
        .collect()
}

fn read_bug(table: &DeTable<'_>) -> Result<Bug, PlantedError> {
    let mut bug = Bug::default();
    for (key, value) in table {
        let (key, value) = (key.get_ref().as_ref(), value.get_ref());
        match (key, value) {
            ("name", DeValue::String(text)) => bug.name = text.to_string(),
            ("area", DeValue::String(text)) => bug.area = text.to_string(),
            ("breaks", DeValue::String(text)) => bug.breaks = text.to_string(),
            ("suite", DeValue::String(text)) => bug.suite = text.to_string(),
            ("tests", DeValue::Array(_)) => bug.tests = texts(value),
            ("finds", DeValue::Array(_)) => bug.finds = texts(value),
            ("env", DeValue::Table(env)) => bug.env = env.iter().filter_map(variable).collect(),
            ("seconds", DeValue::Integer(seconds)) => {
                bug.seconds = seconds.as_str().parse().unwrap_or(0);
            }
            _ => {
                return Err(PlantedError::Catalog(format!("{}: unknown {key:?}", bug.name)));
            }
        }
    }
    let texts = [&bug.name, &bug.area, &bug.breaks, &bug.suite];
    let has_texts = texts.iter().all(|text| !text.is_empty());
    let is_whole = has_texts && !bug.finds.is_empty() && bug.seconds > 0;
    if is_whole { Ok(bug) } else { Err(PlantedError::Catalog(format!("incomplete: {bug:?}"))) }
}

fn variable(
    (name, value): (&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>),
) -> Option<(String, String)> {
    Some((name.get_ref().to_string(), value.get_ref().as_str()?.to_owned()))
}

fn texts(value: &DeValue<'_>) -> Vec<String> {
    let DeValue::Array(all) = value else { return Vec::new() };
    all.iter().filter_map(|text| text.get_ref().as_str()).map(str::to_owned).collect()
}

/// The suites, built with the bugs in them.
#[derive(Debug)]
pub struct Suites {
    by_name: BTreeMap<String, Suite>,
}

impl Suites {
    /// Builds the suites of these bugs.
    pub fn build(workspace: &Path, bugs: &[Bug]) -> Result<Self, PlantedError> {
        Ok(Self { by_name: build::build(workspace, bugs)? })
    }

    /// Plants the bug and runs its suite.
    pub fn find(&self, bug: &Bug, scratch: &Path) -> Result<Found, PlantedError> {
        let reached = scratch.join(format!("{}-{}.reached", bug.name, bug.suite));
        let limit = Duration::from_secs(bug.seconds);
        let planted = [
            (switch::BUG, bug.name.as_str()),
            (switch::REACHED, reached.to_str().unwrap_or_default()),
        ];
        let start = Instant::now();
        let arguments = bug.arguments(FIRST_SEEDS);
        let (status, output) = self.run(bug, &arguments, &planted, limit, scratch)?;
        let took = start.elapsed();
        let Some(status) = status else { return Err(PlantedError::Late(limit, end_of(&output))) };
        if status.success() {
            return Err(PlantedError::Passed);
        }
        if !reached.exists() {
            return Err(PlantedError::NotReached(end_of(&output)));
        }
        if let Some(missing) = bug.finds.iter().find(|text| !has_line(&output, text)) {
            let (missing, output) = (missing.clone(), end_of(&output));
            return Err(PlantedError::OtherReason { missing, output });
        }
        let seed = seed_of(&output);
        if let Some(seed) = seed {
            self.check_seed(bug, seed, scratch)?;
        }
        Ok(Found { took, seed })
    }

    /// Runs the seed that has found the bug without it: if it breaks a promise all the same, its
    /// failure shows nothing.
    fn check_seed(&self, bug: &Bug, seed: u64, scratch: &Path) -> Result<(), PlantedError> {
        let limit = Duration::from_secs(bug.seconds);
        match self.run(bug, &bug.arguments(seed..=seed), &[], limit, scratch)? {
            (Some(status), _) if status.success() => Ok(()),
            (_, output) => Err(PlantedError::UnsoundSeed(seed, end_of(&output))),
        }
    }

    /// Runs the bug's suite without it, which must pass: otherwise its failure shows nothing.
    pub fn passes(&self, bug: &Bug, scratch: &Path) -> Result<Duration, PlantedError> {
        let start = Instant::now();
        let limit = Duration::from_secs(bug.seconds) * 4;
        match self.run(bug, &bug.arguments(FIRST_SEEDS), &[], limit, scratch)? {
            (Some(status), _) if status.success() => Ok(start.elapsed()),
            (_, output) => Err(PlantedError::Unsound(end_of(&output))),
        }
    }

    /// `None` as status: it was still running and was ended.
    fn run(
        &self,
        bug: &Bug,
        arguments: &[String],
        planted: &[(&str, &str)],
        limit: Duration,
        scratch: &Path,
    ) -> Result<(Option<ExitStatus>, String), PlantedError> {
        let suite = self.by_name.get(&bug.suite);
        let suite = suite.ok_or_else(|| PlantedError::NoSuite(bug.suite.clone()))?;
        let path = scratch.join(format!("{}-{}.out", bug.name, bug.suite));
        let file = File::create(&path)?;
        let mut command = Command::new(&suite.executable);
        command.current_dir(&suite.directory).args(arguments);
        command.env_remove(switch::BUG);
        command.envs(bug.env.iter().map(|(name, value)| (name, value)));
        command.envs(planted.iter().copied());
        let mut child = command.stdout(file.try_clone()?).stderr(file).spawn()?;
        let end = Instant::now() + limit;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break Some(status);
            }
            if Instant::now() > end {
                child.kill()?;
                child.wait()?;
                break None;
            }
            #[allow(clippy::disallowed_methods, reason = "a thread that waits for a process")]
            thread::sleep(LOOK);
        };
        Ok((status, String::from_utf8_lossy(&fs::read(&path)?).into_owned()))
    }
}

/// The variables of `tests/planted/switch.rs`.
mod switch {
    pub(super) const BUG: &str = "ZOOLET_PLANTED";
    pub(super) const REACHED: &str = "ZOOLET_PLANTED_REACHED";
}

/// The last seed that the simulator has reported as broken: behind it, it stops.
fn seed_of(output: &str) -> Option<u64> {
    let mut seeds = output.lines().filter_map(|line| line.strip_prefix("BROKEN seed "));
    seeds.next_back()?.split(':').next()?.parse().ok()
}

/// Whether one line of the output has the parts of `text`, between each ` … `, in their order.
fn has_line(output: &str, text: &str) -> bool {
    let has = |line: &str| {
        let after = |rest, part| str::split_once(rest, part).map(|(_, after)| after);
        text.split(" … ").try_fold(line, after).is_some()
    };
    output.lines().any(has)
}

fn end_of(output: &str) -> String {
    let from = output.len().saturating_sub(OUTPUT_SHOWN);
    let from = (from..=output.len()).find(|at| output.is_char_boundary(*at)).unwrap_or(0);
    output.get(from..).unwrap_or_default().to_owned()
}

/// The bugs of one of `count` groups of about the same size; all groups together are all bugs.
pub fn group(bugs: &[Bug], number: usize, count: usize) -> Vec<Bug> {
    let of_group = |(at, bug): (usize, &Bug)| (at % count == number % count).then(|| bug.clone());
    bugs.iter().enumerate().filter_map(of_group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_within_one_line() {
        let output = "  BROKEN K3 one holder: of /a/mutex\n  BROKEN K8 model: of /a/latch\n";
        assert!(has_line(output, "BROKEN K8 model"));
        assert!(has_line(output, "BROKEN K8 … /latch"));
        assert!(!has_line(output, "BROKEN K3 … /latch"), "they are in two lines");
        assert!(!has_line(output, "/latch … BROKEN K8"), "they are the other way round");
    }

    #[test]
    fn the_simulator_is_called_with_seeds_and_a_promise() {
        let finds = vec!["BROKEN P1 same log: … differ".to_owned()];
        let bug = Bug { suite: SIMULATOR.to_owned(), finds, ..Bug::default() };
        let arguments = |seeds| bug.arguments(seeds).split_off(SIMULATOR_ARGUMENTS.len());
        let stop_at = "--stop-at=BROKEN P1 same log";
        assert_eq!(arguments(FIRST_SEEDS), ["--from=1", "--seeds=10", stop_at]);
        assert_eq!(arguments(3..=3), ["--from=3", "--seeds=1", stop_at]);
    }

    /// A suite that does what a script says.
    fn find_by(script: &str) -> Result<Option<u64>, PlantedError> {
        let scratch = tempfile::tempdir().unwrap();
        let suite = Suite { executable: "/bin/sh".into(), directory: scratch.path().to_owned() };
        let suites = Suites { by_name: BTreeMap::from([(SIMULATOR.to_owned(), suite)]) };
        let bug = Bug {
            name: "a-bug".to_owned(),
            suite: SIMULATOR.to_owned(),
            tests: vec!["-c".to_owned(), script.to_owned()],
            finds: vec!["P1 same log: … differ".to_owned()],
            seconds: 60,
            ..Bug::default()
        };
        suites.find(&bug, scratch.path()).map(|found| found.seed)
    }

    const REACHES: &str = "touch $ZOOLET_PLANTED_REACHED; echo 'BROKEN seed 3: repeat it'";
    const BREAKS: &str = "echo '1.0 P1 same log: two servers differ'; exit 1";

    #[test]
    fn a_bug_is_found_by_a_seed_that_keeps_the_promise_without_it() {
        let only_with = format!("[ -n \"$ZOOLET_PLANTED\" ] || exit 0; {REACHES}; {BREAKS}");
        assert_eq!(find_by(&only_with).unwrap(), Some(3));
        let always = format!("[ -z \"$ZOOLET_PLANTED\" ] || {{ {REACHES}; }}; {BREAKS}");
        let error = find_by(&always).unwrap_err();
        assert!(matches!(error, PlantedError::UnsoundSeed(3, _)), "{error}");
        assert!(error.to_string().contains("two servers differ"), "{error}");
    }

    #[test]
    fn a_failure_that_does_not_show_the_bug_does_not_find_it() {
        let error = find_by("exit 0").unwrap_err();
        assert!(matches!(error, PlantedError::Passed), "{error}");
        let error = find_by(BREAKS).unwrap_err();
        assert!(matches!(error, PlantedError::NotReached(_)), "{error}");
        let error = find_by(&format!("{REACHES}; echo '1.0 P2 replies: no'; exit 1")).unwrap_err();
        assert!(matches!(error, PlantedError::OtherReason { .. }), "{error}");
    }
}
