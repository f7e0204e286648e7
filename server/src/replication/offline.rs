//! The directory of a server that does not run: founded with a state that comes from elsewhere, or
//! read to give its state away.
//!
//! A founded directory is what is left of an ensemble of one server: a snapshot, and a log that is
//! empty behind it. The other servers are taken in by its leader, as after `--force-new-ensemble`.
//! See decision 0018.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use zoolet_replica::state::{RestoreError, State};
use zoolet_replica::{Batch, ServerId, Stamp, Term};
use zoolet_storage::{
    Disk, Identity, LogIndex, LogPosition, SnapshotName, SnapshotReader, SnapshotStore,
    StorageError, Wal, WalOptions,
};

use super::Opened;
use super::directories::Directories;
use super::epoch::{EpochError, first_epoch};
use super::forced::{durably, known_term};
use super::join_error::JoinError;
use crate::consensus::{LeaderVote, MemberNode, Membership};
use crate::entropy::Entropy;
use crate::node_id::{NodeId, new_directory, new_founding};
use crate::raft;

/// The place of the founding snapshot in the log. The entries up to it do not exist, so a server
/// that is taken in gets the snapshot.
const FOUNDED_AT: LogIndex = LogIndex(1);

/// How much of the log is read at once, in bytes.
const READ_BYTES: usize = 4 << 20;

/// What may be in a directory that is founded: the file with a server's number belongs to its
/// configuration, and an operator may have allowed a new database.
const NOT_DATA: [&str; 3] = ["lock", "myid", "initialize"];

/// A server's directory, and whose it is to be.
#[derive(Clone, Debug)]
pub(crate) struct OfflineOptions {
    pub disk: Arc<dyn Disk>,
    pub directory: PathBuf,
    /// Where the log is, if not in `directory`; the same otherwise.
    pub log_directory: PathBuf,
    pub server: ServerId,
    /// The `host:port` of its peer port.
    pub address: String,
    pub cluster_id: u64,
    pub wal: WalOptions,
    pub entropy: Arc<dyn Entropy>,
    /// The wall clock.
    pub wall_ms: i64,
}

/// Why a directory cannot be founded or read.
#[derive(Debug, Error)]
pub enum OfflineError {
    /// The directory cannot be used.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// It has files.
    #[error("{} holds files already ({found}): it must be empty or missing", path.display())]
    NotEmpty { path: PathBuf, found: String },
    /// No server has written there.
    #[error("{} is not the data directory of a server of zoolet", .0.display())]
    NoData(PathBuf),
    /// A part of its content is not understood.
    #[error("{} cannot be read: {what}", path.display())]
    Unreadable { path: PathBuf, what: String },
    /// The server was never part of an ensemble, or it is of an earlier build.
    #[error("{} has no data of an ensemble: nothing can be recovered from it", .0.display())]
    NoEnsemble(PathBuf),
    /// A file is not a backup, or it is damaged.
    #[error("cannot restore from {}: {what}", path.display())]
    Backup { path: PathBuf, what: String },
}

/// An ensemble that was founded with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Founded {
    /// Its random id.
    pub founding: u64,
    /// Its zxids begin above this epoch.
    pub epoch: u32,
}

impl From<StorageError> for OfflineError {
    fn from(error: StorageError) -> Self {
        Self::Join(error.into())
    }
}

impl From<EpochError> for OfflineError {
    fn from(error: EpochError) -> Self {
        Self::Join(error.into())
    }
}

/// Turns an empty directory into that of an ensemble of one server, with this state. `known` is the
/// newest epoch that its source knows, with or without a transaction. Zxids begin above `epoch`, or by
/// default above every epoch that a server can have used. The identity is written last: a directory
/// without it is not a server's. Blocks.
pub(crate) fn found(
    options: &OfflineOptions,
    state: &State,
    known: u64,
    epoch: Option<u32>,
) -> Result<Founded, OfflineError> {
    refuse_files(options)?;
    let known = known.max(u64::from(state.last_zxid().epoch()));
    let epoch = first_epoch(known, epoch, options.wall_ms)?;
    // The first leader has a later term.
    let term = u64::from(epoch);
    let founding = new_founding(options.entropy.number());
    let identity = Identity {
        cluster_id: options.cluster_id,
        server_id: u64::from(options.server.0),
        directory_id: new_directory(options.entropy.number()),
        founding,
    };
    let directories = Directories::at(&options.disk, &options.directory, &options.log_directory)?;
    let node = NodeId::new(identity.server_id, identity.directory_id);
    let position = LogPosition { term, node: 0, index: FOUNDED_AT };
    let store = SnapshotStore::open(directories.data.disk(), &directories.data.snapshot_path())?;
    write_snapshot(&store, founding, position, (node, &options.address), state)?;
    write_log(&directories, options, position, node)?;
    directories.write(identity)?;
    Ok(Founded { founding, epoch })
}

