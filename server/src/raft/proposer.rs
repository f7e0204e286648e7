//! From the replica's commands to log entries.
//!
//! Everything that waits goes into one batch. A batch is proposed, and proposed again to every
//! new leader, until this server applies it itself: the state's fence lets each batch in once,
//! and only behind its predecessor, so proposing again can neither double nor reorder anything.
//! When that takes too long, all that was proposed is reported lost, and a new stream begins,
//! which fences off whatever may still come of the old one. `docs/decisions/` has the reasoning.

mod queue;

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};
use zoolet_jute::{Id, ReconfigRequest, SessionId};

use self::queue::{Queue, Seen, Waiting};
use super::core::{Core, Leadership};
use super::machine::Machine;
use super::network::{Links, PROPOSE};
use super::options::BatchLimits;
use super::reconfig::Asked;
use super::types::{Body, Callback};
use crate::host::Proposals;
use crate::peer::Lane;
use crate::replica::{Batch, Command, Origin, ServerId};

/// Batches that are proposed and not yet applied here.
const IN_FLIGHT_MAX: usize = 2;

/// The pause before a batch that was refused, or whose leader cannot be reached, is proposed
/// again. It doubles from failure to failure.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(10);
const RETRY_PAUSE_MAX: Duration = Duration::from_millis(80);

/// Sessions whose clients were heard of and that the leader has not been told yet.
const TOUCHED_MAX: usize = 100_000;

/// What the replica wants, and what was seen in the log of it.
#[derive(Debug)]
pub struct Proposer {
    server: ServerId,
    boot: u64,
    queue: Mutex<Queue>,
    /// The bytes of the commands in `queue`, for those who must not wait for the lock.
    queued_bytes: AtomicUsize,
    seen: Mutex<Seen>,
    /// New commands, or something new in `seen`.
    wake: Notify,
    wake_sync: Notify,
    wake_touch: Notify,
    wake_reconfig: Notify,
}

impl Proposer {
    pub fn new(server: ServerId, boot: u64) -> Self {
        let [wake, wake_sync, wake_touch, wake_reconfig] = std::array::from_fn(|_| Notify::new());
        let (queue, queued_bytes, seen) = Default::default();
        Self { server, boot, queue, queued_bytes, seen, wake, wake_sync, wake_touch, wake_reconfig }
    }

    /// Told of all batches that were applied. Counts their commands.
    pub(super) fn applied(&self, batches: &[Bytes]) -> u64 {
        let mut seen = self.lock_seen();
        let (mut ours, mut commands) = (false, 0);
        for head in batches.iter().filter_map(Batch::head) {
            commands += head.count;
            if head.origin.server == self.server && head.origin.boot == self.boot {
                ours = true;
                seen.apply(head.origin.stream, head.first, head.count);
            }
        }
        drop(seen);
        if ours {
            self.wake.notify_one();
        }
        commands
    }

    /// Told that a snapshot has replaced the state.
    pub fn state_replaced(&self) {
        self.lock_seen().replaced = true;
        self.wake.notify_one();
    }

    /// The number of the last sync that was asked for.
    pub fn sync_wanted(&self) -> u64 {
        self.lock_queue().sync
    }

    pub async fn sync_asked(&self) {
        self.wake_sync.notified().await;
    }

    /// Waits for sessions whose clients were heard of, and takes them.
    pub async fn take_touched(&self) -> (u64, Vec<SessionId>) {
        loop {
            let (through, touched) = {
                let mut queue = self.lock_queue();
                (queue.touch, std::mem::take(&mut queue.touched))
            };
            if !touched.is_empty() {
                return (through, touched.into_iter().collect());
            }
            self.wake_touch.notified().await;
        }
    }

    /// Waits for a client that wants the ensemble changed.
    pub(super) async fn take_reconfig(&self) -> Asked {
        loop {
            if let Some(asked) = self.lock_queue().reconfigs.pop_front() {
                return asked;
            }
            self.wake_reconfig.notified().await;
        }
    }

