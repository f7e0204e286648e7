//! Identities in files and in the environment, and who may read such a file.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::args::Identity;
use crate::error::{CtlError, Exit};
use crate::output;

/// The bits of a file's mode that permit reading to its group and to all.
const OTHERS_READ: u32 = 0o044;

/// The longest file that is read, in bytes.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads a file with an identity a line. Empty lines and those that start with `#` are passed over.
pub(super) fn read(file: &Path, json: bool) -> Result<Vec<Identity>, CtlError> {
    let text = read_text(file)?;
    warn_if_others_read(file, json);
    let identities = parse(&text, &file.display().to_string())?;
    if identities.is_empty() {
        let message = format!("{}: no identity: expected a line SCHEME:ID", file.display());
        return Err(CtlError::new(Exit::InvalidInput, message));
    }
    Ok(identities)
}

/// Takes the identities of a text. An error names the line, and not what is on it.
pub(super) fn parse(text: &str, source: &str) -> Result<Vec<Identity>, CtlError> {
    let mut identities = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if !is_identity(line) {
            let message = format!(
                "line {number} of {source} has no scheme: expected SCHEME:ID, such as \
                 digest:user:password"
            );
            return Err(CtlError::new(Exit::InvalidInput, message));
        }
        identities.push(Identity(line.to_owned()));
    }
    Ok(identities)
}

/// Whether a text is `SCHEME:ID`.
pub(super) fn is_identity(text: &str) -> bool {
    text.split_once(':').is_some_and(|(scheme, _)| !scheme.is_empty())
}

/// Reads a file of text, up to a length that none of them has.
pub(super) fn read_text(file: &Path) -> Result<String, CtlError> {
    let failed = |error: io::Error| {
        let is_text = error.kind() != io::ErrorKind::InvalidData;
        let why = if is_text { error.to_string() } else { "it is not UTF-8".to_owned() };
        CtlError::new(Exit::Io, format!("{}: {why}", file.display()))
    };
    let mut text = String::new();
    let opened = File::open(file).map_err(failed)?;
    opened.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        let message = format!("{}: it is longer than {FILE_BYTES_MAX} bytes", file.display());
        return Err(CtlError::new(Exit::InvalidInput, message));
    }
    Ok(text)
}

/// Warns of a file with passwords that other users of the machine may read. A pipe has no such mode.
pub(super) fn warn_if_others_read(file: &Path, json: bool) {
    let Ok(metadata) = fs::metadata(file) else { return };
    let mode = metadata.permissions().mode() & 0o777;
    if metadata.is_file() && mode & OTHERS_READ != 0 {
        let name = file.display();
        output::warn(
            &format!(
                "{name}: other users may read the credentials in it (mode {mode:04o}): run \
                 `chmod 600 {name}`"
            ),
            json,
        );
    }
}
