#![allow(clippy::disallowed_methods, reason = "a test of a thread waits in real time")]

use std::fs;
use std::path::Path;
use std::thread;

use tempfile::TempDir;
use zoolet_jute::{Id, SessionId, Xid};
use zoolet_replica::{HistoryCause, HistoryChange, HistoryEvent, ServerId};

use super::*;
use crate::entry::{Entry, EntryKind};
use crate::query::Subject;

mod alone;
mod failures;
mod unwinding;

/// How often a test looks whether something is there.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
const LOOKS_MAX: usize = 4000;

/// The time of the event with the zxid 0, and the server's clock in tests that are not about it.
const NOW_MS: i64 = 1_764_000_000_000;

fn options(directory: &Path) -> HistoryOptions {
    let directory = directory.join("history");
    HistoryOptions { directory, bytes_max: 256 << 20, age_ms_max: 7 * 24 * 3_600_000 }
}

fn open(directory: &TempDir) -> History {
    open_with(options(directory.path()))
}

fn open_with(options: HistoryOptions) -> History {
    History::open(options, Arc::default()).unwrap()
}

fn event(zxid: i64, path: &str) -> HistoryEvent {
    HistoryEvent {
        zxid: Zxid(zxid),
        time_ms: NOW_MS + zxid,
        server: ServerId(1),
        session: SessionId(1 + zxid % 5),
        cxid: Xid(1),
        identities: Arc::from([Id::new("ip", "127.0.0.1")]),
        cause: HistoryCause::Request,
        change: HistoryChange::DataChanged {
            path: path.to_owned(),
            old_version: 0,
            version: 1,
            data: None,
        },
    }
}

fn record(history: &History, zxids: impl IntoIterator<Item = i64>) {
    let item = |zxid| HistoryItem::Event(event(zxid, &format!("/app/{}", zxid % 100)));
    history.record(zxids.into_iter().map(item));
    history.tick(NOW_MS);
}

fn query(subject: Subject) -> Query {
    Query { subject, since_ms: None, until_ms: None, after: None, limit: 1_000_000 }
}

/// The entries, once there are as many as expected.
fn found(history: &History, query: &Query, count: usize) -> Vec<Entry> {
    let mut last = None;
    for _ in 0..LOOKS_MAX {
        last = Some(history.find(query));
        if let Some(Ok(found)) = &last
            && found.entries.len() >= count
        {
            return found.entries.clone();
        }
        thread::sleep(LOOK_INTERVAL);
    }
    panic!("{count} entries wanted of {query:?}: {last:?}");
}

fn zxids(entries: &[Entry]) -> Vec<i64> {
    let zxid = |entry: &Entry| match &entry.kind {
        EntryKind::Event(event) => event.zxid.0,
        EntryKind::Gap(gap) => -gap.through.0,
    };
    entries.iter().map(zxid).collect()
}

#[test]
fn what_was_recorded_is_found_by_path_session_and_time() {
    let directory = TempDir::new().unwrap();
    let history = open(&directory);
    record(&history, 1..=20_000);
    let all = found(&history, &query(Subject::All), 20_000);
    assert_eq!(zxids(&all), (1..=20_000).collect::<Vec<_>>());
    let path = found(&history, &query(Subject::Path("/app/7".to_owned())), 200);
    assert_eq!(zxids(&path), (0..200).map(|turn| 7 + 100 * turn).collect::<Vec<_>>());
    let session = found(&history, &query(Subject::Session(SessionId(3))), 4000);
    assert!(zxids(&session).iter().all(|zxid| zxid % 5 == 2));
    assert_eq!(found(&history, &query(Subject::Below("/app".to_owned())), 1).len(), 20_000);
    assert_eq!(history.find(&query(Subject::Path("/ap".to_owned()))).unwrap().entries, []);
    let since = Query { since_ms: Some(1_764_000_019_990), ..query(Subject::All) };
    assert_eq!(
        zxids(&history.find(&since).unwrap().entries),
        (19_990..=20_000).collect::<Vec<_>>()
    );
    let until = Query { until_ms: Some(1_764_000_000_003), ..query(Subject::All) };
    assert_eq!(zxids(&history.find(&until).unwrap().entries), [1, 2]);
    history.close();
}

