//! The stores: real servers, each from its distribution's package or registry.

mod daemon;
mod etcd;
mod mariadb;
mod postgres;
mod redis;
mod zookeeper;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::error::CompareError;
pub(super) use daemon::find;
pub(super) use redis::Pair;

/// A system that locks are kept in, as it is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum System {
    Zoolet,
    ZooKeeper,
    Etcd,
    Redis,
    /// Redis that syncs each write.
    RedisSynced,
    Redlock,
    MariaDb,
    Postgres,
}

/// All of them, in the order in which they are shown.
pub(super) const SYSTEMS: [System; 8] = [
    System::Zoolet,
    System::ZooKeeper,
    System::Etcd,
    System::Redis,
    System::RedisSynced,
    System::Redlock,
    System::MariaDb,
    System::Postgres,
];

impl System {
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Zoolet => "zoolet",
            Self::ZooKeeper => "Apache ZooKeeper",
            Self::Etcd => "etcd",
            Self::Redis => "Redis",
            Self::RedisSynced => "Redis, appendfsync always",
            Self::Redlock => "Redlock",
            Self::MariaDb => "MariaDB",
            Self::Postgres => "PostgreSQL",
        }
    }

    /// How it is set up, and when a write is durable.
    pub(super) const fn configuration(self) -> &'static str {
        match self {
            Self::ZooKeeper => {
                "three servers (heap of 256 MiB each, serial collector, `tickTime=500`); each write is \
                 synced by a majority before it is answered (`forceSync=yes`)"
            }
            Self::Zoolet => {
                "three servers (`tickTime=500`); each write is synced by a majority before it is \
                 answered"
            }
            Self::Etcd => "three servers; each write is synced by a majority before it is answered",
            Self::Redis => {
                "one server, the program's defaults: snapshots (`save 3600 1 300 100 60 10000`), no \
                 append-only file; a write is answered before it is on disk"
            }
            Self::RedisSynced => {
                "one server; `appendonly yes`, `appendfsync always`: each write is synced before it \
                 is answered"
            }
            Self::Redlock => {
                "five servers that do not know each other, each with the program's defaults"
            }
            Self::MariaDb => {
                "one server; InnoDB, `innodb_flush_log_at_trx_commit=1`: each commit is synced; \
                 `max_connections=400`"
            }
            Self::Postgres => {
                "one server; `fsync=on`, `synchronous_commit=on`: each commit is synced; \
                 `max_connections=400`, `pg_stat_statements` preloaded"
            }
        }
    }

    /// The programs that it needs, and the package of Debian that brings each.
    pub(super) const fn needs(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Zoolet => &[],
            Self::ZooKeeper => &[("java", "openjdk-17-jdk-headless"), ("mvn", "maven")],
            Self::Etcd => &[("etcd", "etcd-server"), ("etcdctl", "etcd-client")],
            Self::Redis | Self::RedisSynced | Self::Redlock => &[("redis-server", "redis-server")],
            Self::MariaDb => &[("mariadbd", "mariadb-server"), ("mariadb", "mariadb-client")],
            Self::Postgres => &[("psql", "postgresql-client"), ("initdb", "postgresql")],
        }
    }

    pub(super) fn start(self, options: &StoreOptions) -> Result<Box<dyn Store>, CompareError> {
        Ok(match self {
            Self::Zoolet | Self::ZooKeeper => Box::new(zookeeper::start(self, options)?),
            Self::Etcd => Box::new(etcd::Etcd::start()?),
            Self::Redis | Self::RedisSynced => Box::new(redis::Redis::start(self, 1, options)?),
            Self::Redlock => Box::new(redis::Redis::start(self, 5, options)?),
            Self::MariaDb => Box::new(mariadb::MariaDb::start(options)?),
            Self::Postgres => Box::new(postgres::Postgres::start(options)?),
        })
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

/// What differs between the starts of a store.
#[derive(Clone, Debug, Default)]
pub(super) struct StoreOptions {
    /// A library that makes the clock wrong which each server sees; see [`Store::jump`].
    pub(super) clock: Option<PathBuf>,
}

/// Running servers of one system. They end when they are dropped.
pub(super) trait Store: fmt::Debug + Send {
    /// Where clients connect to, for each server.
    fn addresses(&self) -> Vec<SocketAddr>;

    /// The main process of each server that runs.
    fn pids(&self) -> Vec<u32>;

    /// `kill -9` of a server.
    fn kill(&mut self, server: usize) -> Result<(), CompareError>;

    /// Starts killed servers on their data, and waits until they serve.
    fn restart(&mut self, servers: &[usize]) -> Result<(), CompareError>;

    /// The server whose loss changes the most: the leader, if there is one.
    fn leader(&self) -> usize;

    /// The requests that all servers have received from clients so far.
    fn requests(&self) -> Result<u64, CompareError>;

    /// What the store keeps of a lock.
    fn remains(&self, lock: &str) -> Result<Vec<String>, CompareError>;

    fn version(&self) -> Result<String, CompareError>;

    /// The time of one server's wall clock, in milliseconds since 1970, as it has it for itself.
    fn time_ms(&self, server: usize) -> Result<i64, CompareError>;

    /// Sets the wall clock of one server so far ahead; the store was started with
    /// [`StoreOptions::clock`].
    fn jump(&mut self, server: usize, ahead_ms: u64) -> Result<(), CompareError>;
}
