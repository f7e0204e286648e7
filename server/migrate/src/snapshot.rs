//! Reading a snapshot.
//!
//! ```text
//! "ZKSN" · version i32 = 2 · database i64
//! sessions count i32 { id i64 · timeout i32 }
//! ACLs     count i32 { number i64 · vector<ACL> }
//! znodes   { path · data · ACL i64 · czxid mzxid ctime mtime i64 · version cversion aversion i32 ·
//!            owner pzxid i64 } · "/"
//! Adler-32 i64 · "/"
//! digest   zxid i64 · version i32 · digest i64 · Adler-32 i64 · "/"    (since 3.6)
//! zxid     i64 · Adler-32 i64 · "/"                                    (since 3.9)
//! ```

use std::collections::BTreeMap;
use std::io::Read;

use zoolet_jute::{Acl, Zxid};

use crate::MigrateError;
use crate::acls::AclPlace;
use crate::compression;
use crate::digest::{DIGEST_VERSION, StoredStat};
use crate::files::SnapshotFile;
use crate::progress::{Progress, ProgressHook};
use crate::source::Source;
use crate::tree::{ApacheTree, Node, parent_of};

pub(crate) const MAGIC: [u8; 4] = *b"ZKSN";
pub(crate) const VERSION: i32 = 2;

/// The number of the ACL that allows everything, which is not in the list of ACLs.
const OPEN_ACL: i64 = -1;

/// The znodes between two reports.
const PROGRESS_STEP: u64 = 1 << 17;

/// The digest of the tree behind a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TreeDigest {
    pub(crate) zxid: Zxid,
    pub(crate) digest: u64,
    /// Where it is in the snapshot.
    pub(crate) offset: u64,
}

/// What a snapshot holds.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) tree: ApacheTree,
    pub(crate) digest: Option<TreeDigest>,
}

/// Reads a snapshot to its end.
pub(crate) fn read(
    file: &SnapshotFile,
    progress: &mut ProgressHook<'_>,
) -> Result<Snapshot, MigrateError> {
    let reader = compression::open(&file.path, file.compression)?;
    read_from(&mut Source::new(&file.path, reader), progress)
}

/// Reads the content of a snapshot.
pub(crate) fn read_from<R: Read>(
    source: &mut Source<R>,
    progress: &mut ProgressHook<'_>,
) -> Result<Snapshot, MigrateError> {
    read_head(source, MAGIC)?;
    let mut tree = ApacheTree::default();
    for _ in 0..source.count("the number of sessions")? {
        let id = source.i64("a session")?;
        let timeout_ms = source.i32("a session's timeout")?;
        tree.sessions.insert(id, timeout_ms);
    }
    let acls = read_acls(source, &mut tree)?;
    loop {
        let offset = source.offset();
        let path = source.text("a path")?;
        if path == "/" {
            break;
        }
        let node = read_node(source, &acls)?;
        let is_known =
            parent_of(&path).map_or(path.is_empty(), |parent| tree.get(parent).is_some());
        if !is_known || path.ends_with('/') {
            return Err(source.damaged(offset, format!("znode `{path}` has no parent")));
        }
        if !tree.insert(path.clone(), node) {
            return Err(source.damaged(offset, format!("znode `{path}` is there twice")));
        }
        if (tree.len() as u64).is_multiple_of(PROGRESS_STEP) {
            progress(Progress { znodes: tree.len() as u64, transactions: 0 });
        }
    }
    if tree.get("").is_none() {
        return Err(source.damaged(source.offset(), "there is no root"));
    }
    read_seal(source)?;
    let digest = read_trailers(source)?;
    Ok(Snapshot { tree, digest })
}

/// Reads the head of a snapshot or log.
pub(crate) fn read_head<R: Read>(
    source: &mut Source<R>,
    magic: [u8; 4],
) -> Result<(), MigrateError> {
    let expected = i32::from_be_bytes(magic);
    let found = source.i32("the file's first word")?;
    if found != expected {
        let name = String::from_utf8_lossy(&magic).into_owned();
        return Err(source.damaged(0, format!("it begins with {found:#010x}, not with `{name}`")));
    }
    let version = source.i32("the file's version")?;
    if version != VERSION {
        return Err(source.damaged(4, format!("it has format version {version}, not {VERSION}")));
    }
    let _database = source.i64("the file's database id")?;
    Ok(())
}

