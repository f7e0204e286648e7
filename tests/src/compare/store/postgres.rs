//! `PostgreSQL`: one server.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use super::super::error::CompareError;
use super::daemon::{self, Daemon};
use super::mariadb::{give_to, is_root};
use super::{Store, StoreOptions};
use crate::ports::PortLease;
use crate::wait;

const NAME: &str = "PostgreSQL";
/// What a server writes that finds processes of its predecessor.
const SHARED_MEMORY_IN_USE: &str = "pre-existing shared memory block";
/// How long those may take to end.
const FREED_MAX: Duration = Duration::from_secs(30);
/// One call each: `CREATE DATABASE` cannot be part of a transaction.
const CREATE: [&str; 2] = ["CREATE ROLE locks LOGIN", "CREATE DATABASE locks OWNER locks"];
const TABLES: &str = "\
CREATE TABLE locks (name text PRIMARY KEY, owner text NOT NULL, expires timestamptz NOT NULL);
CREATE TABLE resources (name text PRIMARY KEY, version bigint NOT NULL);
GRANT ALL ON locks, resources TO locks;
CREATE EXTENSION pg_stat_statements;";

#[derive(Debug)]
pub(super) struct Postgres {
    daemon: Daemon,
    _directory: TempDir,
    _lease: PortLease,
}

impl Postgres {
    pub(super) fn start(options: &StoreOptions) -> Result<Self, CompareError> {
        let directory = tempfile::tempdir()?;
        let lease = PortLease::take(1)?;
        let port = lease.ports().first().copied().unwrap_or_default();
        let own = directory.path().to_owned();
        // The server refuses to be root's.
        let mut as_user: Vec<OsString> = Vec::new();
        if is_root(&own) {
            give_to(NAME, &own, "postgres")?;
            as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
                .map(Into::into)
                .to_vec();
        }
        let program = |name: &str| {
            let missing = || CompareError::store(NAME, format!("{name} is not installed"));
            daemon::find(name).map(OsString::from).ok_or_else(missing)
        };
        let data = own.join("data");
        let mut install = as_user.clone();
        install.push(program("initdb")?);
        install.extend(["-U", "postgres", "-A", "trust", "-D"].map(Into::into));
        install.push(data.clone().into_os_string());
        let mut words = install.iter();
        let mut command = Command::new(words.next().unwrap_or(&OsString::new()));
        daemon::output(NAME, command.args(words).current_dir("/"))?;
        let mut command = as_user;
        command.push(program("postgres")?);
        command.push("-D".into());
        command.push(data.into_os_string());
        command.extend(["-p".into(), port.to_string().into(), "-k".into()]);
        command.push(own.clone().into_os_string());
        command.extend(["-h", "127.0.0.1", "-N", "400"].map(Into::into));
        command.extend(["-c", "shared_preload_libraries=pg_stat_statements"].map(Into::into));
        let mut daemon = Daemon::new(NAME, own, port, command);
        daemon.clock.clone_from(&options.clock);
        let mut postgres = Self { daemon, _directory: directory, _lease: lease };
        postgres.restart(&[0])?;
        for statement in CREATE {
            ask(&postgres.daemon, "postgres", statement)?;
        }
        postgres.ask(TABLES)?;
        Ok(postgres)
    }

    fn ask(&self, statement: &str) -> Result<String, CompareError> {
        ask(&self.daemon, "locks", statement)
    }
}

fn ask(daemon: &Daemon, database: &str, statement: &str) -> Result<String, CompareError> {
    let mut client = Command::new("psql");
    client.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres"]);
    client.args(["-h", "127.0.0.1", "-p", &daemon.port.to_string(), "-d", database]);
    daemon::output(NAME, client.args(["-c", statement]))
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // A killed server leaves a segment of System V and files in /dev/shm behind.
        self.daemon.stop("INT");
    }
}

impl Store for Postgres {
    fn addresses(&self) -> Vec<SocketAddr> {
        vec![self.daemon.address()]
    }

    fn pids(&self) -> Vec<u32> {
        self.daemon.pid().into_iter().collect()
    }

    fn kill(&mut self, _: usize) -> Result<(), CompareError> {
        self.daemon.kill()
    }

    fn restart(&mut self, _: &[usize]) -> Result<(), CompareError> {
        // A start is refused as long as processes of the killed server have its shared memory.
        let started = wait::until(FREED_MAX, || {
            let serves = |daemon: &Daemon| ask(daemon, "postgres", "SELECT 1").is_ok();
            let result = self.daemon.spawn().and_then(|()| self.daemon.wait_until(serves));
            match result {
                Err(error) if error.to_string().contains(SHARED_MEMORY_IN_USE) => None,
                other => Some(other),
            }
        });
        let in_use = || Err(self.daemon.error("its shared memory stays in use"));
        started.unwrap_or_else(in_use)
    }

    fn leader(&self) -> usize {
        0
    }

    fn requests(&self) -> Result<u64, CompareError> {
        let text = self.ask("SELECT coalesce(sum(calls), 0) FROM pg_stat_statements")?;
        text.trim().parse().map_err(|_| self.daemon.error("no count of statements"))
    }

    fn remains(&self, lock: &str) -> Result<Vec<String>, CompareError> {
        let text = self.ask(&format!("SELECT name FROM locks WHERE name = '{lock}'"))?;
        let locks = text.lines().map(|_| "its row".to_owned());
        let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
        let held = self.ask(held)?.trim().parse::<usize>().unwrap_or(0);
        Ok(locks.chain((held > 0).then(|| format!("{held} advisory locks"))).collect())
    }

    fn version(&self) -> Result<String, CompareError> {
        Ok(self
            .ask("SHOW server_version")?
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned())
    }

    fn time_ms(&self, _: usize) -> Result<i64, CompareError> {
        let text = self.ask("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")?;
        text.trim().parse().map_err(|_| self.daemon.error("no time"))
    }

    fn jump(&mut self, _: usize, ahead_ms: u64) -> Result<(), CompareError> {
        self.daemon.jump(ahead_ms)
    }
}
