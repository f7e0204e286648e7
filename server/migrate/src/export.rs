//! Writing a state as a data directory that Apache `ZooKeeper` starts from: one snapshot, with the
//! digest of its tree.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use adler2::Adler32;
use zoolet_jute::{Acl, Zxid};
use zoolet_replica::state::{State, ZnodeNumbers, ZnodeRecord};

use crate::MigrateError;
use crate::digest::{self, DIGEST_VERSION, StoredStat};
use crate::files::{VERSION_DIRECTORY, snapshot_name};
use crate::owner::owner_of;
use crate::snapshot::{MAGIC, VERSION};

/// What a snapshot has in place of the id of a database.
const NO_DATABASE: i64 = -1;

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The snapshot.
    pub path: PathBuf,
    /// The last transaction of the state.
    pub last_zxid: Zxid,
    /// The digest of its tree, as Apache `ZooKeeper` computes it.
    pub digest: u64,
    /// How many znodes it has.
    pub znodes: u64,
    /// How many sessions it has.
    pub sessions: u64,
}

/// Writes a state into a directory, which is to be the `dataDir` of an Apache `ZooKeeper` server. It
/// is created if need be, and must not have data. The snapshot is durable when this returns.
///
/// The snapshot has the first zxid of `epoch`. A single server continues in that epoch, and an ensemble
/// begins the next one.
pub fn export(state: &State, epoch: u32, directory: &Path) -> Result<Exported, MigrateError> {
    check_export(directory)?;
    let directory = directory.join(VERSION_DIRECTORY);
    fs::create_dir_all(&directory).map_err(MigrateError::io("create", &directory))?;
    let zxid = state.last_zxid().max(Zxid::new(epoch, 0));
    let path = directory.join(snapshot_name(zxid));
    let temporary = directory.join("export.tmp");
    let written = write(state, zxid, &temporary, &path);
    if written.is_err() {
        // If this fails as well, the file is left, and its name says what it is.
        let _ = fs::remove_file(&temporary);
    }
    let (digest, znodes) = written?;
    let sync = |directory: &Path| File::open(directory).and_then(|opened| opened.sync_all());
    sync(&directory).map_err(MigrateError::io("sync", &directory))?;
    if let Some(above) = directory.parent() {
        sync(above).map_err(MigrateError::io("sync", above))?;
    }
    let (last_zxid, sessions) = (state.last_zxid(), state.session_count() as u64);
    Ok(Exported { path, last_zxid, digest, znodes, sessions })
}

/// Refuses a directory that has data already, as [`export`] does: for programs that read a lot before
/// they get there.
pub fn check_export(directory: &Path) -> Result<(), MigrateError> {
    let directory = directory.join(VERSION_DIRECTORY);
    let is_there = directory.try_exists().map_err(MigrateError::io("look for", &directory))?;
    match is_there.then(|| first_file(&directory)).transpose()?.flatten() {
        Some(found) => Err(MigrateError::NotEmpty { path: directory, found }),
        None => Ok(()),
    }
}

