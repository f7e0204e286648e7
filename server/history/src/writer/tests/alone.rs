//! The writer without its thread.

use super::*;
use crate::batch::Batch;

/// A writer whose files are open.
fn open_writer(directory: &TempDir) -> Writer {
    let shared = Arc::new(Shared {
        queued_bytes: AtomicUsize::new(0),
        counts: Arc::default(),
        files: RwLock::new(Files::Opening),
    });
    let mut writer = Writer::new(options(directory.path()), shared, sync_channel(1).0);
    writer.open();
    assert!(writer.work(|_, _, _| Ok(())), "it is open");
    writer
}

fn batch(packer: &mut Packer, events: impl IntoIterator<Item = HistoryEvent>) -> Batch {
    for event in events {
        packer.item(&HistoryItem::Event(event));
    }
    packer.take(Vec::new)
}

fn events(zxids: std::ops::RangeInclusive<i64>) -> impl Iterator<Item = HistoryEvent> {
    zxids.map(|zxid| event(zxid, "/app"))
}

fn is_unwritten(writer: &Writer) -> bool {
    let Files::Open { tail, .. } = &*writer.shared.files.read().unwrap() else { panic!() };
    tail.is_unwritten()
}

/// Behind one whose clock was ahead, nothing was written but full blocks.
#[test]
fn a_leader_whose_clock_is_earlier_does_not_delay_writes() {
    let directory = TempDir::new().unwrap();
    let (mut writer, mut packer) = (open_writer(&directory), Packer::default());
    writer.take(&batch(&mut packer, events(1..=3)));
    assert!(!is_unwritten(&writer), "the first one is written");
    writer.take(&batch(&mut packer, events(4..=5)));
    assert!(is_unwritten(&writer), "it is less than a second later");
    let earlier = events(6..=6).map(|it| HistoryEvent { time_ms: it.time_ms - 3_600_000, ..it });
    writer.take(&batch(&mut packer, earlier));
    assert!(!is_unwritten(&writer));
}

fn fill_disk(writer: &mut Writer) {
    writer.work(|_, store, _| {
        store.is_disk_full.store(true, Ordering::Relaxed);
        Ok(())
    });
}

/// Where files can be opened and some of it be written, as on a disk that is nearly full, the pause
/// began anew with each attempt.
#[test]
fn pauses_grow_while_errors_follow_each_other() {
    let directory = TempDir::new().unwrap();
    let (mut writer, mut packer) = (open_writer(&directory), Packer::default());
    writer.take(&batch(&mut packer, events(1..=3)));
    for (turn, pause_ms) in [500, 1000, 2000, 4000].into_iter().enumerate() {
        let zxid = 4 + i64::try_from(turn).unwrap();
        writer.take(&batch(&mut packer, events(zxid..=zxid)));
        fill_disk(&mut writer);
        assert!(!writer.work(|_, store, _| store.put(store.end()?, &[1])));
        assert_eq!(writer.paused.unwrap().1, Duration::from_millis(pause_ms));
        assert!(writer.retry.is_some());
        writer.open();
        assert!(!writer.shared.counts.is_failing(), "it is written");
    }
    // Errors that are far from each other are not one.
    writer.paused = Some((now().checked_sub(RETRY_PAUSE_MAX).unwrap(), RETRY_PAUSE_MAX));
    writer.fail(&sled::Error::Io(io::ErrorKind::StorageFull.into()).into());
    assert_eq!(writer.retry, Some(writer.paused.unwrap().0));
    assert_eq!(writer.paused.unwrap().1, RETRY_PAUSE_MIN);
}

/// They were counted as recorded alone.
#[test]
fn what_was_taken_and_cannot_be_written_is_counted_as_lost() {
    let directory = TempDir::new().unwrap();
    let (mut writer, mut packer) = (open_writer(&directory), Packer::default());
    writer.take(&batch(&mut packer, events(1..=3)));
    writer.take(&batch(&mut packer, events(4..=8)));
    let counts = Arc::clone(&writer.shared.counts);
    fill_disk(&mut writer);
    assert_eq!((counts.recorded(), counts.lost()), (8, 0));
    assert!(!writer.work(Writer::write));
    assert_eq!((counts.recorded(), counts.lost()), (8, 5));
}

fn found_alone(writer: &Writer) -> Vec<i64> {
    let files = writer.shared.files.read().unwrap();
    let Files::Open { store, tail } = &*files else { panic!("{files:?}") };
    zxids(&query(Subject::All).run(store, &End::of(tail)).unwrap().entries)
}

/// A defect of the hand-over had the files taken for damaged, and a whole history moved aside.
#[test]
fn a_batch_that_cannot_be_read_is_a_gap_up_to_the_next_block() {
    let directory = TempDir::new().unwrap();
    let (mut writer, mut packer) = (open_writer(&directory), Packer::default());
    writer.take(&batch(&mut packer, events(1..=3)));
    let mut cut = batch(&mut packer, events(4..=8));
    cut.bytes.truncate(cut.bytes.len() - 1);
    writer.take(&cut);
    writer.take(&Batch { bytes: vec![0xff], ..batch(&mut packer, events(9..=10)) });
    assert!(writer.is_block_wanted.load(Ordering::Relaxed));
    // Its entries follow on those that were lost.
    writer.take(&batch(&mut packer, events(11..=12)));
    packer.begin_block();
    writer.take(&batch(&mut packer, events(13..=14)));
    writer.take(&batch(&mut packer, events(15..=15)));
    assert_eq!(found_alone(&writer), [1, 2, 3, 4, 5, 6, 7, -8, -10, -12, 13, 14, 15]);
    let counts = &writer.shared.counts;
    assert_eq!((counts.recorded(), counts.lost(), counts.is_failing()), (10, 5, false));
    assert!(!panics::is_marked(&writer.options.directory));
    // The same without files.
    fill_disk(&mut writer);
    assert!(!writer.work(Writer::write));
    let lost = writer.shared.counts.lost();
    writer.take(&Batch { bytes: vec![0xff], ..batch(&mut packer, events(16..=17)) });
    writer.take(&batch(&mut packer, events(18..=19)));
    assert_eq!((writer.shared.counts.lost() - lost, writer.missed), (4, Some(Zxid(19))));
}
