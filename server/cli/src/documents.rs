//! What is made from the definition of the command line: completions for shells, and man pages.

use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;

/// The name of the program.
const PROGRAM: &str = "zoolet";

/// Prints the completions of a shell.
pub(crate) fn completions(shell: Shell) -> Result<(), String> {
    // The generator panics if it cannot write, as into a pipe that is closed.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), PROGRAM, &mut script);
    let written = io::stdout().lock().write_all(&script);
    written.map_err(|error| format!("cannot print: {error}"))
}

/// Writes a man page of the program and of each command.
pub(crate) fn man_pages(directory: &Path) -> Result<(), String> {
    clap_mangen::generate_to(Cli::command(), directory)
        .map_err(|error| format!("{}: {error}", directory.display()))
}
