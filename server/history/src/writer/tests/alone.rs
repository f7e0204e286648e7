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
