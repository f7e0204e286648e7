//! `snapshot save` and `snapshot status`: backups of an ensemble, by the HTTP port of a server.

mod request;
mod save;
mod status;

use crate::args::{Options, SnapshotCommand};
use crate::error::{CtlError, Exit};
use crate::output::Output;

/// Carries out `snapshot …`, which Ctrl-C interrupts.
pub(crate) async fn run(command: &SnapshotCommand, options: &Options) -> Result<(), CtlError> {
    let output = Output { json: options.json };
    match command {
        SnapshotCommand::Save(arguments) => tokio::select! {
            saved = save::save(arguments, options, output) => saved,
            _ = tokio::signal::ctrl_c() => Err(CtlError::new(Exit::Interrupted, "")),
        },
        SnapshotCommand::Status(arguments) => status::status(&arguments.file, output),
    }
}
