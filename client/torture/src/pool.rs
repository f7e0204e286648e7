//! The contenders of a run, and what happens to them.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use zoolet_client::Version;

use crate::contender;
use crate::context::{ContenderControl, Phase, RunContext, by_hand};
use crate::fixture::{Fixture, LEFT_MAX, limited};
use crate::nemesis::Nemesis;
use crate::plan::{Fault, HolderFault, Plan};
use crate::proxy::{self, Proxy};
use crate::recipe::{Lock, Recipe};
use crate::run_history::RunHistory;
use crate::run_recorder::RunRecorder;
use crate::sequence_offset::SequenceOffset;
use crate::servers::Servers;
use crate::settings::{Settings, TortureError, rotated};
use crate::stall_monitor::StallMonitor;
use crate::tree;

/// How long contenders may take to end.
const END_MAX: Duration = Duration::from_mins(1);
/// How many messages of contenders wait.
const DONE_MAX: usize = 1024;

/// The contenders.
#[derive(Debug)]
pub(crate) struct ContenderPool {
    pub(crate) context: Arc<RunContext>,
    pub(crate) controls: Vec<Arc<ContenderControl>>,
    threads: Vec<JoinHandle<()>>,
    phase: watch::Sender<Phase>,
    quiesced: watch::Sender<bool>,
    done: mpsc::Receiver<(usize, String)>,
    pub(crate) marks: Vec<(Duration, String)>,
    last_turn_max: Duration,
    client_faults: bool,
    pub(crate) stall_monitor: StallMonitor,
}

impl Drop for ContenderPool {
    fn drop(&mut self) {
        self.phase.send_replace(Phase::Over);
        for control in &self.controls {
            control.strike_uncounted(HolderFault::Die);
        }
    }
}

impl ContenderPool {
    /// Starts the contenders, and waits until they have passed the barriers.
    pub(crate) async fn gather(
        settings: &Settings,
        offset: SequenceOffset,
        fixture: &Fixture,
    ) -> Result<Self, TortureError> {
        let (phase, phase_seen) = watch::channel(Phase::Gather);
        let (quiesced, lull_seen) = watch::channel(false);
        let (done_sender, done) = mpsc::channel(DONE_MAX);
        let context = Arc::new(RunContext {
            seed: settings.seed,
            recorder: RunRecorder::new(),
            locks: fixture.locks.clone(),
            contenders: settings.contenders,
            session_timeout: fixture.session_timeout,
            phase: phase_seen,
            quiesced: lull_seen,
            done: done_sender,
            tallies: Mutex::new(BTreeMap::new()),
            planted_bug: settings.planted_bug,
            admin: fixture.admin.clone(),
            offset,
            rounds: Mutex::default(),
            ledger: fixture.ledger.clone(),
            holders_stopped: AtomicUsize::new(0),
        });
        let (mut controls, mut threads) = (Vec::new(), Vec::new());
        for number in 0..settings.contenders {
            let proxy = Proxy::start_with(&rotated(&settings.servers, number), offset).await?;
            if settings.client_faults && fixture.locks.iter().any(is_barrier) {
                proxy.strike(proxy::Fault::Reply, number);
            }
            let control = Arc::new(ContenderControl::new(number, proxy));
            threads.push(contender::start(Arc::clone(&context), Arc::clone(&control))?);
            controls.push(control);
        }
        let (marks, last_turn_max) = (Vec::new(), settings.last_turn_max);
        let client_faults = settings.client_faults;
        let stall_monitor = StallMonitor::start(&context)?;
        let mut pool = Self {
            context,
            controls,
            threads,
            phase,
            quiesced,
            done,
            marks,
            last_turn_max,
            client_faults,
            stall_monitor,
        };
        let missing = pool.all_done(&fixture.locks, is_barrier).await;
        for stuck in missing {
            pool.context.recorder.error(format!("before the first fault: {stuck}"));
        }
        pool.phase.send_replace(Phase::Run);
        Ok(pool)
    }

