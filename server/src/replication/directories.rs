//! The directories of a server: one for everything, or a second one for the log, mostly on a disk of
//! its own (`dataLogDir`).
//!
//! A server must never start beside its log: it would have forgotten its votes and what it has
//! acknowledged. So both directories carry the identity, the log's being written first.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zoolet_storage::{DataDir, Disk, Identity, StorageError};

use super::boot;
use super::founding::{AcceptorFile, FILE_NAME as FOUNDING};
use super::join_error::JoinError;
use super::options::ReplicationOptions;
use crate::fatal::Fatal;
use crate::loss_mark::{self, LossMark};

/// Where Apache `ZooKeeper` has its log and its snapshots.
const APACHE_DATA: &str = "version-2";

/// The directory of the history, in the data directory.
const HISTORY: &str = "history";

/// The directories, locked as long as this lives.
#[derive(Debug)]
pub(super) struct Directories {
    pub(super) data: DataDir,
    /// Where the log is, if not in `data`.
    log: Option<DataDir>,
}

impl Directories {
    pub(super) fn open(options: &ReplicationOptions) -> Result<Self, JoinError> {
        if !options.autocreate.data_dir {
            for path in [&options.directory, &options.log_directory] {
                if !options.disk.exists(path).map_err(StorageError::io("look for", path))? {
                    return Err(JoinError::DirectoryMissing(path.clone()));
                }
            }
        }
        Ok(Self::at(&options.disk, &options.directory, &options.log_directory)?)
    }

    /// Locks the directories, which are created if need be. Both may be the same.
    pub(super) fn at(disk: &Arc<dyn Disk>, data: &Path, log: &Path) -> Result<Self, StorageError> {
        let open = |path: &Path| DataDir::open(Arc::clone(disk), path);
        let log = (log != data).then_some(log);
        Ok(Self { data: open(data)?, log: log.map(open).transpose()? })
    }

    /// Where the log is.
    pub(super) fn wal_path(&self) -> PathBuf {
        self.of_log().wal_path()
    }

    /// Opens the file of the agreement on the founding, which is beside the log: who loses the log
    /// loses what it has promised with it.
    pub(super) fn acceptor(&self) -> Result<AcceptorFile, StorageError> {
        let beside = self.of_log();
        AcceptorFile::open(beside.disk(), beside.path().to_path_buf())
    }

    /// Refuses a log that is marked as lacking what the server has acknowledged; the mark is beside it.
    pub(super) fn refuse_loss(&self) -> Result<(), JoinError> {
        let beside = self.of_log();
        match loss_mark::read(&*beside.disk(), beside.path())? {
            Some((mark, why)) => Err(JoinError::LostEntries { mark, why }),
            None => Ok(()),
        }
    }

    /// Returns what makes that mark.
    pub(super) fn loss_mark(&self, fatal: Fatal) -> LossMark {
        let beside = self.of_log();
        LossMark::new(beside.disk(), beside.path(), fatal)
    }

    /// The directory in which the log is.
    fn of_log(&self) -> &DataDir {
        self.log.as_ref().unwrap_or(&self.data)
    }

    /// Returns whose the directories are; `None` before the first start. A crash may have left the
    /// founding in one of the two only.
    pub(super) fn identity(&self) -> Result<Option<Identity>, StorageError> {
        let data = Identity::read(&self.data)?;
        let log = self.log.as_ref().map(Identity::read).transpose()?.flatten();
        let founding = [data, log].into_iter().flatten().map(|known| known.founding).max();
        let known = data.or(log);
        Ok(known.map(|known| Identity { founding: founding.unwrap_or(0), ..known }))
    }

    /// Writes the identity to all directories. It is durable when this returns.
    pub(super) fn write(&self, identity: Identity) -> Result<(), StorageError> {
        let mut directories = self.log.as_ref().into_iter().chain([&self.data]);
        directories.try_for_each(|directory| identity.write(directory))
    }

    /// Makes the directories this server's at the first start, and refuses another server's, a log
    /// that is missing or not where it should be, and the data of an Apache `ZooKeeper`: its clients
    /// would find an empty tree.
    pub(super) fn claim(&self, identity: Identity) -> Result<(), JoinError> {
        self.refuse_misplaced_data()?;
        if self.lacks_log()? && !planted!("vanished-log-is-overlooked") {
            let (directory, expected) = (self.data.path().to_owned(), self.wal_path());
            return Err(JoinError::LogMissing { directory, expected });
        }
        self.take(identity)
    }

    /// Claims the directories for a new ensemble: the log may be missing. The identity, which has a
    /// new founding, is durable before there is a log, or else that would pass for the old one.
    pub(super) fn claim_without_log(&self, identity: Identity) -> Result<(), JoinError> {
        self.refuse_misplaced_data()?;
        self.take(identity)?;
        Ok(self.write(identity)?)
    }

