//! What is contended for.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "most recipes are neither queues nor several locks"
)]

use std::fmt;
use std::str::FromStr;

use zoolet_client::recipes::QueueFormat;

/// A recipe under torture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recipe {
    /// [`Mutex`](zoolet_client::recipes::Mutex).
    Mutex,
    /// The same with [`bilingual`](zoolet_client::recipes::LockOptions::bilingual).
    Bilingual,
    /// [`SemaphoreMutex`](zoolet_client::recipes::SemaphoreMutex).
    SemaphoreMutex,
    /// [`ReadWriteLock`](zoolet_client::recipes::ReadWriteLock), and the way from a writer to a
    /// reader.
    ReadWriteLock,
    /// [`Semaphore`](zoolet_client::recipes::Semaphore) of two permits.
    Semaphore,
    /// The same of as many permits as a [`SharedCount`](zoolet_client::recipes::SharedCount) has,
    /// which contenders set to one and to two. No more than two hold it.
    SharedSemaphore,
    /// [`MultiLock`](zoolet_client::recipes::MultiLock) of two mutexes.
    MultiLock,
    /// [`MultiLock`](zoolet_client::recipes::MultiLock) of one lock each of four kinds.
    MixedLock,
    /// [`Mutex`](zoolet_client::recipes::Mutex) with
    /// [`revocable`](zoolet_client::recipes::LockOptions::revocable): holders are asked for it.
    Revocable,
    /// [`SimpleLock`](zoolet_client::recipes::SimpleLock).
    SimpleLock,
    /// [`LeaderLatch`](zoolet_client::recipes::LeaderLatch).
    LeaderLatch,
    /// [`LeaderSelector`](zoolet_client::recipes::LeaderSelector).
    LeaderSelector,
    /// [`Queue`](zoolet_client::recipes::Queue).
    Queue,
    /// The same in the form [`Distributed`](zoolet_client::recipes::QueueFormat::Distributed).
    DistributedQueue,
    /// The same in the form [`Kazoo`](zoolet_client::recipes::QueueFormat::Kazoo).
    KazooQueue,
    /// [`Counter`](zoolet_client::recipes::Counter).
    Counter,
    /// [`SharedCount`](zoolet_client::recipes::SharedCount), as a number that all contenders add to.
    SharedCount,
    /// [`Barrier`](zoolet_client::recipes::Barrier), set and removed by all contenders.
    Barrier,
    /// [`DoubleBarrier`](zoolet_client::recipes::DoubleBarrier), entered before the first fault and
    /// behind the last: it makes no promise about members that die.
    DoubleBarrier,
    /// [`Cache`](zoolet_client::recipes::Cache), of znodes that all contenders write.
    Cache,
    /// [`PersistentNode`](zoolet_client::recipes::PersistentNode), deleted by hand now and then.
    PersistentNode,
    /// [`GroupMember`](zoolet_client::recipes::GroupMember), of one group.
    GroupMember,
}

impl Recipe {
    /// All of them.
    pub const ALL: [Self; 22] = [
        Self::Mutex,
        Self::Bilingual,
        Self::SemaphoreMutex,
        Self::ReadWriteLock,
        Self::Semaphore,
        Self::SharedSemaphore,
        Self::MultiLock,
        Self::MixedLock,
        Self::Revocable,
        Self::SimpleLock,
        Self::LeaderLatch,
        Self::LeaderSelector,
        Self::Queue,
        Self::DistributedQueue,
        Self::KazooQueue,
        Self::Counter,
        Self::SharedCount,
        Self::Barrier,
        Self::DoubleBarrier,
        Self::Cache,
        Self::PersistentNode,
        Self::GroupMember,
    ];

    /// Its name on a command line and in a path.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Bilingual => "bilingual",
            Self::SemaphoreMutex => "semaphore-mutex",
            Self::ReadWriteLock => "read-write",
            Self::Semaphore => "semaphore",
            Self::SharedSemaphore => "shared-semaphore",
            Self::MultiLock => "multi",
            Self::MixedLock => "mixed-multi",
            Self::Revocable => "revocable",
            Self::SimpleLock => "simple",
            Self::LeaderLatch => "latch",
            Self::LeaderSelector => "selector",
            Self::Queue => "queue",
            Self::DistributedQueue => "distributed-queue",
            Self::KazooQueue => "kazoo-queue",
            Self::Counter => "counter",
            Self::SharedCount => "shared-count",
            Self::Barrier => "barrier",
            Self::DoubleBarrier => "double-barrier",
            Self::Cache => "cache",
            Self::PersistentNode => "persistent-node",
            Self::GroupMember => "group",
        }
    }

    /// The recipes of a list such as `mutex,latch`, or of `all`.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, UnknownRecipe> {
        if text == "all" {
            return Ok(Self::ALL.to_vec());
        }
        text.split(',').map(str::trim).map(Self::from_str).collect()
    }

    /// How many may hold it in exclusive mode.
    pub const fn permits(self) -> usize {
        if matches!(self, Self::Semaphore | Self::SharedSemaphore) { 2 } else { 1 }
    }

    /// Whether its grants come in the order of one queue.
    pub const fn is_fair(self) -> bool {
        matches!(
            self,
            Self::Mutex
                | Self::Bilingual
                | Self::MultiLock
                | Self::Revocable
                | Self::LeaderLatch
                | Self::LeaderSelector
        )
    }

    /// Whether it is a lock, with holders.
    pub const fn is_lock(self) -> bool {
        self.is_fair()
            || matches!(
                self,
                Self::SemaphoreMutex
                    | Self::ReadWriteLock
                    | Self::Semaphore
                    | Self::SharedSemaphore
                    | Self::MixedLock
                    | Self::SimpleLock
            )
    }

    /// The form of its items, if it is a queue of items.
    pub(crate) const fn queue_format(self) -> Option<QueueFormat> {
        match self {
            Self::Queue => Some(QueueFormat::Simple),
            Self::DistributedQueue => Some(QueueFormat::Distributed),
            Self::KazooQueue => Some(QueueFormat::Kazoo),
            _ => None,
        }
    }

    /// Whether it is kept over the whole run, instead of being taken turn after turn.
    pub const fn is_kept(self) -> bool {
        matches!(self, Self::Cache | Self::PersistentNode | Self::GroupMember)
    }
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A recipe that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown recipe {0:?}: expected all, {names}", names = names())]
pub struct UnknownRecipe(String);

