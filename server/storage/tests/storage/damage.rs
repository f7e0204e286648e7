//! Bytes that change, ends that are cut off, files that get lost: either the log says what is
//! wrong and where, or nothing is wrong with what it gives.

use std::path::Path;

use zoolet_storage::{Disk, Entry, Image, LogIndex, LogPosition, MemoryDisk, StorageError};

use crate::trace::{DIRECTORY, Model, Op, Trace, open};

/// A small log on a disk on which everything is durable; what it holds, and what it held before
/// its last batch.
struct Sample {
    image: Image,
    now: Model,
    before_last_batch: Model,
}

fn sample(seed: u64, in_good_order: bool) -> Sample {
    let mut trace = Trace::new(MemoryDisk::with_faults(), seed);
    trace.open().unwrap();
    for _ in 0..70 {
        trace.step().unwrap();
    }
    trace.write_all();
    let before_last_batch = trace.models.last().unwrap().clone();
    while *trace.models.last().unwrap() == before_last_batch {
        let op = before_last_batch.random_op(&mut trace.dice);
        trace.call(&op).unwrap();
    }
    // A committed position alone is written with what comes next.
    trace.call(&Op::Flush).unwrap();
    trace.write_all();
    let now = trace.models.last().unwrap().clone();
    if in_good_order {
        trace.wal = None;
    } else {
        trace.kill();
    }
    let mut image = trace.disk.image();
    image.settle();
    Sample { image, now, before_last_batch }
}

/// Opens a damaged log; true when it noticed.
fn is_noticed(image: Image, allowed: &[&Model], case: &str) -> bool {
    let disk = MemoryDisk::from_image(image);
    match open(&disk).and_then(|wal| Model::of(&wal)) {
        Err(StorageError::Corrupt { .. } | StorageError::NewerFormat { .. }) => true,
        Err(error) => panic!("{case}: {error}"),
        Ok(found) => {
            assert!(allowed.contains(&&found), "{case}: {found:#?}");
            false
        }
    }
}

/// The last set bit of a sector that is cleared is also what a write can leave that was cut short.
#[test]
fn no_flipped_bit_passes_for_data() {
    for seed in 1..=3 {
        let sample = sample(seed, false);
        let (mut noticed, mut cut_off) = (0, 0);
        for (path, bytes) in sample.image.files() {
            for offset in 0..bytes {
                let mut image = sample.image.clone();
                image.flip(&path, offset, 1 << (offset % 8)).unwrap();
                let case = format!("seed {seed}, {} at {offset}", path.display());
                let contents = image.contents(&path).unwrap();
                let rest = contents[offset as usize..].chunks(512 - offset as usize % 512).next();
                let allowed = [&sample.now, &sample.before_last_batch];
                let is_empty = rest.unwrap().iter().all(|byte| *byte == 0);
                let allowed = &allowed[..=usize::from(is_empty)];
                noticed += usize::from(is_noticed(image, allowed, &case));
                cut_off += usize::from(is_empty);
            }
        }
        assert!(noticed > 1000, "seed {seed}: only {noticed} flips were noticed");
        assert!(cut_off < 10, "seed {seed}: {cut_off} flips look like the end of a write");
    }
}

/// More than one bit of the last batch may be what a write left that was cut short: the batch may go,
/// and no other.
#[test]
fn a_changed_byte_costs_no_more_than_the_last_batch() {
    for seed in 1..=3 {
        let sample = sample(seed, false);
        let allowed = [&sample.now, &sample.before_last_batch];
        for (path, bytes) in sample.image.files() {
            for offset in 0..bytes {
                let mut image = sample.image.clone();
                image.flip(&path, offset, 0xff).unwrap();
                let case = format!("seed {seed}, {} at {offset}", path.display());
                is_noticed(image, &allowed, &case);
            }
        }
    }
}

#[test]
fn after_a_stop_in_good_order_no_flip_loses_anything() {
    for seed in 4..=5 {
        let sample = sample(seed, true);
        for (path, bytes) in sample.image.files() {
            for offset in 0..bytes {
                let mut image = sample.image.clone();
                image.flip(&path, offset, 0xff).unwrap();
                let case = format!("seed {seed}, {} at {offset}", path.display());
                is_noticed(image, &[&sample.now], &case);
            }
        }
    }
}

