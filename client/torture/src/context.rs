//! What the contenders of a run share, and what each has of its own.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{sleep, timeout};
use zoolet_client::{Client, ClientOptions, Error, ErrorKind, Version};

use crate::plan::HolderFault;
use crate::proxy::Proxy;
use crate::recipe::Lock;
use crate::run_history::Tally;
use crate::run_recorder::RunRecorder;
use crate::sequence_offset::SequenceOffset;
use crate::settings::PlantedBug;
use crate::tree;

/// How long what is done by hand may take.
const BY_HAND_MAX: Duration = Duration::from_secs(2);
/// How long a contender waits before it tries again to open a session.
const RETRY: Duration = Duration::from_millis(50);

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Barriers are entered, before the first fault.
    Gather,
    /// Turn after turn, under faults.
    Run,
    /// Each contender has one turn more, without any fault.
    LastTurn,
    /// No contender holds or waits; the sessions live.
    Quiet,
    /// The sessions are closed.
    Over,
}

/// What all contenders share.
#[derive(Debug)]
pub(crate) struct RunContext {
    pub(crate) seed: u64,
    pub(crate) recorder: RunRecorder,
    pub(crate) locks: Vec<Lock>,
    pub(crate) contenders: usize,
    pub(crate) session_timeout: Duration,
    pub(crate) phase: watch::Receiver<Phase>,
    /// Whether no contender begins a turn at the moment.
    pub(crate) quiesced: watch::Receiver<bool>,
    /// Who has had what was asked for in a phase: contender and path.
    pub(crate) done: mpsc::Sender<(usize, String)>,
    pub(crate) tallies: Mutex<BTreeMap<String, Tally>>,
    /// A session behind no proxy, which deletes and asks by hand.
    pub(crate) admin: Client,
    pub(crate) offset: SequenceOffset,
    /// The round of each double barrier that is entered at the moment.
    pub(crate) rounds: Mutex<BTreeMap<String, u64>>,
    pub(crate) planted_bug: Option<PlantedBug>,
    /// The parent of the znodes that are written under locks.
    pub(crate) ledger: String,
    /// How many holders were stopped for so long that their sessions must have ended.
    pub(crate) holders_stopped: AtomicUsize,
}

impl RunContext {
    /// Changes the tally of a queue or counter.
    pub(crate) fn tally(&self, path: &str, change: impl FnOnce(&mut Tally)) {
        let mut tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = tallies
            .entry(path.to_owned())
            .or_insert_with(|| Tally { path: path.to_owned(), ..Tally::default() });
        change(tally);
    }

    /// Counts a holder that goes on after a fault, if that outlasts its session for certain.
    pub(crate) fn stops(&self, fault: HolderFault) {
        let outlasts = match fault {
            HolderFault::Pause(long) | HolderFault::Cut(long) | HolderFault::Silence(long) => {
                long >= self.session_timeout * 2
            }
            HolderFault::Die | HolderFault::Delete => false,
        };
        self.holders_stopped.fetch_add(usize::from(outlasts), Ordering::Relaxed);
    }

    /// Deletes a znode that a contender knows by this name, by hand; fails if that cannot be done
    /// soon.
    pub(crate) async fn delete_by_hand(&self, shown: &str) -> Result<(), Error> {
        let path = self.offset.real(shown);
        self.recorder.deletes_by_hand(&path);
        by_hand(self.admin.delete(&path, Version::Any)).await
    }

    /// The round of a double barrier that is entered at the moment.
    pub(crate) fn round(&self, path: &str) -> u64 {
        *lock(&self.rounds).entry(path.to_owned()).or_default()
    }

    /// A member has passed a round, or given up: the others follow into the next one.
    pub(crate) fn ends_round(&self, path: &str, round: u64) {
        let mut rounds = lock(&self.rounds);
        let current = rounds.entry(path.to_owned()).or_default();
        *current = (*current).max(round + 1);
    }

    /// The znode that is written under a lock.
    pub(crate) fn ledger_of(&self, lock: &str) -> String {
        tree::ledger_of(&self.ledger, lock)
    }
}

/// Gives what is done by hand a limited time: servers may be down.
pub(crate) async fn by_hand<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let limit_ms = u64::try_from(BY_HAND_MAX.as_millis()).unwrap_or(u64::MAX);
    timeout(BY_HAND_MAX, call).await.unwrap_or_else(|_| Err(ErrorKind::Timeout(limit_ms).into()))
}