fn first_file(directory: &Path) -> Result<Option<String>, MigrateError> {
    let mut entries = fs::read_dir(directory).map_err(MigrateError::io("list", directory))?;
    let entry = entries.next().transpose().map_err(MigrateError::io("list", directory))?;
    Ok(entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
}

fn write(
    state: &State,
    zxid: Zxid,
    temporary: &Path,
    path: &Path,
) -> Result<(u64, u64), MigrateError> {
    let file = File::create_new(temporary).map_err(MigrateError::io("create", temporary))?;
    let mut out = Sealed { out: BufWriter::new(file), checksum: Adler32::new() };
    let failed = || MigrateError::io("write", temporary);
    let done = write_content(state, zxid, &mut out).map_err(failed())?;
    let file = out.out.into_inner().map_err(|error| failed()(error.into_error()))?;
    file.sync_all().map_err(MigrateError::io("sync", temporary))?;
    fs::rename(temporary, path).map_err(MigrateError::io("rename", temporary))?;
    Ok(done)
}

/// Writes the content of a snapshot of this zxid. Returns the digest and the number of its znodes.
pub(crate) fn write_content<W: Write>(
    state: &State,
    zxid: Zxid,
    out: &mut Sealed<W>,
) -> io::Result<(u64, u64)> {
    out.put(&MAGIC)?;
    out.i32(VERSION)?;
    out.i64(NO_DATABASE)?;
    out.length(state.session_count())?;
    for (id, session) in state.sessions() {
        out.i64(id.0)?;
        out.i32(session.timeout_ms)?;
    }
    let acls = write_acls(state, out)?;
    let (mut digest, mut znodes) = (0_u64, 0_u64);
    for record in state.znodes() {
        let path = if record.path == "/" { "" } else { &record.path };
        let stat = stat_of(&record.numbers);
        digest = digest.wrapping_add(digest::of_znode(path, record.data.as_deref(), &stat));
        znodes += 1;
        out.bytes(Some(path.as_bytes()))?;
        let acl = acls.get(&record.acl).copied().unwrap_or_default();
        write_node(&record, acl, &stat, out)?;
    }
    out.bytes(Some(b"/"))?;
    out.seal()?;
    out.i64(zxid.0)?;
    out.i32(DIGEST_VERSION)?;
    out.i64(digest.cast_signed())?;
    out.seal()?;
    out.i64(zxid.0)?;
    out.seal()?;
    Ok((digest, znodes))
}

fn stat_of(numbers: &ZnodeNumbers) -> StoredStat {
    StoredStat {
        czxid: numbers.czxid.0,
        mzxid: numbers.mzxid.0,
        pzxid: numbers.pzxid.0,
        ctime: numbers.ctime,
        mtime: numbers.mtime,
        version: numbers.version,
        cversion: numbers.created.cast_signed(),
        aversion: numbers.aversion,
        owner: owner_of(numbers.kind),
    }
}

/// Writes all ACLs. Returns their numbers, from 1.
fn write_acls<W: Write>(
    state: &State,
    out: &mut Sealed<W>,
) -> io::Result<BTreeMap<Arc<[Acl]>, i64>> {
    let (mut numbers, mut list) = (BTreeMap::new(), Vec::new());
    for record in state.znodes() {
        numbers.entry(record.acl).or_insert_with_key(|acl| {
            list.push(Arc::clone(acl));
            i64::try_from(list.len()).unwrap_or(i64::MAX)
        });
    }
    out.length(list.len())?;
    for (acl, number) in list.iter().zip(1..) {
        out.i64(number)?;
        out.length(acl.len())?;
        for entry in acl.iter() {
            out.i32(entry.perms)?;
            out.bytes(entry.id.scheme.as_deref().map(str::as_bytes))?;
            out.bytes(entry.id.id.as_deref().map(str::as_bytes))?;
        }
    }
    Ok(numbers)
}

fn write_node<W: Write>(
    record: &ZnodeRecord,
    acl: i64,
    stat: &StoredStat,
    out: &mut Sealed<W>,
) -> io::Result<()> {
    out.bytes(record.data.as_deref())?;
    out.i64(acl)?;
    for number in [stat.czxid, stat.mzxid, stat.ctime, stat.mtime] {
        out.i64(number)?;
    }
    for number in [stat.version, stat.cversion, stat.aversion] {
        out.i32(number)?;
    }
    out.i64(stat.owner)?;
    out.i64(stat.pzxid)
}

/// A file that is written with checksums in it.
pub(crate) struct Sealed<W> {
    out: W,
    checksum: Adler32,
}

impl<W: Write> Sealed<W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.checksum.write_slice(bytes);
        self.out.write_all(bytes)
    }

    fn i32(&mut self, number: i32) -> io::Result<()> {
        self.put(&number.to_be_bytes())
    }

    fn i64(&mut self, number: i64) -> io::Result<()> {
        self.put(&number.to_be_bytes())
    }

    fn length(&mut self, length: usize) -> io::Result<()> {
        self.i32(i32::try_from(length).map_err(io::Error::other)?)
    }

    fn bytes(&mut self, bytes: Option<&[u8]>) -> io::Result<()> {
        let Some(bytes) = bytes else { return self.i32(-1) };
        self.length(bytes.len())?;
        self.put(bytes)
    }

    /// The checksum of everything so far, and the mark behind it.
    fn seal(&mut self) -> io::Result<()> {
        self.i64(i64::from(self.checksum.checksum()))?;
        self.bytes(Some(b"/"))
    }
}
