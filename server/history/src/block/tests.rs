use std::sync::Arc;

use bytes::Bytes;
use zoolet_jute::{Id, SessionId, Xid};
use zoolet_replica::{HistoryCause, HistoryChange, ServerId};

use super::*;
use crate::entry::{EntryKind, GapReason};

const CAUSES: [HistoryCause; 2] = [HistoryCause::Request, HistoryCause::SessionExpired];

fn event(zxid: i64, session: i64, change: HistoryChange) -> HistoryEvent {
    HistoryEvent {
        zxid: Zxid(zxid),
        time_ms: 1_764_000_000_000 + zxid,
        server: ServerId(3),
        session: SessionId(session),
        cxid: Xid(i32::try_from(zxid % 1000).unwrap()),
        identities: Arc::from([Id::new("ip", "127.0.0.1"), Id::new("digest", "bob")]),
        cause: HistoryCause::Request,
        change,
    }
}

/// One of each kind.
fn events() -> Vec<HistoryEvent> {
    let path = |name: &str| format!("/app/lock/{name}");
    let owner = SessionId(0x1_0000_0000_0001);
    let none = SessionId::NONE;
    let data = Some(Bytes::from_static(b"\x00value"));
    let changes = [
        HistoryChange::SessionOpened,
        HistoryChange::Created { path: path("a-0000000001"), owner, data: data.clone() },
        HistoryChange::Created { path: path("a-0000000002"), owner: none, data: None },
        HistoryChange::DataChanged { path: path("é"), old_version: i32::MAX, version: 0, data },
        HistoryChange::AclChanged { path: "/".to_owned(), old_version: -1, version: i32::MIN },
        HistoryChange::Deleted { path: path("a-0000000001"), owner, version: 7 },
        HistoryChange::SessionResumed,
        HistoryChange::SessionEnded,
    ];
    let event = |(place, change): (usize, _)| {
        let mut event =
            event(0x5_0000_0000 + i64::try_from(place).unwrap(), 1 << (8 * (place % 7)), change);
        event.cause = CAUSES[place % CAUSES.len()];
        event
    };
    changes.into_iter().enumerate().map(event).collect()
}

fn filled() -> (BlockBuilder, Vec<EntryKind>) {
    let mut builder = BlockBuilder::new(40, 0);
    let mut expected = Vec::new();
    for event in events() {
        builder.event(&event);
        expected.push(EntryKind::Event(event));
    }
    let after = Zxid(0x5_0000_0007);
    let gap = Gap { after, through: Zxid(0x6_0000_0000), reason: GapReason::Overload };
    builder.gap(gap);
    expected.push(EntryKind::Gap(gap));
    (builder, expected)
}

#[test]
fn all_kinds_of_entries_come_back() {
    let (builder, expected) = filled();
    let bytes = builder.to_bytes();
    let (head, _, rest) = Head::read(&bytes).unwrap();
    assert_eq!(head, *builder.head());
    assert_eq!((head.first, head.end()), (40, 40 + expected.len() as u64));
    assert_eq!((head.first_zxid.0, head.last_zxid.0), (0x5_0000_0000, 0x6_0000_0000));
    let read = entries(&head, rest).unwrap();
    let numbers: Vec<_> = read.iter().map(|entry| entry.number).collect();
    assert_eq!(numbers, (40..head.end()).collect::<Vec<_>>());
    let kinds: Vec<_> = read.into_iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, expected);
}

#[test]
fn an_entry_that_repeats_is_short() {
    let mut builder = BlockBuilder::new(0, 0);
    for number in 0..100 {
        let path = format!("/app/lock/_c_place-lock-{number:010}");
        let owner = SessionId(77);
        builder.event(&event(number, 77, HistoryChange::Created { path, owner, data: None }));
    }
    let bytes = builder.to_bytes().len() - HEAD_BYTES - FILTER_BYTES;
    assert!(bytes < 100 * 8 + 100, "{bytes} bytes for 100 events");
}

/// Whatever is read from a disk, nothing panics.
#[test]
fn damage_is_an_error_and_not_a_panic() {
    let (builder, _) = filled();
    let bytes = builder.to_bytes();
    let read = |bytes: &[u8]| {
        let Ok((head, _, rest)) = Head::read(bytes) else { return };
        // A count out of all proportion ends with the bytes.
        let _ = entries(&head, rest);
    };
    for length in 0..bytes.len() {
        read(&bytes[..length]);
    }
    for place in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1 << bit;
            read(&damaged);
        }
    }
}

#[test]
fn long_texts_are_cut_at_whole_characters() {
    let mut builder = BlockBuilder::new(0, 0);
    let path = format!("/{}", "é".repeat(2000));
    let data = Some(Bytes::from(vec![7; 100_000]));
    let long = HistoryChange::DataChanged { path: path.clone(), old_version: 0, version: 1, data };
    let mut long = event(1, 1, long);
    long.identities = (0..20).map(|_| Id::new("digest", "x".repeat(10_000))).collect();
    builder.event(&long);
    let bytes = builder.to_bytes();
    let (head, _, rest) = Head::read(&bytes).unwrap();
    let read = entries(&head, rest).unwrap();
    let EntryKind::Event(event) = &read[0].kind else { panic!("{read:?}") };
    assert!(path.starts_with(event.change.path().unwrap()));
    assert_eq!(event.change.path().unwrap().len(), 1999);
    assert_eq!(event.identities.len(), 8);
    assert!(bytes.len() < BLOCK_BYTES);
}

#[test]
fn no_hash_of_a_password_is_kept() {
    let mut builder = BlockBuilder::new(0, 0);
    let mut event = event(1, 1, HistoryChange::SessionOpened);
    event.identities = Arc::from([Id::new("digest", "bob:c2VjcmV0"), Id::new("x509", "CN=a:b")]);
    builder.event(&event);
    let bytes = builder.to_bytes();
    assert!(!bytes.windows(8).any(|part| part == b"c2VjcmV0"));
    let (head, _, rest) = Head::read(&bytes).unwrap();
    let read = entries(&head, rest).unwrap();
    let EntryKind::Event(event) = &read[0].kind else { panic!("{read:?}") };
    assert_eq!(event.identities[..], [Id::new("digest", "bob"), Id::new("x509", "CN=a:b")]);
}
