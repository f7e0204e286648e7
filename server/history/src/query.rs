//! What is looked for, and how it is found.

use thiserror::Error;
use zoolet_jute::{SessionId, Zxid};
use zoolet_replica::HistoryEvent;
use zoolet_replica::state::LockName;

use crate::block::{self, BlockError, Head};
use crate::entry::{Entry, EntryKind, Gap, GapReason};
use crate::filter::{self, Key, parent_of};
use crate::store::{Store, StoreError};
use crate::tail::Tail;

/// The most entries that a query returns.
pub(crate) const ENTRIES_MAX: usize = 100_000;

/// What the history is looked through for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Everything.
    All,
    /// What has happened to a znode.
    Path(String),
    /// What has happened to a znode and all below it.
    Below(String),
    /// What a session did, and what has become of its znodes.
    Session(SessionId),
    /// The places in the queue of a lock, and the lock's znode.
    Lock(String),
}

/// A look into the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// What is looked for.
    pub subject: Subject,
    /// Only what has happened from then on, milliseconds since 1970.
    pub since_ms: Option<i64>,
    /// Only what has happened before, milliseconds since 1970.
    pub until_ms: Option<i64>,
    /// Only entries behind this number, the earliest first to be returned: for those who follow the
    /// history. Without it the latest are.
    pub after: Option<u64>,
    /// The most entries to return; at most 100,000 are.
    pub limit: usize,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The entries, in the order in which they have happened, with the gaps between them.
    pub entries: Vec<Entry>,
    /// Whether there are more than the limit.
    pub truncated: bool,
    /// The number of the last entry that was looked at, to go on behind it.
    pub last: u64,
    /// The last transaction that the history has come to.
    pub end: Zxid,
    /// The first transaction that the history has something of, and its time.
    pub begin: Option<(Zxid, i64)>,
}

impl Found {
    /// Adds an entry, unless there are as many as wanted; returns whether it was added.
    fn add(&mut self, entry: Entry, limit: usize) -> bool {
        self.truncated = self.entries.len() >= limit;
        if !self.truncated {
            self.entries.push(entry);
        }
        !self.truncated
    }
}

/// Why nothing can be found.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QueryError {
    /// The files are being opened.
    #[error("the history is being opened: try again in a moment")]
    Opening,
    /// The files cannot be used.
    #[error("the history cannot be read: {0}")]
    Failed(String),
}

/// The end of a history: the block that is being filled.
#[derive(Clone, Debug)]
pub(crate) struct End {
    head: Head,
    block: sled::IVec,
    /// The last transaction that was handed over, which the head of an empty block does not have.
    last_zxid: Zxid,
}

impl End {
    pub(crate) fn of(tail: &Tail) -> Self {
        Self {
            head: *tail.block().head(),
            block: tail.block().to_bytes().into(),
            last_zxid: tail.last_zxid(),
        }
    }

    /// The first transaction of a block; the one at the end may be empty.
    fn begin_of(&self, head: &Head) -> Zxid {
        if head.count > 0 { head.first_zxid } else { self.last_zxid }
    }
}

impl Query {
    /// Looks through a history, with its end as it was a moment ago.
    pub(crate) fn run(&self, store: &Store, end: &End) -> Result<Found, StoreError> {
        let limit = self.limit.min(ENTRIES_MAX);
        // A damaged one does not say when it begins.
        let first = match store.first() {
            Err(StoreError::Block(_)) => Head::default(),
            first => first?.unwrap_or(end.head),
        };
        let is_dated = first.count > 0 && first.first_ms > 0;
        let begin = is_dated.then_some((first.first_zxid, first.first_ms));
        let last = end.head.end().saturating_sub(1);
        let mut found = Found { last, begin, end: end.last_zxid, ..Found::default() };
        match self.after {
            Some(after) => self.forward((store, end), after, limit, &mut found)?,
            None => self.backward((store, end), limit, &mut found)?,
        }
        Ok(found)
    }

