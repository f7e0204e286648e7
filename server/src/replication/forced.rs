//! A directory whose server becomes an ensemble of its own, with the data that it has: for when a
//! majority is lost for good (decision 0004).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::mpsc;

use zoolet_storage::{
    Entry, Identity, LogIndex, LogPosition, OnDurable, SnapshotName, SnapshotReader, SnapshotStore,
    StorageError, Wal,
};

use super::directories::Directories;
use super::join_error::JoinError;
use crate::consensus::{LeaderVote, MemberNode, Membership, Term};
use crate::node_id::NodeId;
use crate::raft;

/// What the directory of such a server says from then on.
#[derive(Clone, Debug)]
pub(super) struct Alone {
    /// With the new founding.
    pub identity: Identity,
    /// The `host:port` of its peer port.
    pub address: String,
    /// The epoch above which its zxids begin.
    pub epoch: u32,
}

/// Returns the newest term in a log and a snapshot: that of an entry, a vote or a zxid.
pub(super) fn known_term(wal: &Wal, newest: Option<&SnapshotReader>) -> Result<u64, JoinError> {
    let log = wal.state();
    let unreadable = || JoinError::Raft("the vote in the log cannot be read".to_owned());
    let vote = log.vote.map(|vote| raft::vote_term(vote).ok_or_else(unreadable)).transpose()?;
    let snapshot = newest.map(|newest| newest.name().term.max(newest.name().zxid >> 32));
    let last = log.last.map(|last| last.term);
    Ok([vote, snapshot, last].into_iter().flatten().max().unwrap_or(0))
}

impl Alone {
    /// Makes the directory that of an ensemble of its own. Whatever it holds becomes committed, known
    /// to be so or not. A crash in between leaves a server that waits, for which this can be done
    /// again. Returns the newest snapshot. Blocks.
    pub(super) fn make(
        &self,
        directories: &Directories,
        wal: &Wal,
        store: &SnapshotStore,
        newest: Option<SnapshotReader>,
    ) -> Result<Option<SnapshotReader>, JoinError> {
        // The vote first: once the founding or the membership is new, this server can elect itself. A
        // log without entries belongs to a first start, which needs no vote.
        if newest.is_some() || wal.state().last.is_some() {
            self.begin_epoch(wal)?;
        }
        let newest = newest.map(|newest| forget_founding(store, newest)).transpose()?;
        // The founding next: under the old one, the membership below would be a second ensemble.
        directories.write(self.identity)?;
        if let Some(newest) = &newest {
            continue_behind(wal, newest)?;
        }
        self.force_membership(wal)?;
        Ok(newest)
    }

    /// Saves a vote in the epoch, so that the first leader has a later term.
    pub(super) fn begin_epoch(&self, wal: &Wal) -> Result<(), StorageError> {
        if planted!("recovery-repeats-zxids") {
            return Ok(());
        }
        let leader = NodeId::new(self.identity.server_id, self.identity.directory_id);
        let term = Term(u64::from(self.epoch));
        let vote = LeaderVote { term, leader, is_committed: false };
        durably(|done| wal.save_vote(raft::vote_bytes(vote), done))
    }

    /// Ends the log with a membership of this server alone, if there is a log.
    fn force_membership(&self, wal: &Wal) -> Result<(), JoinError> {
        let Some(last) = wal.state().last else { return Ok(()) };
        let node = NodeId::new(self.identity.server_id, self.identity.directory_id);
        let member = MemberNode { address: self.address.clone(), line: String::new() };
        let (configs, nodes) = (vec![BTreeSet::from([node])], BTreeMap::from([(node, member)]));
        let entry = raft::membership_entry(Membership { position: None, configs, nodes });
        let (kind, body) = entry.map_err(|error| JoinError::Raft(error.to_string()))?;
        let position = LogPosition { index: LogIndex(last.index.0 + 1), ..last };
        let entry = Entry { position, kind, body };
        durably(|done| wal.append(vec![entry], done))?;
        tracing::warn!(
            founding = format_args!("{:#018x}", self.identity.founding),
            epoch = self.epoch,
            "this server alone is a new ensemble now; the others are refused until they are emptied"
        );
        Ok(())
    }
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

/// Has the log go on behind a snapshot that is ahead of it. A server that ends between the naming
/// of a received snapshot and the purge of its log has such a log: an entry behind its end would be
/// one that the snapshot holds, and would be lost with the next purge.
fn continue_behind(wal: &Wal, snapshot: &SnapshotReader) -> Result<(), JoinError> {
    let last = raft::last_of(snapshot).map_err(|error| JoinError::Raft(error.to_string()))?;
    let Some(last) = last else { return Ok(()) };
    if wal.state().last.is_none_or(|end| end.index < last.index) {
        durably(|done| wal.purge_to(last, done))?;
    }
    Ok(())
}

/// Cuts off what the log has in place of what is committed. A snapshot that was received gets its
/// name before the log is cut, and the server may end in between.
pub(super) fn cut_conflicting(wal: &Wal, snapshot: SnapshotName) -> Result<(), StorageError> {
    let there = wal.position(snapshot.index);
    if there.is_none_or(|there| there.term == snapshot.term) {
        return Ok(());
    }
    tracing::info!(from = snapshot.index.0, "cut off entries that were never committed");
    durably(|done| wal.truncate_from(snapshot.index, done))
}

/// Waits until what `write` hands in is durable.
pub(super) fn durably(
    write: impl FnOnce(OnDurable) -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    let (done, durable) = mpsc::channel();
    // The receiver waits below.
    write(Box::new(move |result| drop(done.send(result))))?;
    durable.recv().unwrap_or(Err(StorageError::Closed))
}