#[test]
fn a_limit_keeps_the_latest_and_who_follows_gets_all_in_order() {
    let directory = TempDir::new().unwrap();
    let history = open(&directory);
    record(&history, 1..=5000);
    found(&history, &query(Subject::All), 5000);
    let latest = history.find(&Query { limit: 3, ..query(Subject::All) }).unwrap();
    assert_eq!((zxids(&latest.entries), latest.truncated), (vec![4998, 4999, 5000], true));
    let (mut after, mut seen) = (0, Vec::new());
    loop {
        let next = Query { after: Some(after), limit: 700, ..query(Subject::All) };
        let found = history.find(&next).unwrap();
        seen.extend(zxids(&found.entries));
        after = found.last;
        if !found.truncated {
            break;
        }
    }
    assert_eq!(seen, (1..=5000).collect::<Vec<_>>());
    record(&history, [5001]);
    let next = Query { after: Some(after), ..query(Subject::All) };
    assert_eq!(zxids(&found(&history, &next, 1)), [5001]);
}

#[test]
fn a_history_goes_on_where_it_was_closed_and_takes_nothing_twice() {
    let directory = TempDir::new().unwrap();
    let first = open(&directory);
    first.began(Zxid(0));
    record(&first, 1..=3000);
    first.close();
    let second = open(&directory);
    // The log is applied again from the last snapshot on.
    second.began(Zxid(2500));
    record(&second, 2501..=3005);
    let all = found(&second, &query(Subject::All), 3005);
    assert_eq!(zxids(&all), (1..=3005).collect::<Vec<_>>());
    second.close();
}

#[test]
fn what_is_missing_is_a_gap() {
    let directory = TempDir::new().unwrap();
    let history = open(&directory);
    record(&history, [1, 2]);
    history.record([HistoryItem::Skipped { after: Zxid(2), through: Zxid(9) }]);
    record(&history, [10]);
    let path = query(Subject::Path("/app/10".to_owned()));
    assert_eq!(zxids(&found(&history, &path, 2)), [-9, 10], "a gap is in every history");
    history.close();
}

/// However often that happens, it is one gap.
#[test]
fn what_is_too_much_is_lost_and_one_gap() {
    let directory = TempDir::new().unwrap();
    let history = open(&directory);
    record(&history, [1]);
    found(&history, &query(Subject::All), 1);
    let is_lost = |zxids: std::ops::RangeInclusive<i64>| {
        let path = |zxid| format!("/{zxid}{}", "x".repeat(1900));
        let long = |zxid: i64| HistoryItem::Event(event(zxid, &path(zxid)));
        history.record(zxids.map(long));
        history.shared.counts.lost()
    };
    // The thread waits for this, and takes nothing.
    let reading = history.shared.files.read().unwrap();
    assert_eq!(is_lost(2..=20_000), 0);
    let lost = is_lost(20_001..=60_000);
    assert!(lost > 20_000, "{lost} events");
    drop(reading);
    let is_taken = || history.shared.queued_bytes.load(Ordering::Relaxed) == 0;
    let waits = (0..LOOKS_MAX).take_while(|_| !is_taken()).map(|_| thread::sleep(LOOK_INTERVAL));
    assert!(waits.count() < LOOKS_MAX, "the thread goes on");
    record(&history, [60_001]);
    // What was there, the gap, and what may have been behind the last that was lost.
    let kept = usize::try_from(60_001 - lost).unwrap() + 1;
    let all = zxids(&found(&history, &query(Subject::All), kept));
    let gaps: Vec<_> = all.iter().filter(|zxid| **zxid < 0).collect();
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert_eq!((all.len(), all.first(), all.last()), (kept, Some(&1), Some(&60_001)));
    history.close();
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let waits = (0..LOOKS_MAX).take_while(|_| !is_so()).map(|_| thread::sleep(LOOK_INTERVAL));
    assert!(waits.count() < LOOKS_MAX, "{what}");
}