/// Refuses directories that are not empty. Blocks.
pub(crate) fn refuse_files(options: &OfflineOptions) -> Result<(), OfflineError> {
    for path in [&options.directory, &options.log_directory] {
        if !options.disk.exists(path).map_err(StorageError::io("look for", path))? {
            continue;
        }
        let files = options.disk.list(path).map_err(StorageError::io("list", path))?;
        let mut names = files.into_iter().map(|file| file.name);
        if let Some(found) = names.find(|name| !NOT_DATA.contains(&name.as_str())) {
            return Err(OfflineError::NotEmpty { path: path.clone(), found });
        }
        // `list` gives files only.
        for inside in ["wal", "snapshots", "version-2"] {
            let below = path.join(inside);
            if options.disk.exists(&below).map_err(StorageError::io("look for", &below))? {
                let (path, found) = (path.clone(), inside.to_owned());
                return Err(OfflineError::NotEmpty { path, found });
            }
        }
    }
    Ok(())
}

/// Writes the first snapshot of an ensemble of one server, at a place in the log.
fn write_snapshot(
    store: &SnapshotStore,
    founding: u64,
    position: LogPosition,
    (node, address): (NodeId, &str),
    state: &State,
) -> Result<SnapshotName, JoinError> {
    let member = MemberNode { address: address.to_owned(), line: String::new() };
    let membership = Membership {
        position: Some(position),
        configs: vec![BTreeSet::from([node])],
        nodes: BTreeMap::from([(node, member)]),
    };
    let meta = raft::snapshot_meta(founding, position, membership)
        .map_err(|error| JoinError::Raft(error.to_string()))?;
    let zxid = state.last_zxid().0.cast_unsigned();
    let name = SnapshotName { term: position.term, index: position.index, zxid };
    let mut writer = store.create(name, &meta)?;
    for piece in state.snapshot() {
        writer.write(&piece)?;
    }
    writer.finish(state.digest())?;
    Ok(name)
}

/// Writes the first snapshot of an ensemble of one server without data.
pub(super) fn write_empty_snapshot(
    store: &SnapshotStore,
    epoch: u32,
    (node, address): (NodeId, &str),
) -> Result<SnapshotReader, JoinError> {
    let position = LogPosition { term: u64::from(epoch), node: 0, index: FOUNDED_AT };
    let name = write_snapshot(store, 0, position, (node, address), &State::new())?;
    Ok(store.read(name)?)
}

fn write_log(
    directories: &Directories,
    options: &OfflineOptions,
    position: LogPosition,
    node: NodeId,
) -> Result<(), OfflineError> {
    let (wal, _) = Wal::open(Arc::clone(&options.disk), &directories.wal_path(), options.wal)?;
    let vote = LeaderVote { term: Term(position.term), leader: node, is_committed: false };
    durably(|done| wal.save_vote(raft::vote_bytes(vote), done))?;
    durably(|done| wal.purge_to(position, done))?;
    wal.save_committed(Some(position))?;
    Ok(durably(|done| wal.flush(done))?)
}

pub(super) fn unreadable<E: std::fmt::Display>(path: &Path) -> impl Fn(E) -> OfflineError {
    let path = path.to_owned();
    move |error| OfflineError::Unreadable { path: path.clone(), what: error.to_string() }
}

