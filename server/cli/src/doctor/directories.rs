//! The directories of the data and of the log.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use zoolet_server::embed::config::ServerConfig;
use zoolet_storage::{Identity, RealDisk};

use super::disk;
use super::finding::Findings;

const DATA: &str = "data";
const LOG: &str = "log";
const AUDIT: &str = "audit";

/// Checks the directories.
pub(super) fn check(config: &ServerConfig, findings: &mut Findings) {
    let (data, log) = (&config.data_dir, &config.data_log_dir);
    check_one(DATA, data, findings);
    check_owner(config, findings);
    if data != log {
        check_one(LOG, log, findings);
    }
    check_audit(config, findings);
    disk::check(config, log, findings);
    note_file_systems(data, log, findings);
}

/// Returns whether a server is running on the directory, and says so.
pub(super) fn note_running(config: &ServerConfig, findings: &mut Findings) -> bool {
    let is_running = is_locked(&config.data_dir);
    if is_running {
        let data = config.data_dir.display();
        findings.ok(DATA, format!("{data} is in use: the server is running"));
    }
    is_running
}

/// Whether a server has the directory.
fn is_locked(directory: &Path) -> bool {
    let Ok(file) = File::open(directory.join("lock")) else { return false };
    // A shared lock, and only for this moment: a server that starts in it would say that the
    // directory is in use.
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Whether it is there, or can be created, and files can be written.
fn check_one(check: &'static str, directory: &Path, findings: &mut Findings) {
    let shown = directory.display();
    let Some(existing) = existing(directory) else {
        findings.error(check, format!("{shown}: neither it nor any directory above it is there"));
        return;
    };
    if !existing.is_dir() {
        findings.error(check, format!("{} is not a directory", existing.display()));
        return;
    }
    if let Err(error) = tempfile::Builder::new().prefix(".doctor").tempfile_in(&existing) {
        findings.error(check, format!("{shown}: cannot write in {}: {error}", existing.display()));
        return;
    }
    if existing == directory {
        findings.ok(check, format!("{shown}: can be written"));
    } else {
        findings.ok(check, format!("{shown}: will be created in {}", existing.display()));
    }
}

/// The deepest directory of a path that is there.
pub(super) fn existing(directory: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(directory).ok()?;
    absolute.ancestors().find(|path| path.exists()).map(Path::to_path_buf)
}

/// Whether the audit log can be opened, if there is to be one. A server that cannot open it does not
/// start.
fn check_audit(config: &ServerConfig, findings: &mut Findings) {
    let Some(file) = config.audit_file() else { return };
    let Some(directory) = file.parent() else { return };
    if directory != config.data_dir {
        check_one(AUDIT, directory, findings);
    }
    let opened = File::options().read(true).write(true).open(&file);
    match opened {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            findings.error(AUDIT, format!("{}: cannot be opened: {error}", file.display()));
        }
        // It is there, or the directory is what matters.
        Ok(_) | Err(_) => {}
    }
}

/// Whose data it is.
fn check_owner(config: &ServerConfig, findings: &mut Findings) {
    let directory = &config.data_dir;
    let shown = directory.display();
    match Identity::peek(&RealDisk, directory) {
        Ok(Some(found)) if found.server_id != u64::from(config.server_id.0) => {
            let (found, id) = (found.server_id, config.server_id);
            findings.error(DATA, format!("{shown} belongs to server {found}, this is server {id}"));
        }
        Ok(Some(found)) if found.cluster_id != config.cluster_id() => {
            let (found, expected) = (found.cluster_id, config.cluster_id());
            let text = format!(
                "{shown} belongs to ensemble {found}, the configuration is that of {expected}: was \
                 the first server changed? cluster_id keeps the old one"
            );
            findings.error(DATA, text);
        }
        Ok(Some(found)) => {
            findings.ok(DATA, format!("{shown} has data of this server"));
            check_log(found, &config.data_log_dir, findings);
        }
        Ok(None) if has_apache_data(directory) => {
            let text = format!(
                "{shown} has data of Apache ZooKeeper, which the server does not read: use another \
                 directory and `zoolet import`"
            );
            findings.error(DATA, text);
        }
        Ok(None) => findings.ok(DATA, format!("{shown} has no data yet")),
        Err(error) => findings.error(DATA, error.to_string()),
    }
}

/// Reports a missing log and a log that is marked as incomplete. A server that is part of an ensemble
/// has at least one segment.
fn check_log(owner: Identity, directory: &Path, findings: &mut Findings) {
    let wal = directory.join("wal");
    let has_segment = || {
        let mut files = fs::read_dir(&wal).into_iter().flatten().flatten();
        files.any(|file| file.path().extension().is_some_and(|extension| extension == "wal"))
    };
    if owner.founding != 0 && !has_segment() {
        let text = format!(
            "the server has served, but its log is not in {}: bring the files *.wal back, or see \"A \
             server has lost its log\" in docs/runbook.md",
            wal.display()
        );
        findings.error(LOG, text);
    }
    let mark = directory.join("lost-entries");
    if let Ok(why) = fs::read_to_string(&mark) {
        findings.error(LOG, format!("{why} (as noted in {})", mark.display()));
    }
}

fn has_apache_data(directory: &Path) -> bool {
    let mut files = fs::read_dir(directory.join("version-2")).into_iter().flatten().flatten();
    files.any(|file| {
        let name = file.file_name();
        let name = name.to_string_lossy();
        name.starts_with("snapshot.") || name.starts_with("log.")
    })
}

/// A log on the disk of the snapshots waits for them.
fn note_file_systems(data: &Path, log: &Path, findings: &mut Findings) {
    if data == log {
        return;
    }
    let device = |path| existing(path).and_then(|path| fs::metadata(path).ok()).map(|it| it.dev());
    let (Some(of_data), Some(of_log)) = (device(data), device(log)) else { return };
    if of_data == of_log {
        let text = format!(
            "{} is on the same file system as the data: a log directory of its own helps on a disk \
             of its own",
            log.display()
        );
        findings.warn(LOG, text);
    } else {
        findings.ok(LOG, format!("{} is on a file system of its own", log.display()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zoolet_storage::DataDir;

    use super::*;

    #[test]
    fn a_directory_that_a_server_has_is_known_by_its_lock() {
        let directory = tempfile::tempdir().unwrap();
        assert!(!is_locked(directory.path()), "there is not even a lock");
        let data = DataDir::open(Arc::new(RealDisk), directory.path()).unwrap();
        assert!(is_locked(directory.path()));
        drop(data);
        assert!(!is_locked(directory.path()));
        DataDir::open(Arc::new(RealDisk), directory.path()).unwrap();
    }
}
