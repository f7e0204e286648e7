//! The number of a server's start. Commands and session ids carry it, so no two starts may share
//! one, and a later start must have the larger, even if the clock was set back in between.

use std::path::Path;

use crate::storage::{Disk, StorageError};

/// The version of the file's format.
const VERSION: u8 = 1;

const FILE_BYTES: usize = 9;

/// Takes the number of this start: the wall clock in milliseconds, or one more than the last
/// start's. It is durable when this returns.
pub(super) fn next(disk: &dyn Disk, directory: &Path, wall_ms: i64) -> Result<u64, StorageError> {
    let path = directory.join("boot");
    let mut last = 0;
    if disk.exists(&path).map_err(StorageError::io("look for", &path))? {
        let file = disk.open(&path).map_err(StorageError::io("open", &path))?;
        let mut bytes = [0; FILE_BYTES];
        let read = file.read_exact_at(&mut bytes, 0);
        read.map_err(|_| StorageError::corrupt(&path, 0, "it is too short"))?;
        let [VERSION, number @ ..] = bytes else {
            let (found, supported) = (u32::from(bytes[0]), u32::from(VERSION));
            return Err(StorageError::NewerFormat { path, found, supported });
        };
        last = u64::from_be_bytes(number);
    }
    let boot = u64::try_from(wall_ms).unwrap_or(0).max(last + 1);
    let temporary = path.with_extension("tmp");
    let file = disk.create(&temporary).map_err(StorageError::io("create", &temporary))?;
    let mut bytes = vec![VERSION];
    bytes.extend(boot.to_be_bytes());
    file.write_all_at(&bytes, 0).map_err(StorageError::io("write", &temporary))?;
    file.sync_data().map_err(StorageError::io("sync", &temporary))?;
    disk.rename(&temporary, &path).map_err(StorageError::io("rename", &temporary))?;
    disk.sync_dir(directory).map_err(StorageError::io("sync", directory))?;
    Ok(boot)
}
