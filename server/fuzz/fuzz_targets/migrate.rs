//! The data of an Apache `ZooKeeper` server: a snapshot and a log. Whatever is in them, they are read
//! or refused; what is read is a whole state, which is written and read again as the same.
//!
//! The first byte says how the snapshot is compressed, and whether the checksums are made right, so
//! that what is behind them is reached. Then come the length of the snapshot in two bytes, the
//! snapshot, and the log.
#![no_main]

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use adler2::adler32_slice;
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use zoolet_migrate::{ImportOptions, Imported, MigrateError, export, import};

const COMPRESSIONS: [&str; 3] = ["", ".gz", ".snappy"];

/// The head of a log: magic, version, database.
const LOG_HEAD: usize = 16;

/// What precedes a transaction: its checksum and its length.
const TXN_HEAD: usize = 12;

thread_local! {
    static DIRECTORIES: RefCell<Option<(TempDir, TempDir)>> = const { RefCell::new(None) };
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let Some((length, rest)) = rest.split_first_chunk() else { return };
    let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
    let (snapshot, log) = rest.split_at(length);
    let (mut snapshot, mut log) = (snapshot.to_vec(), log.to_vec());
    let compression = COMPRESSIONS[usize::from(choice >> 1) % COMPRESSIONS.len()];
    if choice & 1 == 1 {
        if compression.is_empty() {
            seal_snapshot(&mut snapshot);
        }
        seal_log(&mut log);
    }
    DIRECTORIES.with_borrow_mut(|directories| {
        let new = || (TempDir::new().expect("a directory"), TempDir::new().expect("another one"));
        let (from, to) = directories.get_or_insert_with(new);
        let files = from.path().join("version-2");
        clear(&files);
        fs::write(files.join(format!("snapshot.2{compression}")), snapshot).expect("a small file");
        fs::write(files.join("log.3"), log).expect("a small file");
        match read(from.path()) {
            Ok(imported) => comes_back(&imported, to.path()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    });
});

fn clear(files: &Path) {
    let _ = fs::remove_dir_all(files);
    fs::create_dir_all(files).expect("a directory");
}

fn read(data: &Path) -> Result<Imported, MigrateError> {
    let options = ImportOptions { data: data.to_owned(), logs: None, digests: false };
    import(&options, &mut |_| {})
}

fn comes_back(imported: &Imported, to: &Path) {
    imported.state.check();
    let _ = fs::remove_dir_all(to.join("version-2"));
    let exported = export(&imported.state, 0, to).expect("an empty directory");
    assert_eq!(exported.digest, imported.digest);
    let again = read(to).expect("its own snapshot");
    assert_eq!(again.state.digest(), imported.state.digest());
}

/// Appends the checksum of what is there, the mark behind it and nothing more: a snapshot of 3.5.
fn seal_snapshot(snapshot: &mut Vec<u8>) {
    let checksum = i64::from(adler32_slice(snapshot));
    snapshot.extend(checksum.to_be_bytes());
    snapshot.extend([0, 0, 0, 1, b'/']);
}

/// Puts the right checksum in front of each transaction that is there as a whole.
fn seal_log(log: &mut [u8]) {
    let mut at = LOG_HEAD;
    while let Some(length) = log.get(at + 8..at + TXN_HEAD) {
        let length = u32::from_be_bytes(length.try_into().expect("four bytes"));
        let body = at + TXN_HEAD;
        let Some(end) = body.checked_add(length as usize).filter(|end| *end <= log.len()) else {
            return;
        };
        if body == end {
            return;
        }
        let checksum = i64::from(adler32_slice(&log[body..end]));
        log[at..at + 8].copy_from_slice(&checksum.to_be_bytes());
        at = end + 1;
    }
}
