//! What an operator does while no server runs: a directory is made an ensemble of its own, or is
//! founded with a backup (docs/runbook.md, decision 0022).

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zoolet_replica::FeatureLevel;
use zoolet_replica::state::{RestoreError, State};
use zoolet_storage::{
    Disk, Identity, LogIndex, SnapshotName, SnapshotReader, SnapshotStore, StorageError, Wal,
};

use super::epoch::first_epoch;
use super::forced::{Alone, cut_conflicting, known_term};
use super::offline::{Founded, OfflineError, OfflineOptions, claim, found, read_state};
use crate::node_id::new_founding;

/// What was made an ensemble of its own.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recovered {
    /// The random id of the new ensemble, and that of the old one.
    pub founding: u64,
    /// The old one's.
    pub old_founding: u64,
    /// The place in the log of the last entry that is kept.
    pub last_index: u64,
    /// The last entry of which this directory knew that a majority had it.
    pub committed_index: u64,
    /// The last transaction.
    pub zxid: u64,
    /// Zxids begin above this epoch.
    pub epoch: u32,
    /// How many znodes there are.
    pub znodes: usize,
    /// How many sessions.
    pub sessions: usize,
    /// Why the log is known to lack its end, if it does.
    pub lost: Option<String>,
    /// The file that says what was there before.
    pub note: PathBuf,
}

/// What was restored.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Restored {
    /// The random id of the new ensemble.
    pub founding: u64,
    /// The last transaction in it.
    pub zxid: u64,
    /// Zxids begin above this epoch.
    pub epoch: u32,
    /// How many znodes there are.
    pub znodes: usize,
    /// How many of them are ephemeral.
    pub ephemerals: usize,
    /// How many sessions.
    pub sessions: usize,
    /// The digest of the state.
    pub digest: u64,
}

/// Makes an ensemble of a server that has lost the others for good. All of its data is read before
/// anything is changed. Zxids begin above `epoch`, or else above any that a server can have used.
/// Blocks.
pub(crate) fn recover(
    options: &OfflineOptions,
    epoch: Option<u32>,
) -> Result<Recovered, OfflineError> {
    let (directories, identity) = claim(options)?;
    if identity.founding == 0 || identity.directory_id == 0 {
        return Err(OfflineError::NoEnsemble(options.directory.clone()));
    }
    let (wal, found) =
        Wal::salvage(Arc::clone(&options.disk), &directories.wal_path(), options.wal)?;
    let state = read_state(options, &directories, &wal)?;
    let store = SnapshotStore::open(Arc::clone(&options.disk), &directories.data.snapshot_path())?;
    let (newest, _) = store.newest()?;
    let in_snapshot = newest.as_ref().map(SnapshotReader::name);
    if let Some(name) = in_snapshot {
        cut_conflicting(&wal, name)?;
    }
    let log = wal.state();
    let behind = |index: Option<LogIndex>| index.max(in_snapshot.map(|name| name.index));
    let last = behind(log.last.map(|last| last.index));
    let committed = behind(log.committed.map(|committed| committed.index)).min(last);
    let Some(last) = last else {
        return Err(OfflineError::NoEnsemble(options.directory.clone()));
    };
    let known = known_term(&wal, newest.as_ref())?.max(u64::from(state.last_zxid().epoch()));
    let epoch = first_epoch(known, epoch, options.wall_ms)?;
    let founding = new_founding(options.entropy.number());
    let recovered = Recovered {
        founding,
        old_founding: identity.founding,
        last_index: last.0,
        committed_index: committed.unwrap_or_default().0,
        zxid: state.last_zxid().0.cast_unsigned(),
        epoch,
        znodes: state.node_count(),
        sessions: state.session_count(),
        lost: found.lost,
        note: options.directory.join(format!("recovered-{founding:016x}.txt")),
    };
    write_note(&*options.disk, &options.directory, &recovered)?;
    let identity = Identity { founding, ..identity };
    let alone = Alone { identity, address: options.address.clone(), epoch };
    alone.make(&directories, &wal, &store, newest)?;
    wal.accept_loss()?;
    Ok(recovered)
}