    fn take(&self, identity: Identity) -> Result<(), JoinError> {
        if let Some(log) = &self.log {
            identity.claim(log)?;
        } else {
            let (disk, inside) = (self.data.disk(), self.data.wal_path());
            disk.create_dir_all(&inside).map_err(StorageError::io("create", &inside))?;
        }
        Ok(identity.claim(&self.data)?)
    }

    fn refuse_misplaced_data(&self) -> Result<(), JoinError> {
        if Identity::read(&self.data)?.is_none() {
            self.refuse_apache_data()?;
            self.refuse_lost_identity()?;
        }
        if let Some(log) = &self.log {
            let found = self.data.wal_path();
            let disk = self.data.disk();
            if disk.exists(&found).map_err(StorageError::io("look for", &found))? {
                return Err(JoinError::LogElsewhere { found, expected: log.wal_path() });
            }
        }
        Ok(())
    }

    /// Returns whether the log of a server that has served is missing, and with it the votes and the
    /// entries that the server has acknowledged. The first segment is durable before the first
    /// snapshot and before the identity names a founding, and the last segment is never removed.
    pub(super) fn lacks_log(&self) -> Result<bool, StorageError> {
        // The data directory alone may have been emptied.
        let Some(known) = self.identity()? else { return Ok(false) };
        let (disk, wal) = (self.data.disk(), self.wal_path());
        let has_place = match &self.log {
            Some(log) => Identity::read(log)?.is_some(),
            None => disk.exists(&wal).map_err(StorageError::io("look for", &wal))?,
        };
        if !has_place {
            return Ok(true);
        }
        let must_have_log =
            known.founding != 0 || has_files(&*disk, &self.data.snapshot_path(), "snap")?;
        Ok(must_have_log && !has_files(&*disk, &wal, "wal")?)
    }

    /// Refuses a directory with files that are written only after its identity.
    fn refuse_lost_identity(&self) -> Result<(), StorageError> {
        for (directory, name) in
            [(&self.data, boot::FILE_NAME), (&self.data, HISTORY), (self.of_log(), FOUNDING)]
        {
            let found = directory.path().join(name);
            let is_there = directory.disk().exists(&found);
            if Identity::read(directory)?.is_none()
                && is_there.map_err(StorageError::io("look for", &found))?
            {
                let what = format!(
                    "it is missing, but {} shows that a server has run here: bring it back, or empty \
                     the whole directory to start without data",
                    found.display()
                );
                return Err(StorageError::corrupt(&directory.path().join("identity"), 0, what));
            }
        }
        Ok(())
    }

    fn refuse_apache_data(&self) -> Result<(), JoinError> {
        for directory in [Some(&self.data), self.log.as_ref()].into_iter().flatten() {
            let found = directory.path().join(APACHE_DATA);
            if directory.disk().exists(&found).map_err(StorageError::io("look for", &found))? {
                return Err(JoinError::ApacheData(found));
            }
        }
        Ok(())
    }
}

/// Returns whether a directory, if it exists, has files with this extension.
fn has_files(disk: &dyn Disk, directory: &Path, extension: &str) -> Result<bool, StorageError> {
    if !disk.exists(directory).map_err(StorageError::io("look for", directory))? {
        return Ok(false);
    }
    let files = disk.list(directory).map_err(StorageError::io("list", directory))?;
    let names = files.iter().map(|file| Path::new(&file.name));
    Ok(names.filter_map(Path::extension).any(|found| found == extension))
}

#[cfg(test)]
mod tests {
    use zoolet_storage::MemoryDisk;

    use super::*;

    const OURS: Identity = Identity { cluster_id: 7, server_id: 1, directory_id: 5, founding: 0 };

    fn claim(disk: &MemoryDisk, log: Option<&str>) -> Result<PathBuf, JoinError> {
        let open = |path: &str| DataDir::open(Arc::new(disk.clone()), Path::new(path));
        let directories = Directories { data: open("data")?, log: log.map(open).transpose()? };
        directories.claim(OURS)?;
        Ok(directories.wal_path())
    }

    #[test]
    fn a_log_has_a_directory_of_its_own() {
        let disk = MemoryDisk::new();
        for _ in 0..2 {
            assert_eq!(claim(&disk, Some("log")).unwrap(), Path::new("log/wal"));
        }
        assert!(!disk.exists(Path::new("data/wal")).unwrap());
    }

    #[test]
    fn a_server_does_not_start_beside_its_log() {
        let disk = MemoryDisk::new();
        claim(&disk, None).unwrap();
        let error = claim(&disk, Some("log")).unwrap_err();
        assert!(matches!(error, JoinError::LogElsewhere { .. }), "{error}");

        let disk = MemoryDisk::new();
        claim(&disk, Some("log")).unwrap();
        for other in [None, Some("new")] {
            let error = claim(&disk, other).unwrap_err();
            assert!(matches!(error, JoinError::LogMissing { .. }), "{error}");
        }
        claim(&disk, Some("log")).unwrap();
    }

