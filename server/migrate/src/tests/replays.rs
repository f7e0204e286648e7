//! What is read, and what is refused although every checksum is right.

use std::fs;
use std::io::Write;

use bytes::{BufMut, BytesMut};
use zoolet_jute::{Acl, Encode, SessionId, Zxid};
use zoolet_replica::state::Kind;

use super::damage::{DIGEST, LAST_ZXID, mend};
use super::made::{Made, SESSION, create, create_as, delete, log, state, txn};
use crate::{Note, export};

const LAST: Zxid = Zxid::new(1, 10);

fn after(count: i64) -> i64 {
    LAST.0 + count
}

#[test]
fn an_exported_state_is_imported_as_it_was() {
    let made = Made::with_snapshot(LAST);
    let imported = made.import().unwrap();
    imported.state.check();
    assert_eq!(imported.state.digest(), state(LAST).digest());
    assert_eq!((imported.transactions, imported.digests_compared), (0, 1));
    assert_eq!(imported.notes, []);
    let error = export(&imported.state, 0, made.path()).unwrap_err().to_string();
    assert!(error.contains("name an empty directory"), "{error}");
}

#[test]
fn transactions_behind_the_snapshot_are_applied() {
    let made = Made::with_snapshot(LAST);
    let paths = |out: &mut BytesMut| {
        out.put_i32(1);
        "/e".to_owned().encode(out);
    };
    let set_acl = |out: &mut BytesMut| {
        "/a/n".to_owned().encode(out);
        Vec::<Acl>::new().encode(out);
        out.put_i32(1);
    };
    let txns = [
        create(after(0), "/not/again", 9),
        create(after(1), "/a/n", 3),
        txn(after(2), 7, set_acl),
        delete(after(3), "/a/ttl"),
        txn(after(4), -1, |out| out.put_i32(-101)),
        txn(after(5), -11, paths),
        create((2 << 32) + 1, "/b", 7),
    ];
    let mut content = log(&txns);
    content.extend([0; 4096]);
    made.write("log.10000000a", &content);
    let imported = made.import().unwrap();
    let state = imported.state;
    state.check();
    assert_eq!((imported.transactions, imported.notes), (6, vec![]));
    assert_eq!(state.last_zxid(), Zxid::new(2, 1));
    let stat = state.stat("/a").unwrap();
    assert_eq!((stat.cversion, stat.num_children), (4, 2), "three creates, one delete");
    assert_eq!(stat.pzxid, Zxid(after(3)));
    let stat = state.stat("/a/n").unwrap();
    assert_eq!((stat.ctime, stat.aversion, stat.czxid), (1000 + after(1), 1, Zxid(after(1))));
    assert!(state.acl("/a/n").unwrap().is_empty());
    assert!(state.stat("/e").is_none() && state.session(SessionId(SESSION)).is_none());
    assert!(state.stat("/b").is_some());
}

/// A snapshot is written while transactions go on: it has some that follow it in the log.
#[test]
fn what_the_snapshot_has_already_is_not_done_twice() {
    let made = Made::with_snapshot(LAST);
    let txns = [create(after(1), "/a", 0), delete(after(2), "/gone"), delete(after(3), "/x/gone")];
    made.write("log.10000000b", &log(&txns));
    let state = made.import().unwrap().state;
    assert_eq!(state.data("/a").unwrap(), "data");
    assert_eq!(state.stat("/a").unwrap().czxid, Zxid(3));
}

/// The snapshot has what was created below a znode after that was deleted and created again.
#[test]
fn counters_begin_anew_with_a_znode() {
    let made = Made::with_snapshot(LAST);
    let txns =
        [delete(after(1), "/a"), create(after(2), "/a", 5), create_as(15, after(3), "/a/c", 1)];
    made.write("log.10000000b", &log(&txns));
    let state = made.import().unwrap().state;
    let stat = state.stat("/a").unwrap();
    assert_eq!((stat.czxid, stat.pzxid), (Zxid(after(2)), Zxid(after(3))));
    assert_eq!((stat.cversion, stat.num_children), (1, 1));
}

