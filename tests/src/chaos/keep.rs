//! The directory of a run, and what is kept of one that broke a promise.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use super::ChaosError;
use super::run::Outcome;
use crate::tools;

/// The file that names the process of a run under way.
const OWNER: &str = "owner";

/// Where all runs are, as the kernel names it.
fn root() -> Result<PathBuf, ChaosError> {
    let root = tools::target_dir().join("chaos");
    fs::create_dir_all(&root).map_err(ChaosError::file(root.display()))?;
    Ok(root.canonicalize()?)
}

/// An empty directory for the run of a seed.
pub(super) fn prepare(seed: u64) -> Result<PathBuf, ChaosError> {
    let root = root()?;
    sweep(&root);
    let home = root.join(seed.to_string());
    let owner = fs::read_to_string(home.join(OWNER)).unwrap_or_default();
    if is_alive(&owner) {
        return Err(ChaosError::Arguments(format!("process {owner} runs seed {seed} already")));
    }
    if home.exists() {
        fs::remove_dir_all(&home).map_err(ChaosError::file(home.display()))?;
    }
    fs::create_dir_all(&home).map_err(ChaosError::file(home.display()))?;
    fs::write(home.join(OWNER), process::id().to_string())?;
    Ok(home)
}

/// Removes the directory of a run that broke no promise.
pub(super) fn remove(home: &Path) -> Result<(), ChaosError> {
    fs::remove_dir_all(home).map_err(ChaosError::file(home.display()))
}

/// Writes down what has happened, beside the servers' disks and logs.
pub(super) fn write(home: &Path, outcome: &Outcome) -> io::Result<()> {
    fs::write(home.join("faults.txt"), outcome.done.join("\n"))?;
    fs::write(home.join("violations.txt"), outcome.violations.join("\n"))?;
    let mut history = BufWriter::new(File::create(home.join("history.txt"))?);
    for record in &outcome.history.records {
        writeln!(history, "{} {:?}", record.at, record.what)?;
    }
    for (server, log) in &outcome.history.servers {
        for applied in &log.applied {
            let (index, term) = (applied.index, applied.term);
            let batch = zoolet_replica::Batch::decode(applied.batch.clone());
            writeln!(
                history,
                "{} server {server} applies {index} of {term}: {batch:?}",
                applied.at
            )?;
        }
    }
    history.flush()
}

/// Unmounts the disks of runs that were killed.
fn sweep(root: &Path) {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    for mount in mounts.lines().filter_map(|line| line.split_whitespace().nth(1)) {
        let Ok(inside) = Path::new(mount).strip_prefix(root) else { continue };
        let Some(seed) = inside.components().next() else { continue };
        let owner = fs::read_to_string(root.join(seed).join(OWNER)).unwrap_or_default();
        if !is_alive(&owner) {
            tools::announce(&format!("a killed run has left {mount}: unmounting it"));
            // What is in use is not there any more for others, at least.
            let _ = Command::new("umount").arg("-l").arg(mount).status();
        }
    }
}

fn is_alive(owner: &str) -> bool {
    let owner = owner.trim();
    !owner.is_empty()
        && owner != process::id().to_string()
        && Path::new("/proc").join(owner).exists()
}
