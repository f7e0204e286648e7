//! Bytes that change, ends that are cut off, files that get lost: either the log says what is
//! wrong and where, or nothing is wrong with what it gives.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zoolet_storage::{
    Disk, Entry, Image, LogIndex, LogPosition, MemoryDisk, StorageError, Wal, WalMode, WalOptions,
};

use crate::trace::{DIRECTORY, Model, Op, Trace, open, options};

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

/// The place of the last batch, and the length of its header and records, as docs/storage.md has them.
fn last_batch(image: &Image) -> (PathBuf, usize, usize) {
    let (path, _) = image.files().into_iter().rfind(|(path, _)| is_segment(path)).unwrap();
    let contents = image.contents(&path).unwrap();
    let is_batch = |at: &usize| contents[*at..].starts_with(b"BTCH");
    let at = (0..contents.len()).step_by(512).rfind(is_batch).unwrap();
    let body = u32::from_be_bytes(contents[at + 24..at + 28].try_into().unwrap());
    (path, at, 32 + body as usize)
}

/// Whether a batch with a bit that has changed at `at` may also be what a write has left that was cut
/// short: the end of a sector is zeros, or all behind that bit is.
fn may_be_cut_short(batch: &[u8], at: usize) -> bool {
    let are_zeros = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    let rest = batch[at..].chunks(512 - at % 512).next().unwrap();
    are_zeros(rest)
        || batch.chunks(512).any(|sector| are_zeros(&sector[sector.len().saturating_sub(16)..]))
}

#[test]
fn no_flipped_bit_passes_for_data() {
    let mut wholly_noticed = 0;
    for seed in 1..=8 {
        let sample = sample(seed, false);
        let (last_path, batch_at, batch_bytes) = last_batch(&sample.image);
        let (mut noticed, mut cut_off) = (0, 0);
        for (path, bytes) in sample.image.files() {
            for offset in (0..bytes).filter(|offset| seed <= 3 || *offset as usize >= batch_at) {
                let mut image = sample.image.clone();
                image.flip(&path, offset, 1 << (offset % 8)).unwrap();
                let case = format!("seed {seed}, {} at {offset}", path.display());
                let at = (offset as usize).checked_sub(batch_at);
                let at = at.filter(|at| path == last_path && *at < batch_bytes);
                let is_doubtful = at.is_some_and(|at| {
                    let contents = image.contents(&path).unwrap();
                    may_be_cut_short(&contents[batch_at..batch_at + batch_bytes], at)
                });
                let allowed = [&sample.now, &sample.before_last_batch];
                let allowed = &allowed[..=usize::from(is_doubtful)];
                noticed += usize::from(is_noticed(image, allowed, &case));
                cut_off += usize::from(is_doubtful);
            }
        }
        assert!(seed > 3 || noticed > 1000, "seed {seed}: only {noticed} flips were noticed");
        wholly_noticed += usize::from(cut_off < 10);
    }
    assert!(wholly_noticed > 4, "only of {wholly_noticed} logs the last batch is safe");
}

