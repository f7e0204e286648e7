//! The digest of a tree as Apache `ZooKeeper` computes it since 3.6: the sum of a CRC-32 for each
//! znode.

use crc32fast::Hasher;

/// The version of its definition.
pub(crate) const DIGEST_VERSION: i32 = 2;

/// Znodes below this path are left out: their data is not the same on all of Apache's servers.
const LEFT_OUT: &str = "/zookeeper/";

/// The numbers of a znode, as they are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredStat {
    pub(crate) czxid: i64,
    pub(crate) mzxid: i64,
    pub(crate) pzxid: i64,
    pub(crate) ctime: i64,
    pub(crate) mtime: i64,
    pub(crate) version: i32,
    /// How many children were ever created, unlike the number of that name on the wire.
    pub(crate) cversion: i32,
    pub(crate) aversion: i32,
    pub(crate) owner: i64,
}

/// The part of one znode. The root's path is empty.
pub(crate) fn of_znode(path: &str, data: Option<&[u8]>, stat: &StoredStat) -> u64 {
    if path.starts_with(LEFT_OUT) {
        return 0;
    }
    let mut hash = Hasher::new();
    hash.update(path.as_bytes());
    hash.update(data.unwrap_or_default());
    for number in [stat.czxid, stat.mzxid, stat.pzxid, stat.ctime, stat.mtime] {
        hash.update(&number.to_be_bytes());
    }
    for number in [stat.version, stat.cversion, stat.aversion] {
        hash.update(&number.to_be_bytes());
    }
    hash.update(&stat.owner.to_be_bytes());
    u64::from(hash.finalize())
}
