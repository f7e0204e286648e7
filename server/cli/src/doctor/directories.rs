//! The directories of the data and of the log.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use zoolet_server::embed::config::ServerConfig;
use zoolet_server::embed::{DryRun, dry_run};
use zoolet_storage::RealDisk;

use super::disk;
use super::finding::Findings;

const DATA: &str = "data";
const LOG: &str = "log";
const AUDIT: &str = "audit";

/// Checks the directories.
pub(super) fn check(config: &ServerConfig, findings: &mut Findings) {
    let (data, log) = (&config.data_dir, &config.data_log_dir);
    check_one(DATA, data, findings);
    if data != log {
        check_one(LOG, log, findings);
    }
    let wal = log.join("wal");
    if wal.is_dir()
        && let Err(error) = tempfile::tempfile_in(&wal)
    {
        findings.error(LOG, format!("cannot write in {}: {error}", wal.display()));
    }
    check_data(config, findings);
    check_audit(config, findings);
    disk::check(config, log, findings);
    note_file_systems(data, log, findings);
}

/// Returns whether a server is running on the directory, and reports it. If no configured port
/// `is_served`, it is another server, or it has not opened a port yet: a start is refused.
pub(super) fn note_running(
    config: &ServerConfig,
    is_served: bool,
    findings: &mut Findings,
) -> bool {
    let is_running = RealDisk::is_locked(&config.data_dir.join("lock")).unwrap_or(false);
    let data = config.data_dir.display();
    if is_running && is_served {
        findings.ok(DATA, format!("{data} is in use: the server is running"));
    } else if is_running {
        let text =
            format!("{data} is in use by another server: nothing listens on this one's ports");
        findings.error(DATA, text);
    }
    is_running
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
    if let Err(error) = tempfile::tempfile_in(&existing) {
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

/// Reports whether a start accepts the data.
fn check_data(config: &ServerConfig, findings: &mut Findings) {
    let shown = config.data_dir.display();
    match dry_run(config) {
        Ok(DryRun::HasData | DryRun::InUse) => {
            findings.ok(DATA, format!("{shown} has data of this server"));
        }
        Ok(DryRun::NoData) => findings.ok(DATA, format!("{shown} has no data yet")),
        Err(error) => findings.error(DATA, error.to_string()),
    }
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