/// What is left of a write that was cut short, and happens to fit to the checksums as if one bit had
/// changed: of a sector that is lost, the checksum has the same as of a bit in the sector before.
#[test]
fn a_write_that_was_cut_short_is_not_taken_for_a_changed_bit() {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let step = |crc: u32| (crc >> 1) ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
    let step_back =
        |crc: u32| if crc >> 31 == 1 { ((crc ^ POLYNOMIAL) << 1) | 1 } else { crc << 1 };
    let (bit_at, lost_at, lost_bytes, body_bytes) = (400, 512, 512, 1200);
    let value_at = lost_at + 100;
    let log_of = |body: Vec<u8>| {
        let mut trace = Trace::new(MemoryDisk::with_faults(), 1);
        trace.open().unwrap();
        for (index, body) in [b"first".to_vec(), body].into_iter().enumerate() {
            let position = LogPosition { term: 1, node: 1, index: LogIndex(index as u64) };
            trace.call(&Op::Append(vec![Entry { position, kind: 0, body: body.into() }])).unwrap();
            trace.write_all();
        }
        trace.kill();
        let mut image = trace.disk.image();
        image.settle();
        image
    };
    // Where the body is in the batch.
    let image = log_of(vec![0xab; body_bytes]);
    let (path, batch_at, _) = last_batch(&image);
    let contents = image.contents(&path).unwrap();
    let body_at = contents[batch_at..].iter().position(|byte| *byte == 0xab).unwrap();

    // What the lowest bit of the byte does to a checksum, up to behind the value.
    let mut effect = 1;
    for _ in 0..8 * (value_at + 4 - bit_at) {
        effect = step(effect);
    }
    let mut value = (0..32).fold(effect, |crc, _| step_back(crc)).to_be_bytes();
    // Its lowest bit comes first.
    value.reverse();
    let mut body = vec![0xab; body_bytes];
    body[lost_at - body_at..][..lost_bytes].fill(0);
    body[value_at - body_at..][..4].copy_from_slice(&value);
    let mut image = log_of(body);
    let whole = image.contents(&path).unwrap();
    for (place, byte) in value.into_iter().enumerate() {
        image.flip(&path, (batch_at + value_at + place) as u64, byte).unwrap();
    }
    let torn = image.contents(&path).unwrap();
    let bytes = batch_at..batch_at + body_at + body_bytes;
    let mut repaired = torn.clone();
    repaired[batch_at + bit_at] ^= 1;
    let checksum = |contents: &[u8]| crc32c::crc32c(&contents[bytes.clone()]);
    assert_eq!(checksum(&repaired), checksum(&whole), "the case is not the one that is meant");

    let wal = open(&MemoryDisk::from_image(image)).unwrap();
    assert_eq!(wal.state().last.unwrap().index, LogIndex(0), "the second entry is cut off");
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
    let masks: [fn(u64) -> u8; 2] = [|_| 0xff, |offset| 1 << (offset % 8)];
    for (seed, mask) in (4..=7).zip(masks.into_iter().cycle()) {
        let sample = sample(seed, true);
        let (last_path, mark_at, _) = last_batch(&sample.image);
        for (path, bytes) in sample.image.files() {
            for offset in 0..bytes {
                let mut image = sample.image.clone();
                image.flip(&path, offset, mask(offset)).unwrap();
                let case = format!("seed {seed}, {} at {offset}", path.display());
                let is_refused = is_noticed(image, &[&sample.now], &case);
                let is_of_mark = path == last_path && offset >= mark_at as u64;
                assert!(!(is_of_mark && is_refused), "{case}: nothing is lost with the mark");
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
        let mut files = sample.image.files();
        files.retain(|(path, _)| is_segment(path));
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

/// Returns the image with zeros in the last segment, from an offset to the end of its page.
fn without_page(image: &Image, from: usize) -> Image {
    let (path, bytes) = image.files().into_iter().rfind(|(path, _)| is_segment(path)).unwrap();
    let end = (from as u64 / 4096 + 1) * 4096;
    let mut image = image.clone();
    image.zero(&path, from as u64..end.min(bytes)).unwrap();
    image
}

fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "wal")
}

/// The end mark lies in the same page as the last batches: losing that page silently lost 7 of 40
/// acknowledged writes.
#[test]
fn a_page_that_is_lost_after_a_stop_in_good_order_is_noticed() {
    let mut noticed = 0;
    for seed in 1..=100 {
        let sample = sample(seed, true);
        let (path, _) =
            sample.image.files().into_iter().rfind(|(path, _)| is_segment(path)).unwrap();
        let used = sample.image.contents(&path).unwrap();
        let used = used.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        for from in (512..used).step_by(512) {
            let image = without_page(&sample.image, from);
            let case = format!("seed {seed}, zeros from byte {from} of {used}");
            let is_noticed = is_noticed(image.clone(), &[&sample.now], &case);
            noticed += usize::from(is_noticed);
            if is_noticed {
                salvage(image, &case);
            }
        }
    }
    assert!(noticed > 200, "only {noticed} were noticed");
}

/// Salvaging opens the rest of the log. `open` refuses the log until the loss is accepted.
fn salvage(image: Image, case: &str) {
    let disk = MemoryDisk::from_image(image);
    let salvage = || {
        let disk = Arc::new(disk.clone());
        Wal::salvage(disk, Path::new(DIRECTORY), options(WalMode::Manual))
    };
    let (wal, found) = match salvage() {
        Ok(opened) => opened,
        // The damage is not at the end.
        Err(StorageError::Corrupt { .. }) => return,
        Err(error) => panic!("{case}: {error}"),
    };
    let lost = found.lost.unwrap();
    assert!(lost.contains("batch"), "{case}: {lost}");
    let left = Model::of(&wal).unwrap();
    drop(wal);
    let refused = open(&disk).unwrap_err();
    assert!(matches!(refused, StorageError::Corrupt { .. }), "{case}: {refused}");
    let (wal, found) = salvage().unwrap();
    assert!(found.lost.is_some(), "{case}");
    wal.accept_loss().unwrap();
    // A process that is killed closes nothing.
    let killed = MemoryDisk::from_image(disk.image());
    assert_eq!(Model::of(&open(&killed).unwrap()).unwrap(), left, "{case}");
    drop(wal);
    assert_eq!(Model::of(&open(&disk).unwrap()).unwrap(), left, "{case}");
}

/// Recovery reports whether the bytes that it cut off may have been acknowledged.
#[test]
fn bytes_after_a_stop_in_good_order_were_never_acknowledged() {
    let cut_off = |in_good_order| {
        let image = sample(1, in_good_order).image;
        let (path, at, bytes) = last_batch(&image);
        let disk = MemoryDisk::from_image(image);
        let behind = (at + bytes).next_multiple_of(512) as u64;
        disk.open(&path).unwrap().write_all_at(&[7; 100], behind).unwrap();
        let salted = WalOptions { salt: 99, ..options(WalMode::Manual) };
        let (_, found) = Wal::open(Arc::new(disk), Path::new(DIRECTORY), salted).unwrap();
        found.torn.unwrap()
    };
    assert!(!cut_off(true).may_be_acknowledged);
    let torn = cut_off(false);
    assert!(torn.may_be_acknowledged && torn.batch > 1, "{torn:?}");
}

/// An earlier release extends the log and leaves the record of its end as it is.
#[test]
fn an_older_record_of_the_end_fits_to_a_log_that_was_extended() {
    let end = Path::new(DIRECTORY).join("end");
    for seed in 1..=40 {
        let mut trace = Trace::new(MemoryDisk::with_faults(), seed);
        trace.open().unwrap();
        for _ in 0..40 {
            trace.step().unwrap();
        }
        trace.wal = None;
        let older = trace.disk.image().contents(&end).unwrap();
        for _ in 0..3 {
            trace.open().unwrap();
            for _ in 0..20 {
                trace.step().unwrap();
            }
            trace.wal = None;
            trace.disk.create(&end).unwrap().write_all_at(&older, 0).unwrap();
        }
        trace.open().unwrap();
    }
}
