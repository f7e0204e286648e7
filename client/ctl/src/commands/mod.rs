//! The commands of the shell and of the command line alike.

mod acl;
mod edit;
mod ensemble;
mod quota;
mod read;
mod revoke;
mod subtree;
mod txn;
mod walk;
mod watch;
mod write;

use serde_json::Value;

use crate::args::ZnodeCommand;
use crate::context::Context;
use crate::error::CtlError;
use crate::output::Output;

pub(crate) use read::check_form;
pub(crate) use watch::{Watch, Watches, event_json, event_text};

/// Prints the result of work on many znodes. If it has stopped before its end, the count of what was
/// done is the result all the same, where programs look for it; people find it in the message.
fn ended(
    run: Result<(), CtlError>,
    done: usize,
    output: Output,
    text: impl FnOnce() -> String,
    json: impl FnOnce(bool) -> Value,
) -> Result<(), CtlError> {
    match run {
        Ok(()) => output.result(text, || json(true)),
        Err(error) => {
            if done > 0 || error.is_interrupt() {
                output.result(String::new, || json(false))?;
            }
            Err(error)
        }
    }
}

/// Carries out one command. Returns the watches that it has left.
pub(crate) async fn run(command: &ZnodeCommand, context: &Context) -> Result<Vec<Watch>, CtlError> {
    let done = match command {
        ZnodeCommand::AddWatch(arguments) => {
            return watch::add_watch(arguments, context).await.map(|watch| vec![watch]);
        }
        ZnodeCommand::Config(arguments) => {
            return ensemble::config(arguments, context).await.map(Vec::from_iter);
        }
        ZnodeCommand::Get(arguments) => {
            return read::get(arguments, context).await.map(Vec::from_iter);
        }
        ZnodeCommand::Ls(arguments) => return read::ls(arguments, context).await,
        ZnodeCommand::Stat(arguments) => {
            return read::stat(arguments, context).await.map(Vec::from_iter);
        }
        ZnodeCommand::AddAuth(arguments) => acl::add_auth(arguments, context).await,
        ZnodeCommand::Cp(arguments) => subtree::copy(arguments, context).await,
        ZnodeCommand::Create(arguments) => write::create(arguments, context).await,
        ZnodeCommand::Delete(arguments) => write::delete(arguments, context).await,
        ZnodeCommand::DeleteAll(arguments) => write::delete_all(arguments, context).await,
        ZnodeCommand::DeleteQuota(arguments) => quota::delete(arguments, context).await,
        ZnodeCommand::Diff(arguments) => subtree::diff(arguments, context).await,
        ZnodeCommand::Edit(arguments) => edit::edit(arguments, context).await,
        ZnodeCommand::Find(arguments) => subtree::find(arguments, context).await,
        ZnodeCommand::GetAcl(arguments) => acl::get_acl(arguments, context).await,
        ZnodeCommand::GetAllChildrenNumber(arguments) => {
            read::descendants(arguments, context).await
        }
        ZnodeCommand::GetEphemerals { prefix } => {
            read::ephemerals(prefix.as_deref(), context).await
        }
        ZnodeCommand::ListQuota(arguments) => quota::list(arguments, context).await,
        ZnodeCommand::Mv(arguments) => subtree::relocate(arguments, context).await,
        ZnodeCommand::Reconfig(arguments) => ensemble::reconfig(arguments, context).await,
        ZnodeCommand::RemoveWatches(arguments) => watch::remove_watches(arguments, context).await,
        ZnodeCommand::Revoke(arguments) => revoke::revoke(arguments, context).await,
        ZnodeCommand::Set(arguments) => write::set(arguments, context).await,
        ZnodeCommand::SetAcl(arguments) => acl::set_acl(arguments, context).await,
        ZnodeCommand::SetQuota(arguments) => quota::set(arguments, context).await,
        ZnodeCommand::Sync(arguments) => read::sync(arguments, context).await,
        ZnodeCommand::Tree(arguments) => read::tree(arguments, context).await,
        ZnodeCommand::Txn(arguments) => txn::txn(arguments, context).await,
        ZnodeCommand::Whoami => acl::whoami(context).await,
    };
    done.map(|()| Vec::new())
}
