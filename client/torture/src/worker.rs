//! One task of a contender: it takes one lock again and again.

use std::future::{Future, pending};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zoolet_client::recipes::LockGuard;
use zoolet_client::{Client, Error, ErrorKind, SessionState, Version};

use crate::context::{ContenderControl, Phase, RunContext, Session, block_thread};
use crate::plan::HolderFault;
use crate::random::Random;
use crate::recipe::{Lock, Recipe};
use crate::run_history::{Claim, Guarded, Mode};
use crate::run_recorder::ClaimId;
use crate::settings::PlantedBug;
use crate::tie::Tie;

/// How long a grant is held, in ms, when nothing strikes.
const HOLD_MS_MAX: u64 = 6;
/// How long a contender thinks between two turns, in ms.
const THINK_MS_MAX: u64 = 20;

/// How long a client may take to report a loss, when it has nothing else to do.
const REPORTED_MAX: Duration = Duration::from_secs(1);
/// How long it may take to report that its znode was deleted: servers may elect meanwhile.
const DELETED_MAX: Duration = Duration::from_secs(10);

/// How a turn is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcquireMode {
    /// It waits.
    Waits,
    /// It waits up to a limit.
    Limited(Duration),
    /// It does not wait.
    Tries,
}

/// What is held.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) lock: Lock,
    pub(crate) path: String,
    pub(crate) token: i64,
    pub(crate) mode: Mode,
}

impl Held {
    pub(crate) fn exclusive(lock: &Lock, guard: &LockGuard) -> Self {
        Self::with_mode(lock, guard, Mode::Exclusive)
    }

    pub(crate) fn with_mode(lock: &Lock, guard: &LockGuard, mode: Mode) -> Self {
        let (path, token) = (guard.path().to_owned(), guard.token().get());
        Self { lock: lock.clone(), path, token, mode }
    }

    /// Whether the resource behind the lock can tell writers by their tokens.
    fn is_fenced(&self) -> bool {
        self.mode == Mode::Exclusive && self.lock.recipe.permits() == 1
    }
}

/// A grant under way.
#[derive(Debug, Default)]
pub(crate) struct OpenClaim {
    pub(crate) ids: Vec<ClaimId>,
    /// Until when the client believed in it as it was asked last.
    lease_end_us: u64,
}

/// The task.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) context: Arc<RunContext>,
    pub(crate) control: Arc<ContenderControl>,
    pub(crate) session: Arc<Session>,
    pub(crate) lock: Lock,
    pub(crate) random: Random,
    pub(crate) turns: u64,
}

impl Worker {
    pub(crate) fn new(
        context: &Arc<RunContext>,
        control: &Arc<ContenderControl>,
        session: &Arc<Session>,
        lock: Lock,
        random: Random,
    ) -> Self {
        let (context, control) = (Arc::clone(context), Arc::clone(control));
        Self { context, control, session: Arc::clone(session), lock, random, turns: 0 }
    }

    /// Takes turns until the run is over.
    pub(crate) async fn take_turns(mut self) {
        let mut phase = self.context.phase.clone();
        let _ = phase.wait_for(|phase| *phase >= Phase::Run).await;
        loop {
            let last = *phase.borrow() >= Phase::LastTurn;
            let client = self.session.client().await;
            let acquire_mode = if last { AcquireMode::Waits } else { self.acquire_mode() };
            self.turns += 1;
            match self.turn(&client, acquire_mode).await {
                Ok(true) if last => break,
                Ok(_) => {}
                Err(error) => self.failed(&client, &error).await,
            }
            self.think(last).await;
        }
        if matches!(self.lock.recipe, Recipe::Counter | Recipe::SharedCount) {
            self.was_added_once();
        }
        self.is_done().await;
    }

    /// Enters and leaves a barrier with all the others, before the first fault and behind the last.
    pub(crate) async fn pass_barriers(mut self) {
        let mut phase = self.context.phase.clone();
        for (wanted, name) in [(Phase::Gather, "first"), (Phase::LastTurn, "last")] {
            if *phase.borrow() > wanted {
                // The first one is passed before the first death.
                continue;
            }
            if wanted == Phase::LastTurn {
                self.pass_rounds().await;
            }
            let _ = phase.wait_for(|phase| *phase >= wanted).await;
            let arrived_us = self.context.recorder.now_us();
            loop {
                let client = self.session.client().await;
                match self.pass_barrier(&client, name, arrived_us).await {
                    Ok(()) => break,
                    Err(error) => self.failed(&client, &error).await,
                }
            }
            self.is_done().await;
            let _ = phase.wait_for(|phase| *phase > wanted).await;
        }
    }

