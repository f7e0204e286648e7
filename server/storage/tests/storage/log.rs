//! What the log does when nothing goes wrong.

use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use zoolet_storage::{
    Disk, Entry, LogIndex, LogPosition, MemoryDisk, StorageError, Wal, WalMode, WalOptions,
};

use crate::trace::{DIRECTORY, Model, options};

fn entry(index: u64, body: &'static [u8]) -> Entry {
    let position = LogPosition { term: 1, node: 2, index: LogIndex(index) };
    Entry { position, kind: 7, body: Bytes::from_static(body) }
}

fn open(disk: &MemoryDisk, options: WalOptions) -> Wal {
    Wal::open(Arc::new(disk.clone()), Path::new(DIRECTORY), options).unwrap().0
}

fn ok() -> Box<dyn FnOnce(Result<(), StorageError>) + Send> {
    Box::new(|result| result.unwrap())
}

#[test]
fn an_entry_is_readable_before_it_is_durable() {
    let disk = MemoryDisk::new();
    let wal = open(&disk, options(WalMode::Manual));
    let changes = disk.changes();
    let durable = Arc::new(Mutex::new(false));
    let note = durable.clone();
    wal.append(vec![entry(0, b"a")], Box::new(move |_| *note.lock().unwrap() = true)).unwrap();
    assert_eq!(wal.entries(LogIndex(0)..LogIndex(9), usize::MAX).unwrap(), [entry(0, b"a")]);
    assert!(wal.is_cached(LogIndex(0)));
    assert_eq!(disk.changes(), changes);
    assert!(!*durable.lock().unwrap());
    assert!(wal.write_waiting());
    assert!(*durable.lock().unwrap());
}

#[test]
fn everything_that_waits_is_one_write_and_one_sync() {
    let disk = MemoryDisk::new();
    let wal = open(&disk, options(WalMode::Manual));
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |number: u32| {
        let order = order.clone();
        Box::new(move |_| order.lock().unwrap().push(number))
    };
    wal.append(vec![entry(0, b"a"), entry(1, b"b")], note(1)).unwrap();
    wal.save_vote(Bytes::from_static(b"vote"), note(2)).unwrap();
    wal.save_committed(Some(entry(0, b"").position)).unwrap();
    wal.truncate_from(LogIndex(1), note(3)).unwrap();
    wal.append(vec![entry(1, b"c")], note(4)).unwrap();
    let changes = disk.changes();
    assert!(wal.write_waiting());
    assert_eq!(disk.changes() - changes, 2);
    assert_eq!(*order.lock().unwrap(), [1, 2, 3, 4]);
    assert!(!wal.write_waiting());
}

#[test]
fn a_committed_position_waits_for_company() {
    let disk = MemoryDisk::new();
    let wal = open(&disk, options(WalMode::Inline));
    wal.append(vec![entry(0, b"a"), entry(1, b"b")], ok()).unwrap();
    let changes = disk.changes();
    wal.save_committed(Some(entry(0, b"").position)).unwrap();
    wal.save_committed(Some(entry(1, b"").position)).unwrap();
    assert_eq!(disk.changes(), changes);
    drop(wal);
    let wal = open(&disk, options(WalMode::Inline));
    assert_eq!(wal.state().committed, Some(entry(1, b"").position));
}

#[test]
fn a_read_stops_at_the_bytes_it_may_take_but_not_before_one_entry() {
    let disk = MemoryDisk::new();
    let wal = open(&disk, options(WalMode::Inline));
    wal.append(vec![entry(0, &[1; 100]), entry(1, &[2; 100]), entry(2, &[3; 100])], ok()).unwrap();
    assert_eq!(wal.entries(LogIndex(0)..LogIndex(3), 1).unwrap().len(), 1);
    assert_eq!(wal.entries(LogIndex(0)..LogIndex(3), 200).unwrap().len(), 2);
    assert_eq!(wal.entries(LogIndex(1)..LogIndex(2), 9999).unwrap(), [entry(1, &[2; 100])]);
    assert_eq!(wal.entries(LogIndex(3)..LogIndex(9), 9999).unwrap(), []);
}

