//! Users of those recipes of zoolet's client that are not locks, each with a client of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use zoolet_client::recipes::{Cache, Counter, DoubleBarrier, Queue, QueueFormat, SharedCount};
use zoolet_client::{Client, CreateMode, Error, Version};

use super::chance::Chance;
use super::locks::{self, LockPlan};
use super::stop::{is_stopped, out_of_time, rest};
use super::{ClientMachine, Load, Role, gate, group};
use crate::history::{RecipeStep, What};

/// A recipe that is not a lock. Its users meet at one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Structure {
    /// [`Queue`].
    Queue,
    /// [`Queue`] in the format of Curator's queue with priorities.
    DistributedQueue,
    /// [`Queue`] in kazoo's format.
    KazooQueue,
    /// [`Counter`].
    Counter,
    /// [`SharedCount`].
    SharedCount,
    /// [`Barrier`](zoolet_client::recipes::Barrier).
    Gate,
    /// [`DoubleBarrier`], one behind another.
    Barrier,
    /// [`Cache`], and writes to the tree that it follows.
    Cache,
    /// [`GroupMember`](zoolet_client::recipes::GroupMember).
    Group,
}

impl Structure {
    /// Every one.
    pub const ALL: &[Self] = &[
        Self::Queue,
        Self::DistributedQueue,
        Self::KazooQueue,
        Self::Counter,
        Self::SharedCount,
        Self::Gate,
        Self::Barrier,
        Self::Cache,
        Self::Group,
    ];

    /// Its path.
    pub fn path(self) -> &'static str {
        match self {
            Self::Queue => "/recipes/queue",
            Self::DistributedQueue => "/recipes/distributed-queue",
            Self::KazooQueue => "/recipes/kazoo-queue",
            Self::Counter => "/recipes/counter",
            Self::SharedCount => "/recipes/shared-count",
            Self::Gate => "/recipes/gate",
            Self::Barrier => "/recipes/barrier",
            Self::Cache => "/recipes/tree",
            Self::Group => "/recipes/group",
        }
    }

    /// How the items of a queue are written.
    fn format(self) -> QueueFormat {
        if self == Self::DistributedQueue {
            QueueFormat::Distributed
        } else if self == Self::KazooQueue {
            QueueFormat::Kazoo
        } else {
            QueueFormat::Simple
        }
    }
}

/// The rounds of the double barrier, each at a path of its own. Clones are the same rounds.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    now: Arc<AtomicU64>,
}

impl Rounds {
    fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// All meet in a later one.
    fn end(&self, round: u64) {
        self.now.fetch_max(round + 1, Ordering::Relaxed);
    }
}

/// How long after the order to stop a cache is looked at: the sessions of the others have ended then,
/// and their ephemeral znodes are gone.
pub(super) const QUIET: Duration = Duration::from_secs(12);

/// The most znodes that users of a cache create.
const ZNODES_MAX: u64 = 8;

/// A user of a recipe, with the client that it has now.
pub(super) struct User<'a> {
    pub(super) machine: &'a ClientMachine,
    pub(super) client: &'a Client,
    pub(super) load: &'a Load,
    /// The session timeout.
    pub(super) timeout: Duration,
    pub(super) stop: &'a watch::Receiver<bool>,
}

/// Uses a recipe until it is to stop, with one client after another.
pub(super) async fn run(
    machine: &ClientMachine,
    structure: Structure,
    load: &Load,
    stop: &watch::Receiver<bool>,
    chance: &mut Chance,
) {
    let plan: &LockPlan = &load.locks;
    while !is_stopped(stop) {
        let Some(client) = locks::connect(machine, plan, chance).await else {
            rest(stop, plan.think).await;
            continue;
        };
        // Servers may grant more than was asked for.
        let timeout = Duration::from_millis(client.session().timeout_ms);
        let user = User { machine, client: &client, load, timeout, stop };
        if structure == Structure::Cache {
            user.follow(chance).await;
        } else if structure == Structure::Group {
            group::be_member(&user, structure.path(), chance).await;
        } else {
            user.turns(structure, chance).await;
        }
        let closes = chance.one_in(2) || !is_stopped(stop);
        locks::end(machine, client, timeout, closes).await;
    }
}

