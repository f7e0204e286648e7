//! Whether the servers still hold the same state.
//!
//! Every server keeps the digests of its state after some of the entries that it has applied, and
//! asks the other voters all the time what theirs were after the same entries. A digest is kept up
//! to date with every change, so a comparison costs two small messages and no look at the state.
//!
//! Which side is wrong is decided by count. When too many voters differ from a server for any
//! majority to agree with it, this server stops serving: it drops its clients, gives the
//! lead up, begins no election and writes no snapshot, until it is started again. As long as
//! the others that answer are too few to decide, the difference is reported and nothing is stopped.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::{BufMut, Bytes, BytesMut};
use tokio::sync::watch;
use zoolet_storage::{LogIndex, LogPosition, Wal};

use crate::node_id::NodeId;
use crate::wire::Reader;

/// The number of the last entries whose digests are kept.
const RECENT_MAX: usize = 1024;

/// Of older entries, the digest after every `SPARSE_STEP` is kept, and `SPARSE_MAX` of these.
pub(super) const SPARSE_STEP: u64 = 64;
const SPARSE_MAX: usize = 4096;

/// The most checkpoints in one question.
const QUESTION_MAX: usize = 8;

/// The state after one entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Checkpoint {
    index: LogIndex,
    term: u64,
    digest: u64,
}

/// What a server knows about the entry of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckpointAnswer {
    /// It was not applied yet, or is long gone.
    Nothing,
    /// It was applied in this term; the digest after it is no longer known.
    Term(u64),
    /// Its term, and the digest after it.
    State { term: u64, digest: u64 },
}

impl CheckpointAnswer {
    /// What is left of it if the digest's definition is another one.
    fn without_digest(self) -> Self {
        match self {
            Self::State { term, .. } => Self::Term(term),
            Self::Nothing | Self::Term(_) => self,
        }
    }

    /// Whether it is what `ours` says; `None` if it says too little for that.
    fn agrees(self, ours: Checkpoint) -> Option<bool> {
        match self {
            Self::Nothing => None,
            Self::Term(term) => (term != ours.term).then_some(false),
            Self::State { term, digest } => Some((term, digest) == (ours.term, ours.digest)),
        }
    }
}

/// The checkpoints that are kept, each list by rising index.
#[derive(Debug, Default)]
struct Checkpoints {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    recent: VecDeque<Checkpoint>,
    sparse: VecDeque<Checkpoint>,
}

impl Checkpoints {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, at: LogPosition, digest: u64) {
        let checkpoint = Checkpoint { index: at.index, term: at.term, digest };
        let mut kept = self.lock();
        push(&mut kept.recent, checkpoint, RECENT_MAX);
        if at.index.0.is_multiple_of(SPARSE_STEP) {
            push(&mut kept.sparse, checkpoint, SPARSE_MAX);
        }
    }

    fn restart(&self, at: Option<LogPosition>, digest: u64) {
        *self.lock() = Kept::default();
        if let Some(at) = at {
            self.note(at, digest);
        }
    }

    fn find(&self, index: LogIndex) -> Option<Checkpoint> {
        let kept = self.lock();
        let find = |list: &VecDeque<Checkpoint>| {
            let at = list.binary_search_by_key(&index, |checkpoint| checkpoint.index).ok()?;
            list.get(at).copied()
        };
        find(&kept.recent).or_else(|| find(&kept.sparse))
    }

    /// What to ask the others about: the last entry, and older ones for those that lag behind.
    pub(super) fn questions(&self) -> Vec<Checkpoint> {
        let kept = self.lock();
        let back = |steps: usize| kept.sparse.iter().rev().nth(steps).copied();
        let mut asked: Vec<_> = kept.recent.back().copied().into_iter().collect();
        asked.extend([0, 1, 8, 64, 512].into_iter().filter_map(back));
        asked
    }
}

fn push(list: &mut VecDeque<Checkpoint>, checkpoint: Checkpoint, max: usize) {
    if list.len() >= max {
        list.pop_front();
    }
    list.push_back(checkpoint);
}

