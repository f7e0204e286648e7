//! Contenders by the recipes of zoolet's client, each with a client of its own.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use zoolet_client::recipes::{
    LeaderLatch, LeadershipState, LockGuard, LockOptions, Mutex, ReadWriteLock, Semaphore,
    SimpleLock, WriteGuard,
};
use zoolet_client::{Client, ClientOptions, Error};

use super::chance::Chance;
use super::contender::{Contender, draw_hold};
use super::recorded::Recorded;
use super::resource::GuardedResources;
use super::stop::{is_stopped, rest};
use super::{guarded, more_locks, multi_lock, selector};
use crate::history::What;
use crate::load::ClientMachine;

/// A recipe, and the locks on which its contenders meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recipe {
    /// [`Mutex`], beside contenders in Curator's form.
    Mutex,
    /// [`ReadWriteLock`], for reading or writing.
    ReadWrite,
    /// [`Semaphore`] with this number of permits.
    Semaphore(usize),
    /// [`LeaderLatch`].
    Latch,
    /// [`SimpleLock`].
    Simple,
    /// [`MultiLock`](zoolet_client::recipes::MultiLock) of two mutexes, of which the second is the
    /// first of other contenders.
    Multi,
    /// [`LeaderSelector`](zoolet_client::recipes::LeaderSelector).
    Selector,
    /// [`MultiLock`](zoolet_client::recipes::MultiLock) of four kinds.
    Mixed,
    /// [`Mutex`] with [`LockOptions::bilingual`], beside others without.
    Bilingual,
    /// [`Mutex`] with [`LockOptions::revocable`], whose holders are asked for it.
    Revocable,
    /// [`SemaphoreMutex`](zoolet_client::recipes::SemaphoreMutex).
    SemaphoreMutex,
    /// [`Semaphore`] whose number of permits, this one, is a znode.
    SharedSemaphore(usize),
}

impl Recipe {
    /// The recipes of [`Load::draw`](super::Load::draw).
    pub const ALL: &[Self] =
        &[Self::Mutex, Self::ReadWrite, Self::Semaphore(2), Self::Latch, Self::Simple];
    /// Those of [`Load::with_recipes`](super::Load::with_recipes).
    pub const MORE: &[Self] = &[
        Self::Multi,
        Self::Selector,
        Self::Mixed,
        Self::Bilingual,
        Self::Revocable,
        Self::SemaphoreMutex,
        Self::SharedSemaphore(3),
    ];

    /// The path of one of its locks.
    pub fn path(self, number: u64) -> String {
        match self {
            Self::Mutex => format!("/locks/mutex-{number}"),
            Self::ReadWrite => format!("/locks/read-write-{number}"),
            Self::Semaphore(permits) => format!("/locks/semaphore-{permits}-{number}"),
            Self::Latch => format!("/locks/latch-{number}"),
            Self::Simple => format!("/simple-{number}"),
            Self::Multi => format!("/locks/multi-{number}"),
            Self::Selector => format!("/locks/selector-{number}"),
            Self::Mixed => format!("/locks/mixed-{number}"),
            Self::Bilingual => format!("/locks/bilingual-{number}"),
            Self::Revocable => format!("/locks/revocable-{number}"),
            Self::SemaphoreMutex => format!("/locks/semaphore-mutex-{number}"),
            Self::SharedSemaphore(permits) => format!("/locks/shared-{permits}-{number}"),
        }
    }
}

/// How lock contenders of a run go about it.
#[derive(Clone, Debug)]
pub struct LockPlan {
    /// How many locks of each recipe there are.
    pub locks: u64,
    /// The resources that they guard.
    pub resources: GuardedResources,
    /// The session timeout to ask for; raw sessions draw their own.
    pub timeout: Duration,
    /// The longest wait between two attempts.
    pub think: Duration,
}

impl LockPlan {
    /// A contender for an exclusive lock.
    pub(super) fn contender(
        &self,
        machine: &ClientMachine,
        lock: String,
        stop: &watch::Receiver<bool>,
    ) -> Contender {
        Contender {
            client: machine.client,
            recorder: machine.recorder.clone(),
            resources: self.resources.clone(),
            lock,
            is_exclusive: true,
            timeout: self.timeout,
            stop: stop.clone(),
        }
    }
}

/// Contends by a recipe until it is to stop, with one client after another.
pub(super) async fn contend(
    machine: &ClientMachine,
    recipe: Recipe,
    plan: &LockPlan,
    stop: &watch::Receiver<bool>,
    chance: &mut Chance,
) {
    while !is_stopped(stop) {
        let Some(client) = connect(machine, plan, chance).await else {
            rest(stop, plan.think).await;
            continue;
        };
        // Servers may grant more than was asked for.
        let granted = Duration::from_millis(client.session().timeout_ms);
        let plan = LockPlan { timeout: granted, ..plan.clone() };
        let mut is_over = false;
        while !is_over && !is_stopped(stop) {
            let number = chance.between(0..=plan.locks.saturating_sub(1));
            let contender = plan.contender(machine, recipe.path(number), stop);
            is_over = match attempt(&client, (recipe, number), contender, chance).await {
                Ok(()) => false,
                Err(error) => error.ends_session(),
            };
            rest(stop, chance.up_to(plan.think)).await;
        }
        end(machine, client, plan.timeout, chance.one_in(2) || !is_stopped(stop)).await;
    }
}

/// Closes the session, or leaves it to its timeout.
pub(super) async fn end(machine: &ClientMachine, client: Client, limit: Duration, closes: bool) {
    if closes {
        // Without a server it waits: the session's timeout ends that.
        let _ = timeout(limit, client.close()).await;
    } else {
        let _ = timeout(limit, client.detach()).await;
        machine.recorder.note(What::ClientDied { client: machine.client });
    }
}

