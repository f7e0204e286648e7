//! `MariaDB`: one server.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::super::error::CompareError;
use super::daemon::{self, Daemon};
use super::{Store, StoreOptions};
use crate::ports::PortLease;

const NAME: &str = "MariaDB";
const TABLES: &str = "\
CREATE DATABASE locks;
CREATE USER locks@'127.0.0.1' IDENTIFIED BY 'locks';
GRANT ALL ON locks.* TO locks@'127.0.0.1';
CREATE TABLE locks.locks
    (name VARCHAR(64) PRIMARY KEY, owner VARCHAR(64) NOT NULL, expires DATETIME(6) NOT NULL);
CREATE TABLE locks.resources (name VARCHAR(64) PRIMARY KEY, version BIGINT NOT NULL);";

#[derive(Debug)]
pub(super) struct MariaDb {
    daemon: Daemon,
    _directory: TempDir,
    _lease: PortLease,
}

impl MariaDb {
    pub(super) fn start(options: &StoreOptions) -> Result<Self, CompareError> {
        let directory = tempfile::tempdir()?;
        let lease = PortLease::take(1)?;
        let port = lease.ports().first().copied().unwrap_or_default();
        let own = directory.path().to_owned();
        let data = own.join("data");
        fs::create_dir(&data).map_err(CompareError::file(&data))?;
        let mut user = "--user=mysql".to_owned();
        if is_root(&own) {
            // The server must be able to get to its directory, which is its own.
            give_to(NAME, &own, "mysql")?;
        } else {
            user.clear();
        }
        let mut install = Command::new("mariadb-install-db");
        install.args([
            "--no-defaults",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ]);
        install
            .arg(format!("--datadir={}", data.display()))
            .args((!user.is_empty()).then_some(&user));
        daemon::output(NAME, &mut install)?;
        let program = daemon::find("mariadbd")
            .ok_or_else(|| CompareError::store(NAME, "mariadbd is not installed"))?;
        let mut command = vec![program.into_os_string(), "--no-defaults".into()];
        command.push(format!("--datadir={}", data.display()).into());
        command.push(format!("--socket={}", own.join("socket").display()).into());
        command.push(format!("--port={port}").into());
        command.extend(["--bind-address=127.0.0.1", "--max-connections=400"].map(Into::into));
        command.push("--innodb-flush-log-at-trx-commit=1".into());
        command.extend((!user.is_empty()).then(|| user.into()));
        let mut daemon = Daemon::new(NAME, own, port, command);
        daemon.clock.clone_from(&options.clock);
        let mut mariadb = Self { daemon, _directory: directory, _lease: lease };
        mariadb.restart(&[0])?;
        mariadb.ask(TABLES)?;
        Ok(mariadb)
    }

    fn ask(&self, statement: &str) -> Result<String, CompareError> {
        ask(&self.daemon, statement)
    }
}

fn ask(daemon: &Daemon, statement: &str) -> Result<String, CompareError> {
    let mut client = Command::new("mariadb");
    client.args(["--no-defaults", "-N", "-B", "-u", "root"]);
    client.arg(format!("--socket={}", daemon.directory.join("socket").display()));
    daemon::output(NAME, client.args(["-e", statement]))
}

/// Whether this process, whose directory this is, is root's.
pub(super) fn is_root(directory: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(directory).is_ok_and(|metadata| metadata.uid() == 0)
}

/// Gives a directory to the user of a server that refuses to be root's.
pub(super) fn give_to(
    store: &'static str,
    directory: &Path,
    user: &str,
) -> Result<(), CompareError> {
    daemon::output(store, Command::new("chown").args(["-R", user]).arg(directory)).map(drop)
}

impl Store for MariaDb {
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
        self.daemon.spawn()?;
        self.daemon.wait_until(|daemon| ask(daemon, "SELECT 1").is_ok())
    }

    fn leader(&self) -> usize {
        0
    }

    fn requests(&self) -> Result<u64, CompareError> {
        let text = self.ask("SHOW GLOBAL STATUS LIKE 'Questions'")?;
        let count = text.split_whitespace().nth(1).and_then(|text| text.parse().ok());
        count.ok_or_else(|| self.daemon.error("no count of questions"))
    }

    fn remains(&self, lock: &str) -> Result<Vec<String>, CompareError> {
        let text = self.ask(&format!("SELECT name FROM locks.locks WHERE name = '{lock}'"))?;
        let locks = text.lines().map(|_| "its row".to_owned());
        let held = self.ask(&format!("SELECT IS_USED_LOCK('{lock}')"))?;
        let held = (held.trim() != "NULL").then(|| "its user lock".to_owned());
        Ok(locks.chain(held).collect())
    }

    fn version(&self) -> Result<String, CompareError> {
        Ok(self.ask("SELECT VERSION()")?.trim().split('-').next().unwrap_or_default().to_owned())
    }

    fn time_ms(&self, _: usize) -> Result<i64, CompareError> {
        let text = self.ask("SELECT ROUND(UNIX_TIMESTAMP(NOW(6)) * 1000)")?;
        text.trim().parse().map_err(|_| self.daemon.error("no time"))
    }

    fn jump(&mut self, _: usize, ahead_ms: u64) -> Result<(), CompareError> {
        self.daemon.jump(ahead_ms)
    }
}
