//! From the replica's commands to log entries.
//!
//! Everything that waits goes into one batch. A batch is proposed, and proposed again to every
//! new leader, until this server applies it itself: the state's replay filter admits each batch once,
//! and only behind its predecessor, so proposing again can neither double nor reorder anything.
//! When that takes too long, all that was proposed is reported lost, and a new stream begins,
//! which fences off everything that may still come of the old one. `docs/decisions/` has the reasoning.
//!
//! What was applied is read from the fence itself, so a batch that the fence drops is never taken
//! for an applied one. A fence that knows of a later start than this one drops everything: then the
//! server goes on under a number above the fence's.

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};
use zoolet_jute::SessionId;
use zoolet_replica::state::Admitted;
use zoolet_replica::{Batch, Boot, Command, FeatureLevel, Input, Op, Origin, ProposalNumber, Term};
use zoolet_storage::{Disk, StorageError};

use super::blocking::blocking;
use super::boot;
use super::handle::ConsensusHandle;
use super::levels::{Ceiling, LevelAdmission};
use super::machine::Machine;
use super::options::BatchLimits;
use super::proposal_queue::Seen;
use super::proposer::Proposer;
use super::read_index::ReadIndex;
use crate::consensus::Leadership;
use crate::fatal::Fatal;
use crate::host::Proposals as _;
use crate::peer::{Lane, Links, RpcKind};

/// Batches that are proposed and not yet applied here.
const IN_FLIGHT_MAX: usize = 4;

/// The pause before a batch that was refused, or whose leader cannot be reached, is proposed
/// again. It doubles from failure to failure.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(10);
const RETRY_PAUSE_MAX: Duration = Duration::from_millis(80);

/// The pause before a server that has not caught up looks again at what its clients wait for.
const CATCH_UP_PAUSE: Duration = Duration::from_millis(15);

/// A batch that is not yet applied here.
#[derive(Debug)]
struct InFlightBatch {
    bytes: Bytes,
    level: FeatureLevel,
    /// The level that its only command agrees on, and the term of the leader that has proposed it.
    agrees_on: Option<(Term, FeatureLevel)>,
    last: ProposalNumber,
    since: Instant,
    is_sent: bool,
}

/// Drives the proposer.
#[derive(Debug)]
pub(super) struct ProposalDriver {
    pub proposer: Arc<Proposer>,
    pub machine: Arc<dyn Machine>,
    pub handle: ConsensusHandle,
    /// The leader that gets the batches, from the supervisor.
    pub leaderships: watch::Receiver<Option<Leadership>>,
    pub links: Arc<Links>,
    pub batches: BatchLimits,
    /// After so long without being applied, a batch is given up.
    pub proposal_timeout: Duration,
    pub read_index: ReadIndex,
    /// Where the number of this start is kept.
    pub disk: Arc<dyn Disk>,
    pub directory: PathBuf,
    pub fatal: Fatal,
    /// What may be logged.
    pub ceiling: Ceiling,
}

/// The state of the driver between two rounds.
#[derive(Debug)]
struct ProposalStream {
    boot: Boot,
    stream: u64,
    /// A batch of this stream was applied. Before that, only one may be under way: the fence
    /// takes any batch as a stream's first.
    is_established: bool,
    in_flight: VecDeque<InFlightBatch>,
    /// The leadership to which the batches were proposed.
    leadership: Option<Leadership>,
    /// Counts the attempts; what is reported of an older one does not matter any more.
    attempt: u64,
    not_before: Instant,
    /// Before the next attempt, should this one fail.
    pause: Duration,
}

impl ProposalDriver {
    pub(super) async fn run(self) {
        let (report, mut failures) = mpsc::unbounded_channel();
        let mut leaderships = self.leaderships.clone();
        let mut stream = ProposalStream {
            boot: self.proposer.boot(),
            stream: 1,
            is_established: false,
            in_flight: VecDeque::new(),
            leadership: None,
            attempt: 0,
            not_before: Instant::now(),
            pause: RETRY_PAUSE_MIN,
        };
        let mut too_low = self.catch_up(&mut stream).await;
        if too_low.is_none() {
            self.machine.started(stream.boot);
        }
        loop {
            if let Some(admitted) = too_low.take().or_else(|| self.settle(&mut stream))
                && let Err(error) = self.restart(&mut stream, admitted).await
            {
                self.fatal.report(error.to_string());
                return;
            }
            self.fill(&mut stream);
            let leadership = *leaderships.borrow_and_update();
            if leadership != stream.leadership {
                stream.leadership = leadership;
                stream.pause = RETRY_PAUSE_MIN;
                stream.start_over(Instant::now());
            }
            self.send(&mut stream, &report).await;
            let wake_at = stream.wake_at(self.proposal_timeout);
            tokio::select! {
                () = self.proposer.wake.notified() => {}
                changed = leaderships.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                Some(attempt) = failures.recv() => {
                    if attempt == stream.attempt {
                        stream.start_over(Instant::now() + stream.pause);
                        stream.pause = (stream.pause * 2).min(RETRY_PAUSE_MAX);
                    }
                }
                () = sleep_until(wake_at.unwrap_or_else(Instant::now)), if wake_at.is_some() => {}
            }
        }
    }

