use zoolet_jute::{Xid, Zxid};
use zoolet_replica::{HistoryChange, HistoryEvent, ServerId};

use super::*;
use crate::entry::EntryKind;

/// Events whose fields repeat and change in all combinations that seeds lead to.
fn events(seed: u64) -> Vec<HistoryEvent> {
    let mut state = seed;
    let mut next = move |below: u64| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) % below
    };
    let mut zxid = 0x7_0000_0000;
    let paths =
        ["/", "/a", "/b", "/app", "/app/x", "/app/y", "/app/lock/n-0000000001", "/é/à", "/é/è"];
    let mut event = |_| {
        zxid += i64::try_from(next(3)).unwrap();
        let session = SessionId(i64::try_from(next(90)).unwrap());
        let path = paths[usize::try_from(next(9)).unwrap()].to_owned();
        let version = i32::try_from(next(3)).unwrap() - 1;
        let data = (next(3) == 0).then(|| bytes::Bytes::from_static(b"data"));
        let change = match next(6) {
            0 => HistoryChange::Created { path, owner: session, data },
            1 => HistoryChange::Deleted { path, owner: SessionId(7), version },
            2 => HistoryChange::DataChanged { path, old_version: 0, version, data },
            3 => HistoryChange::AclChanged { path, old_version: i32::MAX, version: i32::MIN },
            4 => HistoryChange::SessionOpened,
            _ => HistoryChange::SessionEnded,
        };
        HistoryEvent {
            zxid: Zxid(zxid),
            time_ms: i64::try_from(next(2)).unwrap() + zxid,
            server: ServerId(u8::try_from(next(2)).unwrap()),
            session,
            cxid: Xid(i32::try_from(next(5)).unwrap() - 2),
            identities: Arc::from([Id::new("ip", format!("10.0.0.{}", next(40)))]),
            cause: CAUSES[usize::try_from(next(5)).unwrap()],
            change,
        }
    };
    (0..600).map(&mut event).collect()
}

#[test]
fn what_is_written_is_read_whatever_repeats() {
    for seed in 0..40 {
        let (mut writer, mut bytes) = (Writer::default(), Vec::new());
        let events = events(seed);
        for event in &events {
            writer.event(event, &mut bytes);
        }
        let (mut reader, mut input) = (Reader::default(), bytes.as_slice());
        for event in &events {
            let read = reader.entry(&mut input);
            assert_eq!(read, Some(EntryKind::Event(event.clone())), "seed {seed}");
        }
        assert!(input.is_empty());
    }
}

/// An outline names each path, parent and session at least once.
#[test]
fn an_outline_leaves_nothing_out() {
    use std::collections::BTreeSet;

    for seed in 0..40 {
        let (mut writer, mut bytes) = (Writer::default(), Vec::new());
        let events = events(seed);
        let ends: Vec<_> = events
            .iter()
            .map(|event| {
                writer.event(event, &mut bytes);
                bytes.len()
            })
            .collect();
        let (mut reader, mut input) = (Reader::default(), bytes.as_slice());
        let (mut seen, mut wanted) = (BTreeSet::new(), BTreeSet::new());
        for (event, end) in events.iter().zip(ends) {
            let outline = reader.outline(&mut input).unwrap();
            assert_eq!((outline.zxid, outline.time_ms), (event.zxid, event.time_ms));
            assert_eq!(bytes.len() - input.len(), end, "seed {seed}");
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            if outline.is_new_path {
                seen.insert(format!("path {}", text(reader.path())));
            }
            if let Some(parent) = reader.parent().filter(|_| outline.is_new_parent) {
                seen.insert(format!("parent {}", text(parent)));
            }
            let sessions = outline.new_sessions.into_iter().flatten();
            seen.extend(sessions.map(|session| format!("session {session}")));
            if let Some(path) = event.change.path() {
                wanted.insert(format!("path {path}"));
                let parent = crate::filter::parent_of(path);
                wanted.extend(parent.map(|parent| format!("parent {parent}")));
            }
            let sessions = [event.session, event.change.owner()];
            let sessions = sessions.into_iter().filter(|session| *session != SessionId::NONE);
            wanted.extend(sessions.map(|session| format!("session {session}")));
            assert_eq!(seen, wanted, "seed {seed}");
        }
    }
}
