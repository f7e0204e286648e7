//! Agreeing on a feature level (`docs/decisions/0012-feature-levels.md`): the leader asks all
//! members what they can apply, and puts what all of them can into the log. What is above that is
//! not logged behind it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::future::join_all;
use tokio::sync::{RwLock, RwLockReadGuard};
use tokio::time::timeout;
use zoolet_replica::{FeatureLevel, Input, Levels, Term};

use super::handle::ConsensusHandle;
use super::machine::Machine;
use super::read_index::ReadIndex;
use crate::node_id::NodeId;
use crate::peer::{Lane, Links, RpcKind};
use crate::wire::Reader;

/// Between two rounds of questions.
pub(super) const ROUND_PAUSE: Duration = Duration::from_millis(500);

/// How long a member may take to say its level.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(700);

/// How long the leader waits in one round until it has applied what was committed before.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(2);

/// The level above which this server, as leader, logs nothing. Clones are the same one.
///
/// Invariant: in its term, not above the level that the log has agreed on behind its last entry.
/// In another term another leader may have agreed on a lower one, whether or not this server has
/// noticed that it did not lead for a while.
#[derive(Clone, Debug)]
pub(super) struct Ceiling {
    limit: Arc<Mutex<Limit>>,
    /// Held from the admission of a batch to its place in the log, so that none gets its place behind
    /// an entry that lowers the level.
    places: Arc<RwLock<()>>,
}

#[derive(Clone, Copy, Debug)]
struct Limit {
    term: Term,
    level: FeatureLevel,
    /// A lower level than the agreed one, which is in the log and not applied yet.
    lowered: Option<FeatureLevel>,
}

/// Whether, and in which terms, a batch of some level may be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LevelAdmission {
    /// In none, or not yet.
    Refused,
    /// In any: all servers have the first level.
    AnyTerm,
    /// In this one alone.
    Term(Term),
}

impl Ceiling {
    pub(super) fn new() -> Self {
        let (term, level) = (Term::default(), FeatureLevel::FIRST);
        let limit = Arc::new(Mutex::new(Limit { term, level, lowered: None }));
        Self { limit, places: Arc::default() }
    }

    /// Returns a guard to hold from [`Self::admits`] until the batch has its place in the log.
    pub(super) async fn place(&self) -> RwLockReadGuard<'_, ()> {
        self.places.read().await
    }

    pub(super) fn admits(&self, level: FeatureLevel) -> LevelAdmission {
        let limit = *self.lock();
        if level <= FeatureLevel::FIRST || planted!("levels-are-not-heeded") {
            LevelAdmission::AnyTerm
        } else if level <= limit.level {
            LevelAdmission::Term(limit.term)
        } else {
            LevelAdmission::Refused
        }
    }

    /// Falls before an entry that agrees on this level gets its place: nothing above it may get one
    /// behind it, whether or not it is ever committed.
    pub(super) async fn lower(&self, term: Term, level: FeatureLevel) {
        let _none_is_placed = self.places.write().await;
        let mut limit = self.lock();
        if term == limit.term && level < limit.level {
            (limit.level, limit.lowered) = (level, Some(level));
        }
    }

    /// Takes note of what is agreed on in a term. Returns a lower level that is in the log behind that.
    fn set(&self, term: Term, agreed: FeatureLevel) -> Option<FeatureLevel> {
        let mut limit = self.lock();
        let lowered = limit.lowered.filter(|lowered| limit.term == term && *lowered < agreed);
        *limit = Limit { term, level: lowered.unwrap_or(agreed), lowered };
        lowered
    }

    fn lock(&self) -> MutexGuard<'_, Limit> {
        self.limit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the agreed level in step with what the members can do, in rounds that the supervisor begins.
#[derive(Clone, Debug)]
pub(super) struct LevelKeeper {
    pub handle: ConsensusHandle,
    pub links: Arc<Links>,
    pub machine: Arc<dyn Machine>,
    pub read_index: ReadIndex,
    pub ceiling: Ceiling,
}

/// What a leader knows of its own proposals, from one round of its term to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LevelProgress {
    /// Whether it has applied what was committed before its term.
    is_current: bool,
    /// A lower level that it has proposed and not applied yet.
    pending: Option<FeatureLevel>,
}

impl LevelProgress {
    /// Takes note of what is agreed on, and of a lower level that is in the log behind that.
    fn note(&mut self, agreed: FeatureLevel, lowered: Option<FeatureLevel>) {
        let pending = self.pending.filter(|pending| *pending < agreed);
        self.pending = pending.into_iter().chain(lowered).min();
    }

    /// Returns the level to agree on next: a higher one only if all members have answered, and while
    /// a lower one is under way none above that.
    fn target(
        &mut self,
        agreed: FeatureLevel,
        lowest: FeatureLevel,
        all_answered: bool,
    ) -> FeatureLevel {
        let target = if lowest < agreed || all_answered { lowest } else { agreed };
        let target = self.pending.map_or(target, |pending| pending.min(target));
        if target < agreed {
            self.pending = Some(target);
        }
        target
    }
}

impl LevelKeeper {
    /// This server leads in another term than before, or no longer. Until the first round the log may
    /// hold a lower level than the state.
    pub(super) fn begin(&self, term: Option<Term>) {
        self.ceiling.set(term.unwrap_or_default(), FeatureLevel::FIRST);
    }

