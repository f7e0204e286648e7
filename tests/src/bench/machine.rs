//! What the figures depend on: the machine and the versions of the servers.

use std::fs;
use std::path::Path;
use std::thread;

use super::error::BenchError;
use crate::builder::Kind;
use crate::four_letter;
use crate::servers::Servers;

/// The facts of the machine that explain figures; nothing that says whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) memory_mib: u64,
    pub(crate) kernel: String,
}

impl Machine {
    /// Reads the facts of this machine.
    pub(crate) fn read() -> Result<Self, BenchError> {
        let file = |path: &str| fs::read_to_string(path).map_err(BenchError::file(Path::new(path)));
        Ok(Self {
            cores: thread::available_parallelism().map_or(1, usize::from),
            memory_mib: memory_mib(&file("/proc/meminfo")?).unwrap_or_default(),
            kernel: kernel(&file("/proc/sys/kernel/osrelease")?).to_owned(),
        })
    }
}

/// Returns the version of the kernel without the name of its build.
fn kernel(release: &str) -> &str {
    release.trim().split('-').next().unwrap_or_default()
}

fn memory_mib(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024)
}

/// Returns the version that a running server gives.
pub(crate) fn version(servers: &Servers) -> Result<String, BenchError> {
    let address = servers.client_address(0)?;
    let reply = four_letter::ask(address, "srvr").unwrap_or_default();
    Ok(version_in(servers.kind(), &reply).unwrap_or("unknown").to_owned())
}

/// `3.9.5` of `Zookeeper version: 3.9.5-…, built on …`, or `0.1.0` of
/// `Zookeeper version: 3.9.5-zoolet-0.1.0, built on …`.
fn version_in(kind: Kind, reply: &str) -> Option<&str> {
    let line = reply.lines().find_map(|line| line.strip_prefix("Zookeeper version: "))?;
    let (version, _) = line.split_once(',')?;
    match kind {
        Kind::Zoolet => version.split_once("-zoolet-").map(|(_, own)| own),
        Kind::Apache => version.split('-').next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_of_both_systems_are_found() {
        let apache = "Zookeeper version: 3.9.5-0123abc, built on 2025-01-01 00:00 UTC\nMode: x\n";
        assert_eq!(version_in(Kind::Apache, apache), Some("3.9.5"));
        let zoolet = "Zookeeper version: 3.9.5-zoolet-0.1.0, built on 11/21/2026 00:00 UTC\n";
        assert_eq!(version_in(Kind::Zoolet, zoolet), Some("0.1.0"));
        assert_eq!(version_in(Kind::Zoolet, apache), None);
    }

    #[test]
    fn the_kernel_has_a_version_and_no_name() {
        assert_eq!(kernel("6.18.4-1-name\n"), "6.18.4");
        assert_eq!(kernel("6.1.0\n"), "6.1.0");
    }

    #[test]
    fn the_memory_is_read_in_mib() {
        assert_eq!(memory_mib("MemTotal:        2048000 kB\nMemFree: 1 kB\n"), Some(2_000));
        assert_eq!(memory_mib(""), None);
    }
}