    /// It started with its vote and the end of its log forgotten, and voted.
    #[test]
    fn a_start_needs_a_log_besides_a_snapshot() {
        for log in [None, Some("log")] {
            let disk = MemoryDisk::new();
            let wal = claim(&disk, log).unwrap();
            disk.create_dir_all(&wal).unwrap();
            let snapshots = Path::new("data/snapshots");
            disk.create_dir_all(snapshots).unwrap();
            disk.create(&snapshots.join("1.snap.tmp")).unwrap();
            claim(&disk, log).unwrap();
            disk.create(&snapshots.join("1.snap")).unwrap();
            disk.create(&wal.join("next.tmp")).unwrap();
            for _ in 0..2 {
                let error = claim(&disk, log).unwrap_err();
                assert!(matches!(error, JoinError::LogMissing { .. }), "{error}");
                assert!(error.to_string().contains(&wal.display().to_string()), "{error}");
            }
            disk.create(&wal.join("0000000000000001.wal")).unwrap();
            claim(&disk, log).unwrap();
        }
    }

    /// A single server founded its ensemble a second time, without its data, and so did two of three.
    #[test]
    fn a_start_in_an_ensemble_needs_a_log() {
        for log in [None, Some("log")] {
            let disk = MemoryDisk::new();
            let wal = claim(&disk, log).unwrap();
            disk.create_dir_all(&wal).unwrap();
            // A first start that was interrupted this early can be repeated.
            claim(&disk, log).unwrap();
            let segment = wal.join("0000000000000001.wal");
            disk.create(&segment).unwrap();
            let founded = Identity { founding: 9, ..OURS };
            let beside = DataDir::open(Arc::new(disk.clone()), Path::new(log.unwrap_or("data")));
            // A crash may have left the founding in this directory alone.
            founded.write(&beside.unwrap()).unwrap();
            claim(&disk, log).unwrap();
            disk.remove(&segment).unwrap();
            let error = claim(&disk, log).unwrap_err();
            assert!(matches!(error, JoinError::LogMissing { .. }), "{error}");
            assert!(error.to_string().contains("docs/runbook.md"), "{error}");
            if log.is_some() {
                // The data directory is a new disk too: the identity of the log still counts.
                disk.remove(Path::new("data/identity")).unwrap();
                let error = claim(&disk, log).unwrap_err();
                assert!(matches!(error, JoinError::LogMissing { .. }), "{error}");
            }
        }
    }

    #[test]
    fn a_new_ensemble_needs_no_log_and_does_not_pass_for_the_old_one() {
        let disk = MemoryDisk::new();
        let wal = claim(&disk, None).unwrap();
        let open = || DataDir::open(Arc::new(disk.clone()), Path::new("data")).unwrap();
        Identity { founding: 9, ..OURS }.write(&open()).unwrap();
        let directories = Directories { data: open(), log: None };
        assert!(directories.lacks_log().unwrap());
        directories.claim_without_log(Identity { founding: 10, ..OURS }).unwrap();
        assert_eq!(directories.identity().unwrap().map(|known| known.founding), Some(10));
        drop(directories);
        assert!(matches!(claim(&disk, None), Err(JoinError::LogMissing { .. })));
        disk.create(&wal.join("0000000000000001.wal")).unwrap();
        claim(&disk, None).unwrap();
    }

    #[test]
    fn what_a_server_has_left_is_not_taken_for_a_new_disk() {
        for left in ["boot", "founding", "history"] {
            let disk = MemoryDisk::new();
            disk.create_dir_all(Path::new("data")).unwrap();
            disk.create(&Path::new("data").join(left)).unwrap();
            let error = claim(&disk, None).unwrap_err().to_string();
            assert!(error.contains("data/identity") && error.contains(left), "{error}");
        }
    }

    #[test]
    fn data_of_apache_is_not_passed_over() {
        for (directory, log) in [("data", None), ("data", Some("log")), ("log", Some("log"))] {
            let disk = MemoryDisk::new();
            let found = Path::new(directory).join("version-2");
            disk.create_dir_all(&found).unwrap();
            let error = claim(&disk, log).unwrap_err();
            assert!(error.to_string().contains(&found.display().to_string()), "{error}");
        }
        // A server that has data of its own is not kept from it.
        let disk = MemoryDisk::new();
        claim(&disk, None).unwrap();
        disk.create_dir_all(Path::new("data/version-2")).unwrap();
        claim(&disk, None).unwrap();
    }

    #[test]
    fn the_log_of_another_server_is_refused() {
        let disk = MemoryDisk::new();
        let other = DataDir::open(Arc::new(disk.clone()), Path::new("log")).unwrap();
        Identity { server_id: 2, ..OURS }.claim(&other).unwrap();
        let error = claim(&disk, Some("log")).unwrap_err();
        assert!(error.to_string().contains("in use"), "{error}");
        drop(other);
        let error = claim(&disk, Some("log")).unwrap_err();
        assert!(matches!(error, JoinError::Storage(StorageError::WrongServer { .. })), "{error}");
    }
}