#[test]
fn the_epoch_of_the_server_is_read() {
    let made = Made::with_snapshot(LAST);
    assert_eq!(made.import().unwrap().epoch, 0, "it is not known");
    made.write("currentEpoch", b"17\n");
    assert_eq!(made.import().unwrap().epoch, 17);
    made.write("currentEpoch", b"x");
    assert!(made.refused().contains("currentEpoch"), "{}", made.refused());
}

#[test]
fn kinds_come_from_the_owners() {
    let imported = Made::with_snapshot(LAST).import().unwrap();
    let kind =
        |path: &str| imported.state.znodes().find(|znode| znode.path == path).unwrap().numbers.kind;
    assert_eq!(kind("/a/ttl"), Kind::Ttl(77));
    assert_eq!(kind("/a/c"), Kind::Container);
    assert_eq!(kind("/e"), Kind::Ephemeral(SessionId(SESSION)));
}

#[test]
fn a_torn_end_is_accepted_and_said() {
    let made = Made::with_snapshot(LAST);
    let whole = log(&[create(after(1), "/b", 3)]);
    let content = log(&[create(after(1), "/b", 3), create(after(2), "/c", 4)]);
    for end in whole.len() + 1..content.len() {
        made.write("log.10000000b", &content[..end]);
        let imported = made.import().unwrap();
        let offset = whole.len() as u64;
        assert_eq!(imported.notes, [Note::TornLog(made.file("log.10000000b"), offset)], "{end}");
        assert_eq!(imported.state.last_zxid(), Zxid(after(1)));
    }
    made.write("log.10000000b", b"");
    assert_eq!(made.import().unwrap().notes, [Note::EmptyLog(made.file("log.10000000b"))]);
}

#[test]
fn missing_transactions_are_noticed() {
    let made = Made::with_snapshot(LAST);
    made.write("log.10000000c", &log(&[create(after(2), "/b", 3)]));
    let error = made.refused();
    assert!(error.contains("log.10000000c goes on with transaction 0x10000000c"), "{error}");
    assert!(error.contains("at byte 16") && error.contains("are missing"), "{error}");
    made.write("log.10000000c", &log(&[create(after(1), "/b", 3), create(after(1), "/c", 4)]));
    assert!(made.refused().contains("transaction 0x10000000b follows 0x10000000b"));
}

#[test]
fn what_no_server_writes_is_refused_with_its_place() {
    let made = Made::with_snapshot(LAST);
    let cases = [
        (txn(after(1), 99, |_| {}), "damaged at byte 56: unknown transaction type 99"),
        (create(after(1), "x", 3), "`x` is not a path"),
        (create(after(1), "/x/", 3), "`/x/` is not a path of a new znode"),
        (txn(-1, 1, |_| {}), "is not a zxid"),
        (txn(after(1), 2, |_| {}), "the transaction ends inside a path"),
        (txn(after(1), -1, |out| out.put_slice(&[0; 30])), "bytes follow"),
    ];
    for (txn, expected) in cases {
        made.write("log.10000000b", &log(&[txn]));
        let error = made.refused();
        assert!(error.contains("log.10000000b") && error.contains(expected), "{error}");
    }
    made.write("log.10000000b", b"ZKLG");
    assert!(made.refused().contains("ends at byte 4, inside the file's version"));
    fs::remove_file(made.file("log.10000000b")).unwrap();
    fs::remove_file(made.file("snapshot.10000000a")).unwrap();
    assert!(made.refused().contains("has no snapshot of Apache ZooKeeper"));
}

