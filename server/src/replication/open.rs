//! Opening a server's directory, and what it must hold.

use std::path::Path;
use std::sync::Arc;

use zoolet_storage::{
    DataDir, Identity, Recovered, SnapshotReader, SnapshotStore, StorageError, TornTail, Wal,
};

use super::bootstrap::Agreement;
use super::directories::Directories;
use super::directory::DirectoryIdentity;
use super::epoch::first_epoch;
use super::forced::{Alone, cut_conflicting, known_term};
use super::join_error::JoinError;
use super::offline::write_empty_snapshot;
use super::options::ReplicationOptions;
use super::proposer::Proposer;
use super::{Opened, boot};
use crate::config::StartMode;
use crate::node_id::{NodeId, new_directory, new_founding};
use crate::raft;
use crate::snapshots::Snapshots;

/// The file with which `zkServer-initialize.sh` of Apache `ZooKeeper` marks a new server.
const INITIALIZE: &str = "initialize";

/// Opens the server's directory: its log, its snapshots, and the number of this start. Blocks.
/// `wall_ms` is the wall clock.
pub(crate) fn open(options: ReplicationOptions, wall_ms: i64) -> Result<Opened, JoinError> {
    let mut options = options;
    let (directories, mut identity) = claimed(&mut options)?;
    let directory = &directories.data;
    let boot = boot::next(&*options.disk, directory.path(), wall_ms)?;
    let (wal, recovered) = open_log(&options, &directories)?;
    let store = SnapshotStore::open(Arc::clone(&options.disk), &directory.snapshot_path())?;
    let (newest, damaged) = store.newest()?;
    let name = newest.as_ref().map(SnapshotReader::name);
    if let Some(purged) = recovered.state.purged
        && name.is_none_or(|name| name.index < purged.index)
    {
        // What an older one lacks is no longer in the log.
        let missing =
            || JoinError::SnapshotMissing { log: directories.wal_path(), purged: purged.index };
        return Err(damaged.into_iter().next().map_or_else(missing, JoinError::from));
    }
    // A founding of which neither a snapshot nor an entry is left starts again without data.
    let begins_empty = options.start_mode == StartMode::ForceNew
        && identity.founding != 0
        && name.is_none()
        && recovered.state.last.is_none();
    if begins_empty && let Some(error) = damaged.first() {
        return Err(error.clone().into());
    }
    for error in damaged {
        tracing::warn!(%error, "a snapshot is damaged, an older one is used");
    }
    if let Some(name) = name {
        cut_conflicting(&wal, name)?;
    }
    if identity.directory_id == 0 {
        // Made by an earlier build, whose log and snapshots are not read.
        if wal.state().last.is_some() || newest.is_some() {
            let (path, found) = (directory.path().to_owned(), 1);
            return Err(StorageError::OlderFormat { path, found }.into());
        }
        identity.directory_id = new_directory(options.entropy.number());
        directories.write(identity)?;
    }
    let mut newest = newest;
    if options.start_mode == StartMode::ForceNew {
        identity.founding = new_founding(options.entropy.number());
        let own = options.members.iter().find(|member| member.server == options.server);
        let address = own.map(|own| own.address.clone()).unwrap_or_default();
        let epoch = first_epoch(known_term(&wal, newest.as_ref())?, None, wall_ms)?;
        let alone = Alone { identity, address, epoch };
        if begins_empty {
            // Before the snapshot, whose membership is this server alone.
            alone.begin_epoch(&wal)?;
            let node = NodeId::new(identity.server_id, identity.directory_id);
            newest = Some(write_empty_snapshot(&store, epoch, (node, &alone.address))?);
        }
        newest = alone.make(&directories, &wal, &store, newest)?;
        wal.accept_loss()?;
    } else if let Some(newest) = &newest {
        refuse_other_founding(newest, directory.path(), identity.founding)?;
    }
    let may_found = may_found(&options, directory, identity)?;
    if !may_found {
        options.start_mode = StartMode::Join;
    }
    let identity = DirectoryIdentity::new(identity, &directories);
    let founding = identity.founding_source();
    let snapshots = Snapshots::new(store, options.snapshots_retained, newest, founding);
    let proposer = Arc::new(Proposer::new(options.server, boot));
    let agreement = Agreement::new(identity.clone(), directories.acceptor()?, may_found);
    let wal = Arc::new(wal);
    Ok(Opened { options, boot, wal, snapshots, proposer, directories, identity, agreement })
}