/// A full disk, say, which has room again after a while.
#[test]
fn after_an_error_it_goes_on_with_a_gap() {
    let directory = TempDir::new().unwrap();
    let history = open(&directory);
    record(&history, 1..=10);
    found(&history, &query(Subject::All), 10);
    let counts = Arc::clone(&history.shared.counts);
    {
        let Files::Open { store, .. } = &*history.shared.files.read().unwrap() else { panic!() };
        store.is_disk_full.store(true, Ordering::Relaxed);
    }
    record(&history, 11..=9000);
    wait_until("it has failed and goes on", || counts.lost() > 0 && !counts.is_failing());
    record(&history, [9001]);
    let all = zxids(&found(&history, &query(Subject::All), 12));
    assert_eq!(all, (1..=10).chain([-9000, 9001]).collect::<Vec<_>>());
    history.close();
}

#[test]
fn a_directory_that_cannot_be_made_is_tried_again() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("data");
    fs::write(&file, b"").unwrap();
    let history = open_with(options(&file));
    let counts = Arc::clone(&history.shared.counts);
    wait_until("it fails", || counts.is_failing());
    record(&history, 1..=3);
    wait_until("they are missed", || counts.lost() == 3);
    fs::remove_file(&file).unwrap();
    wait_until("it goes on", || !counts.is_failing());
    record(&history, [4]);
    assert_eq!(zxids(&found(&history, &query(Subject::All), 2)), [-3, 4]);
    history.close();
}

/// What is damaged is not shown, and what is around it is.
#[test]
fn a_damaged_block_is_a_gap_in_its_place() {
    let directory = TempDir::new().unwrap();
    let history = open(&directory);
    record(&history, 1..=20_000);
    found(&history, &query(Subject::All), 20_000);
    let Files::Open { store, .. } = &*history.shared.files.read().unwrap() else { panic!() };
    for (block, is_in_head) in [(2, true), (3, true), (6, false)] {
        store.damage(block, is_in_head);
    }
    for after in [None, Some(0)] {
        let all = history.find(&Query { after, ..query(Subject::All) }).unwrap();
        let seen = zxids(&all.entries);
        let gaps: Vec<_> = (0..seen.len()).filter(|place| seen[*place] < 0).collect();
        assert_eq!(gaps.len(), 2, "{after:?}: the first is of two blocks");
        for place in gaps {
            let EntryKind::Gap(gap) = &all.entries[place].kind else { panic!() };
            assert_eq!(gap.reason, GapReason::Damage);
            assert_eq!(gap.after.0, seen[place - 1], "{after:?}");
            assert!((seen[place + 1] - 1..=seen[place + 1]).contains(&gap.through.0), "{after:?}");
            let numbers = [place - 1, place, place + 1].map(|place| all.entries[place].number);
            assert!(numbers.is_sorted(), "{numbers:?}");
        }
        assert_eq!((seen.first(), seen.last()), (Some(&1), Some(&20_000)));
    }
}

/// Waits until the first event is one of these. The thread may remove more of them then.
fn wait_for_begin(history: &History, zxids: std::ops::RangeInclusive<i64>) {
    let begin = || Some(history.find(&query(Subject::All)).ok()?.begin?.0.0);
    let is_so = || begin().is_some_and(|begin| zxids.contains(&begin));
    let waits = (0..LOOKS_MAX).take_while(|_| !is_so()).map(|_| thread::sleep(LOOK_INTERVAL));
    assert!(waits.count() < LOOKS_MAX, "{zxids:?} wanted: {:?}", begin());
}

/// A block has some hundred events, one for each millisecond.
#[test]
fn what_is_too_old_goes_each_minute() {
    let directory = TempDir::new().unwrap();
    let limits = HistoryOptions { age_ms_max: 120_000, ..options(directory.path()) };
    let history = open_with(limits.clone());
    record(&history, 1..=60_000);
    found(&history, &Query { after: Some(59_999), ..query(Subject::All) }, 1);
    history.tick(NOW_MS + 130_000);
    wait_for_begin(&history, 8000..=10_000);
    // That is less than a minute later.
    history.tick(NOW_MS + 189_999);
    history.close();
    let history = open_with(limits.clone());
    wait_for_begin(&history, 8000..=10_000);
    history.tick(NOW_MS + 130_000);
    history.tick(NOW_MS + 190_000);
    wait_for_begin(&history, 58_000..=60_000);
    history.close();
    // Numbers and zxids go on from the last block, however old it is.
    let history = open_with(limits);
    record(&history, 59_990..=60_001);
    let end = found(&history, &Query { after: Some(60_000), ..query(Subject::All) }, 1);
    assert_eq!((zxids(&end), end[0].number), (vec![60_001], 60_001));
    history.close();
}