/// Returns the state of a server's directory behind the last entry of its log, whether all of them
/// were committed or not, and the epoch in which zxids must begin wherever this state is used. Blocks.
pub(crate) fn state_of(
    options: &OfflineOptions,
    epoch: Option<u32>,
) -> Result<(State, u32), OfflineError> {
    let (directories, _) = claim(options)?;
    let (wal, _) = Wal::open(Arc::clone(&options.disk), &directories.wal_path(), options.wal)?;
    let state = read_state(options, &directories, &wal)?;
    let store = SnapshotStore::open(Arc::clone(&options.disk), &directories.data.snapshot_path())?;
    let (newest, _) = store.newest()?;
    let known = known_term(&wal, newest.as_ref())?.max(u64::from(state.last_zxid().epoch()));
    let epoch = first_epoch(known, epoch, options.wall_ms)?;
    Ok((state, epoch))
}

/// Locks the directories of a server that has data, and returns whose they are.
pub(super) fn claim(options: &OfflineOptions) -> Result<(Directories, Identity), OfflineError> {
    let no_data = || OfflineError::NoData(options.directory.clone());
    if Identity::peek(&*options.disk, &options.directory)?.is_none() {
        return Err(no_data());
    }
    let directories = Directories::at(&options.disk, &options.directory, &options.log_directory)?;
    let identity = directories.identity()?.ok_or_else(no_data)?;
    let server_id = u64::from(options.server.0);
    directories.claim(Identity { server_id, ..identity })?;
    Ok((directories, identity))
}

/// Returns the state behind the last entry of the log.
pub(super) fn read_state(
    options: &OfflineOptions,
    directories: &Directories,
    wal: &Wal,
) -> Result<State, OfflineError> {
    let store = SnapshotStore::open(Arc::clone(&options.disk), &directories.data.snapshot_path())?;
    let (newest, damaged) = store.newest()?;
    let name = newest.as_ref().map(SnapshotReader::name);
    let next = name.and_then(|name| name.index.next()).unwrap_or_default();
    let mut state = State::new();
    if let Some(newest) = newest {
        let path = store.path(newest.name());
        state = State::restore(newest).map_err(|error: RestoreError| unreadable(&path)(error))?;
    }
    if let Some(purged) = wal.state().purged
        && purged.index >= next
    {
        let log = directories.wal_path();
        let missing = || JoinError::SnapshotMissing { log, purged: purged.index };
        return Err(damaged.into_iter().next().map_or_else(missing, JoinError::from).into());
    }
    // As at a start: entries that contradict a snapshot were never committed.
    let there = name.and_then(|name| wal.position(name.index).zip(Some(name.term)));
    if there.is_none_or(|(there, term)| there.term == term) {
        apply_log(wal, &directories.wal_path(), next, &mut state)?;
    }
    Ok(state)
}

impl Opened {
    /// Reads what a start reads after [`open()`](super::open()): the vote, and the entries behind the
    /// snapshot, which are applied to its state. Blocks.
    pub(crate) fn replay(&self, state: &mut State) -> Result<(), OfflineError> {
        let newest = self.snapshots.current();
        known_term(&self.wal, newest.as_ref())?;
        let next = newest.and_then(|newest| newest.name().index.next()).unwrap_or_default();
        apply_log(&self.wal, &self.directories.wal_path(), next, state)
    }
}