    pub(crate) async fn is_done(&self) {
        // The receiver is gone when this fails.
        let _ = self.context.done.send((self.control.number, self.lock.path.clone())).await;
    }

    fn acquire_mode(&mut self) -> AcquireMode {
        // A try of several locks has something to give back when it fails.
        let several = matches!(self.lock.recipe, Recipe::MultiLock | Recipe::MixedLock);
        let tries_to = if several { 40 } else { 18 };
        match self.random.below(100) {
            0..10 => AcquireMode::Limited(self.random.millis(1, 150)),
            kind if kind < tries_to => AcquireMode::Tries,
            _ => AcquireMode::Waits,
        }
    }

    pub(crate) async fn think(&mut self, last: bool) {
        sleep(self.random.millis(0, THINK_MS_MAX)).await;
        if !last {
            let mut quiesced = self.context.quiesced.clone();
            let _ = quiesced.wait_for(|quiesced| !quiesced).await;
        }
    }

    /// A session that ends is part of the torture; everything else is a recipe's failure.
    pub(crate) async fn failed(&mut self, client: &Client, error: &Error) {
        if !error.ends_session() {
            let (who, path) = (self.control.number, &self.lock.path);
            self.context.recorder.error(format!("contender {who} at {path}: {error}"));
            sleep(Duration::from_millis(20)).await;
            return;
        }
        // The client may tell a server's refusal before its own state does.
        let mut state = client.state();
        let over = state.wait_for(|state: &SessionState| state.is_terminal());
        let _ = timeout(self.context.session_timeout, over).await;
    }

    /// Holds what was granted: writes, is struck, writes again without a look, as a program does
    /// whose pause comes between its look and its write.
    pub(crate) async fn hold(&mut self, client: &Client, held: &[Held], tie: Tie<'_>) -> OpenClaim {
        let mut open = self.claim(client, held);
        self.write(held);
        let exclusive = held.iter().any(Held::is_fenced);
        let mut is_struck = false;
        match exclusive.then(|| self.control.next_fault()).flatten() {
            None => self.work(tie).await,
            Some(fault) => {
                self.context.recorder.struck(fault.kind_of_holder());
                self.context.recorder.disturbed(Some(self.control.number), fault.long());
                open.lease_end_us = open.lease_end_us.max(self.lease_end_us(client));
                // A selector drops its work when it is cut off, and with it the stale write.
                let writes_on = self.lock.recipe != Recipe::LeaderSelector
                    || matches!(fault, HolderFault::Pause(_));
                if writes_on {
                    self.context.stops(fault);
                }
                self.suffer(client, held, tie, fault, &open).await;
                is_struck = true;
            }
        }
        self.write(held);
        if is_struck || self.random.chance(30) {
            self.write_guarded(tie, held).await;
        }
        open
    }

    /// Notes until when the holder believed in its grant; it is about to release it.
    pub(crate) fn ends(&self, client: &Client, open: &OpenClaim, believes: bool) {
        let now_us = self.context.recorder.now_us();
        let until_us = match (believes, client.remaining().is_zero()) {
            (true, false) => now_us,
            (true, true) => open.lease_end_us.min(now_us),
            (false, _) => 0,
        };
        for id in &open.ids {
            self.context.recorder.believed_until(*id, until_us);
        }
    }

    pub(crate) fn released(&self, open: &OpenClaim) {
        for id in &open.ids {
            self.context.recorder.released(*id);
        }
    }

    pub(crate) fn dropped(&self, open: &OpenClaim) {
        for id in &open.ids {
            self.context.recorder.dropped(*id);
        }
    }

    fn claim(&self, client: &Client, held: &[Held]) -> OpenClaim {
        let seen = client.session().last_zxid.0;
        let lease_end_us = self.lease_end_us(client);
        let granted_us = self.context.recorder.now_us();
        let claim = |held: &Held| {
            self.context.recorder.claim(Claim {
                lock: held.lock.path.clone(),
                contender: self.control.number,
                mode: held.mode,
                path: held.path.clone(),
                token: held.token,
                seen,
                granted_us,
                believed_until_us: granted_us,
                released: false,
                dropped: false,
            })
        };
        OpenClaim { ids: held.iter().map(claim).collect(), lease_end_us }
    }

    /// When the client's lease ends; 0 if it has ended: a holder that gets the grant only then has never
    /// believed in it.
    fn lease_end_us(&self, client: &Client) -> u64 {
        let now_us = self.context.recorder.now_us();
        match u64::try_from(client.remaining().as_micros()) {
            Ok(0) | Err(_) => 0,
            Ok(left_us) => now_us + left_us,
        }
    }

