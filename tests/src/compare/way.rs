//! The ways in which people lock: which store, which client, which recipe.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::store::System;
use crate::apache;
use crate::tools::{self, ToolError};

/// The program in which a way is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Client {
    /// `tests/examples/compare_client.rs`.
    Own,
    Curator,
    Go,
}

impl Client {
    /// What it needs besides the store, and the package of Debian that brings it.
    pub(super) const fn needs(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Own => &[],
            Self::Curator => &[("java", "openjdk-17-jdk-headless"), ("mvn", "maven")],
            Self::Go => &[("go", "golang-go")],
        }
    }

    /// Returns why the program cannot be built here, though all that it needs is installed.
    pub(super) fn too_old(self) -> Option<String> {
        if self != Self::Go {
            return None;
        }
        let directory = tools::interop_dir("compare").join("go");
        let needed = fs::read_to_string(directory.join("go.mod")).ok()?;
        let needed = needed.lines().find_map(|line| line.strip_prefix("go "))?.trim().to_owned();
        // In that directory, since a newer `go` takes the version that is asked for, if it can.
        let output = Command::new("go").arg("version").current_dir(&directory).output().ok()?;
        let found = String::from_utf8_lossy(&output.stdout).into_owned();
        let found = found.split_whitespace().find_map(|word| word.strip_prefix("go1."));
        let found = found.map_or_else(|| "an unknown version".to_owned(), |it| format!("1.{it}"));
        (numbers(&found) < numbers(&needed)).then(|| {
            format!("its programs are not built: they need Go {needed}, and `go` is {found}")
        })
    }

    /// Builds the program once.
    pub(super) fn build(self) -> Result<Command, ToolError> {
        match self {
            Self::Own => own(),
            Self::Curator => curator(),
            Self::Go => go(),
        }
    }
}

/// The numbers of a version; none for what is not one.
fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map_while(|number| number.parse().ok()).collect()
}

/// The one beside this program, which was built with it; for a test it is built now.
fn own() -> Result<Command, ToolError> {
    const NAME: &str = "compare_client";
    let beside = env::current_exe().ok().map(|program| program.with_file_name(NAME));
    match beside.filter(|program| program.is_file()) {
        Some(program) => Ok(Command::new(program)),
        None => tools::example(NAME),
    }
}

fn curator() -> Result<Command, ToolError> {
    let own = tools::interop_dir("compare").join("curator");
    let inputs = ["pom.xml", "Compare.java"].map(|file| own.join(file));
    let directory = tools::prepare_once("compare-curator", &inputs, |directory| {
        tools::run(Command::new("mvn").args(["-q", "-B", "compile"]).current_dir(directory))
    })?;
    let mut classpath: OsString = directory.join("classes").into_os_string();
    classpath.push(":");
    classpath.push(directory.join(Path::new("jars").join("*")));
    let mut command = apache::java(&classpath);
    // The compiler of a program that runs for long, as in the benchmark.
    command.args(["-XX:TieredStopAtLevel=4", "compare.Compare"]);
    Ok(command)
}

fn go() -> Result<Command, ToolError> {
    let own = tools::interop_dir("compare").join("go");
    let files = ["go.mod", "go.sum", "main.go", "etcd.go", "redis.go", "mariadb.go", "postgres.go"];
    let directory =
        tools::prepare_once("compare-go", &files.map(|file| own.join(file)), |directory| {
            tools::run(
                Command::new("go").args(["build", "-o", "compare", "."]).current_dir(directory),
            )
        })?;
    Ok(Command::new(directory.join("compare")))
}

/// A way to lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) name: &'static str,
    pub(super) system: System,
    pub(super) client: Client,
    pub(super) recipe: &'static str,
    pub(super) title: &'static str,
    /// Whether contenders exclude each other; those of a version column only refuse late writes.
    pub(super) excludes: bool,
    /// Whether holders renew their leases, where there are any.
    pub(super) renews: bool,
    /// Whether a short form measures it too.
    pub(super) is_main: bool,
}

const fn way(
    name: &'static str,
    system: System,
    client: Client,
    recipe: &'static str,
    title: &'static str,
) -> Way {
    Way { name, system, client, recipe, title, excludes: true, renews: true, is_main: true }
}

const fn minor(way: Way) -> Way {
    Way { is_main: false, ..way }
}

const fn unrenewed(way: Way) -> Way {
    Way { renews: false, ..way }
}

const fn version(way: Way) -> Way {
    Way { excludes: false, ..way }
}

use Client::{Curator, Go, Own};
use System::{Etcd, MariaDb, Postgres, Redis, RedisSynced, Redlock, ZooKeeper, Zoolet};

