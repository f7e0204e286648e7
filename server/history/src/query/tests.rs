use std::sync::Arc;

use tempfile::TempDir;
use zoolet_jute::Xid;
use zoolet_replica::{HistoryCause, HistoryChange, ServerId};

use super::*;

/// The entries of each block, in these tests: one has the numbers from `5 * block + 1` on.
const EACH: usize = 5;

fn event(zxid: i64) -> HistoryEvent {
    HistoryEvent {
        zxid: Zxid(zxid),
        time_ms: 1_764_000_000_000 + zxid,
        server: ServerId(1),
        session: SessionId(1),
        cxid: Xid(1),
        identities: Arc::from([]),
        cause: HistoryCause::Request,
        change: HistoryChange::SessionOpened,
    }
}

/// Blocks of five events, whose numbers are their zxids, and an end with some more.
fn history(blocks: usize, at_end: usize) -> (TempDir, Store, End) {
    let directory = TempDir::new().unwrap();
    let store = Store::open(&directory.path().join("history")).unwrap();
    let mut tail = Tail::behind(None);
    let mut place = store.end().unwrap();
    let mut zxids = 1..;
    for _ in 0..blocks {
        for zxid in zxids.by_ref().take(EACH) {
            assert!(tail.admits(Zxid(zxid)));
            tail.event(&event(zxid));
        }
        store.put(place, tail.bytes()).unwrap();
        place = store.behind(place).unwrap();
        tail.begin_block();
    }
    for zxid in zxids.take(at_end) {
        assert!(tail.admits(Zxid(zxid)));
        tail.event(&event(zxid));
    }
    (directory, store, End::of(&tail))
}

fn query(after: Option<u64>, limit: usize) -> Query {
    Query { subject: Subject::All, since_ms: None, until_ms: None, after, limit }
}

/// A gap was added without a look at the limit, which was not met again then: all was read.
#[test]
fn a_limit_is_kept_where_gaps_are() {
    let (_directory, store, end) = history(8, 3);
    for (block, is_in_head) in [(1, true), (3, false), (4, true), (6, false)] {
        store.damage(block, is_in_head);
    }
    for after in [None, Some(0)] {
        let all = query(after, 1000).run(&store, &end).unwrap();
        assert!(!all.truncated);
        for limit in 0..=all.entries.len() {
            let found = query(after, limit).run(&store, &end).unwrap();
            assert_eq!(found.entries.len(), limit, "{after:?}");
            assert_eq!(found.truncated, limit < all.entries.len(), "{after:?}, {limit}");
        }
    }
}

/// Each entry: its number, and of a gap what it is after and through.
fn lines(found: &Found) -> Vec<(u64, Option<(i64, i64)>)> {
    let line = |entry: &Entry| match entry.kind {
        EntryKind::Event(_) => (entry.number, None),
        EntryKind::Gap(gap) => (entry.number, Some((gap.after.0, gap.through.0))),
    };
    found.entries.iter().map(line).collect()
}

/// A damaged block at a place where the search looks made it fail.
#[test]
fn followers_find_their_place_beside_damage() {
    const BLOCKS: usize = 70;
    let end_number = u64::try_from(BLOCKS * EACH).unwrap();
    let last_half: Vec<_> = (35..BLOCKS).collect();
    let firsts: Vec<_> = (0..BLOCKS).step_by(7).collect();
    for damaged in [&[35], &[14, 15, 16, 17, 18, 19, 20][..], &firsts, &last_half] {
        let (_directory, store, end) = history(BLOCKS, 1);
        for block in damaged {
            store.damage(*block, true);
        }
        for after in 0..=end_number {
            let found = query(Some(after), 2).run(&store, &end).unwrap();
            let (number, gap) = lines(&found)[0];
            let block = usize::try_from(after).unwrap() / EACH;
            if damaged.contains(&block) {
                assert!(gap.is_some(), "{number} behind {after}");
            } else {
                assert_eq!((number, gap), (after + 1, None));
            }
        }
    }
}

/// The search begins near the entry: followers do not read the whole history.
#[test]
fn damage_does_not_have_followers_read_from_the_begin() {
    let (_directory, store, _) = history(70, 1);
    for block in 35..42 {
        store.damage(block, true);
    }
    for entry in 1..=350 {
        let blocks = store.forward(entry).unwrap().map(Result::unwrap);
        let heads = blocks.filter_map(|block| Some(Head::read(&block).ok()?.0));
        let before = heads.take_while(|head| head.end() <= entry).count();
        assert!(before < 14, "{before} blocks before {entry}");
    }
}

/// With each look a follower got the gaps again that precede what it had seen, and with a limit of
/// one nothing else.
#[test]
fn a_follower_gets_each_gap_once() {
    let (_directory, store, end) = history(8, 3);
    for (block, is_in_head) in [(1, true), (3, false), (4, true), (6, false)] {
        store.damage(block, is_in_head);
    }
    let all = query(Some(0), 1000).run(&store, &end).unwrap();
    for limit in 1..=all.entries.len() {
        let (mut seen, mut after) = (Vec::new(), 0);
        for _ in 0..=all.entries.len() {
            let found = query(Some(after), limit).run(&store, &end).unwrap();
            seen.extend(found.entries);
            after = found.last;
        }
        assert_eq!(after, all.last, "{limit}");
        let (seen, all) = (lines(&Found { entries: seen, ..Found::default() }), lines(&all));
        assert_eq!(seen, all, "{limit}");
    }
}

/// The number of a gap was one of an event before it, or another one for those who follow.
#[test]
fn a_gap_has_the_number_of_the_last_entry_that_is_missing() {
    for at_end in [3, 0] {
        let (_directory, store, end) = history(8, at_end);
        let damaged = [(1, true), (3, false), (4, true), (6, true), (7, false)];
        for (block, is_in_head) in damaged {
            store.damage(block, is_in_head);
        }
        // A block that is empty has no zxid, the history has.
        let last = if at_end == 0 { 40 } else { 41 };
        for after in [None, Some(0)] {
            let found = query(after, 1000).run(&store, &end).unwrap();
            let gaps: Vec<_> = lines(&found).into_iter().filter(|line| line.1.is_some()).collect();
            let expected = [(10, Some((5, 11))), (25, Some((15, 26))), (40, Some((30, last)))];
            assert_eq!(gaps, expected, "{after:?}, {at_end}");
            assert!(found.entries.is_sorted_by_key(|entry| entry.number), "{after:?}");
        }
    }
}

/// What is in memory is not damaged.
#[test]
fn a_damaged_copy_of_the_end_is_not_a_gap() {
    let (_directory, store, end) = history(3, 3);
    store.put(store.end().unwrap(), &end.block).unwrap();
    store.damage(3, true);
    for after in [None, Some(0), Some(16)] {
        let found = query(after, 1000).run(&store, &end).unwrap();
        assert!(lines(&found).iter().all(|line| line.1.is_none()), "{after:?}: {found:?}");
    }
}
