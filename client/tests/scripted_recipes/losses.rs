//! What is logged when a lock or a leadership is lost: one line for each loss, none for a release.

use tokio::time::timeout;
use zoolet_client::recipes::{LeaderLatch, Loss, Mutex};

use crate::log::Log;
use crate::tree::{Ensemble, SOON};

#[tokio::test(start_paused = true)]
async fn a_lock_whose_znode_is_deleted_is_logged_once() {
    let (log, _recording) = Log::begin();
    let mut ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let mutex = Mutex::new(&client, "/locks/report");
    for is_watched in [true, false] {
        let before = log.warnings().len();
        let guard = mutex.acquire().await.unwrap();
        let path = guard.path().to_owned();
        if is_watched {
            let lost = tokio::spawn(guard.lost());
            ensemble.tree.watched(&path).await;
            ensemble.tree.delete(&path);
            assert_eq!(timeout(SOON, lost).await.unwrap().unwrap(), Loss::Deleted);
        } else {
            ensemble.tree.delete(&path);
        }
        assert!(!guard.release().await.unwrap());
        let warnings = log.warnings();
        assert_eq!(warnings.len(), before + 1, "{warnings:#?}");
        assert!(warnings[before].contains(&path), "{warnings:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_released_or_dropped_is_not_logged() {
    let (log, _recording) = Log::begin();
    let mut ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let mutex = Mutex::new(&client, "/locks/report");
    for is_dropped in [true, false] {
        let guard = timeout(SOON, mutex.acquire()).await.unwrap().unwrap();
        let lost = tokio::spawn(guard.lost());
        ensemble.tree.watched(guard.path()).await;
        if is_dropped {
            drop(guard);
        } else {
            assert!(guard.release().await.unwrap());
        }
        timeout(SOON, lost).await.unwrap().unwrap();
    }
    assert_eq!(log.warnings(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_leadership_that_is_lost_is_logged_once() {
    let (log, _recording) = Log::begin();
    let mut ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let latch = LeaderLatch::start(&client, "/leader", "me");
    let first = timeout(SOON, latch.lead()).await.unwrap().unwrap();
    let path = latch.leader().await.unwrap().unwrap().path;
    ensemble.tree.watched(&path).await;
    ensemble.tree.delete(&path);
    timeout(SOON, latch.lost()).await.unwrap();
    assert!(timeout(SOON, latch.lead()).await.unwrap().unwrap() > first);
    latch.close().await.unwrap();
    let warnings = log.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    assert!(warnings[0].contains("the leadership is lost") && warnings[0].contains(&path));
}
