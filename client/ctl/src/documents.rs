//! What is made from the definition of the command line: completions for shells, and man pages.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use serde_json::json;

use crate::args::Arguments;
use crate::error::CtlError;
use crate::output::{self, Output};

/// The name of the program.
const PROGRAM: &str = "zooletctl";

/// Prints the completions of a shell.
pub(crate) fn completions(shell: Shell, output: Output) -> Result<(), CtlError> {
    // The generator panics if it cannot write, as into a pipe that is closed.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), PROGRAM, &mut script);
    if output.json {
        let script = String::from_utf8_lossy(&script);
        return output
            .result(String::new, || json!({ "shell": shell.to_string(), "script": script }));
    }
    output::bytes(&script)
}

/// Writes a man page of the program and of each command.
pub(crate) fn man_pages(directory: &Path, output: Output) -> Result<(), CtlError> {
    clap_mangen::generate_to(Arguments::command(), directory)?;
    output.result(String::new, || json!({ "directory": directory.display().to_string() }))
}
