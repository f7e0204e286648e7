//! `make bench`: measures zoolet beside Apache `ZooKeeper` and rewrites the section of
//! `docs/performance.md`, which says how to run it.

use std::process::ExitCode;

use zoolet_tests::bench::{self, Options};
use zoolet_tests::tools::announce;

fn main() -> ExitCode {
    match Options::from_environment().and_then(|options| bench::run(&options)) {
        Ok(directory) => {
            announce(&format!("bench: the figures are in {}", directory.display()));
            ExitCode::SUCCESS
        }
        Err(error) => {
            announce(&format!("bench: {error}"));
            ExitCode::FAILURE
        }
    }
}
