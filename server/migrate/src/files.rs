//! Which snapshots and logs a directory has, by their names.

use std::path::{Path, PathBuf};
use std::{fs, io};

use zoolet_jute::Zxid;

use crate::MigrateError;
use crate::compression::Compression;

/// Where Apache `ZooKeeper` has its files, below `dataDir` and `dataLogDir`.
pub(crate) const VERSION_DIRECTORY: &str = "version-2";

const SNAPSHOT: &str = "snapshot";
const LOG: &str = "log";
const EPOCH: &str = "currentEpoch";

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotFile {
    /// The last transaction that is in it for certain; later ones may be.
    pub(crate) zxid: Zxid,
    pub(crate) path: PathBuf,
    pub(crate) compression: Compression,
}

/// A transaction log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogFile {
    /// Its first transaction.
    pub(crate) zxid: Zxid,
    pub(crate) path: PathBuf,
}

/// The snapshots in a directory, the newest first. The directory may be `dataDir` or the one below
/// it that holds the files.
pub(crate) fn snapshots(directory: &Path) -> Result<Vec<SnapshotFile>, MigrateError> {
    let mut found = Vec::new();
    for (name, path) in files(directory)? {
        let parts: Vec<&str> = name.split('.').collect();
        let (zxid, compression) = match parts.as_slice() {
            [SNAPSHOT, zxid] => (*zxid, Compression::None),
            [SNAPSHOT, zxid, "gz"] => (*zxid, Compression::Gzip),
            [SNAPSHOT, zxid, "snappy"] => (*zxid, Compression::Snappy),
            _ => continue,
        };
        found.extend(parse(zxid).map(|zxid| SnapshotFile { zxid, path, compression }));
    }
    found.sort_by_key(|file| std::cmp::Reverse(file.zxid));
    Ok(found)
}

/// The logs in a directory, the oldest first.
pub(crate) fn logs(directory: &Path) -> Result<Vec<LogFile>, MigrateError> {
    let of_name = |(name, path): (String, PathBuf)| {
        let zxid = parse(name.strip_prefix(LOG)?.strip_prefix('.')?)?;
        Some(LogFile { zxid, path })
    };
    let mut found: Vec<LogFile> = files(directory)?.into_iter().filter_map(of_name).collect();
    found.sort_by_key(|file| file.zxid);
    Ok(found)
}

/// The last epoch that the server has followed or led, which may have no transaction; zero if it is
/// not known. It is beside the snapshots, in `dataDir`.
pub(crate) fn epoch(directory: &Path) -> Result<u32, MigrateError> {
    let Some((_, path)) = files(directory)?.into_iter().find(|(name, _)| name == EPOCH) else {
        return Ok(0);
    };
    let text = fs::read_to_string(&path).map_err(MigrateError::io("read", &path))?;
    text.trim().parse().map_err(|_| {
        let what = "it is not the number of an epoch".to_owned();
        MigrateError::Damaged { path, offset: 0, what }
    })
}

/// The name of a snapshot.
pub(crate) fn snapshot_name(zxid: Zxid) -> String {
    format!("{SNAPSHOT}.{:x}", zxid.0)
}

fn parse(digits: &str) -> Option<Zxid> {
    let is_plain = !digits.starts_with('+');
    i64::from_str_radix(digits, 16).ok().filter(|zxid| is_plain && *zxid >= 0).map(Zxid)
}

fn files(directory: &Path) -> Result<Vec<(String, PathBuf)>, MigrateError> {
    let below = directory.join(VERSION_DIRECTORY);
    let directory = if below.is_dir() { below.as_path() } else { directory };
    let entry = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.map_err(MigrateError::io("list", directory))?;
        Ok((entry.file_name().into_string(), entry.path()))
    };
    let entries = fs::read_dir(directory).map_err(MigrateError::io("list", directory))?;
    let entries: Result<Vec<_>, MigrateError> = entries.map(entry).collect();
    Ok(entries?.into_iter().filter_map(|(name, path)| Some((name.ok()?, path))).collect())
}