    fn write(&self, held: &[Held]) {
        for held in held.iter().filter(|held| held.is_fenced()) {
            let (path, who) = (&held.lock.path, self.control.number);
            if self.context.planted_bug == Some(PlantedBug::NoFence) {
                self.context.recorder.write_unfenced(path, who, held.token);
            } else {
                self.context.recorder.write(path, who, held.token);
            }
        }
    }

    async fn work(&mut self, tie: Tie<'_>) {
        let long = self.random.millis(0, HOLD_MS_MAX);
        if self.random.chance(30) {
            tokio::select! {
                () = sleep(long) => {}
                () = tie.lost() => {}
            }
        } else {
            sleep(long).await;
        }
    }

    async fn suffer(
        &self,
        client: &Client,
        held: &[Held],
        tie: Tie<'_>,
        fault: HolderFault,
        open: &OpenClaim,
    ) {
        match fault {
            HolderFault::Pause(long) => block_thread(long),
            HolderFault::Cut(long) => self.is_notified(client, tie, self.control.cut(long)).await,
            HolderFault::Silence(long) => {
                self.is_notified(client, tie, self.control.silence(long)).await;
            }
            HolderFault::Delete => self.loses_znode(client, held, tie).await,
            HolderFault::Die => {
                let until_us = open.lease_end_us.min(self.context.recorder.now_us());
                for id in &open.ids {
                    self.context.recorder.believed_until(*id, until_us);
                }
                self.control.death.notify_one();
                pending::<()>().await;
            }
        }
    }

    /// A holder that is cut off until its lease has ended must have been notified, without a look.
    async fn is_notified(
        &self,
        client: &Client,
        tie: Tie<'_>,
        suffering: impl Future<Output = ()>,
    ) {
        let (mut suffering, mut lost) = (pin!(suffering), pin!(tie.lost()));
        let is_notified = tokio::select! {
            () = &mut suffering => false,
            () = &mut lost => true,
        };
        if is_notified {
            return suffering.await;
        }
        let is_lost = || tie.reports() && client.remaining().is_zero();
        if is_lost() && timeout(REPORTED_MAX, lost).await.is_err() && is_lost() {
            self.not_notified("the end of its lease");
        }
    }

    /// A znode that it holds is deleted by hand, and the recipe must report that.
    async fn loses_znode(&self, client: &Client, held: &[Held], tie: Tie<'_>) {
        // Another holder may have a znode of the same name since.
        let Some(held) = held.last().filter(|it| it.lock.recipe != Recipe::SimpleLock) else {
            return;
        };
        let Ok(()) = self.context.delete_by_hand(&held.path).await else { return };
        if tie.reports()
            && timeout(DELETED_MAX, tie.lost()).await.is_err()
            && !client.remaining().is_zero()
        {
            self.not_notified("the delete of its znode");
        }
    }

    fn not_notified(&self, what: &str) {
        let (who, path) = (self.control.number, &self.lock.path);
        let broke = format!("contender {who} at {path} was not notified of {what}");
        self.context.recorder.broke(broke);
    }

    /// A release, or a guarded write, has found the znodes of a lock gone although the session
    /// lives: that is right only if they were deleted by hand.
    pub(crate) fn found_gone(&self, client: &Client, held: &[Held]) {
        if !client.state().borrow().is_terminal() {
            let paths = held.iter().map(|held| held.path.clone()).collect();
            self.context.recorder.gone(paths);
        }
    }

    /// Writes in the ensemble, if the lock is still held there.
    async fn write_guarded(&self, tie: Tie<'_>, held: &[Held]) {
        let Some(first) = held.first() else { return };
        let is_for_all = || held.iter().all(|held| tie.is_for(&held.path));
        let was_for_all = is_for_all();
        let Some(Ok(transaction)) = tie.guarded() else { return };
        if !(was_for_all && is_for_all()) {
            return;
        }
        let ledger = self.context.ledger_of(&first.lock.path);
        let token = first.token.to_string();
        match transaction.set_data(&ledger, token.as_bytes(), Version::Any).commit().await {
            Ok((zxid, _)) => {
                // Another holder may have a znode of the same name.
                for held in held.iter().filter(|held| held.lock.recipe != Recipe::SimpleLock) {
                    self.context.recorder.guarded(Guarded {
                        lock: held.lock.path.clone(),
                        path: held.path.clone(),
                        zxid: zxid.0,
                    });
                }
            }
            // It is lost, or that is unknown.
            Err(error)
                if *error.kind() == ErrorKind::LockLost
                    || *error.kind() == ErrorKind::ConnectionLoss
                    || error.ends_session() => {}
            Err(error) => {
                self.context.recorder.error(format!("a guarded write to {ledger}: {error}"));
            }
        }
    }
}
