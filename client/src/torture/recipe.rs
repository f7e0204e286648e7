//! What is contended for.

use std::fmt;
use std::str::FromStr;

/// A recipe under torture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recipe {
    /// [`Mutex`](crate::recipes::Mutex).
    Mutex,
    /// The same with [`bilingual`](crate::recipes::LockOptions::bilingual).
    Bilingual,
    /// [`SemaphoreMutex`](crate::recipes::SemaphoreMutex).
    SemaphoreMutex,
    /// [`ReadWriteLock`](crate::recipes::ReadWriteLock), and the way from a writer to a reader.
    ReadWriteLock,
    /// [`Semaphore`](crate::recipes::Semaphore) of two permits.
    Semaphore,
    /// [`MultiLock`](crate::recipes::MultiLock) of two mutexes.
    MultiLock,
    /// [`SimpleLock`](crate::recipes::SimpleLock).
    SimpleLock,
    /// [`LeaderLatch`](crate::recipes::LeaderLatch).
    LeaderLatch,
    /// [`LeaderSelector`](crate::recipes::LeaderSelector).
    LeaderSelector,
    /// [`Queue`](crate::recipes::Queue).
    Queue,
    /// [`Counter`](crate::recipes::Counter).
    Counter,
    /// [`DoubleBarrier`](crate::recipes::DoubleBarrier), entered before the first fault and behind
    /// the last: it makes no promise about members that die.
    DoubleBarrier,
}

impl Recipe {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Mutex,
        Self::Bilingual,
        Self::SemaphoreMutex,
        Self::ReadWriteLock,
        Self::Semaphore,
        Self::MultiLock,
        Self::SimpleLock,
        Self::LeaderLatch,
        Self::LeaderSelector,
        Self::Queue,
        Self::Counter,
        Self::DoubleBarrier,
    ];

    /// Its name on a command line and in a path.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Bilingual => "bilingual",
            Self::SemaphoreMutex => "semaphore-mutex",
            Self::ReadWriteLock => "read-write",
            Self::Semaphore => "semaphore",
            Self::MultiLock => "multi",
            Self::SimpleLock => "simple",
            Self::LeaderLatch => "latch",
            Self::LeaderSelector => "selector",
            Self::Queue => "queue",
            Self::Counter => "counter",
            Self::DoubleBarrier => "barrier",
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
        match self {
            Self::Semaphore => 2,
            Self::Mutex
            | Self::Bilingual
            | Self::SemaphoreMutex
            | Self::ReadWriteLock
            | Self::MultiLock
            | Self::SimpleLock
            | Self::LeaderLatch
            | Self::LeaderSelector
            | Self::Queue
            | Self::Counter
            | Self::DoubleBarrier => 1,
        }
    }

    /// Whether its grants come in the order of a queue and a release wakes one.
    pub const fn is_fair(self) -> bool {
        match self {
            Self::Mutex
            | Self::Bilingual
            | Self::MultiLock
            | Self::LeaderLatch
            | Self::LeaderSelector => true,
            Self::SemaphoreMutex
            | Self::ReadWriteLock
            | Self::Semaphore
            | Self::SimpleLock
            | Self::Queue
            | Self::Counter
            | Self::DoubleBarrier => false,
        }
    }

    /// Whether it is a lock, with holders.
    pub const fn is_lock(self) -> bool {
        !matches!(self, Self::Queue | Self::Counter | Self::DoubleBarrier)
    }
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A recipe that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no recipe {0:?}; there are all, {names}", names = names())]
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
}

impl Lock {
    /// A lock at a path.
    pub fn new(recipe: Recipe, path: String) -> Self {
        Self { path, recipe }
    }

    /// The locks of its own that a grant of this one holds: a multi-lock has two.
    pub fn parts(&self) -> Vec<Self> {
        if self.recipe == Recipe::MultiLock {
            let part = |name| Self::new(self.recipe, format!("{}/{name}", self.path));
            vec![part("a"), part("b")]
        } else {
            vec![self.clone()]
        }
    }

    /// Where the znodes of those who hold it and wait for it stand.
    pub fn dir(&self) -> String {
        match self.recipe {
            Recipe::Semaphore | Recipe::SemaphoreMutex => format!("{}/leases", self.path),
            Recipe::SimpleLock => {
                self.path.rsplit_once('/').map_or_else(String::new, |(dir, _)| dir.to_owned())
            }
            Recipe::Mutex
            | Recipe::Bilingual
            | Recipe::ReadWriteLock
            | Recipe::MultiLock
            | Recipe::LeaderLatch
            | Recipe::LeaderSelector
            | Recipe::Queue
            | Recipe::Counter
            | Recipe::DoubleBarrier => self.path.clone(),
        }
    }

    /// Whether a znode of [`dir`](Self::dir) keeps others from holding the lock: all of them, or
    /// readers too.
    pub fn blocks(&self, name: &str) -> Option<Blocks> {
        let with = |base: &str| name.contains(base).then_some(Blocks::Everybody);
        match self.recipe {
            Recipe::Mutex | Recipe::Bilingual | Recipe::MultiLock | Recipe::LeaderSelector => {
                with("-lock-")
            }
            Recipe::SemaphoreMutex | Recipe::Semaphore => with("-lease-"),
            Recipe::LeaderLatch => with("-latch-"),
            Recipe::ReadWriteLock if name.contains("__READ__") => Some(Blocks::Writers),
            Recipe::ReadWriteLock => with("__WRIT__"),
            Recipe::SimpleLock => {
                self.path.ends_with(&format!("/{name}")).then_some(Blocks::Everybody)
            }
            Recipe::Queue => with("qn-"),
            Recipe::Counter | Recipe::DoubleBarrier => None,
        }
    }
}

/// Whom a znode in a queue keeps from holding the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// Everybody behind it.
    Everybody,
    /// Writers behind it.
    Writers,
}