fn names() -> String {
    Recipe::ALL.map(Recipe::name).join(", ")
}

impl FromStr for Recipe {
    type Err = UnknownRecipe;

    fn from_str(text: &str) -> Result<Self, UnknownRecipe> {
        let found = Self::ALL.into_iter().find(|recipe| recipe.name() == text);
        found.ok_or_else(|| UnknownRecipe(text.to_owned()))
    }
}

/// One lock, queue or counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The recipe's path.
    pub path: String,
    /// The recipe.
    pub recipe: Recipe,
    /// The recipe of which it is a part, or its own.
    pub whole: Recipe,
    /// Whether it is granted as soon as its turn comes: not so a part whose grant waits for others.
    pub is_last: bool,
}

impl Lock {
    /// A lock at a path.
    pub fn new(recipe: Recipe, path: String) -> Self {
        Self { path, recipe, whole: recipe, is_last: true }
    }

    /// The locks of its own that a grant of this one holds: a multi-lock has two.
    pub fn parts(&self) -> Vec<Self> {
        let recipes: &[Recipe] = match self.recipe {
            Recipe::MultiLock => &[Recipe::MultiLock, Recipe::MultiLock],
            Recipe::MixedLock => {
                &[Recipe::SimpleLock, Recipe::SemaphoreMutex, Recipe::ReadWriteLock, Recipe::Mutex]
            }
            _ => return vec![self.clone()],
        };
        let part = |(name, recipe): (char, &Recipe)| Self {
            path: format!("{}/{name}", self.path),
            recipe: *recipe,
            whole: self.recipe,
            is_last: false,
        };
        let mut parts: Vec<Self> = ('a'..).zip(recipes).map(part).collect();
        if let Some(last) = parts.last_mut() {
            last.is_last = true;
        }
        parts
    }

    /// Where the znodes of those who hold it and wait for it stand.
    pub fn dir(&self) -> String {
        if self.has_permits() {
            format!("{}/leases", self.path)
        } else if matches!(self.recipe, Recipe::SimpleLock | Recipe::Barrier) {
            self.path.rsplit_once('/').map_or_else(String::new, |(dir, _)| dir.to_owned())
        } else {
            self.path.clone()
        }
    }

    /// The directory where waiters queue, of whom a release wakes one.
    pub fn queue(&self) -> Option<String> {
        if self.has_permits() {
            return Some(format!("{}/locks", self.path));
        }
        let is_queue = self.recipe.is_fair() || self.recipe == Recipe::ReadWriteLock;
        is_queue.then(|| self.path.clone())
    }

    /// Whether those at the head of its queue wait for a lease.
    const fn has_permits(&self) -> bool {
        matches!(self.recipe, Recipe::Semaphore | Recipe::SharedSemaphore | Recipe::SemaphoreMutex)
    }

    /// What belongs to a recipe beside its path: the number of permits, the witnesses of writers.
    pub(crate) fn beside(&self, what: &str) -> String {
        format!("{}-{what}", self.path)
    }

    /// Whether a znode of [`dir`](Self::dir) keeps others from holding the lock: all of them, or
    /// readers too.
    pub fn blocks(&self, name: &str) -> Option<Blocks> {
        let with = |base: &str| name.contains(base).then_some(Blocks::All);
        match self.recipe {
            Recipe::Mutex
            | Recipe::Bilingual
            | Recipe::MultiLock
            | Recipe::Revocable
            | Recipe::LeaderSelector => with("-lock-"),
            Recipe::SemaphoreMutex | Recipe::Semaphore | Recipe::SharedSemaphore => with("-lease-"),
            Recipe::LeaderLatch => with("-latch-"),
            Recipe::ReadWriteLock if name.contains("__READ__") => Some(Blocks::Writers),
            Recipe::ReadWriteLock => with("__WRIT__"),
            Recipe::SimpleLock => self.path.ends_with(&format!("/{name}")).then_some(Blocks::All),
            Recipe::MixedLock
            | Recipe::Queue
            | Recipe::DistributedQueue
            | Recipe::KazooQueue
            | Recipe::Counter
            | Recipe::SharedCount
            | Recipe::Barrier
            | Recipe::DoubleBarrier
            | Recipe::Cache
            | Recipe::PersistentNode
            | Recipe::GroupMember => None,
        }
    }
}

/// Whom a znode in a queue keeps from holding the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// All behind it.
    All,
    /// Writers behind it.
    Writers,
}
