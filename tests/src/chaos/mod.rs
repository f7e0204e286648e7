//! Chaos: whole ensembles of real processes under overlapping faults, with the load and the checks of
//! the simulator (`zoolet_sim`). `docs/testing.md` says how to use it.
//!
//! A seed draws the faults, the load and the servers' settings; real time, threads and the kernel are
//! not in its hands, so a seed repeats the plan of a run and not the run. Each server is a process of
//! its own on a machine of a [`Network`](crate::faults::netns::Network), with a disk of its own; it is
//! the server of `zoolet serve` with a witness that writes down what is applied, and when.

mod clients;
mod clock;
mod draw;
mod fault;
mod interrupt;
mod keep;
mod ledger;
mod machine;
mod machines;
mod nemesis;
mod night;
mod options;
mod run;
mod said;
mod seen;
mod serve;

use std::io;

use thiserror::Error;

pub use self::fault::Kind;
pub use self::interrupt::watch_signals;
pub use self::night::night;
pub use self::options::{Night, Options, parse};
pub use self::serve::{ServeArguments, serve};

use crate::tools::ToolError;

/// Why a run could not be carried out. A promise that is broken is not among them.
#[derive(Debug, Error)]
pub enum ChaosError {
    #[error("{0}")]
    Arguments(String),
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error("harness: {0}")]
    Io(#[from] io::Error),
    #[error("{what}: {source}")]
    File { what: String, source: io::Error },
    #[error("server {server} does not serve after {seconds} s:\n{said}")]
    NotServing { server: u8, seconds: u64, said: String },
    #[error("interrupted")]
    Interrupted,
}

impl ChaosError {
    fn file(what: impl ToString) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { what: what.to_string(), source }
    }
}
