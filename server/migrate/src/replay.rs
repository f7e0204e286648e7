//! The transactions behind a snapshot, applied to it one after the other.

use std::path::Path;

use zoolet_jute::Zxid;

use crate::MigrateError;
use crate::files::LogFile;
use crate::log::{LogReader, Next};
use crate::note::Note;
use crate::progress::{Progress, ProgressHook};
use crate::snapshot::TreeDigest;
use crate::tree::ApacheTree;

/// The transactions between two reports.
const PROGRESS_STEP: u64 = 1 << 17;

/// A tree and the transactions that it has.
#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) tree: ApacheTree,
    /// The last transaction in the tree.
    pub(crate) last: Zxid,
    /// How many were applied.
    pub(crate) transactions: u64,
    /// The digest that the snapshot's writer had when the snapshot was done, until the tree comes
    /// to that transaction. Before that the tree may hold some of later ones.
    pub(crate) awaited: Option<TreeDigest>,
    /// The error if that digest is another one. Apache `ZooKeeper` takes the digest behind the znodes
    /// and while it goes on, so that the znodes may have a change of the transaction that follows. The
    /// digest of that transaction decides.
    pub(crate) doubt: Option<MigrateError>,
    /// Whether digests of transactions are compared.
    pub(crate) digests: bool,
    /// How many digests were compared.
    pub(crate) compared: u64,
    from: Zxid,
}

impl Replay {
    /// Begins with the tree of the snapshot up to `last`.
    pub(crate) fn new(tree: ApacheTree, last: Zxid, digest: Option<TreeDigest>) -> Self {
        // One of an earlier transaction belongs to a leader that had none of its own yet.
        let awaited = digest.filter(|digest| digest.zxid >= last);
        let (digests, transactions, compared) = (true, 0, 0);
        Self { tree, last, transactions, awaited, doubt: None, digests, compared, from: last }
    }

    /// Compares the digest of a snapshot that was written while nothing happened.
    pub(crate) fn compare_snapshot(&mut self, path: &Path) {
        if let Some(awaited) = self.awaited.take_if(|awaited| awaited.zxid == self.last) {
            self.doubt = self.compare(path, awaited).err();
        }
    }

    /// Applies what the logs have behind the snapshot.
    pub(crate) fn run(
        &mut self,
        logs: &[LogFile],
        notes: &mut Vec<Note>,
        progress: &mut ProgressHook<'_>,
    ) -> Result<(), MigrateError> {
        let before = logs.iter().take_while(|log| log.zxid <= self.last).count();
        for log in logs.iter().skip(before.saturating_sub(1)) {
            let Some(mut reader) = LogReader::open(&log.path)? else {
                notes.push(Note::EmptyLog(log.path.clone()));
                continue;
            };
            loop {
                match reader.next()? {
                    Next::Txn(_, txn) if txn.zxid <= self.from => {}
                    Next::Txn(offset, txn) => {
                        self.follows(log, offset, txn.zxid)?;
                        let (digest, zxid) = (txn.digest, txn.zxid);
                        let _without_effect = self.tree.apply(txn);
                        self.last = zxid;
                        let digest = digest.map(|digest| TreeDigest { zxid, digest, offset });
                        self.applied(&log.path, digest)?;
                        if self.transactions.is_multiple_of(PROGRESS_STEP) {
                            let znodes = self.tree.len() as u64;
                            progress(Progress { znodes, transactions: self.transactions });
                        }
                    }
                    Next::End => break,
                    Next::Torn(offset) => {
                        notes.push(Note::TornLog(log.path.clone(), offset));
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks that no transaction is missing. The counter of a zxid goes up by one, and begins anew
    /// with each epoch.
    fn follows(&self, log: &LogFile, offset: u64, found: Zxid) -> Result<(), MigrateError> {
        let last = self.last;
        let is_next = if found.epoch() == last.epoch() {
            Some(found.counter()) == last.counter().checked_add(1)
        } else {
            found.epoch() > last.epoch() && found.counter() <= 1
        };
        if is_next {
            return Ok(());
        }
        let path = log.path.clone();
        Err(if found <= last {
            let what = format!("transaction {:#x} follows {:#x}", found.0, last.0);
            MigrateError::Damaged { path, offset, what }
        } else {
            MigrateError::Missing { path, offset, last, found }
        })
    }

    fn applied(&mut self, path: &Path, digest: Option<TreeDigest>) -> Result<(), MigrateError> {
        self.transactions += 1;
        if let Some(awaited) = self.awaited {
            if awaited.zxid > self.last {
                return Ok(());
            }
            self.awaited = None;
            if awaited.zxid == self.last {
                self.doubt = self.compare(path, awaited).err();
                return Ok(());
            }
        }
        let Some(digest) = digest else { return Ok(()) };
        let compared = self.compare(path, digest);
        // If this one is wrong as well, the first one says where it begins.
        match self.doubt.take() {
            Some(doubt) if compared.is_err() => Err(doubt),
            Some(_) | None => compared,
        }
    }

    fn compare(&mut self, path: &Path, expected: TreeDigest) -> Result<(), MigrateError> {
        if !self.digests {
            return Ok(());
        }
        self.compared += 1;
        let TreeDigest { zxid, digest: stored, offset } = expected;
        let computed = self.tree.digest();
        if stored == computed {
            return Ok(());
        }
        Err(MigrateError::Digest { path: path.to_owned(), offset, zxid, stored, computed })
    }
}
