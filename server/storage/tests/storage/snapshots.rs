//! Snapshot files on bad disks.

use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use zoolet_storage::{
    Fault, Image, LogIndex, MemoryDisk, SnapshotName, SnapshotReader, SnapshotStore, StorageError,
    Survival,
};

use crate::trace::Dice;

const DIRECTORY: &str = "data/snapshots";

fn open(disk: &MemoryDisk) -> Result<SnapshotStore, StorageError> {
    SnapshotStore::open(Arc::new(disk.clone()), Path::new(DIRECTORY))
}

fn name(index: u64) -> SnapshotName {
    SnapshotName { term: 1 + index / 10, index: LogIndex(index), zxid: 1000 + index }
}

fn contents(index: u64) -> Vec<u8> {
    let mut dice = Dice(index);
    let length = [0, 1, 700, 3000][index as usize % 4];
    dice.bytes(length).to_vec()
}

fn meta(index: u64) -> Bytes {
    Bytes::from(format!("meta {index}"))
}

fn write(store: &SnapshotStore, index: u64) -> Result<(), StorageError> {
    let mut writer = store.create(name(index), &meta(index))?;
    for piece in contents(index).chunks(999) {
        writer.write(piece)?;
    }
    writer.finish(index * 3).map(|_| ())
}

fn read(mut reader: SnapshotReader) -> Result<u64, StorageError> {
    let index = reader.name().index.0;
    let chunks: Result<Vec<Bytes>, StorageError> = reader.by_ref().collect();
    assert_eq!(chunks?.concat(), contents(index));
    assert_eq!(*reader.meta(), meta(index));
    let summary = reader.summary().unwrap();
    assert_eq!((summary.bytes, summary.digest), (contents(index).len() as u64, index * 3));
    Ok(index)
}

/// The index of the newest whole snapshot, read through.
fn newest(disk: &MemoryDisk) -> (Option<u64>, usize) {
    let (reader, damaged) = open(disk).unwrap().newest().unwrap();
    (reader.map(|reader| read(reader).unwrap()), damaged.len())
}

fn three() -> Image {
    let disk = MemoryDisk::with_faults();
    let store = open(&disk).unwrap();
    for index in [5, 6, 7] {
        write(&store, index).unwrap();
    }
    disk.image()
}

#[test]
fn the_newest_are_kept_and_read_back() {
    let disk = MemoryDisk::new();
    let store = open(&disk).unwrap();
    for index in 0..20 {
        write(&store, index).unwrap();
        store.retain(3).unwrap();
    }
    let indices: Vec<u64> = store.list().unwrap().iter().map(|info| info.name.index.0).collect();
    assert_eq!(indices, [19, 18, 17]);
    assert_eq!(newest(&disk), (Some(19), 0));
}

#[test]
fn a_long_snapshot_is_read_in_bounded_pieces() {
    let disk = MemoryDisk::new();
    let store = open(&disk).unwrap();
    let long = Dice(1).bytes(1_000_003);
    let mut writer = store.create(name(1), &Bytes::new()).unwrap();
    for piece in long.chunks(70_001) {
        writer.write(piece).unwrap();
    }
    writer.finish(0).unwrap();
    let chunks: Vec<Bytes> =
        store.read(name(1)).unwrap().collect::<Result<_, StorageError>>().unwrap();
    assert!(chunks.iter().all(|chunk| chunk.len() <= 256 << 10));
    assert_eq!(chunks.concat(), long);
}

#[test]
fn an_unfinished_snapshot_leaves_nothing() {
    let disk = MemoryDisk::new();
    let store = open(&disk).unwrap();
    let mut writer = store.create(name(1), &meta(1)).unwrap();
    writer.write(b"abc").unwrap();
    drop(writer);
    assert_eq!(disk.image().files(), []);
    std::mem::forget(store.create(name(1), &meta(1)).unwrap());
    assert_eq!(disk.image().files().len(), 1);
    open(&disk).unwrap();
    assert_eq!(disk.image().files(), []);
}