/// Some time has passed since the follower has asked last.
#[test]
fn who_follows_sees_that_something_was_removed() {
    let directory = TempDir::new().unwrap();
    let limits = HistoryOptions { age_ms_max: 60_000, ..options(directory.path()) };
    let history = open_with(limits.clone());
    record(&history, 1..=20_000);
    let next = |after, limit| Query { after: Some(after), limit, ..query(Subject::All) };
    found(&history, &next(19_999, 1), 1);
    history.tick(NOW_MS + 70_000);
    wait_for_begin(&history, 8000..=10_000);
    history.close();
    let history = open_with(limits);
    wait_for_begin(&history, 8000..=10_000);
    let begin = history.find(&query(Subject::All)).unwrap().begin.unwrap().0.0;
    let all: Vec<_> = (begin..=20_000).collect();
    let before = begin.cast_unsigned() - 1;
    let seen = history.find(&next(100, 100_000)).unwrap();
    let EntryKind::Gap(gap) = &seen.entries[0].kind else { panic!("{:?}", seen.entries[0]) };
    assert_eq!((gap.after, gap.through, gap.reason), (Zxid(0), Zxid(begin), GapReason::Removed));
    assert_eq!(zxids(&seen.entries[1..]), all);
    // The gap is an entry as well.
    let first = history.find(&next(100, 1)).unwrap();
    assert_eq!((zxids(&first.entries), first.last, first.truncated), (vec![-begin], before, true));
    // Nothing is missing behind these.
    assert_eq!(zxids(&history.find(&next(before, 100_000)).unwrap().entries), all);
    assert_eq!(history.find(&next(20_000, 10)).unwrap().entries, []);
    // Another history had more entries.
    let behind = history.find(&next(20_001, 10)).unwrap();
    assert_eq!((zxids(&behind.entries), behind.last), (vec![-20_000], 20_000));
    assert_eq!(behind.entries[0].number, 20_000);
    history.close();
}

/// The clock of a leader was ahead by a year for a while.
#[test]
fn what_is_from_the_future_goes_with_what_is_behind_it() {
    const YEAR_MS: i64 = 365 * 24 * 3_600_000;
    let directory = TempDir::new().unwrap();
    let limits = HistoryOptions { age_ms_max: 60_000, ..options(directory.path()) };
    let history = open_with(limits.clone());
    let item = |zxid: i64| {
        let ahead_ms = if (5001..=10_000).contains(&zxid) { YEAR_MS } else { 0 };
        let event = event(zxid, "/app");
        HistoryItem::Event(HistoryEvent { time_ms: event.time_ms + ahead_ms, ..event })
    };
    history.record((1..=20_000).map(item));
    history.tick(NOW_MS);
    found(&history, &Query { after: Some(19_999), ..query(Subject::All) }, 1);
    history.tick(NOW_MS + 67_000);
    wait_for_begin(&history, 3000..=5001);
    history.close();
    let history = open_with(limits);
    wait_for_begin(&history, 3000..=5001);
    history.tick(NOW_MS + 87_000);
    wait_for_begin(&history, 17_000..=20_000);
    history.close();
}

#[test]
fn a_directory_that_cannot_be_read_is_moved_aside() {
    let directory = TempDir::new().unwrap();
    let history = open(&directory);
    record(&history, 1..=3000);
    history.close();
    let path = directory.path().join("history");
    fs::write(path.join("conf"), b"not the configuration of sled").unwrap();
    let history = open(&directory);
    record(&history, [7]);
    assert_eq!(zxids(&found(&history, &query(Subject::All), 1)), [7]);
    assert!(directory.path().join("history.damaged").join("conf").exists());
    history.close();
    // A panic of sled has left its mark.
    fs::write(path.join("damaged"), b"").unwrap();
    let history = open(&directory);
    record(&history, [8]);
    assert_eq!(zxids(&found(&history, &query(Subject::All), 1)), [8]);
    history.close();
}