/// Returns what this server knows about the asked checkpoints, behind the version of its digests.
pub(super) fn answer(
    mut body: Reader,
    divergence: &Divergence,
    wal: &Wal,
    applied: Option<LogIndex>,
) -> io::Result<Bytes> {
    let asked = body.u8()?;
    let mut out = BytesMut::new();
    out.put_u8(divergence.version);
    for _ in 0..usize::from(asked).min(QUESTION_MAX) {
        let index = LogIndex(body.u64()?);
        let in_log = || wal.position(index).filter(|_| Some(index) <= applied);
        let known = match divergence.checkpoints.find(index) {
            Some(Checkpoint { term, digest, .. }) => CheckpointAnswer::State { term, digest },
            None => in_log().map_or(CheckpointAnswer::Nothing, |position| {
                CheckpointAnswer::Term(position.term)
            }),
        };
        let (tag, term, digest) = match known {
            CheckpointAnswer::Nothing => (0, 0, 0),
            CheckpointAnswer::Term(term) => (1, term, 0),
            CheckpointAnswer::State { term, digest } => (2, term, digest),
        };
        out.put_u8(tag);
        out.put_u64(term);
        out.put_u64(digest);
    }
    Ok(out.freeze())
}

pub(super) fn encode_questions(asked: &[Checkpoint]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(u8::try_from(asked.len()).unwrap_or(u8::MAX));
    for checkpoint in asked {
        out.put_u64(checkpoint.index.0);
    }
    out.freeze()
}

/// Reads what a peer knows about `count` checkpoints. Digests of another version than `version` are
/// left out.
pub(super) fn decode_answer(
    body: &mut Reader,
    version: u8,
    count: usize,
) -> io::Result<Vec<CheckpointAnswer>> {
    let is_comparable = body.u8()? == version;
    let known = (0..count).map(|_| {
        let known = decode_known(body)?;
        Ok(if is_comparable { known } else { known.without_digest() })
    });
    known.collect()
}

fn decode_known(body: &mut Reader) -> io::Result<CheckpointAnswer> {
    let (tag, term, digest) = (body.u8()?, body.u64()?, body.u64()?);
    Ok(match tag {
        2 => CheckpointAnswer::State { term, digest },
        1 => CheckpointAnswer::Term(term),
        _ => CheckpointAnswer::Nothing,
    })
}

/// What the comparisons have shown.
#[derive(Debug, Default)]
pub(super) struct Divergence {
    /// The version of this server's digests.
    version: u8,
    checkpoints: Checkpoints,
    compared: Mutex<Compared>,
    /// Why this server has stopped serving.
    verdict: watch::Sender<Option<String>>,
    /// What was reported last.
    reported: Mutex<Findings>,
}

/// The comparisons of one state, by the voters' nodes.
#[derive(Debug, Default)]
struct Compared {
    /// Counts the states that snapshots have replaced.
    generation: u64,
    with: BTreeMap<NodeId, Comparison>,
}

/// What is asked of the others.
#[derive(Debug)]
pub(super) struct Questions {
    /// Of the state that the checkpoints belong to.
    pub generation: u64,
    pub asked: Vec<Checkpoint>,
}

/// The last comparisons with one voter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Comparison {
    /// The last entry after which the states were the same.
    agreed: Option<LogIndex>,
    /// The first entry since then after which they were not.
    differed: Option<LogIndex>,
}

/// What the comparisons add up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    /// Whether this server has stopped serving, because no majority can agree with it.
    pub diverged: bool,
    /// The voters whose state differs from this server's.
    pub differing: Vec<NodeId>,
    /// Whether a majority agrees with this server, so that it is the others that are wrong.
    pub confirmed: bool,
    /// The last entry after which a majority was seen to agree with this server.
    pub agreed: Option<LogIndex>,
}

impl Divergence {
    /// Nothing is compared yet. `version` is that of this server's digests.
    pub(super) fn new(version: u8) -> Self {
        Self { version, ..Self::default() }
    }

    /// Returns the version of this server's digests.
    pub(super) fn version(&self) -> u8 {
        self.version
    }