fn apply_log(
    wal: &Wal,
    path: &Path,
    mut next: LogIndex,
    state: &mut State,
) -> Result<(), OfflineError> {
    let there = wal.state().entries;
    next = next.max(there.start);
    while next < there.end {
        let entries = wal.entries(next..there.end, READ_BYTES)?;
        let Some(last) = entries.last().map(|entry| entry.position.index) else { return Ok(()) };
        for entry in entries {
            let term = Term(entry.position.term);
            let batch = raft::batch_of(entry.kind, entry.body).map_err(unreadable(path))?;
            let Some(batch) = batch else { continue };
            let first = Batch::head(&batch).map(|head| head.first);
            let batch = Batch::decode(batch).map_err(unreadable(path))?;
            let (origin, now_ms, count) = (batch.origin, batch.now_ms, batch.commands.len() as u64);
            if first.is_some_and(|first| state.admit(origin, first, count)) {
                for command in batch.commands {
                    state.apply(Stamp { term, now_ms }, origin, command);
                }
                // No reply refers to it.
                drop(state.take_replaced());
            }
        }
        next = last.next().unwrap_or(there.end);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use zoolet_jute::{SessionId, Zxid};
    use zoolet_replica::state::StateBuilder;
    use zoolet_storage::MemoryDisk;

    use super::*;
    use crate::entropy::RealEntropy;

    const WALL_MS: i64 = 1_800_000_000_000;

    fn options(disk: &MemoryDisk) -> OfflineOptions {
        OfflineOptions {
            disk: Arc::new(disk.clone()),
            directory: PathBuf::from("data"),
            log_directory: PathBuf::from("log"),
            server: ServerId(1),
            address: "host:2888".to_owned(),
            cluster_id: 7,
            wal: WalOptions::default(),
            entropy: Arc::new(RealEntropy),
            wall_ms: WALL_MS,
        }
    }

    fn state() -> State {
        let mut builder = StateBuilder::default();
        builder.session(SessionId(0x77), 4000).unwrap();
        builder.finish(Zxid::new(5, 9)).unwrap()
    }

    #[test]
    fn a_founded_directory_has_the_state() {
        let disk = MemoryDisk::new();
        let founding = found(&options(&disk), &state(), 0, None).unwrap().founding;
        assert_ne!(founding, 0);
        let (read, epoch) = state_of(&options(&disk), None).unwrap();
        assert!(epoch > read.last_zxid().epoch());
        assert_eq!(state_of(&options(&disk), Some(epoch + 7)).unwrap().1, epoch + 7);
        assert_eq!(read.digest(), state().digest());
        assert_eq!(read.last_zxid(), Zxid::new(5, 9));
        for directory in ["data", "log"] {
            let identity = Identity::peek(&disk, Path::new(directory)).unwrap().unwrap();
            assert_eq!((identity.founding, identity.cluster_id), (founding, 7));
        }
    }

    /// An epoch without a transaction may have been seen by clients.
    #[test]
    fn zxids_begin_above_the_epoch() {
        let newest_term = |known, epoch, wall_ms| {
            let disk = MemoryDisk::new();
            let options = OfflineOptions { wall_ms, ..options(&disk) };
            let founded = found(&options, &state(), known, epoch).unwrap();
            let store = SnapshotStore::open(Arc::new(disk), Path::new("data/snapshots")).unwrap();
            let (newest, _) = store.newest().unwrap();
            assert_eq!(newest.unwrap().name().term, u64::from(founded.epoch));
            founded.epoch
        };
        assert_eq!(newest_term(0, Some(9), WALL_MS), 9);
        // Without a clock; the state is of epoch 5.
        assert_eq!(newest_term(0, None, 0), newest_term(5, None, 0));
        assert_eq!(newest_term(9, None, 0), newest_term(5, None, 0) + 4);
        // The same state again, five seconds later: the first ensemble may have had 19 elections.
        assert_eq!(newest_term(5, None, WALL_MS + 5000), newest_term(5, None, WALL_MS) + 20);
    }

    #[test]
    fn a_directory_with_data_is_not_founded_and_one_without_is_not_read() {
        let disk = MemoryDisk::new();
        let error = state_of(&options(&disk), None).unwrap_err();
        assert!(matches!(error, OfflineError::NoData(_)), "{error}");
        found(&options(&disk), &state(), 0, None).unwrap();
        let before = Identity::peek(&disk, Path::new("data")).unwrap();
        let error = found(&options(&disk), &state(), 0, None).unwrap_err();
        assert!(matches!(error, OfflineError::NotEmpty { .. }), "{error}");
        assert_eq!(Identity::peek(&disk, Path::new("data")).unwrap(), before);
        let apache = MemoryDisk::new();
        apache.create_dir_all(Path::new("data/version-2")).unwrap();
        let error = found(&options(&apache), &state(), 0, None).unwrap_err();
        assert!(error.to_string().contains("version-2"), "{error}");
    }

    #[test]
    fn the_largest_epoch_is_refused() {
        let disk = MemoryDisk::new();
        let last = Zxid::new(i32::MAX as u32, 1);
        let state = StateBuilder::default().finish(last).unwrap();
        let error = found(&options(&disk), &state, 0, None).unwrap_err();
        let OfflineError::Join(JoinError::Epoch(error)) = error else { panic!("{error}") };
        assert!(matches!(error, EpochError::NoneLeft(_)), "{error}");
        assert!(!disk.exists(Path::new("data")).unwrap());
    }
}