#[test]
fn no_cut_off_end_is_overlooked() {
    for seed in 6..=7 {
        let sample = sample(seed, false);
        for (path, bytes) in sample.image.files() {
            for left in 0..bytes {
                let mut image = sample.image.clone();
                image.cut(&path, left).unwrap();
                let case = format!("seed {seed}, {} cut at {left}", path.display());
                is_noticed(image, &[&sample.now], &case);
            }
        }
    }
}

#[test]
fn no_lost_or_misnamed_segment_is_overlooked() {
    let mut lost = 0;
    for seed in 10..=30 {
        let sample = sample(seed, seed % 2 == 0);
        let files = sample.image.files();
        // Without its only segment it is a new log; who opens it knows better (`replication/directories.rs`).
        if files.len() < 2 {
            continue;
        }
        for (path, _) in &files {
            let mut image = sample.image.clone();
            image.lose_file(path).unwrap();
            let case = format!("seed {seed}, without {}", path.display());
            lost += usize::from(is_noticed(image, &[&sample.now], &case));
        }
        for (from, _) in &files {
            for (to, _) in &files {
                let disk = MemoryDisk::from_image(sample.image.clone());
                disk.rename(from, to).unwrap();
                let mut image = disk.image();
                image.settle();
                let case = format!("seed {seed}, {} for {}", from.display(), to.display());
                is_noticed(image, &[&sample.now], &case);
            }
        }
    }
    assert!(lost > 20, "only {lost} lost files were noticed");
}

/// A sector of an old write, or of another file, in the wrong place.
#[test]
fn no_misdirected_sector_passes_for_data() {
    for seed in 31..=33 {
        let sample = sample(seed, true);
        let files = sample.image.files();
        for (to, to_bytes) in &files {
            for (from, from_bytes) in &files {
                let contents = sample.image.contents(from).unwrap();
                for sector in 0..to_bytes / 512 {
                    let other = (sector * 7 + 3) % (from_bytes / 512);
                    let bytes = &contents[other as usize * 512..][..512];
                    let disk = MemoryDisk::from_image(sample.image.clone());
                    let file = disk.open(to).unwrap();
                    file.write_all_at(bytes, sector * 512).unwrap();
                    let mut image = disk.image();
                    image.settle();
                    let case = format!("seed {seed}, {} sector {sector}", to.display());
                    is_noticed(image, &[&sample.now], &case);
                }
            }
        }
    }
}

/// A log of ten equally long entries, of which the fifth has the body `fifth`.
fn log_with(fifth: u8) -> Image {
    let mut trace = Trace::new(MemoryDisk::with_faults(), 1);
    trace.open().unwrap();
    for index in 0..10 {
        let position = LogPosition { term: 1, node: 1, index: LogIndex(index) };
        let body = vec![if index == 4 { fifth } else { 0 }; 900].into();
        trace.call(&Op::Append(vec![Entry { position, kind: 0, body }])).unwrap();
        trace.write_all();
    }
    trace.wal = None;
    let mut image = trace.disk.image();
    image.settle();
    image
}

/// An operator puts back a segment from a copy of the directory that went another way.
#[test]
fn a_segment_of_another_log_does_not_pass_for_this_ones() {
    let (ours, theirs) = (log_with(1), log_with(2));
    let files = ours.files();
    assert_eq!(files, theirs.files());
    let differs = |path: &Path| ours.contents(path).unwrap() != theirs.contents(path).unwrap();
    let mut swapped = 0;
    for (path, _) in files.iter().filter(|(path, _)| differs(path)) {
        let disk = MemoryDisk::from_image(ours.clone());
        let file = disk.create(path).unwrap();
        file.write_all_at(&theirs.contents(path).unwrap(), 0).unwrap();
        let error = open(&disk).unwrap_err();
        assert!(matches!(error, StorageError::Corrupt { .. }), "{}: {error}", path.display());
        swapped += 1;
    }
    assert!(swapped > 1);
}

#[test]
fn damage_is_named_with_file_and_offset() {
    let sample = sample(1, true);
    let (path, _) = &sample.image.files()[0];
    assert!(path.starts_with(DIRECTORY));
    let mut image = sample.image.clone();
    image.flip(path, 600, 1).unwrap();
    let error = open(&MemoryDisk::from_image(image)).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{} is damaged at byte 512: ", path.display())), "{error}");
}