    /// One round of a leader.
    pub(super) async fn round(mut self, term: Term, mut led: LevelProgress) -> LevelProgress {
        if !led.is_current {
            let caught_up = timeout(CATCH_UP_TIMEOUT, self.read_index.catch_up()).await;
            if !caught_up.unwrap_or(false) {
                return led;
            }
            led.is_current = true;
        }
        let agreed = self.machine.levels().agreed;
        let lowered = self.ceiling.set(term, agreed);
        led.note(agreed, lowered);
        let (lowest, all_answered) = self.ask().await;
        let target = led.target(agreed, lowest, all_answered);
        if target != agreed {
            tracing::info!(from = agreed.0, to = target.0, "agreeing on a feature level");
            self.machine.input(Input::Level { level: target });
        }
        led
    }

    /// Looks, on every server, whether the agreed level has fallen. `followed` is how many of its falls
    /// were followed so far; returns how many are now. What fails is tried again in the next round.
    pub(super) async fn follow(self, followed: u64) -> u64 {
        let Levels { agreed, falls, .. } = self.machine.levels();
        let is_done = falls == followed || self.forget_commands(agreed).await;
        if is_done { falls } else { followed }
    }

    /// The lowest level of the members that say theirs, and whether all have.
    async fn ask(&self) -> (FeatureLevel, bool) {
        let own = self.machine.levels().offered;
        let members = self.handle.view().membership.nodes.into_keys();
        let others = members.filter(|node| *node != self.handle.node());
        let answers = join_all(others.map(|node| self.ask_one(node))).await;
        let lowest = answers.iter().flatten().copied().min().unwrap_or(own).min(own);
        (lowest, answers.iter().all(Option::is_some))
    }

    async fn ask_one(&self, node: NodeId) -> Option<FeatureLevel> {
        let link = self.links.to(node, Lane::Query)?;
        let answer =
            link.call_within(RpcKind::Level.code(), Bytes::new(), ANSWER_TIMEOUT).await.ok()?;
        Reader(answer).u32().ok().map(FeatureLevel)
    }

    /// Commands above the agreed level are left in the log. With a snapshot behind them a release
    /// that does not know them start here.
    async fn forget_commands(&self, agreed: FeatureLevel) -> bool {
        tracing::info!(level = agreed.0, "a lower feature level is agreed: taking a snapshot");
        let taken = self.handle.take_snapshot().await;
        if let Err(error) = &taken {
            tracing::warn!(%error, "no snapshot was taken");
        }
        taken.is_ok()
    }
}

/// The answer to the question for a server's level.
pub(super) fn encode_level(level: FeatureLevel) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u32(level.0);
    out.freeze()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn what_is_above_the_first_level_is_admitted_in_the_term_of_its_agreement_alone() {
        let ceiling = Ceiling::new();
        let above = FeatureLevel(FeatureLevel::FIRST.0 + 1);
        assert_eq!(ceiling.admits(FeatureLevel::FIRST), LevelAdmission::AnyTerm);
        assert_eq!(ceiling.admits(above), LevelAdmission::Refused);
        ceiling.set(Term(5), above);
        assert_eq!(ceiling.admits(FeatureLevel::FIRST), LevelAdmission::AnyTerm);
        assert_eq!(ceiling.admits(above), LevelAdmission::Term(Term(5)));
        assert_eq!(ceiling.admits(FeatureLevel(above.0 + 1)), LevelAdmission::Refused);
    }

    #[test]
    fn a_level_rises_when_all_have_answered_and_nothing_lower_is_under_way() {
        let [one, two, three] = [1, 2, 3].map(FeatureLevel);
        let mut led = LevelProgress::default();
        assert_eq!(led.target(one, three, false), one);
        assert_eq!(led.target(one, three, true), three);
        assert_eq!(led.target(three, two, false), two);
        led.note(three, Some(two));
        assert_eq!(led.target(three, one, false), one, "the second is in the log by now");
        led.note(three, Some(two));
        assert_eq!(led.target(three, three, true), one, "the first is not, and is under way");
        led.note(two, Some(one));
        assert_eq!(led.target(two, three, true), one);
        led.note(one, None);
        assert_eq!(led.target(one, three, true), three, "it is applied");
    }

    #[tokio::test]
    async fn what_was_admitted_has_its_place_in_front_of_a_lower_level() {
        let (ceiling, high) = (Ceiling::new(), FeatureLevel(FeatureLevel::FIRST.0 + 1));
        ceiling.set(Term(5), high);
        let place = ceiling.place().await;
        assert_eq!(ceiling.admits(high), LevelAdmission::Term(Term(5)));
        let mut lowering = pin!(ceiling.lower(Term(5), FeatureLevel::FIRST));
        assert!(lowering.as_mut().now_or_never().is_none(), "it may come behind it");
        drop(place);
        lowering.await;
        assert_eq!(ceiling.admits(high), LevelAdmission::Refused);
    }

    #[tokio::test]
    async fn a_lower_level_in_the_log_holds_until_it_is_agreed_on_or_the_term_ends() {
        let (ceiling, high) = (Ceiling::new(), FeatureLevel(FeatureLevel::FIRST.0 + 1));
        ceiling.set(Term(5), high);
        ceiling.lower(Term(4), FeatureLevel::FIRST).await;
        assert_eq!(ceiling.admits(high), LevelAdmission::Term(Term(5)), "of an earlier term");
        ceiling.lower(Term(5), FeatureLevel::FIRST).await;
        assert_eq!(ceiling.set(Term(5), high), Some(FeatureLevel::FIRST), "not applied yet");
        assert_eq!(ceiling.admits(high), LevelAdmission::Refused);
        assert_eq!(ceiling.set(Term(5), FeatureLevel::FIRST), None);
        assert_eq!(ceiling.set(Term(5), high), None, "risen again");
        ceiling.lower(Term(5), FeatureLevel::FIRST).await;
        assert_eq!(ceiling.set(Term(6), high), None);
        assert_eq!(ceiling.admits(high), LevelAdmission::Term(Term(6)));
    }
}
