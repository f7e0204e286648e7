//! `locks`: who holds what below a path, and who waits for how long.

mod clients;
mod graph;
mod keys;
mod print;
mod release;
mod scan;
mod watch;

use crate::args::{Locks, Options};
use crate::context::Context;
use crate::error::{CtlError, Exit};
use crate::path;
use clients::Clients;

pub(crate) use print::data_shown;
pub(crate) use scan::at;
pub(crate) use watch::run as watch;

/// `locks [PATH]`, `locks --graph [PATH]`, `locks --release LOCK`.
pub(crate) async fn run(
    arguments: &Locks,
    options: &Options,
    context: &Context,
) -> Result<(), CtlError> {
    if let Some(lock) = &arguments.release {
        return release::run(lock, arguments, options, context).await;
    }
    if arguments.watch {
        let message = "--watch is for a command line of its own: zooletctl locks --watch";
        return Err(CtlError::new(Exit::Usage, message));
    }
    path::check(&arguments.path)?;
    if arguments.graph {
        return graph::run(arguments, options, context).await;
    }
    let found = scan::scan(&arguments.path, arguments.all, &context.connection).await?;
    let clients = Clients::of(&found, options).await?;
    if context.output.json {
        return context.output.result(String::new, || print::json(&found, &clients));
    }
    clients.complain();
    context.output.result(|| print::text(&found, &clients), Default::default)
}
