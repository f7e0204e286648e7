//! What the operating system says about this process and its machine, and threads: for work that blocks,
//! to free memory on, and to work on that gives way to all others. A simulation, in which a run must be
//! repeatable, has all of that done by the thread that asks for it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use tokio::task::yield_now;
use tokio::time::sleep;

/// How far work in the background gives way: a tenth of a share beside a busy thread.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// The lines that the log of this process has lost.
static LOST_LOG_LINES: AtomicU64 = AtomicU64::new(0);

/// Counts lines that the log of this process has lost, for the metric `zoolet_log_lines_lost`. The
/// program that writes the log calls it.
pub fn count_lost_log_lines(lines: u64) {
    LOST_LOG_LINES.fetch_add(lines, Ordering::Relaxed);
}

pub(crate) fn lost_log_lines() -> u64 {
    LOST_LOG_LINES.load(Ordering::Relaxed)
}

/// Has everything that this thread hands to other threads from now on done by this thread itself: for
/// simulations. Work that blocks is done as long behind its begin as `takes` says, which is asked for each.
#[cfg(feature = "internals")]
pub fn work_here(takes: fn() -> Duration) {
    WORKS_HERE.set(Some(takes));
}

#[cfg(feature = "internals")]
thread_local! {
    static WORKS_HERE: std::cell::Cell<Option<fn() -> Duration>> =
        const { std::cell::Cell::new(None) };
}

/// How long work that blocks takes where this thread does it itself.
#[cfg(feature = "internals")]
fn here() -> Option<fn() -> Duration> {
    WORKS_HERE.get()
}

#[cfg(not(feature = "internals"))]
const fn here() -> Option<fn() -> Duration> {
    None
}

/// Carries out work that blocks, also if its caller does not wait for it any more. An error if it
/// panics, or if the runtime ends before.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let working = match here() {
        None => tokio::task::spawn_blocking(work),
        Some(takes) => tokio::spawn(async move {
            match takes() {
                // Others have their turn first, as they would.
                Duration::ZERO => yield_now().await,
                span => sleep(span).await,
            }
            work()
        }),
    };
    working.await.map_err(io::Error::other)
}

/// Frees a value on a thread of its own: freeing a tree of millions of znodes takes seconds. Where
/// without that thread, it is freed here.
pub(crate) fn drop_elsewhere<T: Send + 'static>(value: T) {
    if here().is_some() {
        return drop(value);
    }
    // A failed spawn drops the closure, and the value with it.
    let _ = thread::Builder::new().name("free".to_owned()).spawn(move || drop(value));
}

/// Carries out `work`, and waits for it, on a thread that gives way to all others. Where all cores
/// are busy, it would take slices of some milliseconds from replies otherwise.
pub(crate) fn giving_way<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    if here().is_some() {
        return Ok(work());
    }
    let working = thread::Builder::new().name(name.to_owned()).spawn(move || {
        // Of the thread alone, which is Linux's own way: elsewhere it would be the whole process.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::nice(NICENESS);
        work()
    })?;
    Ok(working.join().unwrap_or_else(|panic| resume_unwind(panic)))
}

/// Returns whether this thread runs a simulation.
pub(crate) fn is_simulated() -> bool {
    here().is_some()
}

/// The open files of this process and the most that it may open; `None` where the system does not
/// tell. They are the first thing that a server with many clients runs out of.
pub(crate) fn file_descriptors() -> (Option<u64>, Option<u64>) {
    let open =
        fs::read_dir("/proc/self/fd").ok().and_then(|entries| u64::try_from(entries.count()).ok());
    (open, descriptor_limit())
}

/// Returns the most files that the process may have open; `None` without a limit.
pub(crate) fn descriptor_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

/// Returns when a file was last written, in seconds since 1970; `None` if it cannot be found out.
pub(crate) fn modified_s(path: &Path) -> Option<i64> {
    let modified = fs::metadata(path).and_then(|about| about.modified()).ok()?;
    i64::try_from(modified.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
}

/// What this process has used so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Processor time of all threads, in seconds.
    pub(crate) cpu_s: Option<f64>,
    /// Memory that is in the machine's, in bytes.
    pub(crate) resident_bytes: Option<u64>,
}

/// Returns what this process has used so far, as far as the system says it.
pub(crate) fn usage() -> Usage {
    // Linux counts in hundredths of a second here, whatever the kernel's own tick is.
    const TICKS_PER_SECOND: f64 = 100.0;
    let ticks = fs::read_to_string("/proc/self/stat").ok().and_then(|stat| {
        // The name of the program is in parentheses, and may have blanks.
        let fields = stat.rsplit_once(')')?.1;
        let mut times = fields.split_whitespace().skip(11);
        let (user, system) =
            (times.next()?.parse::<f64>().ok()?, times.next()?.parse::<f64>().ok()?);
        Some(user + system)
    });
    let resident = fs::read_to_string("/proc/self/status").ok().and_then(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    });
    Usage {
        cpu_s: ticks.map(|ticks| ticks / TICKS_PER_SECOND),
        resident_bytes: resident.map(|kib| kib * 1024),
    }
}

/// The keys of `envi` that a process without a JVM has (protocol §14.2), behind the version.
pub(crate) fn environment() -> [(&'static str, String); 11] {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let first_line = |path: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().next().unwrap_or_default().to_owned()
    };
    let current = std::env::current_dir().map(|path| path.display().to_string());
    [
        ("host.name", first_line("/proc/sys/kernel/hostname")),
        ("java.version", "<NA>".to_owned()),
        ("java.vendor", "<NA>".to_owned()),
        ("java.home", "<NA>".to_owned()),
        ("java.io.tmpdir", std::env::temp_dir().display().to_string()),
        ("os.name", first_line("/proc/sys/kernel/ostype")),
        ("os.arch", java_name(std::env::consts::ARCH).to_owned()),
        ("os.version", first_line("/proc/sys/kernel/osrelease")),
        ("user.name", variable("USER")),
        ("user.home", variable("HOME")),
        ("user.dir", current.unwrap_or_default()),
    ]
}

/// The user that the process runs as, by name if the environment says it.
pub(crate) fn user() -> String {
    let name = std::env::var("USER").ok().filter(|name| !name.is_empty());
    let number = || fs::metadata("/proc/self").map(|own| format!("uid {}", own.uid()));
    name.or_else(|| number().ok()).unwrap_or_else(|| "zoolet".to_owned())
}

/// What Java calls a processor.
fn java_name(architecture: &str) -> &str {
    if architecture == "x86_64" { "amd64" } else { architecture }
}
