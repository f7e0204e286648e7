//! Files that are read and written as a whole: an identity, a number, a mark.

use std::path::Path;

use crate::{Disk, StorageError};

/// Returns the first `bytes_max` bytes of a file; `None` if there is none. Blocks.
pub fn read_small_file(
    disk: &dyn Disk,
    path: &Path,
    bytes_max: u64,
) -> Result<Option<Vec<u8>>, StorageError> {
    if !disk.exists(path).map_err(StorageError::io("look for", path))? {
        return Ok(None);
    }
    let file = disk.open(path).map_err(StorageError::io("open", path))?;
    let bytes = file.bytes().map_err(StorageError::io("measure", path))?;
    let mut read = vec![0; usize::try_from(bytes.min(bytes_max)).unwrap_or(0)];
    file.read_exact_at(&mut read, 0).map_err(StorageError::io("read", path))?;
    Ok(Some(read))
}

/// Writes a file of this name in a directory, in place of the one that is there: after a power cut
/// there is the old one or the new one. The new one is durable when this returns. Blocks.
pub fn replace_small_file(
    disk: &dyn Disk,
    directory: &Path,
    name: &str,
    bytes: &[u8],
) -> Result<(), StorageError> {
    let path = directory.join(name);
    let temporary = path.with_extension("tmp");
    let file = disk.create(&temporary).map_err(StorageError::io("create", &temporary))?;
    file.write_all_at(bytes, 0).map_err(StorageError::io("write", &temporary))?;
    file.sync_data().map_err(StorageError::io("sync", &temporary))?;
    disk.rename(&temporary, &path).map_err(StorageError::io("rename", &temporary))?;
    disk.sync_dir(directory).map_err(StorageError::io("sync", directory))
}