#[test]
fn two_writers_of_one_snapshot_do_not_meet() {
    let disk = MemoryDisk::new();
    let store = open(&disk).unwrap();
    let mut first = store.create(name(7), &meta(7)).unwrap();
    let mut second = store.create(name(7), &meta(7)).unwrap();
    first.write(&contents(7)).unwrap();
    second.write(b"something else").unwrap();
    drop(second);
    first.finish(21).unwrap();
    assert_eq!(newest(&disk), (Some(7), 0));
}

#[test]
fn a_crash_leaves_the_last_finished_snapshot() {
    for seed in 0..40 {
        let disk = MemoryDisk::with_faults();
        let finished = Arc::new(Mutex::new(None));
        let moments = Arc::new(Mutex::new(Vec::new()));
        let (progress, notes) = (finished.clone(), moments.clone());
        disk.observe(move |image| {
            notes.lock().unwrap().push((image.clone(), *progress.lock().unwrap()));
        });
        let store = open(&disk).unwrap();
        for index in 1..=6 {
            write(&store, index).unwrap();
            *finished.lock().unwrap() = Some(index);
            store.retain(2).unwrap();
        }
        for (call, (image, finished)) in moments.lock().unwrap().iter().enumerate() {
            let cut = image.after_power_cut(Survival::Torn { seed: seed * 1000 + call as u64 });
            for image in [cut, image.clone()] {
                let (found, damaged) = newest(&MemoryDisk::from_image(image));
                assert!(found >= *finished, "seed {seed}, call {call}: {found:?} < {finished:?}");
                assert_eq!(damaged, 0, "seed {seed}, call {call}");
            }
        }
    }
}

#[test]
fn every_flipped_byte_and_every_cut_is_noticed() {
    let image = three();
    for (path, bytes) in image.files() {
        let index = open(&MemoryDisk::from_image(image.clone())).unwrap().list().unwrap();
        let info = index
            .into_iter()
            .find(|info| path.to_str().unwrap().contains(&format!("{:016x}.snap", info.name.zxid)))
            .unwrap();
        for offset in 0..bytes {
            let mut flipped = image.clone();
            flipped.flip(&path, offset, 1 << (offset % 8)).unwrap();
            let mut cut = image.clone();
            cut.cut(&path, offset).unwrap();
            for damaged in [flipped, cut] {
                let store = open(&MemoryDisk::from_image(damaged)).unwrap();
                let verified = store.read(info.name).and_then(|reader| reader.verify());
                let error = verified.expect_err("damage passed for data");
                assert!(matches!(error, StorageError::Corrupt { .. }), "{error}");
            }
        }
    }
}

#[test]
fn an_older_snapshot_replaces_a_damaged_one() {
    let mut image = three();
    let files = image.files();
    image.flip(&files[2].0, 60, 1).unwrap();
    assert_eq!(newest(&MemoryDisk::from_image(image.clone())), (Some(6), 1));
    image.cut(&files[1].0, 100).unwrap();
    assert_eq!(newest(&MemoryDisk::from_image(image.clone())), (Some(5), 2));
    image.cut(&files[0].0, 0).unwrap();
    assert_eq!(newest(&MemoryDisk::from_image(image)), (None, 3));
}

#[test]
fn a_failed_call_is_an_error_and_the_older_snapshot_stays() {
    let mut number = 0;
    loop {
        number += 1;
        let disk = MemoryDisk::from_image(three());
        let store = open(&disk).unwrap();
        disk.fail_change(number, if number % 2 == 0 { Fault::Io } else { Fault::Short });
        let written = write(&store, 9);
        let after = disk.image().after_power_cut(Survival::Torn { seed: number });
        let (found, damaged) = newest(&MemoryDisk::from_image(after));
        assert!(
            found == Some(9) || written.is_err() && found == Some(7),
            "call {number}: {found:?}"
        );
        assert_eq!(damaged, 0);
        if written.is_ok() {
            break;
        }
    }
    assert!(number > 5);
}