    /// Whether this server has stopped serving because its state differs from the majority's.
    pub(super) fn is_found(&self) -> bool {
        self.verdict.borrow().is_some()
    }

    /// Notes the state after an entry, which follows all that were noted before.
    pub(super) fn note(&self, at: LogPosition, digest: u64) {
        self.checkpoints.note(at, digest);
    }

    /// Starts again from the state of a snapshot: what was noted and compared before belongs to
    /// another state.
    pub(super) fn restart(&self, at: Option<LogPosition>, digest: u64) {
        self.checkpoints.restart(at, digest);
        let mut compared = self.compared();
        compared.generation += 1;
        compared.with.clear();
    }

    pub(super) fn questions(&self) -> Questions {
        // In this order: a state that is replaced in between makes the answers those of an older one.
        let generation = self.compared().generation;
        Questions { generation, asked: self.checkpoints.questions() }
    }

    fn compared(&self) -> MutexGuard<'_, Compared> {
        self.compared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what a voter has said about one of this server's checkpoints, unless a snapshot has
    /// replaced the state since `generation`.
    pub(super) fn compare(
        &self,
        peer: NodeId,
        generation: u64,
        ours: Checkpoint,
        known: CheckpointAnswer,
    ) {
        let Some(agrees) = known.agrees(ours) else { return };
        let mut compared = self.compared();
        if compared.generation != generation {
            return;
        }
        let comparison = compared.with.entry(peer).or_default();
        if agrees {
            comparison.agreed = comparison.agreed.max(Some(ours.index));
            comparison.differed = comparison.differed.filter(|differed| *differed > ours.index);
        } else if comparison.agreed.is_none_or(|agreed| agreed < ours.index) {
            let first = comparison.differed.map_or(ours.index, |known| known.min(ours.index));
            comparison.differed = Some(first);
        }
    }

    /// Returns the outcome of the comparisons among these voters. Without a membership there is no
    /// majority that could disagree with this server.
    pub(super) fn findings(&self, server: NodeId, voters: &[NodeId]) -> Findings {
        if voters.is_empty() {
            return Findings { diverged: self.is_found(), ..Findings::default() };
        }
        let compared = self.compared();
        let of = |voter: &NodeId| compared.with.get(voter).copied().unwrap_or_default();
        let majority = voters.len() / 2 + 1;
        let others = voters.iter().filter(|voter| **voter != server);
        let differing: Vec<NodeId> =
            others.clone().filter(|voter| of(voter).differed.is_some()).copied().collect();
        let first = differing.iter().filter_map(|voter| of(voter).differed).min();
        let own = usize::from(voters.contains(&server));
        let agreeing = others.clone().filter(|voter| {
            let Comparison { agreed, differed } = of(voter);
            differed.is_none() && agreed.is_some() && agreed >= first
        });
        let mut reached: Vec<Option<LogIndex>> = others.map(|voter| of(voter).agreed).collect();
        reached.sort_unstable();
        let needed = majority - own;
        let agreed = reached.len().checked_sub(needed).and_then(|at| reached.get(at));
        Findings {
            diverged: self.is_found() || differing.len() + majority > voters.len(),
            confirmed: own + agreeing.count() >= majority,
            differing,
            agreed: agreed.copied().flatten(),
        }
    }

