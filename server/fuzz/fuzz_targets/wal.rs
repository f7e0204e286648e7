//! A segment of the log, as a stop or a bad disk may leave it. The input is a list of records; the
//! checksums around them are made here, for without them nothing would be read at all. The last
//! instructions damage what was made.
#![no_main]

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use crc32c::{crc32c, crc32c_append};
use libfuzzer_sys::fuzz_target;
use zoolet_storage::{Disk, Entry, LogIndex, LogPosition, MemoryDisk, Wal, WalMode, WalOptions};

const SECTOR_BYTES: usize = 512;
const SEGMENT_BYTES: usize = 16 * 1024;
const SALT: u64 = 0;

/// What an instruction of the input does, besides adding a record of its own number.
const END_BATCH: u8 = 0;
const DAMAGE: u8 = 7;

fuzz_target!(|bytes: &[u8]| {
    let disk = MemoryDisk::new();
    let directory = Path::new("wal");
    disk.create_dir_all(directory).expect("memory");
    let file = disk.create(&directory.join(format!("{:016x}.wal", 1))).expect("memory");
    file.write_all_at(&segment(bytes), 0).expect("memory");
    let Ok((wal, recovered)) = open(&disk) else { return };
    check(&wal);
    drop(wal);
    // What was found once is found again, and the log goes on.
    let (wal, again) = open(&disk).expect("it was read before");
    assert_eq!(again.state, recovered.state);
    let index = again.state.last.map_or(1, |last| last.index.0.saturating_add(1));
    let position = LogPosition { term: u64::MAX, node: 1, index: LogIndex(index) };
    let entry = Entry { position, kind: 1, body: Bytes::from_static(b"next") };
    if index < u64::MAX && wal.append(vec![entry], Box::new(drop)).is_ok() {
        let end = again.state.entries.end;
        assert_eq!(wal.state().last, Some(position), "{end}");
    }
    check(&wal);
});

fn open(
    disk: &MemoryDisk,
) -> Result<(Wal, zoolet_storage::Recovered), zoolet_storage::StorageError> {
    let options = WalOptions {
        mode: WalMode::Inline,
        segment_bytes: SEGMENT_BYTES as u64,
        cache_bytes_max: 100,
        batch_bytes_max: 4096,
        salt: SALT,
    };
    Wal::open(Arc::new(disk.clone()), Path::new("wal"), options)
}

/// Every entry that the log says to hold can be read.
fn check(wal: &Wal) {
    let state = wal.state();
    let entries = wal.entries(state.entries.clone(), usize::MAX).expect("its own entries");
    let found = entries.iter().map(|entry| entry.position.index.0);
    assert!(found.eq(state.entries.start.0..state.entries.end.0), "{:?}", state.entries);
}

/// The file that the instructions make.
fn segment(mut input: &[u8]) -> Vec<u8> {
    let mut file = header();
    let (mut body, mut records) = (Vec::new(), 0);
    let (mut number, mut previous) = (1, 0);
    let mut damages = Vec::new();
    while let Some((&[kind, length], rest)) = input.split_first_chunk() {
        let (fields, rest) = rest.split_at(usize::from(length).min(rest.len()));
        input = rest;
        match kind % 8 {
            END_BATCH => {
                previous = put_batch(&mut file, &body, records, number, previous);
                (body, records, number) = (Vec::new(), 0, number + 1);
            }
            DAMAGE => damages.push(fields),
            kind => {
                put_record(&mut body, kind, fields);
                records += 1;
            }
        }
    }
    put_batch(&mut file, &body, records, number, previous);
    file.resize(SEGMENT_BYTES, 0);
    for damage in damages {
        if let Some((at, bytes)) = damage.split_first_chunk() {
            let at = usize::from(u16::from_be_bytes(*at)) % SEGMENT_BYTES;
            for (byte, mask) in file[at..].iter_mut().zip(bytes) {
                *byte ^= mask;
            }
        }
    }
    file
}

fn header() -> Vec<u8> {
    let mut sector = b"ZOOLETWL".to_vec();
    sector.extend(1_u32.to_be_bytes());
    sector.extend(1_u64.to_be_bytes());
    sector.extend((SEGMENT_BYTES as u64).to_be_bytes());
    sector.extend(SALT.to_be_bytes());
    sector.resize(SECTOR_BYTES - 4, 0);
    sector.extend(crc32c(&sector).to_be_bytes());
    sector
}

fn put_record(body: &mut Vec<u8>, kind: u8, fields: &[u8]) {
    let length = (1 + fields.len() as u32).to_be_bytes();
    let checksum = crc32c_append(crc32c_append(crc32c(&length), &[kind]), fields);
    body.extend(length);
    body.extend(checksum.to_be_bytes());
    body.push(kind);
    body.extend(fields);
}

/// Appends a batch, and gives the checksum of its header.
fn put_batch(file: &mut Vec<u8>, body: &[u8], records: u32, number: u64, previous: u32) -> u32 {
    let mut fields = number.to_be_bytes().to_vec();
    fields.extend(previous.to_be_bytes());
    fields.extend(records.to_be_bytes());
    fields.extend((body.len() as u32).to_be_bytes());
    fields.extend(crc32c(body).to_be_bytes());
    let checksum = crc32c_append(crc32c(&SALT.to_be_bytes()), &fields);
    file.extend(b"BTCH");
    file.extend(checksum.to_be_bytes());
    file.extend(fields);
    file.extend(body);
    file.resize(file.len().next_multiple_of(SECTOR_BYTES), 0);
    checksum
}