    /// Plays the plan.
    pub(crate) async fn play(
        &mut self,
        plan: &Plan,
        servers: Option<Box<dyn Servers>>,
        duration: Duration,
        fixture: &Fixture,
    ) -> Option<Box<dyn Servers>> {
        let start = Instant::now();
        let before = Duration::from_micros(self.context.recorder.now_us());
        let nemesis = Nemesis::start(servers, &self.context);
        for (at, fault) in &plan.steps {
            sleep_until(start + *at).await;
            self.marks.push((before + start.elapsed(), fault.to_string()));
            match fault {
                Fault::Holder(who, what) => {
                    self.control(*who, |control| control.strike_holder(*what));
                }
                Fault::Anywhere(who, what) => {
                    self.control(*who, |control| control.strike_anywhere(*what));
                }
                Fault::LoseReply(who, after) => {
                    self.control(*who, |control| control.proxy.strike(proxy::Fault::Reply, *after));
                }
                Fault::LoseDeleteReply(who, after) => {
                    self.control(*who, |control| {
                        control.proxy.strike(proxy::Fault::DeleteReply, *after);
                    });
                }
                Fault::LoseTransactionReply(who, after) => {
                    let fault = proxy::Fault::TransactionReply;
                    self.control(*who, |control| control.proxy.strike(fault, *after));
                }
                Fault::DeleteWaiter(lock) => self.delete_waiter(*lock, fixture).await,
                Fault::LoseRequest(who, after) => {
                    self.control(*who, |control| {
                        control.proxy.strike(proxy::Fault::Request, *after);
                    });
                }
                Fault::ExpireAll(long) => {
                    self.context.recorder.struck("all sessions expired");
                    for control in &self.controls {
                        control.strike_uncounted(HolderFault::Cut(*long));
                    }
                }
                Fault::Reap(long) => self.reap(*long, fixture).await,
                Fault::Server(..) | Fault::KillLeaderAtGrant(_) => nemesis.strike(*fault),
            }
        }
        sleep_until(start + duration).await;
        let (failures, servers) = nemesis.finish().await;
        for failure in failures {
            self.context.recorder.error(failure);
        }
        for control in &self.controls {
            control.calm();
        }
        servers
    }

    /// Deletes the last znode in the queue of a lock by hand.
    async fn delete_waiter(&self, number: usize, fixture: &Fixture) {
        let locks: Vec<Lock> = fixture
            .locks
            .iter()
            .filter(|lock| lock.recipe.is_lock())
            .flat_map(Lock::parts)
            .collect();
        let count = locks.len();
        for lock in locks.iter().cycle().skip(number % count.max(1)).take(count) {
            let dir = lock.dir();
            let Ok((names, _)) = by_hand(fixture.admin.children(&dir)).await else { continue };
            let mut waiters: Vec<String> =
                names.into_iter().filter(|name| lock.blocks(name).is_some()).collect();
            waiters.sort_by_key(|name| number_of(name));
            let Some(last) = waiters.pop().filter(|_| waiters.len() >= lock.recipe.permits())
            else {
                continue;
            };
            let path = format!("{dir}/{last}");
            self.context.recorder.deletes_by_hand(&path);
            if by_hand(fixture.admin.delete(&path, Version::Any)).await.is_ok() {
                self.context.recorder.struck("waiter's znode deleted");
            }
            return;
        }
    }

    /// Makes mirrors miss changes: half of the contenders are cut off while the others write, and
    /// nothing is written any more when they come back.
    async fn blind_mirrors(&self, fixture: &Fixture) {
        if !self.client_faults || !fixture.locks.iter().any(|lock| lock.recipe == Recipe::Cache) {
            self.phase.send_replace(Phase::LastTurn);
            return;
        }
        let cut = || self.controls.iter().step_by(2);
        for control in cut() {
            control.proxy.cut();
        }
        sleep(fixture.session_timeout / 3).await;
        // The connected ones write no more; what is under way is done soon.
        self.phase.send_replace(Phase::LastTurn);
        sleep(fixture.session_timeout / 10).await;
        for control in cut() {
            control.proxy.heal();
        }
        self.context.recorder.struck("mirrors cut off");
    }