#[test]
fn calls_out_of_order_are_refused_and_change_nothing() {
    let wal = open(&MemoryDisk::new(), options(WalMode::Inline));
    wal.append(vec![entry(5, b"a"), entry(6, b"b")], ok()).unwrap();
    let before = Model::of(&wal).unwrap();
    for entries in [vec![entry(8, b"")], vec![entry(6, b"")], vec![entry(7, b""), entry(9, b"")]] {
        let error = wal.append(entries, ok()).unwrap_err();
        assert!(matches!(error, StorageError::Refused { .. }), "{error}");
    }
    wal.truncate_from(LogIndex(4), ok()).unwrap_err();
    assert_eq!(Model::of(&wal).unwrap(), before);
    // These change nothing, and return like any other call.
    wal.truncate_from(LogIndex(7), ok()).unwrap();
    wal.purge_to(entry(5, b"").position, ok()).unwrap();
    wal.purge_to(entry(5, b"").position, ok()).unwrap();
    wal.append(Vec::new(), ok()).unwrap();
    assert_eq!(wal.state().entries, LogIndex(6)..LogIndex(7));
}

#[test]
fn purging_gives_the_disk_back() {
    let disk = MemoryDisk::new();
    let wal = open(&disk, options(WalMode::Inline));
    for index in 0..200 {
        wal.append(vec![entry(index, &[5; 500])], ok()).unwrap();
    }
    let files = || {
        let files = disk.list(Path::new(DIRECTORY)).unwrap();
        files.iter().filter(|file| file.name != "end").count()
    };
    assert!(files() > 20);
    wal.purge_to(entry(197, b"").position, ok()).unwrap();
    assert!(files() <= 2, "{} files are left", files());
    assert_eq!(wal.entries(LogIndex(198)..LogIndex(200), usize::MAX).unwrap().len(), 2);
}

#[test]
fn starting_again_and_again_does_not_fill_the_disk() {
    let disk = MemoryDisk::new();
    for start in 0..50 {
        let wal = open(&disk, options(WalMode::Inline));
        if start == 0 {
            wal.append(vec![entry(0, b"a")], ok()).unwrap();
        }
    }
    let files = disk.list(Path::new(DIRECTORY)).unwrap();
    assert!(files.len() <= 2, "{files:?}");
    for start in 1..50 {
        let wal = open(&disk, options(WalMode::Inline));
        wal.append(vec![entry(start, b"a")], ok()).unwrap();
    }
    let files = disk.list(Path::new(DIRECTORY)).unwrap();
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    assert!(bytes < 4096 + 50 * 1536, "{bytes} bytes in {} files", files.len());
}

#[test]
fn an_entry_may_be_longer_than_a_segment() {
    let disk = MemoryDisk::new();
    let wal = open(&disk, options(WalMode::Inline));
    let long = Entry { body: vec![9; 100_000].into(), ..entry(1, b"") };
    wal.append(vec![entry(0, b"a")], ok()).unwrap();
    wal.append(vec![long.clone()], ok()).unwrap();
    wal.append(vec![entry(2, b"b")], ok()).unwrap();
    let expected = Model::of(&wal).unwrap();
    assert_eq!(expected.entries[&LogIndex(1)], long);
    drop(wal);
    assert_eq!(Model::of(&open(&disk, options(WalMode::Inline))).unwrap(), expected);
}

#[test]
fn a_callback_may_call_the_log() {
    let disk = MemoryDisk::new();
    let wal = Arc::new(open(&disk, options(WalMode::Inline)));
    let again = wal.clone();
    let then = Box::new(move |_| again.append(vec![entry(1, b"b")], ok()).unwrap());
    wal.append(vec![entry(0, b"a")], then).unwrap();
    assert_eq!(wal.state().entries, LogIndex(0)..LogIndex(2));
    let changes = disk.changes();
    wal.flush(ok()).unwrap();
    assert_eq!(disk.changes() - changes, 2);
}

/// An entry that was truncated while it waited is written all the same. Its place must not become
/// that of the entry which has its index by then.
#[test]
fn a_truncated_entry_does_not_lend_its_place() {
    let disk = MemoryDisk::new();
    let wal = open(&disk, options(WalMode::Manual));
    wal.append(vec![entry(0, &[1; 1500])], ok()).unwrap();
    wal.truncate_from(LogIndex(0), ok()).unwrap();
    wal.append(vec![entry(0, &[2; 1500])], ok()).unwrap();
    wal.append(vec![entry(1, &[3; 1500])], ok()).unwrap();
    let expected = [entry(0, &[2; 1500]), entry(1, &[3; 1500])];
    let mut batches = 0;
    while wal.write_waiting() {
        batches += 1;
        assert_eq!(
            wal.entries(LogIndex(0)..LogIndex(2), usize::MAX).unwrap(),
            expected,
            "after batch {batches}"
        );
    }
    assert_eq!(batches, 3);
    assert!(!wal.is_cached(LogIndex(0)));
}