/// All ways, in the order in which they are shown.
#[rustfmt::skip]
pub(super) const WAYS: [Way; 26] = [
    way("zoolet-mutex", Zoolet, Own, "mutex", "zoolet, `Mutex`"),
    minor(way("zoolet-bilingual", Zoolet, Own, "bilingual", "zoolet, `Mutex`, bilingual")),
    minor(way("zoolet-write", Zoolet, Own, "write", "zoolet, `ReadWriteLock`, writers")),
    minor(way("zoolet-semaphore", Zoolet, Own, "semaphore-mutex", "zoolet, `SemaphoreMutex`")),
    minor(way("zoolet-multi", Zoolet, Own, "multi", "zoolet, `MultiLock` of two")),
    way("zoolet-simple", Zoolet, Own, "simple", "zoolet, `SimpleLock`"),
    way("zoolet-curator", Zoolet, Curator, "mutex", "zoolet, Curator `InterProcessMutex`"),
    minor(way("zoolet-curator-write", Zoolet, Curator, "write", "zoolet, Curator `InterProcessReadWriteLock`, writers")),
    minor(way("zoolet-curator-semaphore", Zoolet, Curator, "semaphore-mutex", "zoolet, Curator `InterProcessSemaphoreMutex`")),
    minor(way("zoolet-curator-multi", Zoolet, Curator, "multi", "zoolet, Curator `InterProcessMultiLock` of two")),
    way("zookeeper-curator", ZooKeeper, Curator, "mutex", "ZooKeeper, Curator `InterProcessMutex`"),
    way("etcd-mutex", Etcd, Go, "etcd", "etcd, `concurrency.Mutex` on a lease"),
    unrenewed(way("redis", Redis, Go, "redis", "Redis, `SET NX PX`")),
    way("redis-renewed", Redis, Go, "redis-renewed", "Redis, `SET NX PX`, renewed"),
    unrenewed(minor(way("redis-synced", RedisSynced, Go, "redis", "Redis synced, `SET NX PX`"))),
    way("redis-synced-renewed", RedisSynced, Go, "redis-renewed", "Redis synced, `SET NX PX`, renewed"),
    way("redlock", Redlock, Go, "redlock", "Redlock (redsync), renewed"),
    way("mariadb-row", MariaDb, Go, "mariadb-row", "MariaDB, row with an expiry"),
    version(way("mariadb-version", MariaDb, Go, "mariadb-version", "MariaDB, version column")),
    way("mariadb-for-update", MariaDb, Go, "mariadb-for-update", "MariaDB, `SELECT … FOR UPDATE`"),
    way("mariadb-get-lock", MariaDb, Go, "mariadb-get-lock", "MariaDB, `GET_LOCK`"),
    way("postgres-row", Postgres, Go, "postgres-row", "PostgreSQL, row with an expiry"),
    version(way("postgres-version", Postgres, Go, "postgres-version", "PostgreSQL, version column")),
    way("postgres-for-update", Postgres, Go, "postgres-for-update", "PostgreSQL, `SELECT … FOR UPDATE`"),
    way("postgres-advisory", Postgres, Go, "postgres-advisory", "PostgreSQL, advisory lock"),
    // It shows that the harness finds a lock that excludes no contender.
    minor(way("none", Zoolet, Own, "none", "no lock")),
];

/// The ways that are compared.
pub(super) fn shown() -> impl Iterator<Item = &'static Way> {
    WAYS.iter().filter(|way| way.name != NO_LOCK)
}

/// The way that excludes no contender.
pub(super) const NO_LOCK: &str = "none";

/// Ways of one store that one program has: their contenders share processes and faults.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) system: System,
    pub(super) client: Client,
    pub(super) ways: Vec<&'static Way>,
}

/// All groups of the page.
pub(super) fn groups() -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for way in shown() {
        let known = groups.iter_mut().find(|it| (it.system, it.client) == (way.system, way.client));
        match known {
            Some(group) => group.ways.push(way),
            None => {
                groups.push(Group { system: way.system, client: way.client, ways: vec![way] });
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert!(numbers("1.19.8") < numbers("1.26.0"));
        assert!(numbers("1.9") < numbers("1.26.0"));
        assert!(numbers("an unknown version") < numbers("1.26.0"));
        assert!(numbers("1.26.0") <= numbers("1.26.8"));
    }

    #[test]
    fn each_way_has_a_name_and_a_title_of_its_own() {
        let names: BTreeSet<_> = WAYS.iter().map(|way| way.name).collect();
        let titles: BTreeSet<_> = WAYS.iter().map(|way| way.title).collect();
        assert_eq!((names.len(), titles.len()), (WAYS.len(), WAYS.len()));
        let grouped: usize = groups().iter().map(|group| group.ways.len()).sum();
        assert_eq!(grouped, WAYS.len() - 1);
    }
}
