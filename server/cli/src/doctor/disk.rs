//! The disk of the log: its room, its kind, and how long a sync takes.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{statfs, statvfs};
use tokio::time::Instant;
use zoolet_server::embed::config::ServerConfig;

use super::directories::existing;
use super::finding::Findings;

const DISK: &str = "disk";

/// How many syncs are measured, each of this number of bytes.
const SYNCS: usize = 16;
const SYNC_BYTES: usize = 4096;

/// A sync that takes longer makes every write slow.
const SLOW: Duration = Duration::from_millis(50);

/// The segments of the log that must have room: the one that is written, the next, and as much again
/// for snapshots.
const SEGMENTS: u64 = 4;

/// The kinds of file systems that lose what they hold, or whose syncs are a server's promise.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];
const ON_NETWORK: [i64; 3] = [0x6969, 0xff53_4d42_u32 as i64, 0xfe53_4d42_u32 as i64];

/// Checks the disk that a directory is on, or would be.
pub(super) fn check(config: &ServerConfig, directory: &Path, findings: &mut Findings) {
    let Some(existing) = existing(directory).filter(|existing| existing.is_dir()) else { return };
    check_room(config, &existing, findings);
    check_kind(&existing, findings);
    match measure(&existing) {
        Ok(times) => check_syncs(config, &existing, &times, findings),
        Err(error) => {
            findings.error(DISK, format!("{}: cannot sync: {error}", existing.display()));
        }
    }
}

fn check_room(config: &ServerConfig, directory: &Path, findings: &mut Findings) {
    let shown = directory.display();
    let Ok(about) = statvfs(directory) else { return };
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    let needed = config.log.segment_bytes.saturating_mul(SEGMENTS);
    let text = format!("{shown}: {} MiB free", free >> 20);
    if free < needed {
        findings.warn(DISK, format!("{text}: expected at least {} MiB", needed >> 20));
    } else {
        findings.ok(DISK, text);
    }
    if about.f_files > 0 && about.f_favail == 0 {
        findings.error(DISK, format!("{shown}: no file can be created, the inodes are used up"));
    }
}

fn check_kind(directory: &Path, findings: &mut Findings) {
    let Ok(about) = statfs(directory) else { return };
    let kind = about.f_type;
    let shown = directory.display();
    if IN_MEMORY.contains(&kind) {
        findings.warn(DISK, format!("{shown} is in memory: a restart of the machine loses it"));
    } else if ON_NETWORK.contains(&kind) {
        let text = format!("{shown} is on the network: the log waits for it with every write");
        findings.warn(DISK, text);
    }
}

/// Measures syncs of a file without a name.
fn measure(directory: &Path) -> io::Result<Vec<Duration>> {
    let mut file = tempfile::tempfile_in(directory)?;
    let mut times = Vec::new();
    for _ in 0..SYNCS {
        file.write_all(&[0; SYNC_BYTES])?;
        let began = Instant::now();
        file.sync_data()?;
        times.push(began.elapsed());
    }
    times.sort();
    Ok(times)
}

fn check_syncs(
    config: &ServerConfig,
    directory: &Path,
    times: &[Duration],
    findings: &mut Findings,
) {
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let longest = times.last().copied().unwrap_or_default();
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let text = format!(
        "{}: a sync takes {:.1} ms, the longest of {SYNCS} took {:.1} ms",
        directory.display(),
        ms(median),
        ms(longest)
    );
    if median > SLOW || longest > Duration::from_millis(config.log.slow_sync_ms.into()) {
        findings.warn(DISK, format!("{text}: every write waits for one"));
    } else {
        findings.ok(DISK, text);
    }
}
