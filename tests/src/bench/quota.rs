//! A limit of the processor time of some processes: a cgroup of their own, of either version.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::BenchError;

const ROOT: &str = "/sys/fs/cgroup";
const PERIOD_US: u64 = 1_000_000;

/// A cgroup, which is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Quota {
    group: PathBuf,
}

impl Quota {
    /// Gives some processes together this many microseconds of processor time per second.
    pub(super) fn start(name: &str, pids: &[u32], quota_us: u64) -> Result<Self, BenchError> {
        let controllers = fs::read_to_string(Path::new(ROOT).join("cgroup.controllers"));
        let is_unified = controllers.is_ok_and(|names| names.split(' ').any(|name| name == "cpu"));
        let parent = Path::new(ROOT).join(if is_unified { "" } else { "cpu" });
        let group = parent.join(format!("bench-{}-{name}", std::process::id()));
        fs::create_dir(&group).map_err(BenchError::file(&group))?;
        let quota = Self { group };
        if is_unified {
            quota.write("cpu.max", &format!("{quota_us} {PERIOD_US}"))?;
        } else {
            quota.write("cpu.cfs_period_us", &PERIOD_US.to_string())?;
            quota.write("cpu.cfs_quota_us", &quota_us.to_string())?;
        }
        for pid in pids {
            quota.write("cgroup.procs", &pid.to_string())?;
        }
        Ok(quota)
    }

    fn write(&self, file: &str, text: &str) -> Result<(), BenchError> {
        let file = self.group.join(file);
        fs::write(&file, text).map_err(BenchError::file(&file))
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // A group with processes cannot be removed.
        let pids = fs::read_to_string(self.group.join("cgroup.procs")).unwrap_or_default();
        if let Some(parent) = self.group.parent() {
            for pid in pids.lines() {
                // A process that has ended is in no group.
                let _ = fs::write(parent.join("cgroup.procs"), pid);
            }
        }
        let _ = fs::remove_dir(&self.group);
    }
}
