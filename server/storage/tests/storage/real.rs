//! The log, the snapshots and the lock on the operating system's files, with threads.

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;

use bytes::Bytes;
use zoolet_storage::{
    DataDir, Disk, Entry, Identity, LogIndex, LogPosition, RealDisk, SnapshotName, SnapshotStore,
    StorageError, Wal, WalMode, WalOptions,
};

use crate::trace::Model;

fn options() -> WalOptions {
    WalOptions {
        mode: WalMode::Threads,
        segment_bytes: 256 << 10,
        cache_bytes_max: 64 << 10,
        ..WalOptions::default()
    }
}

fn entry(index: u64) -> Entry {
    let position = LogPosition { term: 1 + index / 1000, node: 1, index: LogIndex(index) };
    let length = (index * 37 % 900) as usize;
    Entry { position, kind: 1, body: vec![index as u8; length].into() }
}

fn open(path: &Path) -> Wal {
    Wal::open(Arc::new(RealDisk), path, options()).unwrap().0
}

#[test]
fn a_log_on_a_real_disk_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep/wal");
    let (send, acknowledged) = mpsc::channel();
    let mut expected = Model::default();
    for start in 0..4 {
        let wal = open(&path);
        assert_eq!(Model::of(&wal).unwrap(), expected);
        for index in start * 1500..(start + 1) * 1500 {
            let send = send.clone();
            let done = Box::new(move |result: Result<(), _>| send.send(result).unwrap());
            wal.append(vec![entry(index)], done).unwrap();
        }
        let purged = entry(start * 1500 + 400).position;
        wal.purge_to(purged, Box::new(|result| result.unwrap())).unwrap();
        wal.save_vote(Bytes::from(vec![start as u8; 9]), Box::new(|result| result.unwrap()))
            .unwrap();
        wal.save_committed(Some(purged)).unwrap();
        expected = Model::of(&wal).unwrap();
        assert_eq!(expected.entries.len(), 1099);
    }
    let results: Vec<Result<(), StorageError>> = acknowledged.try_iter().collect();
    assert_eq!(results.len(), 6000);
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(Model::of(&open(&path)).unwrap(), expected);
    // Six megabytes went through it; purging and trimming gave the most back.
    let files = RealDisk.list(&path).unwrap();
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    assert!(bytes < 2 << 20, "{bytes} bytes in {} files", files.len());
}

#[test]
fn readers_and_the_writer_do_not_disturb_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let wal = open(directory.path());
    thread::scope(|scope| {
        scope.spawn(|| {
            for index in 0..4000 {
                wal.append(vec![entry(index)], Box::new(|result| result.unwrap())).unwrap();
                if index % 500 == 499 {
                    let position = entry(index - 400).position;
                    wal.purge_to(position, Box::new(|result| result.unwrap())).unwrap();
                }
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                while wal.state().last.is_none_or(|last| last.index < LogIndex(3999)) {
                    let there = wal.state().entries;
                    for found in wal.entries(there, 100_000).unwrap() {
                        assert_eq!(found, entry(found.position.index.0));
                    }
                }
            });
        }
    });
}

#[test]
fn a_real_directory_has_one_server_with_one_identity() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("server");
    let ours = Identity { cluster_id: 9, server_id: 1, directory_id: 5, founding: 0 };
    let data = DataDir::open(Arc::new(RealDisk), &path).unwrap();
    ours.claim(&data).unwrap();
    let error = DataDir::open(Arc::new(RealDisk), &path).unwrap_err();
    assert!(matches!(error, StorageError::Locked { .. }), "{error}");
    drop(data);
    let data = DataDir::open(Arc::new(RealDisk), &path).unwrap();
    ours.claim(&data).unwrap();
    Identity { server_id: 2, ..ours }.claim(&data).unwrap_err();
}

#[test]
fn snapshots_on_a_real_disk_come_back() {
    let directory = tempfile::tempdir().unwrap();
    let store = SnapshotStore::open(Arc::new(RealDisk), directory.path()).unwrap();
    let contents: Vec<u8> = (0..2_000_000_u32).map(|number| (number / 7) as u8).collect();
    for index in 1..=4 {
        let name = SnapshotName { term: 1, index: LogIndex(index), zxid: index };
        let mut writer = store.create(name, &Bytes::from_static(b"meta")).unwrap();
        writer.write(&contents).unwrap();
        writer.finish(index).unwrap();
    }
    // A snapshot that is being sent to another server stays readable when it is removed.
    let oldest = SnapshotName { term: 1, index: LogIndex(1), zxid: 1 };
    let being_read = store.read(oldest).unwrap();
    assert_eq!(store.retain(3).unwrap(), [oldest]);
    let chunks: Vec<Bytes> = being_read.collect::<Result<_, _>>().unwrap();
    assert_eq!(chunks.concat(), contents);
    let (newest, damaged) = store.newest().unwrap();
    assert_eq!(newest.unwrap().name().index, LogIndex(4));
    assert!(damaged.is_empty());
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    RealDisk.create(&file).unwrap();
    let error = DataDir::open(Arc::new(RealDisk), &file.join("data")).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("cannot create {}", file.join("data").display())),
        "{error}"
    );
}