    fn control(&self, who: usize, strike: impl FnOnce(&ContenderControl)) {
        if let Some(control) = self.controls.get(who) {
            strike(control);
        }
    }

    /// Deletes empty directories, as a reaper of containers does between the create of a directory
    /// and the create below it.
    async fn reap(&self, long: Duration, fixture: &Fixture) {
        self.context.recorder.disturbed(None, long);
        let end = Instant::now() + long;
        let mut reaped = false;
        self.quiesced.send_replace(true);
        while Instant::now() < end {
            if Instant::now() + long / 2 > end {
                self.quiesced.send_replace(false);
            }
            for lock in &fixture.locks {
                let parts = if lock.recipe.is_lock() { lock.parts() } else { Vec::new() };
                for part in parts {
                    // A directory in use is not empty, and one that was reaped is not there.
                    let gone = timeout(long, fixture.admin.delete(&part.dir(), Version::Any)).await;
                    reaped |= gone.is_ok_and(|gone| gone.is_ok());
                }
            }
            sleep(Duration::from_millis(2)).await;
        }
        if reaped {
            self.context.recorder.struck("directories reaped");
        }
        self.quiesced.send_replace(false);
    }

    /// Gives every contender a last turn, looks for what they leave, and ends them.
    pub(crate) async fn close(&mut self, fixture: &Fixture, history: &mut RunHistory) {
        self.blind_mirrors(fixture).await;
        let stuck = self.all_done(&fixture.locks, |_| true).await;
        let all_there = stuck.is_empty();
        history.stuck = stuck;
        self.phase.send_replace(Phase::Quiet);
        if all_there {
            // The sessions live: what stands there now was left behind by somebody alive.
            match limited(tree::waiters_gone(&fixture.admin, &fixture.locks, LEFT_MAX)).await {
                Ok(left) => history.leftovers = left,
                Err(error) => history.errors.push(format!("looking for leftovers: {error}")),
            }
        }
        self.phase.send_replace(Phase::Over);
        if !all_there {
            for control in &self.controls {
                control.strike_uncounted(HolderFault::Die);
            }
        }
        let threads = std::mem::take(&mut self.threads);
        let ended = tokio::task::spawn_blocking(move || {
            threads.into_iter().map(JoinHandle::join).filter(Result::is_err).count()
        });
        match timeout(END_MAX, ended).await {
            Ok(Ok(0)) => {}
            Ok(Ok(count)) => history.errors.push(format!("{count} contenders panicked")),
            Ok(Err(_)) | Err(_) => history.errors.push("the contenders do not end".to_owned()),
        }
    }

    /// Waits until every contender has said of every such lock that it is done; returns who has not.
    async fn all_done(&mut self, locks: &[Lock], wanted: impl Fn(&Lock) -> bool) -> Vec<String> {
        let who = 0..self.context.contenders;
        let mut missing: Vec<(usize, String)> = who
            .flat_map(|who| locks.iter().filter(|l| wanted(l)).map(move |l| (who, l.path.clone())))
            .collect();
        let end = Instant::now() + self.last_turn_max;
        while !missing.is_empty() {
            tokio::select! {
                done = self.done.recv() => missing.retain(|one| Some(one) != done.as_ref()),
                () = sleep_until(end) => break,
            }
        }
        missing.into_iter().map(|(who, path)| format!("contender {who} waits at {path}")).collect()
    }
}

/// The place of a znode in its queue: what servers number goes up with each create.
fn number_of(name: &str) -> i64 {
    let digits = name.len() - name.trim_end_matches(|last: char| last.is_ascii_digit()).len();
    name.get(name.len() - digits..).and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

fn is_barrier(lock: &Lock) -> bool {
    lock.recipe == Recipe::DoubleBarrier
}
