use std::sync::Arc;

use tempfile::TempDir;
use zoolet_jute::{SessionId, Xid};
use zoolet_replica::{HistoryCause, HistoryChange, HistoryEvent, ServerId};

use super::*;
use crate::block::BlockBuilder;

fn block(number: u64, time_ms: i64) -> Vec<u8> {
    let mut block = BlockBuilder::new(number, 0);
    block.event(&HistoryEvent {
        zxid: Zxid(number.cast_signed()),
        time_ms,
        server: ServerId(1),
        session: SessionId(1),
        cxid: Xid(1),
        identities: Arc::from([]),
        cause: HistoryCause::Request,
        change: HistoryChange::SessionOpened,
    });
    block.to_bytes()
}

/// How many are older, of a block that is old, some from the future, and another old one.
fn older(from_the_future: u64) -> usize {
    let directory = TempDir::new().unwrap();
    let store = Store::open(&directory.path().join("history")).unwrap();
    let mut place = store.end().unwrap();
    for number in 1..=from_the_future + 2 {
        let is_old = number == 1 || number == from_the_future + 2;
        store.put(place, &block(number, if is_old { 10 } else { 1000 })).unwrap();
        place = store.behind(place).unwrap();
    }
    store.count_older(50, 100).unwrap()
}

/// A history that was all from the future was read each minute, while no query could begin.
#[test]
fn only_some_blocks_from_the_future_are_looked_at() {
    assert_eq!(older(10), 12, "those from the future go with the one behind them");
    assert_eq!(older(FUTURE_BLOCKS_MAX as u64), FUTURE_BLOCKS_MAX + 2);
    assert_eq!(older(FUTURE_BLOCKS_MAX as u64 + 1), 1, "that is too far away");
}

/// What a release before had written was called damaged.
#[test]
fn an_older_format_is_called_what_it_is() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("history");
    let store = Store::open(&path).unwrap();
    let mut old = block(1, 10);
    old[0] = VERSION - 1;
    store.put(store.end().unwrap(), &old).unwrap();
    store.close().unwrap();
    // It is locked until sled's threads have ended.
    let error = Store::open_unlocked(&path).unwrap_err();
    assert_eq!(what_is_wrong(&error), "the history has an older format");
    let why = "a block of the history has the format 1, and this release reads 2 alone";
    assert_eq!(error.to_string(), why);
    let anew = Store::open(&path).unwrap();
    assert_eq!(anew.first().unwrap(), None);
    assert!(directory.path().join("history.damaged").exists());
    let error = StoreError::Block(BlockError::Damaged("it is too short"));
    assert_eq!(what_is_wrong(&error), "the history is damaged");
}