fn write_note(disk: &dyn Disk, directory: &Path, of: &Recovered) -> Result<(), StorageError> {
    let mut text = String::new();
    let written = write!(
        text,
        "This server was made an ensemble of its own by `zoolet recover --force-new-ensemble`.\n\
         old founding      {:#018x}\n\
         new founding      {:#018x}\n\
         last entry        {}\n\
         known committed   {}\n\
         last zxid         {:#x}\n\
         new zxids above   {:#x}\n\
         Entries behind the known committed one are kept; some of them may never have been \
         acknowledged.\n\
         What the other servers acknowledged without this one is not here, and clients that have \
         seen it are accepted: restart them.\n\
         Empty the directories of the other servers before they start. Nothing undoes this but a copy \
         of the directory that was made before.\n",
        of.old_founding,
        of.founding,
        of.last_index,
        of.committed_index,
        of.zxid,
        u64::from(of.epoch) << 32,
    );
    let lost = of.lost.as_ref().map_or(Ok(()), |lost| writeln!(text, "The end is lost: {lost}"));
    // A String takes everything.
    debug_assert!(written.is_ok() && lost.is_ok());
    let path = &of.note;
    let file = disk.create(path).map_err(StorageError::io("create", path))?;
    file.write_all_at(text.as_bytes(), 0).map_err(StorageError::io("write", path))?;
    file.sync_data().map_err(StorageError::io("sync", path))?;
    disk.sync_dir(directory).map_err(StorageError::io("sync", directory))
}

/// Founds an empty directory with the state of a backup. Zxids begin above `epoch`, or else above any
/// that a server can have used. Blocks.
pub(crate) fn restore(
    options: &OfflineOptions,
    backup: &Path,
    epoch: Option<u32>,
) -> Result<Restored, OfflineError> {
    let (state, name) = read_backup(backup)?;
    let wrong = |what: String| OfflineError::Backup { path: backup.to_owned(), what };
    if state.level() > FeatureLevel::OF_RELEASE {
        let (found, known) = (state.level().0, FeatureLevel::OF_RELEASE.0);
        return Err(wrong(format!(
            "its feature level is {found}, and this release knows those up to {known}: take the \
             release that it comes from, or a newer one"
        )));
    }
    let Founded { founding, epoch } = found(options, &state, name.term, epoch)?;
    Ok(Restored {
        founding,
        zxid: state.last_zxid().0.cast_unsigned(),
        epoch,
        znodes: state.node_count(),
        ephemerals: state.ephemerals_count(),
        sessions: state.session_count(),
        digest: state.digest(),
    })
}

/// Reads a backup and checks every byte of it.
fn read_backup(path: &Path) -> Result<(State, SnapshotName), OfflineError> {
    let wrong = |what: String| OfflineError::Backup { path: path.to_owned(), what };
    let reader = SnapshotReader::open_file(path).map_err(|error| wrong(error.to_string()))?;
    let summary = reader.verify().map_err(|error| wrong(error.to_string()))?;
    let name = reader.name();
    let restored = State::restore(reader);
    let state = restored.map_err(|error: RestoreError| wrong(error.to_string()))?;
    let zxid = state.last_zxid().0.cast_unsigned();
    if (zxid, state.digest()) != (name.zxid, summary.digest) {
        return Err(wrong("its content is not what its header and its end say".to_owned()));
    }
    Ok((state, name))
}

#[cfg(test)]
mod tests {
    use zoolet_jute::{SessionId, Zxid};
    use zoolet_replica::ServerId;
    use zoolet_replica::state::StateBuilder;
    use zoolet_storage::{LogPosition, MemoryDisk, WalOptions};

    use super::*;
    use crate::consensus::Membership;
    use crate::entropy::RealEntropy;
    use crate::raft;

    const AHEAD: LogIndex = LogIndex(50);

