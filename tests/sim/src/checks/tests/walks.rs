//! The walks over the tree at the end.

use std::time::Duration;

use zoolet_replica::ServerId;

use super::{Story, accepted, refused};
use crate::history::{History, Walk};

/// A walk through server 2 that was done after that time.
fn history(done_ms: Option<u64>) -> History {
    let story = Story::new();
    let begun_at = story.now;
    let done = done_ms.map(|ms| (begun_at + Duration::from_millis(ms), 7));
    let mut history = story.end_late();
    history.walks.insert(ServerId(2), Walk { begun_at, done });
    history
}

#[test]
fn a_server_that_does_not_serve_at_the_end_is_found() {
    let counts = accepted(&history(Some(500)));
    assert_eq!((counts.walks, counts.znodes_walked), (1, 7));
    refused(&history(None), "serves again");
    refused(&history(Some(15_001)), "serves again");
}

#[test]
fn a_walk_has_its_time() {
    let mut history = history(None);
    history.ended_at = history.walks[&ServerId(2)].begun_at + Duration::from_secs(1);
    accepted(&history);
}
