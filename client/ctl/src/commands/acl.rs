//! Commands about identities and permissions.

use serde_json::{Value, json};
use zoolet_client::{Acl, ClientInfo, ErrorCode};

use super::ended;
use super::walk::Walk;
use super::write::{parse_acl, written};
use crate::args::{AddAuth, GetAcl, SetAcl};
use crate::context::Context;
use crate::error::CtlError;
use crate::format::{acl_json, acl_text, name_text, stat_json, stat_text};
use crate::path;
use crate::progress::Progress;

/// `getAcl [-s] PATH`.
pub(crate) async fn get_acl(arguments: &GetAcl, context: &Context) -> Result<(), CtlError> {
    path::check(&arguments.path)?;
    let read = context.connection.client.acl(&arguments.path);
    let (acl, stat) = context.connection.ask(&arguments.path, read).await?;
    let text = || {
        let mut lines = vec![acl_text(&acl)];
        lines.extend(arguments.stat.then(|| stat_text(&stat)));
        lines.join("\n")
    };
    let json =
        || json!({ "path": arguments.path, "acl": acl_json(&acl), "stat": stat_json(&stat) });
    context.output.result(text, json)
}

/// `setAcl [-s] [-v VERSION] [-R] PATH ACL`.
pub(crate) async fn set_acl(arguments: &SetAcl, context: &Context) -> Result<(), CtlError> {
    path::check(&arguments.path)?;
    let acl = parse_acl(&arguments.acl)?;
    let connection = &context.connection;
    if !arguments.recursive {
        let write = connection.client.set_acl(&arguments.path, acl, arguments.version);
        let stat = connection.ask(&arguments.path, write).await?;
        return written(&arguments.path, &stat, arguments.stat, context);
    }
    let mut count = 0;
    let run = set_all(arguments, &acl, &mut count, context).await;
    let json =
        |complete: bool| json!({ "path": arguments.path, "znodes": count, "complete": complete });
    ended(run, count, context.output, || format!("{count} znodes"), json)
}

/// Writes the ACL of a znode and of everything below it, and counts.
async fn set_all(
    arguments: &SetAcl,
    acl: &[Acl],
    count: &mut usize,
    context: &Context,
) -> Result<(), CtlError> {
    let connection = &context.connection;
    let stopped = |error: CtlError, count: usize| {
        let message = format!("{}; {count} ACLs were written before and stay", error.message);
        CtlError { message, ..error }
    };
    let progress = Progress::spinner("writing ACLs");
    let mut walk = Walk::new(&arguments.path).json(context.output.json);
    loop {
        let found = walk.next(connection).await;
        let Some(found) = found.map_err(|error| stopped(error, *count))? else { break };
        progress.set_message(format!("{count} ACLs written"));
        connection.go_on().map_err(|error| stopped(error, *count))?;
        let write = connection.client.set_acl(&found.path, acl.to_vec(), arguments.version);
        let stat = match connection.ask(&found.path, write).await {
            Ok(stat) => stat,
            // Deleted since it was listed.
            Err(error) if error.code == Some(ErrorCode::NoNode) => continue,
            Err(error) => return Err(stopped(error, *count)),
        };
        *count += 1;
        if arguments.stat {
            let path = name_text(&found.path);
            let text = || format!("{path}\n{}", stat_text(&stat));
            let json = || json!({ "path": found.path, "stat": stat_json(&stat) });
            progress.aside(|| context.output.result(text, json))?;
        }
    }
    Ok(())
}

/// `addauth SCHEME ID`.
pub(crate) async fn add_auth(arguments: &AddAuth, context: &Context) -> Result<(), CtlError> {
    let id = arguments.id.as_deref().unwrap_or_default();
    context.connection.add_auth(&arguments.scheme, id).await?;
    context.output.result(String::new, || json!({ "scheme": arguments.scheme }))
}

/// `whoami`.
pub(crate) async fn whoami(context: &Context) -> Result<(), CtlError> {
    let call = context.connection.client.who_am_i();
    let identities = context.connection.ask("whoami", call).await?;
    let text =
        |identity: &ClientInfo| name_text(&format!("{}: {}", identity.auth_scheme, identity.user));
    let json =
        |identity: &ClientInfo| json!({ "scheme": identity.auth_scheme, "user": identity.user });
    context.output.result(
        || identities.iter().map(text).collect::<Vec<_>>().join("\n"),
        || identities.iter().map(json).collect::<Value>(),
    )
}
