//! `snapshot save`: the file has its name only when the whole snapshot is in it, and durable.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use hyper::Response;
use hyper::body::Incoming;
use serde_json::json;
use tempfile::NamedTempFile;
use zoolet_storage::SnapshotReader;

use super::request::{ask, next_piece};
use crate::args::{Options, SnapshotSave};
use crate::error::{CtlError, Exit};
use crate::http::{Endpoint, IDENTITY, first_reached, identity_of};
use crate::output::Output;

const NO_IDENTITY: &str =
    "a snapshot holds every znode, so the server wants to know whose it will be";

/// `snapshot save`.
pub(super) async fn save(
    arguments: &SnapshotSave,
    options: &Options,
    output: Output,
) -> Result<(), CtlError> {
    let endpoints = Endpoint::parse_all(&arguments.from, "snapshot")?;
    let identity = identity_of(options)
        .ok_or_else(|| CtlError::new(Exit::InvalidInput, NO_IDENTITY).hint(IDENTITY))?;
    if !arguments.force && arguments.file.symlink_metadata().is_ok() {
        let message = format!("{}: it exists already", arguments.file.display());
        return Err(CtlError::new(Exit::Io, message).hint("--force replaces it"));
    }
    // Whatever ends this, the file goes with it. Only its owner may read it.
    let directory = directory_of(&arguments.file);
    let mut file = tempfile::Builder::new().prefix(".snapshot-").tempfile_in(directory)?;
    let (endpoint, answer) =
        first_reached(&endpoints, |endpoint| ask(endpoint, &identity, options)).await?;
    let said = answer.headers().get("last_zxid").and_then(|zxid| zxid.to_str().ok());
    let said = said.unwrap_or_default().to_owned();
    let bytes = receive(answer, &mut file).await.map_err(|error| CtlError {
        message: format!("{}: {}", endpoint.authority, error.message),
        ..error
    })?;
    let (zxid, digest) = check(file.path(), &said)?;
    persist(file, &arguments.file, arguments.force)?;
    let path = arguments.file.display().to_string();
    output.result(
        || {
            format!(
                "saved {path}: {bytes} bytes, up to zxid {zxid:#x}, from {}",
                endpoint.authority
            )
        },
        || {
            json!({
                "file": path, "bytes": bytes, "zxid": format!("{zxid:#x}"),
                "digest": format!("{digest:#018x}"), "from": endpoint.authority,
            })
        },
    )
}

/// Writes what comes to a file, durably. Returns its length.
async fn receive(answer: Response<Incoming>, file: &mut NamedTempFile) -> Result<u64, CtlError> {
    let (mut body, mut received) = (answer.into_body(), 0);
    let cut =
        |why: String| CtlError::new(Exit::Connection, why).hint("nothing was saved: try again");
    while let Some(bytes) = next_piece(&mut body).await.map_err(cut)? {
        file.write_all(&bytes)?;
        received += bytes.len() as u64;
    }
    file.as_file().sync_all()?;
    Ok(received)
}

/// Reads the file from its beginning to its end, and finds each byte that is not what was sent.
fn check(path: &Path, said: &str) -> Result<(u64, u64), CtlError> {
    let wrong = |why: String| {
        let error = CtlError::new(Exit::Failed, format!("what was sent is not whole: {why}"));
        error.hint("nothing was saved: try again")
    };
    let reader = SnapshotReader::open_file(path).map_err(|error| wrong(error.to_string()))?;
    let summary = reader.verify().map_err(|error| wrong(error.to_string()))?;
    let zxid = reader.name().zxid;
    if !said.is_empty() && said != format!("{zxid:#x}") {
        return Err(wrong(format!("it goes up to {zxid:#x}, and the server named {said}")));
    }
    Ok((zxid, summary.digest))
}

fn persist(file: NamedTempFile, path: &Path, force: bool) -> Result<(), CtlError> {
    let named = if force { file.persist(path) } else { file.persist_noclobber(path) };
    named.map_err(|failed| {
        CtlError::new(Exit::Io, format!("{}: {}", path.display(), failed.error))
    })?;
    Ok(File::open(directory_of(path))?.sync_all()?)
}

/// The directory of a file, which may be the one that the program runs in.
fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_no_directory_is_in_the_current_one() {
        for (path, directory) in [("x", "."), ("a/x", "a"), ("/x", "/"), ("./x", ".")] {
            assert_eq!(directory_of(Path::new(path)), Path::new(directory), "{path}");
        }
    }
}
