//! What becomes of the history when its disk fails.

use super::*;
use crate::batch::Batch;

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

/// Each query failed then, after a restart too.
#[test]
fn damage_that_a_query_finds_has_the_history_begin_anew() {
    let directory = TempDir::new().unwrap();
    let history = open(&directory);
    record(&history, 1..=20_000);
    history.close();
    // Nothing but the first and the last block is in memory.
    let history = open(&directory);
    let is_open =
        |history: &History| matches!(&*history.shared.files.read().unwrap(), Files::Open { .. });
    wait_until("it is open", || is_open(&history));
    let file = directory.path().join("history").join("db");
    let mut bytes = fs::read(&file).unwrap();
    bytes.iter_mut().step_by(64).for_each(|byte| *byte ^= 0x55);
    fs::write(&file, bytes).unwrap();
    let failed = history.find(&query(Subject::All));
    assert!(matches!(failed, Err(QueryError::Failed(_))), "{failed:?}");
    wait_until("it begins anew", || history.find(&query(Subject::All)).is_ok());
    record(&history, [20_001]);
    assert_eq!(zxids(&found(&history, &query(Subject::All), 2)), [-20_000, 20_001]);
    assert!(directory.path().join("history.damaged").join("db").exists());
    // Queries that began before do not have it begin anew once more.
    assert!(!directory.path().join("history").join("damaged").exists());
    history.close();
}

/// Batches in which no event was counted as nothing: any number of them could wait.
#[test]
fn each_batch_that_waits_is_counted() {
    let directory = TempDir::new().unwrap();
    let history = open(&directory);
    wait_until("it is open", || history.find(&query(Subject::All)).is_ok());
    // The thread waits for this, and takes nothing.
    let reading = history.shared.files.read().unwrap();
    for zxid in 1..=10 {
        history.record([HistoryItem::Through(Zxid(zxid))]);
        history.tick(NOW_MS);
    }
    let queued_bytes = history.shared.queued_bytes.load(Ordering::Relaxed);
    assert!(queued_bytes >= 10 * size_of::<Message>(), "{queued_bytes} bytes");
    drop(reading);
    wait_until("it is taken", || history.shared.queued_bytes.load(Ordering::Relaxed) == 0);
    history.close();
}

/// The thread has a block begin, behind what is under way.
#[test]
fn behind_a_batch_that_cannot_be_read_it_goes_on() {
    let directory = TempDir::new().unwrap();
    let history = open(&directory);
    record(&history, 1..=3);
    found(&history, &query(Subject::All), 3);
    let bytes = vec![0xff];
    let batch = Batch { bytes, events: 0, last: Zxid(3) };
    history.handover().send(Message::Batch(batch, 0));
    assert_eq!(zxids(&found(&history, &query(Subject::All), 4)), [1, 2, 3, -3]);
    record(&history, [4]);
    found(&history, &query(Subject::All), 5);
    record(&history, [5]);
    assert_eq!(zxids(&found(&history, &query(Subject::All), 6)), [1, 2, 3, -3, -4, 5]);
    history.close();
}