impl User<'_> {
    pub(super) fn note(&self, path: &str, step: RecipeStep) {
        let path = path.to_owned();
        self.machine.recorder.note(What::Recipe { client: self.machine.client, path, step });
    }

    /// Waits for something, and not for long once it is to stop.
    pub(super) async fn finish<T>(
        &self,
        something: impl Future<Output = Result<T, Error>>,
    ) -> Result<Option<T>, Error> {
        tokio::select! {
            biased;
            it = something => it.map(Some),
            () = out_of_time(self.stop, self.timeout) => Ok(None),
        }
    }

    /// One turn after another, until the session or the program is to end.
    async fn turns(&self, structure: Structure, chance: &mut Chance) {
        let path = structure.path();
        while !is_stopped(self.stop) {
            let turn = match structure {
                Structure::Queue | Structure::DistributedQueue | Structure::KazooQueue => {
                    let queue = Queue::with_format(self.client, path, structure.format());
                    if chance.one_in(2) {
                        self.put(path, (queue, structure), chance).await
                    } else {
                        self.take(path, queue, chance).await
                    }
                }
                Structure::Counter => {
                    self.add(path, Counter::new(self.client, path).increment()).await
                }
                Structure::SharedCount => self.add(path, self.count(path)).await,
                Structure::Gate => gate::take_turn(self, path, chance).await,
                Structure::Barrier | Structure::Cache | Structure::Group => {
                    self.meet(path, chance).await
                }
            };
            if turn.is_err_and(|error| error.ends_session()) {
                return;
            }
            rest(self.stop, chance.up_to(self.load.locks.think)).await;
        }
    }

    /// Puts up to three items, one behind another, so that takes find some to choose from.
    async fn put(
        &self,
        path: &str,
        (queue, structure): (Queue, Structure),
        chance: &mut Chance,
    ) -> Result<(), Error> {
        for _ in 0..chance.between(1..=3) {
            let item = format!("{}-{:x}", self.machine.client.0, chance.number()).into_bytes();
            let has_priority = structure != Structure::Queue && chance.one_in(3);
            let priority =
                has_priority.then(|| i32::try_from(chance.between(0..=999)).unwrap_or(0));
            let putting = async {
                match priority {
                    Some(priority) => queue.put_with_priority(&item, priority).await,
                    None => queue.put(&item).await,
                }
            };
            self.note(path, RecipeStep::Puts { item: item.clone().into() });
            if self.finish(putting).await?.is_none() {
                break;
            }
            self.note(path, RecipeStep::Put { item: item.into() });
        }
        Ok(())
    }

    /// Takes an item, and as often as not another one through the same handle, which may know the queue
    /// from before.
    async fn take(&self, path: &str, queue: Queue, chance: &mut Chance) -> Result<(), Error> {
        loop {
            self.note(path, RecipeStep::Takes);
            let limit = chance.up_to(self.timeout);
            let taking = async {
                match queue.take_timeout(limit).await? {
                    // What the take had taken when its time was over comes out now.
                    None => queue.try_take().await,
                    taken => Ok(taken),
                }
            };
            let Some(item) = self.finish(taking).await? else { return Ok(()) };
            let is_last = item.is_none() || is_stopped(self.stop) || chance.one_in(2);
            self.note(path, RecipeStep::Took { item });
            if is_last {
                return Ok(());
            }
            rest(self.stop, chance.up_to(self.load.locks.think)).await;
        }
    }

    async fn add(
        &self,
        path: &str,
        adding: impl Future<Output = Result<i64, Error>>,
    ) -> Result<(), Error> {
        self.note(path, RecipeStep::Adds);
        if let Some(sum) = self.finish(adding).await? {
            self.note(path, RecipeStep::Added { sum });
        }
        Ok(())
    }

    /// Adds one to a number that is compared and set.
    async fn count(&self, path: &str) -> Result<i64, Error> {
        let count = SharedCount::new(self.client, path, 0);
        loop {
            let before = count.get().await?;
            let sum = before.value + 1;
            if count.try_set(before, sum).await? {
                return Ok(i64::from(sum));
            }
        }
    }

    /// Enters a round of the barrier with the others, and leaves it. Who waits in vain gives up, and
    /// all meet in the next round.
    async fn meet(&self, path: &str, chance: &mut Chance) -> Result<(), Error> {
        let is_member = |role: &&Role| **role == Role::Structure(Structure::Barrier);
        let members = self.load.roles.iter().filter(is_member).count();
        let round = self.load.rounds.now();
        let path = format!("{path}/{round}");
        let passed = self.pass(&path, members, chance).await;
        self.load.rounds.end(round);
        passed
    }

    async fn pass(&self, path: &str, members: usize, chance: &mut Chance) -> Result<(), Error> {
        let barrier = DoubleBarrier::new(self.client, path, members);
        self.note(path, RecipeStep::Enters { members });
        let Some(Some(entered)) = self.finish(barrier.enter_timeout(self.timeout * 2)).await?
        else {
            return Ok(());
        };
        self.note(path, RecipeStep::Entered { session: self.client.session().id });
        rest(self.stop, chance.up_to(self.timeout / 4)).await;
        self.note(path, RecipeStep::Leaves);
        if self.finish(entered.leave_timeout(self.timeout * 2)).await? == Some(true) {
            self.note(path, RecipeStep::Left);
        }
        Ok(())
    }

    /// Follows the tree with a cache, and changes it. When all is quiet, it says what the cache shows,
    /// if the session is still there.
    async fn follow(&self, chance: &mut Chance) {
        let root = Structure::Cache.path();
        let cache = Cache::start(self.client, root);
        while !is_stopped(self.stop) {
            let changed = self.finish(self.change(root, chance)).await;
            if changed.is_err_and(|error| error.ends_session()) {
                return;
            }
            rest(self.stop, chance.up_to(self.load.locks.think)).await;
        }
        sleep(QUIET).await;
        if !cache.is_ready() {
            return;
        }
        let shown = cache.snapshot().into_iter();
        let znodes: BTreeMap<_, _> =
            shown.map(|(path, node)| (path, (node.stat.mzxid, node.data))).collect();
        self.note(root, RecipeStep::Shows { znodes });
    }

    async fn change(&self, root: &str, chance: &mut Chance) -> Result<(), Error> {
        let mut path = format!("{root}/{}", chance.between(0..=ZNODES_MAX));
        let data = chance.number().to_be_bytes();
        if chance.one_in(3) {
            path = format!("{path}/{}", chance.between(0..=ZNODES_MAX));
        }
        match chance.between(0..=5) {
            0 => self.client.create("/recipes", b"", CreateMode::Persistent).await.map(drop),
            1 => self.client.create(root, b"", CreateMode::Persistent).await.map(drop),
            2 => self.client.create(&path, &data, CreateMode::Persistent).await.map(drop),
            3 => self.client.create(&path, &data, CreateMode::Ephemeral).await.map(drop),
            4 => self.client.set_data(&path, &data, Version::Any).await.map(drop),
            _ => self.client.delete(&path, Version::Any).await,
        }
    }
}