/// Returns whether this server may take part in the founding of the ensemble. As in Apache `ZooKeeper`,
/// `db.autocreate=false` keeps a server out that has lost its data, and a file `initialize` admits a
/// new one. The file is removed once the server has data.
fn may_found(
    options: &ReplicationOptions,
    directory: &DataDir,
    identity: Identity,
) -> Result<bool, JoinError> {
    let (disk, file) = (&options.disk, directory.path().join(INITIALIZE));
    let is_initialized = disk.exists(&file).map_err(StorageError::io("look for", &file))?;
    if identity.founding != 0 && is_initialized {
        disk.remove(&file).map_err(StorageError::io("remove", &file))?;
    }
    if identity.founding != 0 || options.autocreate.db || is_initialized {
        return Ok(true);
    }
    if options.standalone {
        return Err(JoinError::DatabaseMissing(directory.path().to_owned()));
    }
    tracing::warn!(
        directory = %directory.path().display(),
        "no data here, and db_autocreate (db.autocreate) is false: waiting for the data of the \
         ensemble; a new ensemble is founded by servers with a file `initialize` in this directory"
    );
    Ok(false)
}

/// Refuses directories that [`open`] refuses before it reads their log: for directories that are in
/// use. Blocks.
pub(crate) fn check_claim(mut options: ReplicationOptions) -> Result<(), JoinError> {
    claimed(&mut options).map(drop)
}

/// Locks and claims the directories. Returns them with the identity of the server.
fn claimed(options: &mut ReplicationOptions) -> Result<(Arc<Directories>, Identity), JoinError> {
    if !options.members.iter().any(|member| member.server == options.server) {
        return Err(JoinError::NotAMember(options.server));
    }
    let directories = Arc::new(Directories::open(options)?);
    let identity = claim(options, &directories)?;
    directories.refuse_loss()?;
    Ok((directories, identity))
}

/// Claims the directories, also without their log if a new ensemble is forced. Returns the identity of
/// the server.
fn claim(
    options: &mut ReplicationOptions,
    directories: &Directories,
) -> Result<Identity, JoinError> {
    let known = directories.identity()?;
    if !options.cluster_named
        && let Some(known) = known
    {
        options.cluster_id = known.cluster_id;
    }
    let new_directory = new_directory(options.entropy.number());
    let mut identity = Identity {
        cluster_id: options.cluster_id,
        server_id: u64::from(options.server.0),
        directory_id: known.map_or(new_directory, |known| known.directory_id),
        founding: known.map_or(0, |known| known.founding),
    };
    if options.start_mode != StartMode::ForceNew || !directories.lacks_log()? {
        directories.claim(identity)?;
        return Ok(identity);
    }
    tracing::warn!(
        founding = format_args!("{:#018x}", identity.founding),
        log = %directories.wal_path().display(),
        "the log of this server is gone: a new ensemble starts without what was in it"
    );
    identity.founding = new_founding(options.entropy.number());
    directories.claim_without_log(identity)?;
    Ok(identity)
}

/// Opens the log, and logs the parts that were cut off. A forced new ensemble accepts a lost end.
fn open_log(
    options: &ReplicationOptions,
    directories: &Directories,
) -> Result<(Wal, Recovered), StorageError> {
    let is_forced = options.start_mode == StartMode::ForceNew;
    let open = if is_forced { Wal::salvage } else { Wal::open };
    let (wal, recovered) = open(Arc::clone(&options.disk), &directories.wal_path(), options.wal)?;
    if let Some(lost) = &recovered.lost {
        tracing::warn!(
            lost,
            "the end of the log is lost, and with it writes that were acknowledged"
        );
    }
    if let Some(batch) = recovered.last_in_doubt {
        tracing::info!(
            batch,
            "the log was not closed cleanly, as after a crash; this is its last batch. No later batch was \
             acknowledged, unless the disk has lost synced data"
        );
    }
    if let Some(TornTail { file, offset, batch, may_be_acknowledged }) = &recovered.torn {
        let file = file.display();
        if *may_be_acknowledged {
            tracing::warn!(
                %file, offset, batch,
                "cut off an incomplete batch at the end of the log: a write that was interrupted by a \
                 crash or a power cut was never acknowledged; otherwise the disk may have lost \
                 acknowledged writes"
            );
        } else {
            tracing::info!(%file, offset, batch, "cut off bytes after the end of the log");
        }
    }
    Ok((wal, recovered))
}

/// Refuses a snapshot that was put into the directory of another ensemble.
fn refuse_other_founding(
    snapshot: &SnapshotReader,
    directory: &Path,
    expected: u64,
) -> Result<(), JoinError> {
    let found =
        raft::founding_of(snapshot.meta()).map_err(|error| JoinError::Raft(error.to_string()))?;
    if found == 0 || found == expected {
        return Ok(());
    }
    let path = directory.join("snapshots");
    Err(StorageError::WrongFounding { path, found, expected }.into())
}
