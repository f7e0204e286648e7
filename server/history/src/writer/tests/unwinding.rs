//! What becomes of the history when sled panics, in a program that unwinds.

use super::*;

fn has_panic(history: &History) {
    let Files::Open { store, .. } = &*history.shared.files.read().unwrap() else { panic!() };
    store.has_panic.store(true, Ordering::Relaxed);
}

fn is_aside(directory: &TempDir) -> bool {
    directory.path().join("history.damaged").join("db").exists()
}

/// The history was "being opened" until the end of the program, and no metric showed it.
#[test]
fn a_panic_while_the_files_are_opened_has_them_begin_anew() {
    let directory = TempDir::new().unwrap();
    let history = open(&directory);
    record(&history, 1..=3);
    found(&history, &query(Subject::All), 3);
    history.close();
    fs::write(directory.path().join("history").join("panics"), b"").unwrap();
    let history = open(&directory);
    record(&history, [4]);
    assert_eq!(zxids(&found(&history, &query(Subject::All), 1)), [-4]);
    record(&history, [5]);
    assert_eq!(zxids(&found(&history, &query(Subject::All), 2)), [-4, 5]);
    assert_eq!(history.shared.counts.panics(), 1);
    assert!(is_aside(&directory) && !history.shared.counts.is_failing());
    history.close();
}

#[test]
fn a_panic_while_a_block_is_written_has_them_begin_anew() {
    let directory = TempDir::new().unwrap();
    let history = open(&directory);
    wait_until("it is open", || history.find(&query(Subject::All)).is_ok());
    has_panic(&history);
    record(&history, 1..=3);
    let counts = Arc::clone(&history.shared.counts);
    wait_until("it has panicked and goes on", || is_aside(&directory) && !counts.is_failing());
    assert!(counts.panics() > 0);
    record(&history, [4]);
    assert_eq!(zxids(&found(&history, &query(Subject::All), 2)), [-3, 4]);
    assert!(is_aside(&directory));
    history.close();
}

#[test]
fn a_panic_in_a_query_is_its_error_and_has_them_begin_anew() {
    let directory = TempDir::new().unwrap();
    let history = open(&directory);
    record(&history, 1..=3);
    found(&history, &query(Subject::All), 3);
    has_panic(&history);
    let failed = history.find(&query(Subject::All)).unwrap_err();
    assert!(failed.to_string().contains("a test has a read panic"), "{failed}");
    wait_until("it begins anew", || history.find(&query(Subject::All)).is_ok());
    assert!(is_aside(&directory) && history.shared.counts.panics() >= 1);
    history.close();
}

/// It was as if the thread were there: what was recorded waited in memory.
#[test]
fn a_panic_outside_of_the_files_is_shown_and_nothing_waits() {
    let directory = TempDir::new().unwrap();
    let history = open(&directory);
    wait_until("it is open", || history.find(&query(Subject::All)).is_ok());
    history.handover().send(Message::Panic);
    let counts = Arc::clone(&history.shared.counts);
    wait_until("it fails", || counts.is_failing());
    record(&history, 1..=3);
    wait_until("they are lost", || counts.lost() == 3);
    assert_eq!(history.shared.queued_bytes.load(Ordering::Relaxed), 0);
    let failed = history.find(&query(Subject::All)).unwrap_err();
    assert!(failed.to_string().contains("a test has the thread panic"), "{failed}");
    history.close();
}
