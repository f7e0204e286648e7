//! What the history costs for each event: the CPU time of the thread that applies commands, and that
//! of the history's own thread.
//!
//! ```sh
//! cargo run --release -p zoolet-history --example cost -- 2000000
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    clippy::indexing_slicing,
    reason = "a measurement for developers"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs, thread};

use zoolet_history::{History, HistoryCounts, HistoryOptions};
use zoolet_jute::{Id, SessionId, Xid, Zxid};
use zoolet_replica::{HistoryCause, HistoryChange, HistoryEvent, HistoryItem, ServerId};

/// The clients whose writes are recorded.
const CLIENTS: usize = 16;

/// The time of the first event.
const BEGIN_MS: i64 = 1_764_000_000_000;

/// The events that a server hands over at once.
const ITEMS_AT_ONCE: usize = 64;

/// The events between two pauses.
const EVENTS_PER_PAUSE: usize = 2048;

/// Long enough for the thread to take them, and to sleep again.
const PAUSE: Duration = Duration::from_millis(2);

fn main() {
    let count: usize = env::args().nth(1).map_or(1_000_000, |count| count.parse().unwrap());
    let is_recorded = env::args().nth(2).is_none();
    let directory = env::temp_dir().join(format!("zoolet-history-cost-{}", std::process::id()));
    let options = HistoryOptions {
        directory: directory.join("history"),
        bytes_max: 256 << 20,
        age_ms_max: 7 * 24 * 3_600_000,
    };
    let counts = Arc::new(HistoryCounts::default());
    let history = History::open(options, Arc::clone(&counts)).unwrap();
    let addresses: Vec<Arc<[Id]>> =
        (0..CLIENTS).map(|_| Arc::from([Id::new("ip", "127.0.0.1")])).collect();
    thread::sleep(Duration::from_millis(300));
    let before = busy_ns();
    let mut items = Vec::new();
    for number in 0..count {
        items.push(item(number, &addresses));
        if items.len() == ITEMS_AT_ONCE {
            record(&history, &mut items, is_recorded);
        }
        if number % EVENTS_PER_PAUSE == 0 {
            thread::sleep(PAUSE);
        }
    }
    record(&history, &mut items, is_recorded);
    history.tick(BEGIN_MS);
    thread::sleep(Duration::from_millis(500));
    let after = busy_ns();
    for (name, after_ns) in &after {
        let before_ns = before.iter().find(|(it, _)| it == name).map_or(0, |(_, ns)| *ns);
        println!("{name:16} {:8.1} ns/event", (after_ns - before_ns) as f64 / count as f64);
    }
    let kept = fs::read_dir(directory.join("history")).unwrap();
    let bytes: u64 = kept.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    println!("{} recorded, {} lost, {bytes} bytes", counts.recorded(), counts.lost());
    let status = fs::read_to_string("/proc/self/status").unwrap();
    println!("{}", status.lines().find(|line| line.starts_with("VmRSS")).unwrap());
    history.close();
    fs::remove_dir_all(directory).unwrap();
}

fn record(history: &History, items: &mut Vec<HistoryItem>, is_recorded: bool) {
    if is_recorded {
        history.record(items.drain(..));
    }
    items.clear();
}

/// A write of one of the clients, as a replica hands it over.
fn item(number: usize, addresses: &[Arc<[Id]>]) -> HistoryItem {
    let client = number.wrapping_mul(0x9e37_79b9) >> 7 & (CLIENTS - 1);
    let version = i32::try_from(number / 1000).unwrap();
    HistoryItem::Event(HistoryEvent {
        zxid: Zxid(0x1_0000_0000 + number as i64),
        time_ms: BEGIN_MS + number as i64 / 12,
        server: ServerId(1),
        session: SessionId(0x1_0000_0000_0000 + client as i64),
        cxid: Xid(version),
        identities: Arc::clone(&addresses[client]),
        cause: HistoryCause::Request,
        change: HistoryChange::DataChanged {
            path: format!("/bench/client-{client:04}/key-{:06}", number % 1000),
            old_version: version,
            version: version + 1,
            data: None,
        },
    })
}

/// The threads of this process, and for how long each was busy.
fn busy_ns() -> Vec<(String, u64)> {
    let tasks = fs::read_dir(Path::new("/proc/self/task")).unwrap();
    let busy = |task: fs::DirEntry| {
        let name = fs::read_to_string(task.path().join("comm")).ok()?.trim().to_owned();
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        Some((name, text.split(' ').next()?.parse().ok()?))
    };
    tasks.filter_map(|task| busy(task.unwrap())).collect()
}