    /// Draws the conclusions, and reports what is new.
    pub(super) fn conclude(&self, server: NodeId, voters: &[NodeId]) {
        if voters.is_empty() {
            return;
        }
        let findings = self.findings(server, voters);
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let known = Findings { agreed: None, ..findings.clone() };
        if *reported == known {
            return;
        }
        let is_relevant = !known.differing.is_empty() || !reported.differing.is_empty();
        *reported = known;
        if !is_relevant || self.is_found() {
            return;
        }
        let differing: Vec<u64> = findings.differing.iter().copied().map(NodeId::server).collect();
        let first = self.compared().with.values().filter_map(|compared| compared.differed).min();
        let first = first.map(|first| first.0);
        if findings.diverged {
            let why = format!(
                "its state differs from that of servers {differing:?}, and no majority of the \
                 {} voters can agree with it",
                voters.len()
            );
            tracing::error!(
                ?differing,
                first,
                voters = voters.len(),
                "this server's state differs from the majority's: it stops serving; stop it, empty \
                 its data directory and start it again to have it rebuilt from the others"
            );
            self.verdict.send_replace(Some(why));
        } else if differing.is_empty() {
            tracing::info!("all servers that were compared hold the same state again");
        } else if findings.confirmed {
            tracing::error!(
                ?differing,
                first,
                "the state of other servers differs from this one's, with which a majority agrees"
            );
        } else {
            tracing::error!(
                ?differing,
                first,
                "the state of other servers differs from this one's; too few servers answer to \
                 decide which is wrong"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(term: u64, index: u64) -> LogPosition {
        LogPosition { term, node: 0, index: LogIndex(index) }
    }

    /// A state that differed was replaced by a snapshot while the others were asked about it: the
    /// answers were compared with the new state, which then seemed to differ.
    #[test]
    fn answers_about_a_state_that_a_snapshot_has_replaced_are_not_compared() {
        let divergence = Divergence::new(1);
        divergence.note(position(1, 10), 7);
        let Questions { generation, asked } = divergence.questions();
        divergence.restart(Some(position(1, 12)), 8);
        for &ours in &asked {
            let known = CheckpointAnswer::State { term: 1, digest: 9 };
            divergence.compare(NodeId(2), generation, ours, known);
            divergence.compare(NodeId(3), generation, ours, known);
        }
        let findings = divergence.findings(NodeId(1), &[1, 2, 3].map(NodeId));
        assert!(findings.differing.is_empty() && !findings.diverged, "{findings:?}");
    }

    /// Entries of different terms in one place are a forked log, even if the states are the same or
    /// their digests are gone.
    #[test]
    fn terms_of_committed_entries_that_disagree_are_a_difference() {
        let ours = Checkpoint { index: LogIndex(5), term: 3, digest: 7 };
        for (known, agrees) in [
            (CheckpointAnswer::State { term: 3, digest: 7 }, Some(true)),
            (CheckpointAnswer::State { term: 4, digest: 7 }, Some(false)),
            (CheckpointAnswer::Term(4), Some(false)),
            (CheckpointAnswer::Term(3), None),
            (CheckpointAnswer::Nothing, None),
        ] {
            assert_eq!(known.agrees(ours), agrees, "{known:?}");
        }
        let divergence = Divergence::new(1);
        divergence.compare(NodeId(2), 0, ours, CheckpointAnswer::Term(4));
        divergence.compare(NodeId(3), 0, ours, CheckpointAnswer::State { term: 4, digest: 7 });
        assert!(divergence.findings(NodeId(1), &[1, 2, 3].map(NodeId)).diverged);
    }

    /// One of three servers reported at its first start that its state had diverged, and the
    /// documented remedy is an empty directory. The majority of zero voters was computed as one.
    #[test]
    fn a_server_without_a_membership_has_not_diverged() {
        let divergence = Divergence::new(1);
        divergence.note(position(1, 10), 7);
        assert_eq!(divergence.findings(NodeId(1), &[]), Findings::default());
        divergence.verdict.send_replace(Some("differs".to_owned()));
        assert!(divergence.findings(NodeId(1), &[]).diverged, "the verdict is final");
    }

    #[test]
    fn digests_of_another_version_say_nothing_and_terms_do() {
        let theirs = |version: u8, term| {
            let mut out = BytesMut::new();
            out.put_slice(&[version, 2]);
            out.put_u64(term);
            out.put_u64(99);
            Reader(out.freeze())
        };
        let ours = Checkpoint { index: LogIndex(5), term: 3, digest: 7 };
        let agrees = |version, term| {
            let known = decode_answer(&mut theirs(version, term), 1, 1).unwrap();
            known.first().unwrap().agrees(ours)
        };
        assert_eq!((agrees(1, 3), agrees(1, 4)), (Some(false), Some(false)));
        assert_eq!((agrees(2, 3), agrees(2, 4)), (None, Some(false)));
    }
}