#[test]
fn a_wrong_digest_is_refused() {
    let made = Made::with_snapshot(LAST);
    let with_digest = |digest: u64| {
        let mut txn = delete(after(1), "/b");
        txn.put_i32(2);
        txn.put_u64(digest);
        log(&[txn])
    };
    let digest = made.import().unwrap().digest;
    // The root's pzxid is part of the digest.
    made.write("log.10000000b", &with_digest(digest));
    assert!(made.refused().contains("the digest of the tree after transaction 0x10000000b"));
    let data = made.path().to_owned();
    let options = crate::ImportOptions { data, logs: None, digests: false };
    let right = crate::import(&options, &mut |_| {}).unwrap().digest;
    made.write("log.10000000b", &with_digest(right));
    assert_eq!(made.import().unwrap().digests_compared, 2);
}

/// Apache `ZooKeeper` goes on while it writes a snapshot, and takes the digest at its end: a transaction
/// that is being applied then has changed znodes already, and not the digest.
#[test]
fn a_snapshot_may_have_a_change_of_the_transaction_behind_its_digest() {
    let made = Made::with_snapshot(LAST);
    let before = made.import().unwrap().digest;
    made.write("log.10000000b", &log(&[create(after(1), "/b", 3)]));
    let ahead = made.import().unwrap();
    let other = Made::empty();
    export(&ahead.state, 0, other.path()).unwrap();
    let mut snapshot = fs::read(other.file("snapshot.10000000b")).unwrap();
    let at = snapshot.len() - LAST_ZXID - DIGEST;
    snapshot[at..at + 8].copy_from_slice(&LAST.0.to_be_bytes());
    snapshot[at + 12..at + 20].copy_from_slice(&before.to_be_bytes());
    mend(&mut snapshot);
    made.write("snapshot.10000000a", &snapshot);
    let decided_by = |digest: u64| {
        let mut txn = create(after(1), "/b", 3);
        txn.put_i32(2);
        txn.put_u64(digest);
        made.write("log.10000000b", &log(&[txn]));
    };
    decided_by(ahead.digest);
    let imported = made.import().unwrap();
    assert_eq!((imported.digest, imported.digests_compared), (ahead.digest, 2));
    decided_by(before);
    assert!(made.refused().contains("snapshot.10000000a"), "{}", made.refused());
    // Nothing decides.
    made.write("log.10000000b", &log(&[create(after(1), "/b", 3)]));
    let error = made.refused();
    assert!(error.contains("the digest of the tree after transaction 0x10000000a"), "{error}");
}

#[test]
fn an_older_snapshot_is_read_if_the_newest_is_cut_off() {
    let made = Made::with_snapshot(LAST);
    let whole = fs::read(made.file("snapshot.10000000a")).unwrap();
    made.write("snapshot.10000000c", &whole[..100]);
    let error = made.refused();
    assert!(error.contains("the logs end with transaction 0x10000000a"), "{error}");
    let txns = [create(after(1), "/b", 3), create(after(2), "/c", 4)];
    made.write("log.10000000b", &log(&txns));
    let imported = made.import().unwrap();
    assert_eq!(imported.notes, [Note::SnapshotCutOff(made.file("snapshot.10000000c"))]);
    assert_eq!(imported.state.last_zxid(), Zxid(after(2)));
}

#[test]
fn compressed_snapshots_are_read() {
    let made = Made::with_snapshot(LAST);
    let plain = made.file("snapshot.10000000a");
    let content = fs::read(&plain).unwrap();
    fs::remove_file(plain).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&content).unwrap();
    let mut snappy = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
    for piece in content.chunks(100) {
        let block = snap::raw::Encoder::new().compress_vec(piece).unwrap();
        snappy.put_u32(u32::try_from(block.len()).unwrap());
        snappy.extend(block);
    }
    for (name, compressed) in
        [("snapshot.10000000a.gz", gzip.finish().unwrap()), ("snapshot.10000000a.snappy", snappy)]
    {
        made.write(name, &compressed);
        assert_eq!(made.import().unwrap().state.digest(), state(LAST).digest(), "{name}");
        made.write(name, &compressed[..compressed.len() - 9]);
        let error = made.refused();
        assert!(error.contains(name), "{error}");
        fs::remove_file(made.file(name)).unwrap();
    }
}