    fn backward(
        &self,
        (store, end): (&Store, &End),
        limit: usize,
        found: &mut Found,
    ) -> Result<(), StoreError> {
        let blocks = store.backward();
        let mut is_damaged = false;
        // What the next block ends before: a number, and a transaction.
        let (mut before, mut later) = (end.head.first.saturating_add(1), end.last_zxid);
        'blocks: for block in std::iter::once(Ok(end.block.clone())).chain(blocks) {
            let block = block?;
            let Ok((head, filter, bytes)) = Head::read(&block) else {
                is_damaged = true;
                continue;
            };
            if head.first >= before {
                // What has come since the query began, and the end as it was written.
                continue;
            }
            let is_dated = head.count > 0;
            let is_over = is_dated && self.since_ms.is_some_and(|since| is_before(&head, since));
            let is_wanted = !is_over && self.may_be_in(&head, filter);
            let Ok(entries) = entries_if(is_wanted, &head, bytes) else {
                is_damaged = true;
                continue;
            };
            // Otherwise the end as it was written is damaged, or what has come since.
            if std::mem::take(&mut is_damaged) && head.end() < before {
                let gap = store.damaged(before.saturating_sub(1), head.last_zxid, later);
                if !found.add(gap, limit) {
                    break;
                }
            }
            (before, later) = (head.first, end.begin_of(&head));
            if is_over {
                break;
            }
            for entry in entries.into_iter().rev().filter(|entry| self.admits(entry)) {
                if !found.add(entry, limit) {
                    break 'blocks;
                }
            }
        }
        if is_damaged && before > 1 {
            found.add(store.damaged(before.saturating_sub(1), Zxid(0), later), limit);
        }
        // The latest came first.
        found.entries.reverse();
        Ok(())
    }

    fn forward(
        &self,
        (store, end): (&Store, &End),
        after: u64,
        limit: usize,
        found: &mut Found,
    ) -> Result<(), StoreError> {
        if after > found.last {
            // Numbers have begun anew, or a kill has taken the last ones: who follows goes on from here.
            found.add(removed(found.last, Zxid(0), end.last_zxid), limit);
            return Ok(());
        }
        let mut expected = after.saturating_add(1);
        let blocks = store.forward(expected)?;
        let (mut is_damaged, mut known) = (false, Zxid(0));
        let blocks = blocks.take_while(|block| {
            let head = block.as_ref().ok().and_then(|block| Head::read(block).ok());
            head.is_none_or(|(head, ..)| head.first < end.head.first)
        });
        'blocks: for block in blocks.chain(std::iter::once(Ok(end.block.clone()))) {
            let block = block?;
            let Ok((head, filter, bytes)) = Head::read(&block) else {
                is_damaged = true;
                continue;
            };
            if head.end() <= after.saturating_add(1) {
                (is_damaged, known) = (false, head.last_zxid);
                continue;
            }
            let is_wanted = self.may_be_in(&head, filter);
            let Ok(entries) = entries_if(is_wanted, &head, bytes) else {
                is_damaged = true;
                continue;
            };
            let was_damaged = std::mem::take(&mut is_damaged);
            // Those who follow may have seen what is damaged now, or the gap.
            if head.first > expected {
                let (number, through) = (head.first.saturating_sub(1), end.begin_of(&head));
                let gap = if was_damaged {
                    store.damaged(number, known, through)
                } else {
                    removed(number, known, through)
                };
                if !found.add(gap, limit) {
                    break;
                }
            }
            (expected, known) = (head.end(), head.last_zxid);
            let news = entries.into_iter().filter(|entry| entry.number > after);
            for entry in news.filter(|entry| self.admits(entry)) {
                if !found.add(entry, limit) {
                    break 'blocks;
                }
            }
        }
        if found.truncated {
            found.last = found.entries.last().map_or(after, |last| last.number);
        }
        Ok(())
    }

    fn may_be_in(&self, head: &Head, filter: &[u8]) -> bool {
        let may_have = |key| filter::may_have(filter, key);
        head.count > 0
            && match &self.subject {
                Subject::All | Subject::Below(_) => true,
                Subject::Path(path) => may_have(Key::path(path.as_bytes())) || may_have(Key::gap()),
                Subject::Session(session) => {
                    may_have(Key::session(*session)) || may_have(Key::gap())
                }
                Subject::Lock(path) => {
                    [Key::parent(path.as_bytes()), Key::path(path.as_bytes()), Key::gap()]
                        .into_iter()
                        .any(may_have)
                }
            }
    }

    fn admits(&self, entry: &Entry) -> bool {
        let EntryKind::Event(event) = &entry.kind else { return true };
        self.since_ms.is_none_or(|since_ms| event.time_ms >= since_ms)
            && self.until_ms.is_none_or(|until_ms| event.time_ms < until_ms)
            && self.subject.has(event)
    }
}

/// The entries of a block, if they are wanted.
fn entries_if(is_wanted: bool, head: &Head, bytes: &[u8]) -> Result<Vec<Entry>, BlockError> {
    if is_wanted { block::entries(head, bytes) } else { Ok(Vec::new()) }
}

/// A gap before the first block, or in the place of blocks that were removed a moment ago.
fn removed(number: u64, after: Zxid, through: Zxid) -> Entry {
    Entry { number, kind: EntryKind::Gap(Gap { after, through, reason: GapReason::Removed }) }
}

/// By how much the wall clocks of two leaders may differ, so that time goes back in the history.
const CLOCKS_MS: i64 = 60_000;

/// Whether all that has happened in a block, and before it, precedes a time.
fn is_before(head: &Head, since_ms: i64) -> bool {
    // A history that begins with a gap has no time there.
    head.last_ms > 0 && head.last_ms.saturating_add(CLOCKS_MS) < since_ms
}

impl Subject {
    fn has(&self, event: &HistoryEvent) -> bool {
        let path = event.change.path();
        match self {
            Self::All => true,
            Self::Path(wanted) => path == Some(wanted),
            Self::Below(wanted) => path.is_some_and(|path| is_below(path, wanted)),
            Self::Session(session) => event.session == *session || event.change.owner() == *session,
            Self::Lock(lock) => path.is_some_and(|path| {
                path == lock || parent_of(path) == Some(lock) && is_place(path)
            }),
        }
    }
}

fn is_below(path: &str, wanted: &str) -> bool {
    let rest = path.strip_prefix(wanted);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || wanted == "/")
}

fn is_place(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    LockName::parse(name).is_some()
}

#[cfg(test)]
mod tests;