pub(super) async fn connect(
    machine: &ClientMachine,
    plan: &LockPlan,
    chance: &mut Chance,
) -> Option<Client> {
    let servers: Vec<&str> = machine.servers.iter().map(|(_, address)| address.as_str()).collect();
    let options = ClientOptions::new()
        .session_timeout(plan.timeout)
        .connect_timeout(plan.timeout)
        .connector(Recorded::of(machine))
        .seed(chance.number() | 1);
    options.connect(&servers.join(",")).await.ok()
}

/// Takes the lock of this number once, holds it and gives it back; with it, if it is of several, the
/// others.
async fn attempt(
    client: &Client,
    (recipe, number): (Recipe, u64),
    mut contender: Contender,
    chance: &mut Chance,
) -> Result<(), Error> {
    let is_reader = recipe == Recipe::ReadWrite && chance.one_in(2);
    let has_permits = matches!(recipe, Recipe::Semaphore(_) | Recipe::SharedSemaphore(_));
    contender.is_exclusive = !is_reader && !has_permits;
    let limit = contender.timeout * 2 + chance.up_to(contender.timeout * 6);
    let hold = draw_hold(chance, contender.timeout);
    let (path, options) = (contender.lock.as_str(), LockOptions::new().data("load"));
    let taken = match recipe {
        Recipe::Latch => return lead(&contender, client, limit, hold).await,
        Recipe::Selector => return selector::lead(&contender, client, limit, hold).await,
        Recipe::Multi => {
            let lock = multi_lock::Several::mutexes(client, contender, number);
            return lock.hold((limit, chance.one_in(3)), hold).await;
        }
        Recipe::Mixed => {
            let lock = multi_lock::Several::mixed(client, contender, number);
            return lock.hold((limit, chance.one_in(3)), hold).await;
        }
        Recipe::Bilingual => {
            let options = if chance.one_in(2) { options.bilingual() } else { options };
            contender.waits("mutex");
            more_locks::mutex(client, options, &contender, (limit, false)).await?
        }
        Recipe::Revocable => {
            let asks = chance.one_in(2);
            contender.waits("revocable");
            more_locks::mutex(client, options.revocable(), &contender, (limit, asks)).await?
        }
        Recipe::SemaphoreMutex => {
            more_locks::semaphore_mutex(client, options, &contender, limit).await?
        }
        Recipe::SharedSemaphore(permits) => {
            more_locks::shared_semaphore(client, permits, &contender, limit).await?
        }
        Recipe::Mutex => {
            contender.waits("mutex");
            let lock = Mutex::with_options(client, path, options);
            contender.acquire(limit, lock.acquire()).await?
        }
        Recipe::ReadWrite if is_reader => {
            contender.waits("read");
            let lock = ReadWriteLock::with_options(client, path, options);
            contender.acquire(limit, lock.read()).await?
        }
        Recipe::ReadWrite => {
            contender.waits("write");
            let lock = ReadWriteLock::with_options(client, path, options);
            contender.acquire(limit, lock.write()).await?.map(WriteGuard::into_guard)
        }
        Recipe::Semaphore(permits) => {
            contender.waits(&format!("semaphore {permits}"));
            let lock = Semaphore::with_options(client, path, permits, options);
            contender.acquire(limit, lock.acquire()).await?
        }
        Recipe::Simple => {
            contender.waits("simple");
            contender.acquire(limit, SimpleLock::new(client, path).acquire()).await?
        }
    };
    let Some(guard) = taken else { return Ok(()) };
    let heeds = recipe == Recipe::Revocable;
    // One who heeds requests gives its lock back at once.
    let writes_at_end = chance.one_in(4) && !heeds;
    hold_guard(&contender, guard, (hold, heeds), writes_at_end).await
}

/// Holds the lock, and gives it back sooner if it is asked for and that is heeded. Some write under it
/// in the end, whether or not it was lost.
async fn hold_guard(
    contender: &Contender,
    guard: LockGuard,
    (span, heeds): (Duration, bool),
    writes_at_end: bool,
) -> Result<(), Error> {
    let token = guard.token().get();
    contender.granted(token, guard.path(), guard.client().session().id);
    let lost = guard.lost();
    let holding = contender.hold(token, span, async move { _ = lost.await });
    let mut was_lost = tokio::select! {
        biased;
        was_lost = holding => was_lost,
        () = guard.revocation(), if heeds => false,
    };
    if writes_at_end {
        was_lost = guarded::write(&guard, contender, was_lost).await;
    }
    contender.release(token, was_lost, guard.release()).await
}

/// Leads once.
async fn lead(
    contender: &Contender,
    client: &Client,
    limit: Duration,
    span: Duration,
) -> Result<(), Error> {
    contender.waits("latch");
    let latch = LeaderLatch::start(client, &contender.lock, &contender.client.0.to_string());
    let Some(token) = contender.acquire(limit, latch.lead()).await? else {
        return contender.finish(latch.close()).await.unwrap_or(Ok(()));
    };
    // A term that is over already has no znode any more.
    let znode = match &*latch.standing().borrow() {
        LeadershipState::Leading { token: now, path } if *now == token => path.clone(),
        LeadershipState::Leading { .. }
        | LeadershipState::Waiting
        | LeadershipState::Ended(_)
        | _ => String::new(),
    };
    let token = token.get();
    contender.granted(token, &znode, client.session().id);
    let was_lost = contender.hold(token, span, latch.lost()).await;
    let closed = async { latch.close().await.map(|()| true) };
    contender.release(token, was_lost, closed).await
}
