//! `locks`: who holds what below a path, and who waits for how long.

mod clients;
mod family;
mod print;
mod queue;
mod scan;

use zoolet_client::{Connector, TcpConnector};

use crate::args::{Locks, Options};
use crate::commands::Context;
use crate::error::CtlError;
use crate::path;

pub(crate) use family::{Family, Role, parse};
pub(crate) use print::data_shown;
pub(crate) use queue::{Lock, Member};
pub(crate) use scan::at;

/// `locks [PATH]`.
pub(crate) async fn run(
    arguments: &Locks,
    options: &Options,
    context: &Context,
) -> Result<(), CtlError> {
    path::check(&arguments.path)?;
    let found = scan::scan(&arguments.path, arguments.all, &context.connection).await?;
    let mut clients = clients::Clients::default();
    if !found.is_empty() {
        let tls = options.tls.connector()?;
        let connector: &dyn Connector = tls.as_ref().map_or(&TcpConnector, |tls| tls);
        clients.ask(options.connect_string(), connector).await;
    }
    if context.output.json {
        return context.output.result(String::new, || print::json(&found, &clients));
    }
    clients.complain();
    context.output.result(|| print::text(&found, &clients), Default::default)
}
