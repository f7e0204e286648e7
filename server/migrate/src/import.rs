//! Reading a data directory of Apache `ZooKeeper`: the newest snapshot, and the transactions behind
//! it.

use std::path::{Path, PathBuf};

use zoolet_jute::Zxid;
use zoolet_replica::state::State;

use crate::files::{self, SnapshotFile};
use crate::note::Note;
use crate::progress::{Progress, ProgressHook};
use crate::replay::Replay;
use crate::snapshot::{self, Snapshot};
use crate::to_state;
use crate::{MigrateError, digest};

/// What is read.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Apache `ZooKeeper`'s `dataDir`, or the directory `version-2` in it.
    pub data: PathBuf,
    /// Its `dataLogDir`, if that is another one.
    pub logs: Option<PathBuf>,
    /// Whether the digests that servers since 3.6 write are compared with the tree.
    pub digests: bool,
}

/// The data of an Apache `ZooKeeper` server.
#[derive(Debug)]
pub struct Imported {
    /// Its znodes and sessions.
    pub state: State,
    /// The last epoch of the server, which may have no transaction.
    pub epoch: u32,
    /// The snapshot that was read.
    pub snapshot: PathBuf,
    /// How many transactions were applied to it.
    pub transactions: u64,
    /// The digest of the tree as Apache `ZooKeeper` computes it.
    pub digest: u64,
    /// How many digests in the files were compared with the tree.
    pub digests_compared: u64,
    /// What an operator should know.
    pub notes: Vec<Note>,
}

/// Reads the data. `progress` is called now and then.
pub fn import(
    options: &ImportOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Imported, MigrateError> {
    let snapshots = files::snapshots(&options.data)?;
    let logs = files::logs(options.logs.as_deref().unwrap_or(&options.data))?;
    let mut notes = Vec::new();
    let (file, Snapshot { tree, digest }) =
        newest(&options.data, &snapshots, &mut notes, progress)?;
    let reached = snapshots.first().map_or(file.zxid, |newest| newest.zxid);
    let mut replay = Replay::new(tree, file.zxid, digest);
    replay.digests = options.digests;
    replay.compare_snapshot(&file.path);
    replay.run(&logs, &mut notes, progress)?;
    if let Some(doubt) = replay.doubt.take() {
        return Err(doubt);
    }
    let impossible = |what: String| MigrateError::Impossible { path: options.data.clone(), what };
    if replay.last < reached {
        let (last, reached) = (replay.last.0, reached.0);
        return Err(impossible(format!(
            "the logs end with transaction {last:#x}, and a snapshot that is cut off reached \
             {reached:#x}"
        )));
    }
    if let Some(missing) = replay.awaited {
        let (last, missing) = (replay.last.0, missing.zxid.0);
        return Err(impossible(format!(
            "{} has changes up to transaction {missing:#x}, and the logs end with {last:#x}",
            file.path.display()
        )));
    }
    let Replay { mut tree, last, transactions, compared, .. } = replay;
    let ended = tree.end_unknown_sessions(last);
    if ended > 0 {
        notes.push(Note::UnknownSessions(ended));
    }
    let digest = tree.digest();
    let state = to_state::convert(tree, last).map_err(impossible)?;
    let (snapshot, epoch) = (file.path.clone(), files::epoch(&options.data)?);
    Ok(Imported { state, epoch, snapshot, transactions, digest, digests_compared: compared, notes })
}

/// Reads the newest snapshot that was written to its end.
fn newest<'a>(
    directory: &Path,
    snapshots: &'a [SnapshotFile],
    notes: &mut Vec<Note>,
    progress: &mut ProgressHook<'_>,
) -> Result<(&'a SnapshotFile, Snapshot), MigrateError> {
    let mut cut_off = None;
    for file in snapshots {
        match snapshot::read(file, progress) {
            Ok(snapshot) => return Ok((file, snapshot)),
            Err(error @ MigrateError::CutOff { .. }) => {
                notes.push(Note::SnapshotCutOff(file.path.clone()));
                cut_off.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    Err(cut_off.unwrap_or_else(|| MigrateError::NoSnapshot(directory.to_owned())))
}

impl Imported {
    /// The last transaction.
    pub fn last_zxid(&self) -> Zxid {
        self.state.last_zxid()
    }

    /// The version of Apache `ZooKeeper`'s digest.
    pub fn digest_version(&self) -> i32 {
        digest::DIGEST_VERSION
    }
}