    fn take_batch(&self, limits: BatchLimits) -> Vec<Command> {
        let mut queue = self.lock_queue();
        let commands = queue.take_batch(limits);
        self.queued_bytes.store(queue.bytes(), Ordering::Relaxed);
        commands
    }

    fn lock_queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Proposals for Proposer {
    fn queued_bytes(&self) -> usize {
        self.queued_bytes.load(Ordering::Relaxed)
    }

    fn propose(&self, command: Command) {
        let bytes = command.encoded_bytes();
        let mut queue = self.lock_queue();
        queue.last_number = command.number;
        queue.push(Waiting { command, bytes });
        self.queued_bytes.store(queue.bytes(), Ordering::Relaxed);
        drop(queue);
        self.wake.notify_one();
    }

    fn sync(&self, number: u64) {
        self.lock_queue().sync = number;
        self.wake_sync.notify_one();
    }

    fn reconfig(&self, number: u64, request: ReconfigRequest, identities: Arc<[Id]>) {
        self.lock_queue().reconfigs.push_back(Asked { number, request, identities });
        self.wake_reconfig.notify_one();
    }

    fn touch(&self, number: u64, sessions: Vec<SessionId>) {
        let mut queue = self.lock_queue();
        queue.touch = number;
        if queue.touched.len() < TOUCHED_MAX {
            queue.touched.extend(sessions);
        }
        drop(queue);
        self.wake_touch.notify_one();
    }
}

/// A batch that is not yet applied here.
#[derive(Debug)]
struct Flight {
    bytes: Bytes,
    last: u64,
    since: Instant,
    is_sent: bool,
}

/// Drives the proposer.
#[derive(Debug)]
pub(super) struct Driver {
    pub proposer: Arc<Proposer>,
    pub machine: Arc<dyn Machine>,
    pub core: Core,
    pub links: Arc<Links>,
    pub batches: BatchLimits,
    /// After so long without being applied, a batch is given up.
    pub patience: Duration,
}

/// The state of the driver between two rounds.
#[derive(Debug)]
struct Course {
    stream: u64,
    /// A batch of this stream was applied. Before that, only one may be under way: the fence
    /// takes any batch as a stream's first.
    is_established: bool,
    in_flight: VecDeque<Flight>,
    /// The leadership to which the batches were proposed.
    leadership: Option<Leadership>,
    /// Counts the attempts; what is reported of an older one does not matter any more.
    attempt: u64,
    not_before: Instant,
    /// Before the next attempt, should this one fail.
    pause: Duration,
}

impl Driver {
    pub(super) async fn run(self) {
        let (report, mut failures) = mpsc::unbounded_channel();
        let mut leaderships = self.core.leaderships();
        let mut course = Course {
            stream: 1,
            is_established: false,
            in_flight: VecDeque::new(),
            leadership: None,
            attempt: 0,
            not_before: Instant::now(),
            pause: RETRY_PAUSE_MIN,
        };
        loop {
            self.settle(&mut course);
            self.fill(&mut course);
            let leadership = *leaderships.borrow_and_update();
            if leadership != course.leadership {
                course.leadership = leadership;
                course.pause = RETRY_PAUSE_MIN;
                course.start_over(Instant::now());
            }
            self.send(&mut course, &report).await;
            let wake_at = course.wake_at(self.patience);
            tokio::select! {
                () = self.proposer.wake.notified() => {}
                changed = leaderships.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                Some(attempt) = failures.recv() => {
                    if attempt == course.attempt {
                        course.start_over(Instant::now() + course.pause);
                        course.pause = (course.pause * 2).min(RETRY_PAUSE_MAX);
                    }
                }
                () = sleep_until(wake_at.unwrap_or_else(Instant::now)), if wake_at.is_some() => {}
            }
        }
    }

