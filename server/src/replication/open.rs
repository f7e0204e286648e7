//! Opening a server's directory, and what it must hold.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::{Arc, mpsc};

use zoolet_storage::{
    Entry, Identity, LogIndex, LogPosition, SnapshotName, SnapshotReader, SnapshotStore,
    StorageError, Wal,
};

use super::bootstrap::Agreement;
use super::directories::Directories;
use super::directory::DirectoryIdentity;
use super::join_error::JoinError;
use super::options::ReplicationOptions;
use super::proposer::Proposer;
use super::{Opened, boot};
use crate::config::StartMode;
use crate::consensus::{MemberNode, Membership};
use crate::node_id::{NodeId, new_directory, new_founding};
use crate::raft;
use crate::snapshots::Snapshots;

/// Opens the server's directory: its log, its snapshots, and the number of this start. Blocks.
/// `wall_ms` is the wall clock.
pub(crate) fn open(options: ReplicationOptions, wall_ms: i64) -> Result<Opened, JoinError> {
    if !options.members.iter().any(|member| member.server == options.server) {
        return Err(JoinError::NotAMember(options.server));
    }
    let directories = Arc::new(Directories::open(&options)?);
    let server_id = u64::from(options.server.0);
    let mut options = options;
    let known = directories.identity()?;
    if !options.cluster_named
        && let Some(known) = known
    {
        options.cluster_id = known.cluster_id;
    }
    let new_directory = new_directory(options.entropy.number());
    let mut identity = Identity {
        cluster_id: options.cluster_id,
        server_id,
        directory_id: known.map_or(new_directory, |known| known.directory_id),
        founding: known.map_or(0, |known| known.founding),
    };
    directories.claim(identity)?;
    let directory = &directories.data;
    let boot = boot::next(&*options.disk, directory.path(), wall_ms)?;
    let (wal, recovered) =
        Wal::open(Arc::clone(&options.disk), &directories.wal_path(), options.wal)?;
    if let Some(torn) = recovered.torn {
        tracing::info!(?torn, "cut off an unfinished write at the end of the log");
    }
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
        identity.directory_id = new_directory;
        directories.write(identity)?;
    }
    let mut newest = newest;
    if options.start_mode == StartMode::ForceNew {
        newest = newest.map(|newest| forget_founding(&store, newest)).transpose()?;
        identity.founding = new_founding(options.entropy.number());
        // The founding first: under the old one, the membership below would be a second ensemble.
        directories.write(identity)?;
        force_membership(&wal, &options, identity)?;
    } else if let Some(newest) = &newest {
        refuse_other_founding(newest, directory.path(), identity.founding)?;
    }
    let identity = DirectoryIdentity::new(identity, &directories);
    let founding = identity.founding_source();
    let snapshots = Snapshots::new(store, options.snapshots_retained, newest, founding);
    let proposer = Arc::new(Proposer::new(options.server, boot));
    let agreement = Agreement::new(identity.clone(), directories.acceptor()?);
    Ok(Opened { options, boot, wal, snapshots, proposer, directories, identity, agreement })
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

/// Writes a snapshot again that does not name its founding, so that it may be of any, and removes
/// the older ones.
fn forget_founding(
    store: &SnapshotStore,
    snapshot: SnapshotReader,
) -> Result<SnapshotReader, JoinError> {
    let failed = |error: io::Error| JoinError::Raft(error.to_string());
    let meta = raft::with_founding(0, snapshot.meta()).map_err(failed)?;
    let (name, mut source) = (snapshot.name(), snapshot);
    let mut writer = store.create(name, &meta)?;
    for chunk in source.by_ref() {
        writer.write(&chunk?)?;
    }
    writer.finish(source.summary().ok_or(StorageError::Closed)?.digest)?;
    store.retain(1)?;
    Ok(store.read(name)?)
}

/// Ends the log with a membership of this server alone, if there is a log: whatever is in front of
/// it becomes committed.
fn force_membership(
    wal: &Wal,
    options: &ReplicationOptions,
    identity: Identity,
) -> Result<(), JoinError> {
    let Some(last) = wal.state().last else { return Ok(()) };
    let node = NodeId::new(identity.server_id, identity.directory_id);
    let own = options.members.iter().find(|member| member.server == options.server);
    let address = own.map(|own| own.address.clone()).unwrap_or_default();
    let members = BTreeMap::from([(node, MemberNode { address, line: String::new() })]);
    let configs = vec![BTreeSet::from([node])];
    let membership = Membership { position: None, configs, nodes: members };
    let entry = raft::membership_entry(membership);
    let (kind, body) = entry.map_err(|error| JoinError::Raft(error.to_string()))?;
    let position = LogPosition { index: LogIndex(last.index.0 + 1), ..last };
    let (done, durable) = mpsc::channel();
    let entry = Entry { position, kind, body };
    // The receiver waits below.
    wal.append(vec![entry], Box::new(move |result| drop(done.send(result))))?;
    durable.recv().unwrap_or(Err(StorageError::Closed))?;
    tracing::warn!(
        founding = format_args!("{:#018x}", identity.founding),
        "this server alone is a new ensemble now; the others are refused until they are emptied"
    );
    Ok(())
}

/// Cuts off what the log has in place of what is committed. A snapshot that was received gets its
/// name before the log is cut, and the server may end in between.
fn cut_conflicting(wal: &Wal, snapshot: SnapshotName) -> Result<(), StorageError> {
    let there = wal.position(snapshot.index);
    if there.is_none_or(|there| there.term == snapshot.term) {
        return Ok(());
    }
    tracing::info!(from = snapshot.index.0, "cut off entries that were never committed");
    let (done, cut) = mpsc::channel();
    // The receiver waits below.
    wal.truncate_from(snapshot.index, Box::new(move |result| drop(done.send(result))))?;
    cut.recv().unwrap_or(Err(StorageError::Closed))
}
