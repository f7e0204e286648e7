//! What becomes of the history when its disk fails.

use super::*;

/// Has each write fail, until the files are opened again.
fn fill_disk(history: &History) {
    let Files::Open { store, .. } = &*history.shared.files.read().unwrap() else { panic!() };
    store.is_disk_full.store(true, Ordering::Relaxed);
}

/// The gap was taken out of the batch before what precedes it could not be written.
#[test]
fn a_gap_at_which_the_disk_fails_is_not_lost() {
    let directory = TempDir::new().unwrap();
    let history = open(&directory);
    wait_until("it is open", || history.find(&query(Subject::All)).is_ok());
    fill_disk(&history);
    history.record((1..=5).map(|zxid| HistoryItem::Event(event(zxid, "/app"))));
    history.began(Zxid(100));
    history.tick(NOW_MS);
    let counts = Arc::clone(&history.shared.counts);
    wait_until("it fails", || counts.is_failing());
    wait_until("it goes on", || !counts.is_failing());
    record(&history, [101]);
    assert_eq!(zxids(&found(&history, &query(Subject::All), 2)), [-100, 101]);
    history.close();
}