    /// Waits until everything is applied here that was committed before, so that the state knows of
    /// every earlier start of this server: one on another disk, or under another clock, too. What
    /// clients want meanwhile is lost when it takes too long. Returns the row of the fence if this start
    /// must have a higher number.
    async fn catch_up(&self, stream: &mut ProposalStream) -> Option<Admitted> {
        let mut read_index = self.read_index.clone();
        let caught_up = async {
            while !read_index.catch_up().await {
                sleep(CATCH_UP_PAUSE).await;
            }
        };
        let mut caught_up = pin!(caught_up);
        let mut waiting_since = None;
        loop {
            tokio::select! {
                () = &mut caught_up => break,
                () = sleep(CATCH_UP_PAUSE) => {}
            }
            if self.proposer.lock_queue().is_empty() {
                waiting_since = None;
            } else if waiting_since.get_or_insert_with(Instant::now).elapsed()
                >= self.proposal_timeout
            {
                self.lose(stream, "no leader was found in time");
                waiting_since = None;
            }
        }
        let admitted = self.machine.admitted();
        let mut seen = self.proposer.lock_seen();
        seen.admitted = seen.admitted.max(admitted);
        // Nothing was proposed yet, so the same number is another start's as well.
        stream.is_too_low(seen.admitted).then_some(seen.admitted)
    }

    /// Drops what was applied, and gives up what takes too long. Returns the row of the fence if
    /// this start must have a higher number: whatever it proposed would be dropped.
    fn settle(&self, stream: &mut ProposalStream) -> Option<Admitted> {
        let mut seen = self.proposer.lock_seen();
        let Seen { admitted, gap, replaced } = *seen;
        (seen.gap, seen.replaced) = (false, false);
        drop(seen);
        let is_own = admitted.boot == stream.boot;
        if !is_own && stream.is_too_low(admitted) {
            return Some(admitted);
        }
        if is_own && admitted.stream == stream.stream {
            stream.is_established = true;
            while stream.in_flight.front().is_some_and(|batch| batch.last <= admitted.last) {
                stream.in_flight.pop_front();
                stream.pause = RETRY_PAUSE_MIN;
            }
        }
        if gap {
            stream.start_over(Instant::now());
        }
        let is_late = |batch: &InFlightBatch| batch.since.elapsed() >= self.proposal_timeout;
        if is_own && admitted.stream > stream.stream {
            stream.stream = admitted.stream;
            self.lose(stream, "the log has a later stream of this server");
        } else if replaced {
            self.lose(stream, "a snapshot has replaced the state");
        } else if self.is_too_high(stream) {
            self.lose(stream, "they need a feature level that is not agreed on any more");
        } else if stream.in_flight.front().is_some_and(is_late) {
            self.lose(stream, "no leader has committed them in time");
        }
        None
    }

    /// Whether no leader logs the oldest batch, because the level that it needs is not agreed on any more.
    fn is_too_high(&self, stream: &ProposalStream) -> bool {
        let Some(oldest) = stream.in_flight.front() else { return false };
        // The first level needs no look.
        if oldest.is_sent
            || oldest.level <= FeatureLevel::FIRST
            || oldest.level <= self.machine.levels().agreed
        {
            return false;
        }
        // It may have been applied a moment ago, in front of what has lowered the level.
        let Admitted { boot, stream: number, last } = self.machine.admitted();
        (boot, number) != (stream.boot, stream.stream) || oldest.last > last
    }

    /// Goes on as a start above the one that the fence knows of. The number is durable before it is
    /// used, and the clients of the old one are sent away: none of their commands was applied.
    async fn restart(
        &self,
        stream: &mut ProposalStream,
        admitted: Admitted,
    ) -> Result<(), StorageError> {
        let boot = admitted.next_boot();
        tracing::warn!(
            server = %self.proposer.server,
            number = stream.boot.0,
            known = admitted.boot.0,
            new = boot.0,
            "the number of this start is lower than that of an earlier one: the clock was set back \
             or the disk was replaced; going on with a higher number"
        );
        let (disk, directory) = (Arc::clone(&self.disk), self.directory.clone());
        // A number that may not be durable must not be used.
        blocking("number of the start", move || boot::save(&*disk, &directory, boot)).await?;
        self.lose(stream, "the number of this start was too low");
        self.proposer.boot.store(boot.0, Ordering::Relaxed);
        let through = self.machine.started(boot);
        let mut queue = self.proposer.lock_queue();
        queue.drop_through(through);
        self.proposer.queued_bytes.store(queue.bytes(), Ordering::Relaxed);
        drop(queue);
        (stream.boot, stream.stream) = (boot, 1);
        Ok(())
    }