    fn options(disk: &MemoryDisk) -> OfflineOptions {
        OfflineOptions {
            disk: Arc::new(disk.clone()),
            directory: PathBuf::from("data"),
            log_directory: PathBuf::from("data"),
            server: ServerId(1),
            address: "host:2888".to_owned(),
            cluster_id: 7,
            wal: WalOptions::default(),
            entropy: Arc::new(RealEntropy),
            wall_ms: 1_800_000_000_000,
        }
    }

    fn state(last: Zxid) -> State {
        let mut builder = StateBuilder::default();
        builder.session(SessionId(0x77), 4000).unwrap();
        builder.finish(last).unwrap()
    }

    /// A server that ended between the naming of a received snapshot and the purge of its log: the
    /// forced membership was written behind the log's end, where the snapshot hid it.
    #[test]
    fn a_snapshot_ahead_of_the_log_is_what_the_log_goes_on_behind() {
        let disk = MemoryDisk::new();
        let options = options(&disk);
        let old = found(&options, &state(Zxid::new(5, 9)), 0, Some(5)).unwrap_err();
        assert!(old.to_string().contains("--epoch 5 is not above 5"), "{old}");
        let old = found(&options, &state(Zxid::new(5, 9)), 0, Some(6)).unwrap().founding;
        let newer = state(Zxid::new(6, 3));
        let store = SnapshotStore::open(Arc::clone(&options.disk), Path::new("data/snapshots"));
        let position = LogPosition { term: 6, node: 0, index: AHEAD };
        let membership = Membership {
            position: Some(position),
            configs: vec![[3, 4].map(|server| crate::node_id::NodeId::new(server, 1)).into()],
            nodes: [3, 4]
                .map(|server| {
                    let address = "old:1".to_owned();
                    let line = String::new();
                    let node = crate::node_id::NodeId::new(server, 1);
                    (node, crate::consensus::MemberNode { address, line })
                })
                .into(),
        };
        let meta = raft::snapshot_meta(old, position, membership).unwrap();
        let name =
            SnapshotName { term: 6, index: AHEAD, zxid: newer.last_zxid().0.cast_unsigned() };
        let mut writer = store.unwrap().create(name, &meta).unwrap();
        newer.snapshot().for_each(|piece| writer.write(&piece).unwrap());
        writer.finish(newer.digest()).unwrap();

        let recovered = recover(&options, None).unwrap();
        assert_eq!((recovered.last_index, recovered.committed_index), (AHEAD.0, AHEAD.0));
        assert_eq!((recovered.old_founding, recovered.zxid), (old, name.zxid));
        assert_ne!(recovered.founding, old);
        assert!(disk.exists(&recovered.note).unwrap());
        let (directories, identity) = claim(&options).unwrap();
        assert_eq!(identity.founding, recovered.founding);
        let (wal, _) =
            Wal::open(Arc::clone(&options.disk), &directories.wal_path(), options.wal).unwrap();
        let log = wal.state();
        assert_eq!(log.purged, Some(position));
        assert_eq!(log.last.map(|last| (last.term, last.index)), Some((6, LogIndex(51))));
        let vote = log.vote.and_then(raft::vote_term);
        assert_eq!(vote, Some(u64::from(recovered.epoch)), "the first leader's term is above it");
        drop((wal, directories));
        let used = recover(&options, Some(recovered.epoch)).unwrap_err();
        assert!(used.to_string().contains("is not above"), "{used}");
        // It can be done again, and no data is lost by it. No epoch is used twice.
        let again = recover(&options, None).unwrap();
        assert_eq!((again.last_index, again.zxid), (51, name.zxid));
        assert!(again.epoch > recovered.epoch && recovered.epoch > 6 + 1_000_000, "{again:?}");
    }

    #[test]
    fn a_directory_without_an_ensemble_is_not_recovered() {
        let error = recover(&options(&MemoryDisk::new()), None).unwrap_err();
        assert!(matches!(error, OfflineError::NoData(_)), "{error}");
    }
}