/// Most damage is found by sled's checksums. Where it panics instead, the thread ends, and in a
/// release the process does; with the mark the next start succeeds.
#[test]
fn whatever_byte_is_damaged_the_second_open_succeeds() {
    let origin = TempDir::new().unwrap();
    let history = open(&origin);
    record(&history, 1..=9000);
    history.close();
    let file = |directory: &TempDir, name: &str| directory.path().join("history").join(name);
    for name in ["db", "conf"] {
        let bytes = fs::read(file(&origin, name)).unwrap();
        for turn in 0..24 {
            let directory = TempDir::new().unwrap();
            fs::create_dir(directory.path().join("history")).unwrap();
            for each in ["db", "conf"] {
                fs::copy(file(&origin, each), file(&directory, each)).unwrap();
            }
            let mut damaged = bytes.clone();
            let place = (turn * 7919 + 13) % damaged.len();
            damaged[place] ^= 0xa5;
            fs::write(file(&directory, name), damaged).unwrap();
            let first = open(&directory);
            record(&first, [9001]);
            first.close();
            let second = open(&directory);
            record(&second, [9002]);
            found(&second, &Query { limit: 1, ..query(Subject::All) }, 1);
            second.close();
        }
    }
}

#[test]
fn the_files_stay_within_their_bytes() {
    const BYTES_MAX: u64 = 16 << 20;
    let directory = TempDir::new().unwrap();
    let history = open_with(HistoryOptions { bytes_max: BYTES_MAX, ..options(directory.path()) });
    let mut largest = 0;
    // Some 80 MiB.
    for begin in 0..200 {
        let item = |zxid: i64| {
            let path =
                format!("/{:0>200}", zxid.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15));
            HistoryItem::Event(event(zxid, &path))
        };
        let zxids = begin * 2000 + 1..=begin * 2000 + 2000;
        let last = *zxids.end();
        history.record(zxids.map(item));
        history.tick(NOW_MS);
        let last = Query { since_ms: Some(event(last, "").time_ms), ..query(Subject::All) };
        found(&history, &last, 1);
        let files = fs::read_dir(directory.path().join("history")).unwrap();
        let bytes = files.map(|file| file.unwrap().metadata().unwrap().len()).sum::<u64>();
        largest = largest.max(bytes);
    }
    let kept = history.find(&query(Subject::All)).unwrap().entries.len();
    assert!(largest < 2 * BYTES_MAX, "{largest} bytes");
    assert!(kept > 20_000, "{kept} entries are kept");
    history.close();
}

/// A start that is cut short three times while sled reads its files would be cut short again.
#[test]
fn a_directory_that_ends_each_start_is_moved_aside() {
    let directory = TempDir::new().unwrap();
    let history = open(&directory);
    record(&history, [1]);
    history.close();
    let path = directory.path().join("history");
    assert!(!path.join("opening").exists(), "it was opened");
    for (before, is_kept) in [("..", true), ("...", false)] {
        fs::write(path.join("opening"), before).unwrap();
        let history = open(&directory);
        record(&history, [2]);
        let expected = if is_kept { vec![1, 2] } else { vec![2] };
        assert_eq!(zxids(&found(&history, &query(Subject::All), expected.len())), expected);
        history.close();
    }
}

/// The next start of a server may begin before the last one has ended.
#[test]
fn a_directory_that_is_open_is_waited_for() {
    let directory = TempDir::new().unwrap();
    let first = open(&directory);
    record(&first, [1]);
    found(&first, &query(Subject::All), 1);
    let second = open(&directory);
    assert_eq!(second.find(&query(Subject::All)), Err(QueryError::Opening));
    first.close();
    record(&second, [1, 2]);
    assert_eq!(zxids(&found(&second, &query(Subject::All), 2)), [1, 2]);
    second.close();
}
