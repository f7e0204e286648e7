//! Files with single bytes changed: the import ends with an error that names the file, or with a
//! state that is whole, and never with a panic.

use std::fs;

use bytes::{BufMut, BytesMut};
use zoolet_jute::Zxid;

use super::made::{Made, create, delete, log, txn};
use crate::{ImportOptions, export, import};

const LAST: Zxid = Zxid::new(1, 10);

/// Changes each byte of a file in a few ways, and returns how many changes were not noticed.
fn each_byte(made: &Made, name: &str, whole: &[u8]) -> usize {
    let mut unnoticed = 0;
    for offset in 0..whole.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut damaged = whole.to_vec();
            damaged[offset] ^= change;
            made.write(name, &damaged);
            match made.import() {
                Ok(imported) => {
                    imported.state.check();
                    unnoticed += 1;
                }
                Err(error) => {
                    let error = error.to_string();
                    assert!(error.contains(name) || error.contains("the logs end"), "{error}");
                }
            }
        }
    }
    unnoticed
}

#[test]
fn every_changed_byte_of_a_snapshot_is_noticed() {
    let made = Made::with_snapshot(LAST);
    let whole = fs::read(made.file("snapshot.10000000a")).unwrap();
    assert_eq!(each_byte(&made, "snapshot.10000000a", &whole), 0);
}

#[test]
fn every_changed_byte_of_a_log_is_noticed_or_ends_it() {
    let made = Made::with_snapshot(LAST);
    let txns = [create(LAST.0 + 1, "/b", 3), delete(LAST.0 + 2, "/b"), create(LAST.0 + 3, "/d", 4)];
    let mut whole = log(&txns);
    whole.extend([0; 32]);
    let unnoticed = each_byte(&made, "log.10000000b", &whole);
    // The database's id, marks behind transactions, lengths that reach behind the end, zeros: what
    // Apache's servers take for the end of the log.
    assert!(unnoticed < 3 * (8 + 3 + 4 * 3 + 32), "{unnoticed}");
}

#[test]
fn a_snapshot_that_is_cut_off_anywhere_is_refused() {
    let made = Made::with_snapshot(LAST);
    let whole = fs::read(made.file("snapshot.10000000a")).unwrap();
    let mut accepted = Vec::new();
    for end in 0..whole.len() {
        made.write("snapshot.10000000a", &whole[..end]);
        accepted.extend(made.import().is_ok().then_some(whole.len() - end));
    }
    // With the last zxid and its checksum gone it is one of 3.6, and with the digest gone of 3.5.
    assert_eq!(accepted, [54, 21]);
}

/// Bytes of a snapshot's end: checksum and mark; digest, checksum and mark; zxid, checksum and mark.
const SEAL: usize = 8 + 5;
pub(super) const DIGEST: usize = 8 + 4 + 8 + SEAL;
pub(super) const LAST_ZXID: usize = 8 + SEAL;

/// Puts the checksums of a snapshot right.
pub(super) fn mend(snapshot: &mut [u8]) {
    for seal in [LAST_ZXID + DIGEST + SEAL, LAST_ZXID + SEAL, SEAL] {
        let at = snapshot.len() - seal;
        let checksum = i64::from(adler2::adler32_slice(&snapshot[..at]));
        snapshot[at..at + 8].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// An import without a look at digests: a state that is whole and can be exported, or an error
/// that names the file or the directory. Returns whether there is a state.
fn is_whole_or_refused(made: &Made, name: &str) -> bool {
    let data = made.path().to_owned();
    match import(&ImportOptions { data, logs: None, digests: false }, &mut |_| {}) {
        Ok(imported) => {
            imported.state.check();
            let copy = tempfile::tempdir().unwrap();
            export(&imported.state, 0, copy.path()).unwrap();
            let data = copy.path().to_owned();
            let again = import(&ImportOptions { data, logs: None, digests: true }, &mut |_| {});
            assert_eq!(again.unwrap().state.digest(), imported.state.digest());
            true
        }
        Err(error) => {
            let error = error.to_string();
            let directory = made.path().display().to_string();
            assert!(error.contains(name) || error.contains(&directory), "{error}");
            false
        }
    }
}

/// What no checksum shows, because a server has written it like that.
#[test]
fn a_snapshot_with_wrong_content_and_right_checksums_is_whole_or_refused() {
    let made = Made::with_snapshot(LAST);
    let whole = fs::read(made.file("snapshot.10000000a")).unwrap();
    let mut accepted = 0;
    let content = whole.len() - LAST_ZXID - DIGEST - SEAL;
    for offset in 0..content {
        for change in [0x01, 0xff] {
            let mut damaged = whole.clone();
            damaged[offset] ^= change;
            mend(&mut damaged);
            made.write("snapshot.10000000a", &damaged);
            accepted += usize::from(is_whole_or_refused(&made, "snapshot.10000000a"));
        }
    }
    assert!(0 < accepted && accepted < 2 * content, "{accepted} of {}", 2 * content);
}

#[test]
fn a_transaction_with_wrong_content_and_a_right_checksum_is_whole_or_refused() {
    let made = Made::with_snapshot(LAST);
    let (mut accepted, mut tried) = (0, 0);
    let txns = [create(LAST.0 + 1, "/b", 3), delete(LAST.0 + 1, "/a/c"), multi(LAST.0 + 1)];
    for txn in txns {
        for offset in 0..txn.len() {
            for change in [0x01, 0xff] {
                let mut damaged = txn.clone();
                damaged[offset] ^= change;
                made.write("log.10000000b", &log(&[damaged]));
                accepted += usize::from(is_whole_or_refused(&made, "log.10000000b"));
                tried += 1;
            }
        }
    }
    assert!(0 < accepted && accepted < tried, "{accepted} of {tried}");
}

/// A multi that creates a znode and deletes another.
fn multi(zxid: i64) -> BytesMut {
    // Without the head of a transaction: session, number, zxid, time, type.
    let part = |txn: BytesMut| txn[32..].to_vec();
    txn(zxid, 14, |out| {
        out.put_i32(2);
        for (kind, body) in [(1, part(create(zxid, "/m", 3))), (2, part(delete(zxid, "/a/ttl")))] {
            out.put_i32(kind);
            out.put_u32(u32::try_from(body.len()).unwrap());
            out.put_slice(&body);
        }
    })
}

/// A length says that gigabytes follow: they are not allocated before they come.
#[test]
fn lengths_are_not_trusted() {
    let made = Made::with_snapshot(LAST);
    let mut log = log(&[]);
    log.put_i64(1);
    log.put_i32(i32::MAX);
    made.write("log.10000000b", &log);
    assert!(made.refused().contains("the length of a transaction is 2147483647"));
    let mut snapshot = b"ZKSN\0\0\0\x02\0\0\0\0\0\0\0\0".to_vec();
    snapshot.put_i32(i32::MAX);
    made.write("log.10000000b", b"");
    made.write("snapshot.10000000a", &snapshot);
    assert!(made.refused().contains("ends at byte 20, inside a session"));
}
