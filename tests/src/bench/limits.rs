//! What the machine allows a process.

use std::fs;

use super::error::BenchError;

/// What ten thousand connections need, here and in a server.
const OPEN_FILES: u64 = 10_500;

/// Refuses a case for which a process may open too few files.
pub(super) fn check_open_files(case: &str) -> Result<(), BenchError> {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    match open_files_max(&limits) {
        Some(max) if max < OPEN_FILES => Err(BenchError::Option(format!(
            "the case `{case}` needs {OPEN_FILES} open files, and the limit is {max}: run `ulimit \
             -n {OPEN_FILES}` before make, or leave the case out of CASES"
        ))),
        _ => Ok(()),
    }
}

/// Returns the soft limit of open files.
fn open_files_max(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_open_files_is_the_soft_one() {
        let limits =
            "Limit      Soft Limit  Hard Limit  Units\nMax open files  1024  4096  files\n";
        assert_eq!(open_files_max(limits), Some(1_024));
        assert_eq!(open_files_max("Max open files  unlimited  unlimited  files\n"), None);
    }
}
