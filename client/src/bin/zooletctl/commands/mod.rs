//! The commands of the shell and of the command line alike.

mod acl;
mod read;
mod walk;
mod write;

use crate::args::ZnodeCommand;
use crate::connection::Connection;
use crate::error::CtlError;
use crate::output::Output;

/// Where a command runs.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) connection: Connection,
    pub(crate) output: Output,
}

/// Carries out one command.
pub(crate) async fn run(command: &ZnodeCommand, context: &Context) -> Result<(), CtlError> {
    match command {
        ZnodeCommand::AddAuth(arguments) => acl::add_auth(arguments, context).await,
        ZnodeCommand::Create(arguments) => write::create(arguments, context).await,
        ZnodeCommand::Delete(arguments) => write::delete(arguments, context).await,
        ZnodeCommand::DeleteAll(arguments) => write::delete_all(arguments, context).await,
        ZnodeCommand::Get(arguments) => read::get(arguments, context).await,
        ZnodeCommand::GetAcl(arguments) => acl::get_acl(arguments, context).await,
        ZnodeCommand::GetAllChildrenNumber(arguments) => {
            read::descendants(arguments, context).await
        }
        ZnodeCommand::GetEphemerals { prefix } => {
            read::ephemerals(prefix.as_deref(), context).await
        }
        ZnodeCommand::Ls(arguments) => read::ls(arguments, context).await,
        ZnodeCommand::Set(arguments) => write::set(arguments, context).await,
        ZnodeCommand::SetAcl(arguments) => acl::set_acl(arguments, context).await,
        ZnodeCommand::Stat(arguments) => read::stat(arguments, context).await,
        ZnodeCommand::Sync(arguments) => read::sync(arguments, context).await,
        ZnodeCommand::Tree(arguments) => read::tree(arguments, context).await,
        ZnodeCommand::Whoami => acl::whoami(context).await,
    }
}