type AclNumbers = BTreeMap<i64, AclPlace>;

fn read_acls<R: Read>(
    source: &mut Source<R>,
    tree: &mut ApacheTree,
) -> Result<AclNumbers, MigrateError> {
    let mut numbers = AclNumbers::from([(OPEN_ACL, tree.acls.place(Acl::open()))]);
    for _ in 0..source.count("the number of ACLs")? {
        let number = source.i64("an ACL's number")?;
        let acl = source.acl()?;
        numbers.insert(number, tree.acls.place(acl));
    }
    Ok(numbers)
}

fn read_node<R: Read>(source: &mut Source<R>, acls: &AclNumbers) -> Result<Node, MigrateError> {
    let data = source.buffer("a znode's data")?;
    let acl = acls.get(&source.i64("a znode's ACL")?).copied();
    let czxid = source.i64("a znode's czxid")?;
    let mzxid = source.i64("a znode's mzxid")?;
    let ctime = source.i64("a znode's ctime")?;
    let mtime = source.i64("a znode's mtime")?;
    let version = source.i32("a znode's version")?;
    let cversion = source.i32("a znode's child version")?;
    let aversion = source.i32("a znode's ACL version")?;
    let owner = source.i64("a znode's owner")?;
    let pzxid = source.i64("a znode's pzxid")?;
    let stat = StoredStat { czxid, mzxid, pzxid, ctime, mtime, version, cversion, aversion, owner };
    Ok(Node { data, acl, stat })
}

fn read_seal<R: Read>(source: &mut Source<R>) -> Result<(), MigrateError> {
    let (offset, computed) = (source.offset(), source.checksum());
    let stored = source.i64("a checksum")?;
    check_seal(source, offset, stored, computed)
}

fn check_seal<R: Read>(
    source: &mut Source<R>,
    offset: u64,
    stored: i64,
    computed: i64,
) -> Result<(), MigrateError> {
    if stored != computed {
        let what = format!("the checksum is {stored:#x}, that of the content {computed:#x}");
        return Err(source.damaged(offset, what));
    }
    let offset = source.offset();
    let end = source.text("the mark behind a checksum")?;
    if end == "/" { Ok(()) } else { Err(source.damaged(offset, "no `/` follows the checksum")) }
}

/// Reads what follows the znodes: the digest, the last zxid, both or neither, as the server was
/// configured.
fn read_trailers<R: Read>(source: &mut Source<R>) -> Result<Option<TreeDigest>, MigrateError> {
    if source.is_at_end()? {
        return Ok(None);
    }
    let offset = source.offset();
    let zxid = Zxid(source.i64("the digest's zxid")?);
    let (behind, computed) = (source.offset(), source.checksum());
    let version = source.i32("the digest's version")?;
    if version == 0 {
        // It is the last zxid, and the upper half of its checksum, which has 32 bits.
        let lower = source.i32("a checksum")?.cast_unsigned();
        check_seal(source, behind, i64::from(lower), computed)?;
        return at_end(source).map(|()| None);
    }
    let digest = if version < DIGEST_VERSION {
        let _hexadecimal = source.optional_text("the digest")?;
        0
    } else {
        source.i64("the digest")?.cast_unsigned()
    };
    read_seal(source)?;
    if !source.is_at_end()? {
        let _last_zxid = source.i64("the last zxid")?;
        read_seal(source)?;
    }
    at_end(source)?;
    let counts = version == DIGEST_VERSION && zxid.0 > 0;
    Ok(counts.then_some(TreeDigest { zxid, digest, offset }))
}

fn at_end<R: Read>(source: &mut Source<R>) -> Result<(), MigrateError> {
    if source.is_at_end()? {
        Ok(())
    } else {
        Err(source.damaged(source.offset(), "bytes follow the end of the snapshot"))
    }
}
