//! A state that is taken apart into its znodes and put together again.

use bytes::Bytes;
use zoolet_jute::{Acl, SessionId, Zxid};

use crate::state::{BuildError, Kind, State, StateBuilder, ZnodeNumber, ZnodeNumbers, ZnodeRecord};

const SESSION: SessionId = SessionId(0x0100_0000_0000_0007);

fn numbers(kind: Kind) -> ZnodeNumbers {
    let (czxid, mzxid, pzxid) = (Zxid(3), Zxid(4), Zxid(5));
    let (ctime, mtime, version, aversion, created) = (6, 7, 8, 9, 10);
    ZnodeNumbers { kind, czxid, mzxid, pzxid, ctime, mtime, version, aversion, created }
}

fn build(records: &[ZnodeRecord], last_zxid: Zxid) -> State {
    let mut builder = StateBuilder::default();
    builder.session(SESSION, 4000).unwrap();
    let mut known: Vec<(String, ZnodeNumber)> = Vec::new();
    for record in records {
        let acl = builder.acl(&record.acl);
        let (parent, name) = record.path.rsplit_once('/').unwrap();
        let parent = known.iter().find(|(path, _)| path == parent).map(|(_, number)| *number);
        let data = record.data.clone();
        let number = builder.znode(parent, name, data, acl, &record.numbers).unwrap();
        known.push((record.path.trim_end_matches('/').to_owned(), number));
    }
    builder.finish(last_zxid).unwrap()
}

#[test]
fn a_state_is_the_same_after_it_was_taken_apart() {
    let acl: std::sync::Arc<[Acl]> = Acl::open().into();
    let record = |path: &str, kind| {
        let (path, data) = (path.to_owned(), Some(Bytes::from_static(b"data")));
        ZnodeRecord { path, data, acl: acl.clone(), numbers: numbers(kind) }
    };
    let records = [
        record("/", Kind::Persistent),
        record("/a", Kind::Container),
        record("/a/b", Kind::Ttl(500)),
        record("/a/b/e", Kind::Ephemeral(SESSION)),
    ];
    let first = build(&records, Zxid(9));
    first.check();
    assert_eq!(first.stat("/a").unwrap().cversion, 19, "two for each create, less the child");
    assert_eq!(first.ephemerals(SESSION), ["/a/b/e"]);
    for built_in in ["/zookeeper", "/zookeeper/quota", "/zookeeper/config"] {
        assert_eq!(first.stat(built_in), State::new().stat(built_in), "{built_in}");
        assert_eq!(first.acl(built_in), State::new().acl(built_in), "{built_in}");
    }
    let taken: Vec<ZnodeRecord> = first.znodes().collect();
    let second = build(&taken, first.last_zxid());
    second.check();
    assert_eq!(second.digest(), first.digest());
    let pieces = second.snapshot().map(Ok::<_, std::convert::Infallible>);
    assert_eq!(State::restore(pieces).unwrap().digest(), first.digest());
}

#[test]
fn what_makes_no_state_is_refused() {
    let mut builder = StateBuilder::default();
    let acl = builder.acl(&Acl::open());
    let plain = numbers(Kind::Persistent);
    let root = builder.znode(None, "", None, acl, &plain).unwrap();
    assert!(matches!(builder.znode(None, "a", None, acl, &plain), Err(BuildError::Name(_))));
    assert!(matches!(builder.znode(Some(root), "", None, acl, &plain), Err(BuildError::Name(_))));
    let slash = builder.znode(Some(root), "a/b", None, acl, &plain);
    assert!(matches!(slash, Err(BuildError::Name(_))));
    let orphan = builder.znode(Some(root), "e", None, acl, &numbers(Kind::Ephemeral(SESSION)));
    assert_eq!(orphan, Err(BuildError::NoSession(SESSION)));
    assert_eq!(builder.session(SessionId(0), 1), Err(BuildError::NoSession(SessionId(0))));
    builder.znode(Some(root), "twin", None, acl, &plain).unwrap();
    let twin = builder.znode(Some(root), "twin", None, acl, &plain);
    assert_eq!(twin, Err(BuildError::NoTree));
    assert_eq!(StateBuilder::default().finish(Zxid(-1)).unwrap_err(), BuildError::Zxid(-1));
}