    /// Drops what was applied, and gives up what takes too long.
    fn settle(&self, course: &mut Course) {
        let mut seen = self.proposer.lock_seen();
        let (gap, replaced) = (seen.gap, seen.replaced);
        (seen.gap, seen.replaced) = (false, false);
        let seen = *seen;
        if seen.stream == course.stream {
            course.is_established = true;
            while course.in_flight.front().is_some_and(|flight| flight.last <= seen.last) {
                course.in_flight.pop_front();
                course.pause = RETRY_PAUSE_MIN;
            }
        }
        if gap {
            course.start_over(Instant::now());
        }
        let is_late = |flight: &Flight| flight.since.elapsed() >= self.patience;
        let is_pending = !course.in_flight.is_empty() || replaced;
        if is_pending && (replaced || course.in_flight.front().is_some_and(is_late)) {
            self.lose(course);
        }
    }

    /// Gives everything up, what is still queued included: of a session whose command is lost, no
    /// later one may be proposed, or it would overtake the lost one.
    fn lose(&self, course: &mut Course) {
        let mut sessions = BTreeSet::new();
        for flight in course.in_flight.drain(..) {
            if let Ok(batch) = Batch::decode(flight.bytes) {
                sessions.extend(batch.commands.iter().map(|command| command.session));
            }
        }
        let through = {
            let mut queue = self.proposer.lock_queue();
            sessions.extend(queue.take_all().map(|waiting| waiting.command.session));
            self.proposer.queued_bytes.store(queue.bytes(), Ordering::Relaxed);
            queue.last_number
        };
        tracing::warn!(through, "proposals are lost: no leader has committed them in time");
        self.machine.lost(through);
        self.proposer.lock_queue().void_orphans(sessions);
        course.stream += 1;
        course.is_established = false;
        course.start_over(Instant::now());
    }

    /// Makes batches of what waits.
    fn fill(&self, course: &mut Course) {
        let limit = if course.is_established { IN_FLIGHT_MAX } else { 1 };
        while course.in_flight.len() < limit {
            let commands = self.proposer.take_batch(self.batches);
            let Some(last) = commands.last().map(|command| command.number) else { return };
            let (server, boot) = (self.proposer.server, self.proposer.boot);
            let origin = Origin { server, boot, stream: course.stream };
            let bytes = Batch { origin, commands }.encode();
            let since = Instant::now();
            course.in_flight.push_back(Flight { bytes, last, since, is_sent: false });
        }
    }

    /// Proposes what is not, in order.
    async fn send(&self, course: &mut Course, report: &mpsc::UnboundedSender<u64>) {
        let Some(leadership) = course.leadership else { return };
        if Instant::now() < course.not_before {
            return;
        }
        for flight in course.in_flight.iter_mut().filter(|flight| !flight.is_sent) {
            flight.is_sent = true;
            let (report, attempt) = (report.clone(), course.attempt);
            let failed = move || {
                // The driver may have ended.
                let _ = report.send(attempt);
            };
            if leadership.leader == self.core.node() {
                let told = Callback(Box::new(move |result: Result<_, _>| {
                    if result.is_err() {
                        failed();
                    }
                }));
                if !self.core.propose(Body(flight.bytes.clone()), told).await {
                    return;
                }
            } else {
                let link = self.links.to(leadership.leader, Lane::Request);
                let Some(link) = link else { return };
                let answer = link.call(PROPOSE, flight.bytes.clone());
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

impl Course {
    /// Everything is to be proposed again, from `not_before` on.
    fn start_over(&mut self, not_before: Instant) {
        self.attempt += 1;
        self.not_before = not_before;
        for flight in &mut self.in_flight {
            flight.is_sent = false;
        }
    }

    /// When there is something to do even if nothing happens.
    fn wake_at(&self, patience: Duration) -> Option<Instant> {
        let oldest = self.in_flight.front()?;
        let late_at = oldest.since + patience;
        let waits = self.in_flight.iter().any(|flight| !flight.is_sent);
        let can_send = waits && self.leadership.is_some() && self.not_before > Instant::now();
        Some(if can_send { late_at.min(self.not_before) } else { late_at })
    }
}
