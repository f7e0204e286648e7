//! Which groups of longer tiers the gate runs for a landing: those of the days since the landing before
//! it, taken from the history of the repository.
//!
//! Each day of the calendar has one group, in turn. A landing runs the groups of all days after the
//! last earlier day with a commit, up to its own day, so that a day without a landing leaves its
//! group to the next one. Once all groups are due, more days add nothing.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::process::Command;

use thiserror::Error;

const SECONDS_A_DAY: u64 = 24 * 60 * 60;

/// Why the history does not say which groups are due.
#[derive(Debug, Error)]
pub enum RotationError {
    #[error("cannot run git: {0}")]
    Io(#[from] io::Error),
    #[error("git cannot read the history: {0}")]
    Git(String),
    #[error("git dates a commit {0:?}, which is not in seconds since 1970")]
    Date(String),
    #[error("the history has no commit")]
    Empty,
}

/// The groups, out of `count`, that are due for the newest commit of the repository at `directory`.
///
/// Days are days of UTC on which commits were made, of the first parents alone: a merge has the day
/// on which it landed, whatever the days of the commits that it brings. A history of one day, or
/// one that was cut off there, says nothing about what was run before: every group is due.
pub fn groups_due(directory: &Path, count: usize) -> Result<BTreeSet<usize>, RotationError> {
    let mut days = days_of(directory)?;
    let last = days.pop_last().ok_or(RotationError::Empty)?;
    Ok(groups_of_days(days.pop_last(), last, count))
}

/// git, on the repository of its directory: a hook that runs the tests names another one.
fn git_command() -> Command {
    let mut git = Command::new("git");
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        git.env_remove(variable);
    }
    git
}

fn days_of(directory: &Path) -> Result<BTreeSet<u64>, RotationError> {
    let mut git = git_command();
    git.current_dir(directory).args(["log", "--first-parent", "--format=%ct"]);
    let output = git.output()?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(RotationError::Git(why));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let day = |line: &str| match line.parse::<u64>() {
        Ok(seconds) => Ok(seconds / SECONDS_A_DAY),
        Err(_) => Err(RotationError::Date(line.to_owned())),
    };
    text.lines().map(day).collect()
}

/// The groups of the days after `former` up to `last`, as days since 1970.
fn groups_of_days(former: Option<u64>, last: u64, count: usize) -> BTreeSet<usize> {
    let count = count as u64;
    let all = (last + 1).saturating_sub(count);
    let first = former.map_or(all, |former| all.max(former + 1));
    (first..=last).filter_map(|day| usize::try_from(day % count).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(former: u64, last: u64) -> Vec<usize> {
        groups_of_days(Some(former), last, 7).into_iter().collect()
    }

    #[test]
    fn a_landing_on_the_next_day_runs_one_group() {
        assert_eq!(due(69, 70), [0]);
        assert_eq!(due(70, 71), [1]);
    }

    #[test]
    fn a_landing_after_days_without_one_runs_their_groups_too() {
        assert_eq!(due(70, 73), [1, 2, 3]);
        assert_eq!(due(75, 78), [0, 1, 6]);
    }

    #[test]
    fn a_landing_after_a_week_or_more_or_the_first_one_runs_each_group_once() {
        let all = [0, 1, 2, 3, 4, 5, 6];
        assert_eq!(due(70, 77), all);
        assert_eq!(due(70, 1000), all);
        assert_eq!(groups_of_days(None, 70, 7), BTreeSet::from(all));
    }

    /// Whatever days have landings: from one landing to the first one a week later, each group runs.
    #[test]
    fn a_week_of_landings_runs_every_group() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut landings = vec![1000_u64];
            while landings.len() < 40 {
                landings.push(landings.last().unwrap() + random.u64(1..=9));
            }
            let runs = |from: u64, to: u64| {
                let pairs = landings.iter().zip(landings.iter().skip(1));
                let within = pairs.filter(move |(_, last)| (from + 1..=to).contains(*last));
                let groups = within.map(|(former, last)| groups_of_days(Some(*former), *last, 7));
                groups.flatten().collect::<BTreeSet<_>>().len()
            };
            for from in &landings {
                let Some(to) = landings.iter().find(|day| **day >= from + 7) else { break };
                assert_eq!(runs(*from, *to), 7, "seed {seed}, days {from} to {to}");
            }
        }
    }

    struct Repository(tempfile::TempDir);

    impl Repository {
        fn new() -> Self {
            let repository = Self(tempfile::tempdir().unwrap());
            repository.git(0, &["init", "-q", "-b", "main"]);
            repository
        }

        /// Runs git at noon of a day, as an author without a configuration of its own.
        fn git(&self, day: u64, arguments: &[&str]) {
            let date = format!("@{} +0000", day * SECONDS_A_DAY + SECONDS_A_DAY / 2);
            let mut git = git_command();
            git.current_dir(self.0.path()).args(["-c", "commit.gpgsign=false"]).args(arguments);
            for role in ["AUTHOR", "COMMITTER"] {
                git.env(format!("GIT_{role}_NAME"), "tester");
                git.env(format!("GIT_{role}_EMAIL"), "tester@example.com");
                git.env(format!("GIT_{role}_DATE"), &date);
            }
            let output = git.output().unwrap();
            assert!(output.status.success(), "{arguments:?}: {output:?}");
        }

        fn commit(&self, day: u64) {
            self.git(day, &["commit", "-q", "--allow-empty", "-m", "a change"]);
        }

        fn due(&self) -> Vec<usize> {
            groups_due(self.0.path(), 7).unwrap().into_iter().collect()
        }
    }

    #[test]
    fn the_days_are_those_of_the_history_not_of_the_clock() {
        let repository = Repository::new();
        repository.commit(69);
        assert_eq!(repository.due(), [0, 1, 2, 3, 4, 5, 6]);
        repository.commit(70);
        assert_eq!(repository.due(), [0]);
        // A push of several commits of one day, and a second landing on that day.
        for _ in 0..3 {
            repository.commit(73);
            assert_eq!(repository.due(), [1, 2, 3]);
        }
    }

    /// The commits of a branch were made on days on which nothing landed.
    #[test]
    fn a_merge_counts_from_the_landing_before_it() {
        let repository = Repository::new();
        repository.commit(69);
        repository.commit(70);
        repository.git(70, &["checkout", "-q", "-b", "change"]);
        for day in [71, 72, 73] {
            repository.commit(day);
        }
        repository.git(73, &["checkout", "-q", "main"]);
        repository.git(73, &["merge", "-q", "--no-ff", "-m", "land it", "change"]);
        assert_eq!(repository.due(), [1, 2, 3]);
    }

    #[test]
    fn a_directory_without_a_history_is_an_error() {
        let repository = Repository::new();
        let error = groups_due(repository.0.path(), 7).unwrap_err();
        assert!(error.to_string().starts_with("git cannot read the history: "), "{error}");
    }
}
