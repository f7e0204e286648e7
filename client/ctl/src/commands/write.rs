//! Commands that write.

use std::cell::Cell;
use std::fs;
use std::future::ready;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use serde_json::json;
use zoolet_client::{Acl, CreateMode, ErrorCode, Id, Stat, Version};
use zoolet_survey::permissions;

use super::ended;
use super::walk::{REQUESTS_MAX, levels};
use crate::args::{Create, Data, Delete, DeleteAll, Set};
use crate::context::Context;
use crate::error::{CtlError, Exit, NO_ROOT};
use crate::format::{base64_bytes, name_text, stat_json, stat_text};
use crate::path;
use crate::progress::Progress;

/// `create [-s] [-e] [-c] [-t TTL] PATH [DATA] [ACL]`.
pub(crate) async fn create(arguments: &Create, context: &Context) -> Result<(), CtlError> {
    arguments.check_path()?;
    let acl = arguments.acl.as_deref().map_or_else(|| Ok(Acl::open()), parse_acl)?;
    let data = arguments.data.bytes()?;
    let (client, path) = (&context.connection.client, &arguments.path);
    let mode = create_mode(arguments);
    let created = match arguments.ttl_ms {
        Some(ttl_ms) => {
            let ttl = Duration::from_millis(ttl_ms);
            context.connection.ask(path, client.create_with_ttl(path, &data, acl, mode, ttl)).await
        }
        None => context.connection.ask(path, client.create_with_acl(path, &data, acl, mode)).await,
    };
    let (path, stat) = created.map_err(|error| match error.code {
        Some(ErrorCode::NoNode) => {
            let hint = (path.rfind('/') == Some(0)).then_some(NO_ROOT);
            CtlError { message: format!("{path}: its parent does not exist"), hint, ..error }
        }
        Some(ErrorCode::Unimplemented) if arguments.ttl_ms.is_some() => error.hint(
            "times to live are off by default: `znodes.ttl_enabled` in cluster.toml, \
             `extendedTypesEnabled` in zoo.cfg",
        ),
        _ => error,
    })?;
    let json = || json!({ "path": path, "stat": stat_json(&stat) });
    context.output.result(|| format!("Created {}", name_text(&path)), json)
}

impl Create {
    pub(super) fn check_path(&self) -> Result<(), CtlError> {
        // The name of a sequential znode may be its number alone.
        match self.path.strip_suffix('/') {
            Some(parent) if self.sequential && !parent.is_empty() => path::check(parent),
            Some("") if self.sequential => Ok(()),
            _ => path::check(&self.path),
        }
    }
}

pub(super) fn create_mode(arguments: &Create) -> CreateMode {
    match arguments {
        Create { container: true, .. } => CreateMode::Container,
        Create { ephemeral: true, sequential: true, .. } => CreateMode::EphemeralSequential,
        Create { ephemeral: true, .. } => CreateMode::Ephemeral,
        Create { ttl_ms: Some(_), sequential: true, .. } => CreateMode::PersistentSequentialWithTtl,
        Create { ttl_ms: Some(_), .. } => CreateMode::PersistentWithTtl,
        Create { sequential: true, .. } => CreateMode::PersistentSequential,
        Create { .. } => CreateMode::Persistent,
    }
}

/// `set [-s] [-v VERSION] [-b] PATH DATA`.
pub(crate) async fn set(arguments: &Set, context: &Context) -> Result<(), CtlError> {
    path::check(&arguments.path)?;
    let data = data_to_set(arguments)?;
    let version = arguments.old_version.unwrap_or(arguments.version);
    let write = context.connection.client.set_data(&arguments.path, &data, version);
    let stat = context.connection.ask(&arguments.path, write).await?;
    written(&arguments.path, &stat, arguments.stat, context)
}

/// The bytes that `set` is to write.
pub(super) fn data_to_set(arguments: &Set) -> Result<Vec<u8>, CtlError> {
    if arguments.data.data.is_none() && arguments.data.file.is_none() {
        let error = CtlError::new(Exit::Usage, "set needs DATA or --file FILE");
        return Err(error.hint("set PATH \"\" writes no bytes at all"));
    }
    let data = arguments.data.bytes()?;
    if !arguments.base64 {
        return Ok(data);
    }
    base64_bytes(&data).map_err(|why| {
        CtlError::new(Exit::InvalidInput, format!("the data is not in base64: {why}"))
    })
}

