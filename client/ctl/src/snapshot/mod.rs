//! `snapshot save`, `status` and `restore`: backups of an ensemble, by the HTTP port of a server.
//!
//! Not here: the restore itself, which works on the directory of a stopped server: `zoolet restore`.

mod request;
mod save;
mod status;

use std::path::Path;

use crate::args::{Options, SnapshotCommand};
use crate::error::{CtlError, Exit};
use crate::interrupt::Interrupt;
use crate::output::Output;

/// Carries out `snapshot …`, which SIGINT and SIGTERM interrupt.
pub(crate) async fn run(command: &SnapshotCommand, options: &Options) -> Result<(), CtlError> {
    let output = Output { json: options.json };
    match command {
        SnapshotCommand::Save(arguments) => {
            let interrupt = Interrupt::receive(output.json)?;
            tokio::select! {
                saved = save::save(arguments, options, output) => saved,
                error = interrupt.comes() => Err(error),
            }
        }
        SnapshotCommand::Status(arguments) => status::status(&arguments.file, output),
        SnapshotCommand::Restore(arguments) => restore(&arguments.file, output),
    }
}

/// `snapshot restore`, where users of etcd look for it: checks the backup, and says how it is
/// restored.
fn restore(file: &Path, output: Output) -> Result<(), CtlError> {
    status::status(file, output)?;
    let message = format!(
        "nothing was restored: stop all servers, and run `zoolet restore --from {} --config \
         cluster.toml --id 1` on the machine of one of them, for an empty data directory",
        file.display()
    );
    let hint = "the backup is good; docs/runbook.md has all steps, those for the other servers too";
    Err(CtlError::new(Exit::NotDone, message).hint(hint))
}
