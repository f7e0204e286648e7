//! `locks`: who holds what below a path, and who waits for how long.

mod clients;
mod graph;
mod keys;
mod print;
mod release;
mod watch;

use zoolet_survey::locks::{self, Limits, Lock, Scope};

use crate::args::{Locks, Options};
use crate::connection::Connection;
use crate::context::Context;
use crate::error::{CtlError, Exit};
use crate::path;
use crate::progress::Progress;
use clients::Clients;

pub(crate) use print::data_shown;
pub(crate) use watch::run as watch;

/// `locks [PATH]`, `locks --graph [PATH]`, `locks --release LOCK`.
pub(crate) async fn run(
    arguments: &Locks,
    options: &Options,
    context: &Context,
) -> Result<(), CtlError> {
    tokio::select! {
        done = show(arguments, options, context) => done,
        error = context.connection.interrupt.comes() => Err(error),
    }
}

async fn show(arguments: &Locks, options: &Options, context: &Context) -> Result<(), CtlError> {
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
    let found = scan(&arguments.path, arguments.all, &context.connection).await?;
    let clients = Clients::of(&found, options).await?;
    if context.output.json {
        return context.output.result(String::new, || print::json(&found, &clients));
    }
    clients.complain();
    context.output.result(|| print::text(&found, arguments.all, &clients), Default::default)
}

/// Returns all locks at a path and below. With `all` also the queues of unknown clients.
async fn scan(top: &str, all: bool, connection: &Connection) -> Result<Vec<Lock>, CtlError> {
    let progress = spinner();
    Ok(locks::scan(scope(top, all), &connection.reader(), progress).await?.locks)
}

/// Returns the lock at a path, without a look at what else is below it; `None` if its queue is empty.
pub(crate) async fn at(path: &str, connection: &Connection) -> Result<Option<Lock>, CtlError> {
    Ok(locks::at(path, &connection.reader()).await?)
}

/// Everything below a path.
fn scope(top: &str, all: bool) -> Scope<'_> {
    Scope { top, all, limits: Limits::NONE }
}

/// Shows how far the look at locks is.
fn spinner() -> impl FnMut(usize, usize) {
    let progress = Progress::spinner("looking for locks");
    move |seen, found| progress.set_message(format!("{seen} znodes, {found} with locks"))
}
