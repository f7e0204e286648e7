//! A data directory of Apache `ZooKeeper`, made by hand.

use std::fs;
use std::path::{Path, PathBuf};

use adler2::adler32_slice;
use bytes::{BufMut, BytesMut};
use zoolet_jute::{Acl, Encode, SessionId, Zxid};
use zoolet_replica::state::{Kind, State, StateBuilder, ZnodeNumbers};

use crate::{ImportOptions, Imported, MigrateError, export, import};

/// The session that owns `/e`.
pub(super) const SESSION: i64 = 0x0100_018b_5d0a_0001;

/// A data directory; it goes with this.
pub(super) struct Made {
    directory: tempfile::TempDir,
}

/// A small tree with everything in it, up to this transaction.
pub(super) fn state(last: Zxid) -> State {
    let mut builder = StateBuilder::default();
    builder.session(SessionId(SESSION), 30_000).unwrap();
    let open = builder.acl(&Acl::open());
    let plain = ZnodeNumbers { czxid: Zxid(3), mzxid: Zxid(4), ..ZnodeNumbers::default() };
    let root = builder.znode(None, "", Some("".into()), open, &plain).unwrap();
    let parent = ZnodeNumbers { created: 2, pzxid: Zxid(4), ..plain };
    let a = builder.znode(Some(root), "a", Some("data".into()), open, &parent).unwrap();
    let of = |kind| ZnodeNumbers { kind, ..plain };
    builder.znode(Some(a), "ttl", None, open, &of(Kind::Ttl(77))).unwrap();
    builder.znode(Some(a), "c", None, open, &of(Kind::Container)).unwrap();
    let owner = Kind::Ephemeral(SessionId(SESSION));
    builder.znode(Some(root), "e", Some("x".into()), open, &of(owner)).unwrap();
    builder.finish(last).unwrap()
}

impl Made {
    /// A directory without files.
    pub(super) fn empty() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    /// A directory with a snapshot of [`state`].
    pub(super) fn with_snapshot(last: Zxid) -> Self {
        let made = Self::empty();
        export(&state(last), 0, made.directory.path()).unwrap();
        made
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path().join("version-2").join(name)
    }

    pub(super) fn write(&self, name: &str, content: &[u8]) {
        fs::write(self.file(name), content).unwrap();
    }

    pub(super) fn import(&self) -> Result<Imported, MigrateError> {
        let (data, logs) = (self.path().to_owned(), None);
        import(&ImportOptions { data, logs, digests: true }, &mut |_| {})
    }

    /// The error of an import that must fail.
    pub(super) fn refused(&self) -> String {
        self.import().unwrap_err().to_string()
    }
}

/// A transaction in the making: its head, and what `body` adds.
pub(super) fn txn(zxid: i64, kind: i32, body: impl FnOnce(&mut BytesMut)) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_i64(SESSION);
    out.put_i32(1);
    out.put_i64(zxid);
    out.put_i64(1000 + zxid);
    out.put_i32(kind);
    body(&mut out);
    out
}

/// The creation of a znode, which is the `cversion`th child of its parent.
pub(super) fn create(zxid: i64, path: &str, cversion: i32) -> BytesMut {
    create_as(1, zxid, path, cversion)
}

/// The same as another kind of transaction.
pub(super) fn create_as(kind: i32, zxid: i64, path: &str, cversion: i32) -> BytesMut {
    txn(zxid, kind, |out| {
        path.to_owned().encode(out);
        Some(bytes::Bytes::from_static(b"new")).encode(out);
        Acl::open().encode(out);
        out.put_u8(0);
        out.put_i32(cversion);
    })
}

pub(super) fn delete(zxid: i64, path: &str) -> BytesMut {
    txn(zxid, 2, |out| path.to_owned().encode(out))
}

/// A log of these transactions.
pub(super) fn log(txns: &[BytesMut]) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_slice(b"ZKLG");
    out.put_i32(2);
    out.put_i64(0);
    for txn in txns {
        out.put_i64(i64::from(adler32_slice(txn)));
        out.put_u32(u32::try_from(txn.len()).unwrap());
        out.put_slice(txn);
        out.put_u8(b'B');
    }
    out
}