/// Prints the Stat after a write, if that is asked for.
pub(crate) fn written(
    path: &str,
    stat: &Stat,
    with_stat: bool,
    context: &Context,
) -> Result<(), CtlError> {
    let text = || if with_stat { stat_text(stat) } else { String::new() };
    context.output.result(text, || json!({ "path": path, "stat": stat_json(stat) }))
}

/// `delete [-v VERSION] PATH`.
pub(crate) async fn delete(arguments: &Delete, context: &Context) -> Result<(), CtlError> {
    path::check(&arguments.path)?;
    let version = arguments.old_version.unwrap_or(arguments.version);
    let delete = context.connection.client.delete(&arguments.path, version);
    context.connection.ask(&arguments.path, delete).await.map_err(|error| match error.code {
        Some(ErrorCode::BadArguments) => error.hint("this znode cannot be deleted"),
        _ => error,
    })?;
    context
        .output
        .result(String::new, || json!({ "path": arguments.path, "deleted": 1, "complete": true }))
}

/// `deleteall [-b DELETES] PATH`: a znode and everything below it, the deepest first.
pub(crate) async fn delete_all(arguments: &DeleteAll, context: &Context) -> Result<(), CtlError> {
    path::check(&arguments.path)?;
    if arguments.path == "/" {
        let error = CtlError::new(Exit::InvalidInput, "/ cannot be deleted");
        return Err(error.hint("delete what is below it, each by its path"));
    }
    let connection = &context.connection;
    let json = |deleted: usize, complete: bool| json!({ "path": arguments.path, "deleted": deleted, "complete": complete });
    let levels = match levels(&arguments.path, connection).await {
        Err(error) if error.is_interrupt() => {
            let message = format!("{}: nothing was deleted", error.message);
            let run = Err(CtlError { message, ..error });
            return ended(run, 0, context.output, String::new, |complete| json(0, complete));
        }
        levels => levels?,
    };
    let all: usize = levels.iter().map(Vec::len).sum();
    let progress = Progress::steps("deleting", all);
    let delete = async |path: &String| {
        connection.go_on()?;
        let deleted = match connection.ask(path, connection.client.delete(path, Version::Any)).await
        {
            Err(error) if error.code == Some(ErrorCode::NoNode) => Ok(0),
            deleted => deleted.map(|()| 1),
        };
        progress.advance(1);
        deleted
    };
    let at_a_time = arguments.batch.unwrap_or(REQUESTS_MAX);
    let (mut deleted, mut unanswered, mut run) = (0, 0, Ok(()));
    for level in levels.iter().rev() {
        let has_failed = Cell::new(false);
        // Those that are under way behind a failure are counted, and no more are sent.
        let paths = stream::iter(level).take_while(|_| ready(!has_failed.get()));
        let mut deletes = pin!(paths.map(delete).buffer_unordered(at_a_time));
        while let Some(one) = deletes.next().await {
            match one {
                Ok(one) => deleted += one,
                Err(error) => {
                    has_failed.set(true);
                    unanswered += usize::from(error.is_transient);
                    run = run.and(Err(error));
                }
            }
        }
        if run.is_err() {
            break;
        }
    }
    drop(progress);
    let run = run.map_err(|error| {
        let more = match unanswered {
            0 => String::new(),
            more => format!(", and {more} more may have been"),
        };
        let message =
            format!("{}; {deleted} of {all} znodes were deleted before{more}", error.message);
        CtlError { message, ..error }
    });
    ended(run, deleted, context.output, String::new, |complete| json(deleted, complete))
}

impl Data {
    /// The bytes that are to be written; none when nothing is given.
    pub(super) fn bytes(&self) -> Result<Vec<u8>, CtlError> {
        match (&self.data, &self.file) {
            (Some(data), _) => Ok(data.as_bytes().to_vec()),
            (None, Some(file)) => read_file(file),
            (None, None) => Ok(Vec::new()),
        }
    }
}

fn read_file(file: &Path) -> Result<Vec<u8>, CtlError> {
    let mut bytes = Vec::new();
    let read = match file.to_str() {
        Some("-") => io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes),
        _ => fs::read(file),
    };
    read.map_err(|error| CtlError::new(Exit::Io, format!("{}: {error}", file.display())))
}

