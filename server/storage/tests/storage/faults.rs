//! Disk calls that fail: the log stops at the first one, for good, and what is on the disk then is
//! what was acknowledged, or more.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use zoolet_storage::{Disk, Fault, LogIndex, MemoryDisk, StorageError, Survival};

use crate::trace::{Model, Op, Trace, open};

/// Runs a trace whose `number`-th changing disk call fails; `None` when it has fewer.
fn run(seed: u64, number: u64, fault: Fault) -> Option<Trace> {
    let mut trace = Trace::new(MemoryDisk::with_faults(), seed);
    trace.disk.fail_change(number, fault);
    if trace.open().is_err() {
        return Some(trace);
    }
    let reported = Arc::new(Mutex::new(None));
    let mut steps = 0;
    while trace.wal.as_ref().unwrap().failure().is_none() {
        if steps == 30 {
            trace.wal = None;
            return (trace.disk.changes() >= number).then_some(trace);
        }
        let note = reported.clone();
        let hook = move |error: &StorageError| *note.lock().unwrap() = Some(error.to_string());
        trace.wal.as_ref().unwrap().on_failure(Box::new(hook));
        if trace.step().is_err() {
            // The call that failed was the end of one log or the beginning of the next.
            return Some(trace);
        }
        steps += 1;
    }
    check_closed(&mut trace, reported.lock().unwrap().as_deref());
    Some(trace)
}

fn check_closed(trace: &mut Trace, reported: Option<&str>) {
    let failure = trace.wal.as_ref().unwrap().failure().unwrap();
    assert_eq!(reported, Some(failure.to_string().as_str()), "the hook was not called");
    assert!(matches!(failure, StorageError::Io { .. }), "{failure}");
    let acknowledged = *trace.progress.range().start();
    assert_eq!(trace.call(&Op::Flush).unwrap_err().to_string(), failure.to_string());
    let wal = trace.wal.as_ref().unwrap();
    assert!(!wal.write_waiting());
    assert_eq!(
        wal.entries(LogIndex(0)..LogIndex(1), 1).unwrap_err().to_string(),
        failure.to_string()
    );
    assert_eq!(acknowledged, *trace.progress.range().start(), "acknowledged after a failure");
    trace.wal = None;
    assert_eq!(acknowledged, *trace.progress.range().start(), "acknowledged after a failure");
}

/// Everything that may be on the disk afterwards.
fn check_disk(trace: &Trace, seed: u64, number: u64, fault: Fault) {
    let image = trace.disk.image();
    let mut disks = vec![MemoryDisk::from_image(image.clone())];
    for survival in [
        Survival::Nothing,
        Survival::Everything,
        Survival::Some { seed: number },
        Survival::Torn { seed: number },
    ] {
        disks.push(MemoryDisk::from_image(image.after_power_cut(survival)));
    }
    for (which, disk) in disks.iter().enumerate() {
        let case = format!("seed {seed}, call {number}, {fault:?}, disk {which}");
        let wal = open(disk).unwrap_or_else(|error| panic!("{case}: {error}"));
        let found = Model::of(&wal).unwrap();
        let allowed = trace.progress.range();
        let known = allowed.clone().rev().find(|number| trace.models[*number] == found);
        let known = known.unwrap_or_else(|| panic!("{case}: none of {allowed:?}"));
        disk.switch_off();
        drop(wal);
        // What the new log showed is there to stay, even if an earlier sync had failed silently.
        let after = MemoryDisk::from_image(disk.image().after_power_cut(Survival::Nothing));
        let again = Model::of(&open(&after).unwrap()).unwrap();
        assert_eq!(again, trace.models[known], "{case}");
    }
}

#[test]
fn the_first_failed_call_closes_the_log() {
    for seed in 1..=12 {
        for fault in [Fault::Io, Fault::Full, Fault::Short] {
            let mut number = 1;
            while let Some(trace) = run(seed, number, fault) {
                check_disk(&trace, seed, number, fault);
                number += 1;
            }
            assert!(number > 20, "seed {seed} has only {number} disk calls");
        }
    }
}

#[test]
fn a_failed_read_is_an_error_and_nothing_more() {
    let mut trace = Trace::new(MemoryDisk::with_faults(), 5);
    trace.open().unwrap();
    while trace.models.last().unwrap().entries.len() < 40 {
        trace.step().unwrap();
    }
    trace.write_all();
    trace.disk.fail_read(2);
    let wal = trace.wal.as_ref().unwrap();
    let error = Model::of(wal).unwrap_err();
    assert!(matches!(error, StorageError::Io { op: "read", .. }), "{error}");
    assert_eq!(Model::of(wal).unwrap(), *trace.models.last().unwrap());
    trace.call(&Op::Flush).unwrap();
    trace.write_all();
    assert_eq!(trace.progress.refused.load(Ordering::SeqCst), 0);
}

