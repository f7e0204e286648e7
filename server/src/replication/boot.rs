//! The number of a server's start. Commands and session ids carry it, so no two starts may share
//! one, and a later start must have the larger, even if the clock was set back in between. What is
//! here can be lost with the disk: the proposer raises the number when the replicated state knows of
//! a later start.

use std::path::{Path, PathBuf};

use crc32c::crc32c;
use zoolet_replica::Boot;
use zoolet_storage::{Disk, StorageError, read_small_file, replace_small_file};

/// The version of the file's format: version, number (8), CRC32C of both (4).
const VERSION: u8 = 2;

/// The version that had no checksum.
const VERSION_WITHOUT_CHECKSUM: u8 = 1;

/// The file in a directory.
pub(super) const FILE_NAME: &str = "boot";

/// Longer files are not read.
const FILE_BYTES_MAX: u64 = 64;

/// Takes the number of this start: the wall clock in milliseconds, or one more than the last
/// start's. It is durable when this returns.
pub(super) fn next(disk: &dyn Disk, directory: &Path, wall_ms: i64) -> Result<Boot, StorageError> {
    let path = directory.join(FILE_NAME);
    let last = last(disk, &path)?;
    let after = last.checked_add(1);
    let after =
        after.ok_or_else(|| StorageError::corrupt(&path, 1, "no number follows its own"))?;
    let boot = Boot(u64::try_from(wall_ms).unwrap_or(0).max(after));
    save(disk, directory, boot)?;
    Ok(boot)
}

/// Writes the number of the start that this one goes on as. It is durable when this returns.
pub(super) fn save(disk: &dyn Disk, directory: &Path, boot: Boot) -> Result<(), StorageError> {
    replace_small_file(disk, directory, FILE_NAME, &encode(boot.0))
}

/// The number of the last start; zero before the first.
fn last(disk: &dyn Disk, path: &Path) -> Result<u64, StorageError> {
    read_small_file(disk, path, FILE_BYTES_MAX)?.map_or(Ok(0), |read| decode(&read, path))
}

fn encode(number: u64) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.extend(number.to_be_bytes());
    bytes.extend(crc32c(&bytes).to_be_bytes());
    bytes
}

fn decode(bytes: &[u8], path: &Path) -> Result<u64, StorageError> {
    let corrupt = |what: &str| StorageError::corrupt(path, 0, what);
    let number = |fields: &[u8]| fields.try_into().map(u64::from_be_bytes);
    match bytes.split_first() {
        Some((&VERSION_WITHOUT_CHECKSUM, fields)) => {
            number(fields).map_err(|_| corrupt("its length is not that of its format"))
        }
        Some((&VERSION, fields)) => {
            let number = fields.split_last_chunk::<4>().and_then(|(fields, _)| number(fields).ok());
            let number = number.ok_or_else(|| corrupt("its length is not that of its format"))?;
            let is_whole = encode(number) == bytes;
            is_whole.then_some(number).ok_or_else(|| corrupt("its checksum is wrong"))
        }
        Some((&version, _)) if version > VERSION => {
            let (path, found, supported) =
                (PathBuf::from(path), u32::from(version), u32::from(VERSION));
            Err(StorageError::NewerFormat { path, found, supported })
        }
        Some(_) | None => Err(corrupt("it does not name its format")),
    }
}