/// What outlives the deaths of a contender.
#[derive(Debug)]
pub(crate) struct ContenderControl {
    pub(crate) number: usize,
    pub(crate) proxy: Proxy,
    /// What strikes it in its next grants.
    faults: Mutex<VecDeque<HolderFault>>,
    pub(crate) death: Notify,
    /// What strikes it wherever it stands, and as what it is counted.
    pub(crate) anywhere: Mutex<VecDeque<(HolderFault, Option<&'static str>)>>,
    pub(crate) struck_anywhere: Notify,
    /// By counter: how many transactions had written it when the last addition began.
    pub(crate) commits: Mutex<BTreeMap<String, usize>>,
    /// By double barrier: the first round that it has not entered.
    next_rounds: Mutex<BTreeMap<String, u64>>,
}

impl ContenderControl {
    pub(crate) fn new(number: usize, proxy: Proxy) -> Self {
        Self {
            number,
            proxy,
            faults: Mutex::default(),
            death: Notify::new(),
            anywhere: Mutex::default(),
            struck_anywhere: Notify::new(),
            commits: Mutex::default(),
            next_rounds: Mutex::default(),
        }
    }

    /// Enters a round of a double barrier, unless it has been in it: it counts once.
    pub(crate) fn begins_round(&self, path: &str, round: u64) -> bool {
        let mut rounds = lock(&self.next_rounds);
        let next = rounds.entry(path.to_owned()).or_default();
        let is_new = round >= *next;
        *next = (*next).max(round + 1);
        is_new
    }

    /// Injects a fault at its next grant.
    pub(crate) fn strike_holder(&self, fault: HolderFault) {
        lock(&self.faults).push_back(fault);
    }

    /// Injects a fault now.
    pub(crate) fn strike_anywhere(&self, fault: HolderFault) {
        self.strike_as(fault, Some(fault.kind()));
    }

    /// The same, not counted: as a part of what strikes all contenders, or to end it.
    pub(crate) fn strike_uncounted(&self, fault: HolderFault) {
        self.strike_as(fault, None);
    }

    fn strike_as(&self, fault: HolderFault, kind: Option<&'static str>) {
        lock(&self.anywhere).push_back((fault, kind));
        self.struck_anywhere.notify_one();
    }

    pub(crate) fn next_fault(&self) -> Option<HolderFault> {
        lock(&self.faults).pop_front()
    }

    /// Cuts its connections for so long, or until the future is dropped.
    pub(crate) async fn cut(&self, long: Duration) {
        let _heals = Heals(&self.proxy);
        self.proxy.cut();
        sleep(long).await;
    }

    /// Passes nothing on for `long`, or until the future is dropped.
    pub(crate) async fn silence(&self, long: Duration) {
        let _heals = Heals(&self.proxy);
        self.proxy.silence();
        sleep(long).await;
    }

    /// Calls off what has not struck yet.
    pub(crate) fn calm(&self) {
        lock(&self.faults).clear();
        lock(&self.anywhere).clear();
        self.proxy.calm();
        self.proxy.heal();
    }
}

/// The work of a contender that is cut off may be dropped meanwhile, as that of a leader is.
struct Heals<'a>(&'a Proxy);

impl Drop for Heals<'_> {
    fn drop(&mut self) {
        self.0.heal();
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stops the thread, and with it everything that the contender does.
#[allow(
    clippy::disallowed_methods,
    reason = "a paused holder is a thread of its own that really stands still"
)]
pub(crate) fn block_thread(long: Duration) {
    std::thread::sleep(long);
}

/// The session of a contender; a new one takes the place of one that has ended.
#[derive(Debug)]
pub(crate) struct Session {
    servers: String,
    options: ClientOptions,
    current: tokio::sync::Mutex<Option<Client>>,
}

impl Session {
    pub(crate) fn new(servers: String, options: ClientOptions) -> Self {
        Self { servers, options, current: tokio::sync::Mutex::new(None) }
    }

    /// The client of the session, once there is one.
    pub(crate) async fn client(&self) -> Client {
        let mut current = self.current.lock().await;
        if let Some(client) = &*current
            && !client.state().borrow().is_terminal()
        {
            return client.clone();
        }
        loop {
            if let Ok(client) = self.options.clone().connect(&self.servers).await {
                *current = Some(client.clone());
                return client;
            }
            sleep(RETRY).await;
        }
    }

    /// Closes it.
    pub(crate) async fn close(&self) {
        if let Some(client) = self.current.lock().await.take() {
            // One that has ended is closed.
            let _ = client.close().await;
        }
    }
}