#[test]
fn a_full_disk_says_so_and_opens_again_when_there_is_room() {
    let mut trace = Trace::new(MemoryDisk::with_faults(), 9);
    trace.open().unwrap();
    trace.disk.set_capacity(Some(20_000));
    let failure = loop {
        let op = trace.models.last().unwrap().random_op(&mut trace.dice);
        if let Op::Append(_) = op {
            trace.call(&op).unwrap();
            trace.write_all();
        }
        if let Some(failure) = trace.wal.as_ref().unwrap().failure() {
            break failure;
        }
    };
    assert!(failure.is_disk_full());
    assert!(
        failure.to_string().starts_with("the disk is full: cannot write data/wal/"),
        "{failure}"
    );
    trace.wal = None;
    trace.disk.set_capacity(None);
    let found = Model::of(&open(&trace.disk).unwrap()).unwrap();
    assert!(trace.progress.range().any(|number| trace.models[number] == found));
}

/// A call that is refused gets the error that failed the log.
fn names_fault(error: &StorageError) -> bool {
    matches!(error, StorageError::Io { .. })
}

#[test]
fn a_failing_helper_closes_a_log_with_threads() {
    use std::path::Path;
    use zoolet_storage::{LogPosition, Wal, WalMode};
    for number in 1..200 {
        let disk = MemoryDisk::with_faults();
        let options = crate::trace::options(WalMode::Threads);
        let path = Path::new(crate::trace::DIRECTORY);
        let (wal, _) = Wal::open(Arc::new(disk.clone()), path, options).unwrap();
        disk.fail_change(number, Fault::Io);
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let (send, answered) = std::sync::mpsc::channel();
        let mut handed_in = 0;
        for index in 0..60_u64 {
            let position = LogPosition { term: 1, node: 1, index: LogIndex(index) };
            let body = bytes::Bytes::from(vec![index as u8; 400]);
            let entry = zoolet_storage::Entry { position, kind: 0, body };
            let (count, send) = (acknowledged.clone(), send.clone());
            let appended = wal.append(
                vec![entry],
                Box::new(move |result| {
                    if result.is_ok() {
                        count.fetch_add(1, Ordering::SeqCst);
                    }
                    send.send(result).unwrap();
                }),
            );
            if let Err(error) = appended {
                assert!(names_fault(&error), "{error}");
                break;
            }
            handed_in += 1;
            if index % 7 == 3 {
                // The log may be closed by now.
                let _ = wal.purge_to(position, Box::new(|_| ()));
            }
        }
        // Every call is answered, and none of those that were acknowledged is lost.
        for _ in 0..handed_in {
            let answer = answered.recv().unwrap();
            assert!(answer.as_ref().err().is_none_or(names_fault), "{answer:?}");
        }
        drop(wal);
        let acknowledged = acknowledged.load(Ordering::SeqCst) as u64;
        let after = disk.image().after_power_cut(Survival::Torn { seed: number });
        let found = Model::of(&open(&MemoryDisk::from_image(after)).unwrap()).unwrap();
        let next = found.last.map_or(0, |last| last.index.0 + 1);
        assert!(next >= acknowledged, "call {number}: {next} of {acknowledged}");
    }
}

/// A disk whose power fails in the midst of a change has what was done before it, half of a write,
/// and nothing else.
#[test]
fn a_disk_ends_in_the_midst_of_a_change() {
    for last in 1..=4 {
        let disk = MemoryDisk::with_faults();
        disk.create_dir_all(Path::new("data")).unwrap();
        disk.switch_off_at(last);
        let power = disk.power();
        let write = || {
            let file = disk.create(Path::new("data/file"))?;
            file.write_all_at(b"first one", 0)?;
            file.sync_data()?;
            file.write_all_at(b"12345678", 0)
        };
        assert!(!power.is_off());
        write().unwrap_err();
        assert!(power.is_off());
        disk.create(Path::new("data/other")).unwrap_err();
        let mut image = disk.image();
        image.settle();
        let contents = image.contents(Path::new("data/file")).unwrap_or_default();
        let expected: [&[u8]; 4] = [b"", b"firs", b"first one", b"1234t one"];
        assert_eq!(contents, expected[usize::try_from(last).unwrap() - 1], "change {last}");
    }
}
