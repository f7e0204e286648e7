//! What a server's witness has seen, in a file of each life of the server.
//!
//! A record is its length, its kind, the time and what follows; a kill may tear the last one. All
//! numbers are big-endian.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, Weak};

use bytes::{Buf, BufMut, Bytes, BytesMut, TryGetError};
use tracing::error;
use zoolet_jute::Zxid;
use zoolet_server::internals::Witness;
use zoolet_sim::history::{Applied, Digest, Restore, ServerLog};
use zoolet_storage::{LogPosition, Wal};

use super::clock;

/// The kinds of records.
const APPLIED: u8 = 1;
const REACHED: u8 = 2;
const RESTORED: u8 = 3;
/// The bytes of a record of the second kind: kind, time, index, zxid, digest.
const REACHED_BYTES: usize = 33;
/// The bytes in front of a record's batch: kind, time, index, term.
const APPLIED_BYTES: usize = 25;
/// The bytes of a record of the third kind: kind, time, zxid.
const RESTORED_BYTES: usize = 17;

/// Writes down what a server applies.
#[derive(Debug)]
pub(super) struct FileWitness(Mutex<File>);

impl FileWitness {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        Ok(Self(Mutex::new(File::options().create(true).append(true).open(path)?)))
    }

    fn write(&self, body: &[u8]) {
        let mut record = BytesMut::with_capacity(body.len() + 4);
        record.put_u32(u32::try_from(body.len()).unwrap_or(u32::MAX));
        record.put_slice(body);
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(&record) {
            // The checks then miss the entry.
            error!("the witness cannot write: {error}");
        }
    }
}

impl Witness for FileWitness {
    fn log_opened(&self, _: Weak<Wal>) {}

    fn applied(&self, position: LogPosition, batch: &Bytes) {
        let mut body = BytesMut::with_capacity(APPLIED_BYTES + batch.len());
        body.put_u8(APPLIED);
        body.put_u64(clock::machine_us());
        body.put_u64(position.index.0);
        body.put_u64(position.term);
        body.put_slice(batch);
        self.write(&body);
    }

    fn reached(&self, position: LogPosition, zxid: Zxid, digest: u64) {
        let mut body = BytesMut::with_capacity(REACHED_BYTES);
        body.put_u8(REACHED);
        body.put_u64(clock::machine_us());
        body.put_u64(position.index.0);
        body.put_i64(zxid.0);
        body.put_u64(digest);
        self.write(&body);
    }

    fn restored(&self, zxid: Zxid, _: u64) {
        let mut body = BytesMut::with_capacity(RESTORED_BYTES);
        body.put_u8(RESTORED);
        body.put_u64(clock::machine_us());
        body.put_i64(zxid.0);
        self.write(&body);
    }
}

/// Where the witness of a life writes, from 1.
pub(super) fn path(home: &Path, life: u32) -> PathBuf {
    home.join(format!("seen-{life:04}"))
}

/// Reads what a server has applied over all its lives.
pub(super) fn read(home: &Path, lives: u32) -> io::Result<ServerLog> {
    let mut log = ServerLog::default();
    for life in 1..=lives {
        match fs::read(path(home, life)) {
            Ok(bytes) => take(bytes.into(), &mut log),
            // It was killed before it had begun.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(log)
}

fn take(mut bytes: Bytes, log: &mut ServerLog) {
    while let Ok(length) = bytes.try_get_u32() {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > bytes.len() || take_record(bytes.split_to(length), log).is_err() {
            return;
        }
    }
}

fn take_record(mut body: Bytes, log: &mut ServerLog) -> Result<(), TryGetError> {
    let kind = body.try_get_u8()?;
    let at = clock::of_machine(body.try_get_u64()?);
    if kind == RESTORED {
        let (zxid, applied_before) = (Zxid(body.try_get_i64()?), log.applied.len());
        log.restored.push(Restore { at, zxid, applied_before });
        return Ok(());
    }
    let index = body.try_get_u64()?;
    if kind == APPLIED {
        let term = body.try_get_u64()?;
        log.applied.push(Applied { at, index, term, batch: body });
    } else {
        let (zxid, digest) = (Zxid(body.try_get_i64()?), body.try_get_u64()?);
        log.digests.push(Digest { at, index, zxid, digest });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use zoolet_storage::LogIndex;

    use super::*;

    #[test]
    fn what_was_written_is_read_but_for_a_torn_end() {
        let directory = tempfile::tempdir().unwrap();
        let position = |index| LogPosition { index: LogIndex(index), term: 3, node: 1 };
        for life in [1, 3] {
            let witness = FileWitness::create(&path(directory.path(), life)).unwrap();
            witness.applied(position(7), &Bytes::from_static(b"batch"));
            witness.restored(Zxid(8), 10);
            witness.reached(position(7), Zxid(9), 11);
        }
        let torn = path(directory.path(), 3);
        let bytes = fs::read(&torn).unwrap();
        fs::write(&torn, &bytes[..bytes.len() - 1]).unwrap();
        let log = read(directory.path(), 3).unwrap();
        assert_eq!((log.applied.len(), log.digests.len()), (2, 1));
        let Applied { index, term, batch, .. } = &log.applied[1];
        assert_eq!((*index, *term, batch.as_ref()), (7, 3, b"batch".as_slice()));
        let Digest { index, zxid, digest, .. } = log.digests[0];
        assert_eq!((index, zxid, digest), (7, Zxid(9), 11));
        let restored: Vec<_> =
            log.restored.iter().map(|one| (one.zxid, one.applied_before)).collect();
        assert_eq!(restored, [(Zxid(8), 1), (Zxid(8), 2)]);
    }
}