/// The schemes that servers have.
const SCHEMES: [&str; 6] = ["auth", "digest", "ip", "sasl", "world", "x509"];

/// Parses an ACL: `SCHEME:ID:PERMISSIONS` with commas between. An id may have colons, and commas
/// as the name of a certificate has, which zkCli does not take.
pub(crate) fn parse_acl(text: &str) -> Result<Vec<Acl>, CtlError> {
    let wrong = |entry: &str, why: &str| {
        CtlError::new(Exit::InvalidInput, format!("ACL {entry:?} {why}"))
            .hint("an ACL is a list of SCHEME:ID:PERMISSIONS, such as world:anyone:cdrwa")
    };
    let parse = |entry: &str| {
        let (scheme, rest) = entry
            .split_once(':')
            .filter(|(scheme, _)| !scheme.contains(','))
            .ok_or_else(|| wrong(entry, "has no scheme and id"))?;
        let (id, letters) = rest.rsplit_once(':').ok_or_else(|| wrong(entry, "has no id"))?;
        let why = "has permissions other than c, d, r, w and a";
        let bits = permissions::parse(letters).ok_or_else(|| wrong(entry, why))?;
        Ok(Acl { perms: bits, id: Id::new(scheme, id) })
    };
    acl_entries(text).into_iter().map(str::trim).map(parse).collect()
}

/// Splits an ACL at the commas that are not part of an id.
fn acl_entries(text: &str) -> Vec<&str> {
    let (mut entries, mut begin) = (Vec::new(), 0);
    for (comma, _) in text.match_indices(',') {
        let entry = text.get(begin..comma).unwrap_or_default();
        let rest = text.get(comma + 1..).unwrap_or_default();
        if !is_in_id(entry, rest) {
            entries.push(entry);
            begin = comma + 1;
        }
    }
    entries.push(text.get(begin..).unwrap_or_default());
    entries
}

/// Whether the id goes on behind a comma: a part of a certificate's name follows, such as
/// `O=Example`, or the entry has no permissions yet and no other entry follows.
fn is_in_id(entry: &str, rest: &str) -> bool {
    let next = rest.split([':', ',']).next().unwrap_or_default().trim();
    let is_complete = entry.matches(':').count() >= 2;
    next.contains('=') || (!is_complete && !SCHEMES.contains(&next))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::acl_text;

    #[test]
    fn an_acl_is_read_as_it_is_printed() {
        for (text, entries) in [
            ("world:anyone:cdrwa", 1),
            ("digest:u:abc=:r,ip:10.0.0.0/8:cw", 2),
            ("auth::cdrwa", 1),
            ("ip:10.0.0.1:,world:anyone:r", 2),
            ("x509:CN=alice,O=Example:cdrwa", 1),
            ("x509:CN=alice,OU=a,O=Example:cdra,world:anyone:r,x509:CN=b,O=c:w", 3),
            ("x509:CN=ab:cd,O=Example:r,sasl:bob:w", 2),
            ("digest:a,b:abc=:r,own:id:w", 2),
        ] {
            let acl = parse_acl(text).unwrap();
            assert_eq!((acl_text(&acl).as_str(), acl.len()), (text, entries));
        }
        let spaced = parse_acl("x509:CN=alice,O=Example:r, world:anyone:w ").unwrap();
        assert_eq!(acl_text(&spaced), "x509:CN=alice,O=Example:r,world:anyone:w");
        for (bad, named) in [
            ("", "\"\""),
            ("world", "\"world\""),
            ("world:anyone", "\"world:anyone\""),
            ("world:anyone:x", "\"world:anyone:x\""),
            ("world:anyone:x,ip:10.0.0.1:r", "\"world:anyone:x\""),
            ("sasl:bob,ip:10.0.0.1:r", "\"sasl:bob\""),
            ("a:b:r,", "\"\""),
            ("x509:CN=alice,O=Example", "\"x509:CN=alice,O=Example\""),
            ("a:b:r,world,c:d:r", "\"world,c:d:r\""),
        ] {
            let error = parse_acl(bad).unwrap_err();
            assert_eq!(error.exit, Exit::InvalidInput, "{bad}");
            assert!(error.message.contains(named), "{bad}: {error}");
        }
    }
}
