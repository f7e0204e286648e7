//! `make chaos`: whole ensembles of real processes under overlapping faults (docs/testing.md). The same
//! program is each of the servers.

use std::env;
use std::process::ExitCode;

use tokio::runtime::Builder;
use zoolet_tests::chaos::{ChaosError, ServeArguments, night, parse, serve, watch_signals};
use zoolet_tests::tools::announce;

fn main() -> ExitCode {
    let mut words = env::args().skip(1).peekable();
    let done = if words.next_if(|word| word == "serve").is_some() {
        match (words.next(), words.next()) {
            (Some(config), Some(seen)) => {
                serve(&ServeArguments { config: config.into(), seen: seen.into() })
            }
            _ => Err(ChaosError::Arguments("serve: a configuration and a file".to_owned())),
        }
    } else {
        chaos(words)
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            announce(&format!("chaos: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn chaos(words: impl Iterator<Item = String>) -> Result<bool, ChaosError> {
    let asked = parse(words)?;
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    watch_signals(&runtime)?;
    night(&asked, &runtime)
}
