//! `make compare_locks`: compares the ways in which people lock, and writes
//! `docs/lock-comparison.md`, which says how.

use std::process::ExitCode;

use zoolet_tests::compare::{self, Options};
use zoolet_tests::tools::announce;

fn main() -> ExitCode {
    match Options::from_environment().and_then(|options| compare::run(&options)) {
        Ok(directory) => {
            announce(&format!("compare locks: the page is in {}", directory.display()));
            ExitCode::SUCCESS
        }
        Err(error) => {
            announce(&format!("compare locks: {error}"));
            ExitCode::FAILURE
        }
    }
}