    /// Gives everything up, what is still queued included: of a session whose command is lost, no
    /// later one may be proposed, or it would overtake the lost one.
    fn lose(&self, stream: &mut ProposalStream, why: &str) {
        let batches = stream.in_flight.drain(..).filter_map(|it| Batch::decode(it.bytes).ok());
        let lost: Vec<Command> = batches.flat_map(|batch| batch.commands).collect();
        let mut sessions: BTreeSet<SessionId> =
            lost.iter().map(|command| command.session).collect();
        let through = {
            let mut queue = self.proposer.lock_queue();
            sessions.extend(queue.take_all().map(|waiting| waiting.command.session));
            self.proposer.queued_bytes.store(queue.bytes(), Ordering::Relaxed);
            queue.last_number
        };
        tracing::warn!(through = through.0, why, "proposals are lost");
        self.machine.input(Input::Lost { through });
        self.proposer.lock_queue().void_orphans(sessions);
        if planted!("lost-commands-are-proposed-again") {
            for command in lost {
                self.proposer.propose(command);
            }
        }
        stream.stream += u64::from(!planted!("lost-proposals-keep-their-stream"));
        stream.is_established = false;
        stream.start_over(Instant::now());
    }

    /// Makes batches of what waits.
    fn fill(&self, stream: &mut ProposalStream) {
        let limit = if stream.is_established { IN_FLIGHT_MAX } else { 1 };
        while stream.in_flight.len() < limit {
            let commands = self.proposer.take_batch(self.batches);
            let Some(Command { number: last, op, .. }) = commands.last() else { return };
            let last = *last;
            let agrees_on =
                if let Op::SetLevel { level, term } = *op { Some((term, level)) } else { None };
            let (server, boot) = (self.proposer.server, stream.boot);
            let origin = Origin { server, boot, stream: stream.stream };
            // The leader puts its time in.
            let batch = Batch { origin, now_ms: 0, commands };
            let (level, bytes) = (batch.level(), batch.encode_checked());
            let since = Instant::now();
            let is_sent = false;
            stream.in_flight.push_back(InFlightBatch {
                bytes,
                level,
                agrees_on,
                last,
                since,
                is_sent,
            });
        }
    }

    /// Proposes what is not, in order.
    async fn send(&self, stream: &mut ProposalStream, report: &mpsc::UnboundedSender<u64>) {
        let Some(leadership) = stream.leadership else { return };
        if Instant::now() < stream.not_before {
            return;
        }
        for (at, batch) in stream.in_flight.iter_mut().enumerate() {
            if batch.is_sent {
                continue;
            }
            if at > 0 && batch.agrees_on.is_some() {
                // What is in front of it is made again when the leader refuses it for a moment, and must
                // not meet a lower level then.
                return;
            }
            batch.is_sent = true;
            let (report, attempt) = (report.clone(), stream.attempt);
            let failed = move || {
                // The driver may have ended.
                let _ = report.send(attempt);
            };
            if leadership.leader == self.handle.node() {
                let term = match self.ceiling.admits(batch.level) {
                    LevelAdmission::AnyTerm => None,
                    LevelAdmission::Term(term) => Some(term),
                    // As when another leader refuses it: what is behind it waits as well.
                    LevelAdmission::Refused => return failed(),
                };
                if let Some((agreed_in, level)) = batch.agrees_on {
                    self.ceiling.lower(agreed_in, level).await;
                }
                let outcome = Box::new(move |is_committed: bool| {
                    if !is_committed {
                        failed();
                    }
                });
                let stamped = Batch::stamp(&batch.bytes, self.machine.wall_ms());
                if !self.handle.propose(stamped, term, outcome).await {
                    return;
                }
            } else {
                let link = self.links.to(leadership.leader, Lane::Request);
                let Some(link) = link else { return };
                let answer = link.call(RpcKind::Propose.code(), batch.bytes.clone());
                tokio::spawn(async move {
                    let accepted = answer.await.is_ok_and(|answer| *answer == [1]);
                    if !accepted {
                        failed();
                    }
                });
            }
        }
    }
}

impl ProposalStream {
    /// Whether this start's number is not above that of the one that the fence knows of. One that is
    /// above, but not by enough, could give ids of sessions again.
    fn is_too_low(&self, admitted: Admitted) -> bool {
        admitted.boot > Boot::default() && self.boot < admitted.next_boot()
    }

    /// Everything is to be proposed again, from `not_before` on.
    fn start_over(&mut self, not_before: Instant) {
        self.attempt += 1;
        self.not_before = not_before;
        for batch in &mut self.in_flight {
            batch.is_sent = false;
        }
    }

    /// When there is something to do even if nothing happens.
    fn wake_at(&self, proposal_timeout: Duration) -> Option<Instant> {
        let oldest = self.in_flight.front()?;
        let late_at = oldest.since + proposal_timeout;
        let waits = self.in_flight.iter().any(|batch| !batch.is_sent);
        let can_send = waits && self.leadership.is_some() && self.not_before > Instant::now();
        Some(if can_send { late_at.min(self.not_before) } else { late_at })
    }
}
