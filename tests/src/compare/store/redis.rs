//! Redis: one server, five for Redlock, or a primary with a replica.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use tokio::runtime::Handle;

use super::super::error::CompareError;
use super::super::link::Link;
use super::daemon::{self, Daemon};
use super::{Store, StoreOptions, System};
use crate::ports::PortLease;
use crate::wait;

const NAME: &str = "Redis";
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How long the first copy of an empty server may take.
const COPIED_MAX: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Redis {
    daemons: Vec<Daemon>,
    _directory: TempDir,
    _lease: PortLease,
}

impl Redis {
    pub(super) fn start(
        system: System,
        count: usize,
        options: &StoreOptions,
    ) -> Result<Self, CompareError> {
        let directory = tempfile::tempdir()?;
        let lease = PortLease::take(count)?;
        let mut daemons = Vec::new();
        for (server, port) in lease.ports().iter().enumerate() {
            let own = directory.path().join(format!("s{server}"));
            fs::create_dir(&own).map_err(CompareError::file(&own))?;
            let number = port.to_string();
            let mut words = vec!["redis-server", "--port", &number, "--bind", "127.0.0.1"];
            if system == System::RedisSynced {
                words.extend(["--appendonly", "yes", "--appendfsync", "always"]);
            }
            let command = words.into_iter().map(Into::into).collect();
            let mut daemon = Daemon::new(NAME, own, *port, command);
            daemon.clock.clone_from(&options.clock);
            daemons.push(daemon);
        }
        let mut redis = Self { daemons, _directory: directory, _lease: lease };
        redis.restart(&(0..count).collect::<Vec<_>>())?;
        Ok(redis)
    }
}

/// Sends one command, and returns the lines of its answer.
fn ask(address: SocketAddr, command: &str) -> std::io::Result<Vec<String>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let first = first.trim_end();
    let count = first.get(1..).and_then(|text| text.parse::<usize>().ok()).unwrap_or(0);
    match first.get(..1) {
        Some("$") => {
            let mut text = vec![0; count];
            reader.read_exact(&mut text)?;
            Ok(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect())
        }
        Some("*") => {
            let lines = reader.lines().take(count * 2).collect::<Result<Vec<_>, _>>()?;
            Ok(lines.into_iter().skip(1).step_by(2).collect())
        }
        _ => Ok(vec![first.to_owned()]),
    }
}

/// The calls in the answer of `INFO commandstats`, without those of the harness. Commands that a
/// script runs are part of its request.
fn calls(lines: &[String]) -> u64 {
    let requests = lines.iter().filter_map(|line| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(':')?;
        let is_request = ["set", "evalsha", "eval"].contains(&name);
        let calls = rest.strip_prefix("calls=")?.split(',').next()?;
        is_request.then(|| calls.parse::<u64>().ok())?
    });
    requests.sum()
}

impl Store for Redis {
    fn addresses(&self) -> Vec<SocketAddr> {
        self.daemons.iter().map(Daemon::address).collect()
    }

    fn pids(&self) -> Vec<u32> {
        self.daemons.iter().filter_map(Daemon::pid).collect()
    }

    fn kill(&mut self, server: usize) -> Result<(), CompareError> {
        self.daemons.get_mut(server).map_or(Ok(()), Daemon::kill)
    }

    fn restart(&mut self, servers: &[usize]) -> Result<(), CompareError> {
        for server in servers {
            self.daemons.get_mut(*server).map_or(Ok(()), Daemon::spawn)?;
        }
        for server in servers {
            let Some(daemon) = self.daemons.get_mut(*server) else { continue };
            daemon.wait_until(|daemon| {
                ask(daemon.address(), "PING").is_ok_and(|lines| lines == ["+PONG"])
            })?;
        }
        Ok(())
    }

    fn leader(&self) -> usize {
        0
    }

    fn requests(&self) -> Result<u64, CompareError> {
        let mut sum = 0;
        for daemon in &self.daemons {
            let lines = ask(daemon.address(), "INFO commandstats");
            sum += calls(&lines.map_err(|error| daemon.error(error))?);
        }
        Ok(sum)
    }

    fn remains(&self, lock: &str) -> Result<Vec<String>, CompareError> {
        let mut found = Vec::new();
        for daemon in &self.daemons {
            let keys = ask(daemon.address(), &format!("KEYS {lock}"));
            found.extend(keys.map_err(|error| daemon.error(error))?);
        }
        Ok(found)
    }

    fn version(&self) -> Result<String, CompareError> {
        let text = daemon::output(NAME, Command::new("redis-server").arg("--version"))?;
        let version = text.split_whitespace().find_map(|word| word.strip_prefix("v="));
        Ok(version.unwrap_or("unknown").to_owned())
    }

    fn time_ms(&self, server: usize) -> Result<i64, CompareError> {
        let daemon = self.daemons.get(server).ok_or_else(none)?;
        let words = ask(daemon.address(), "TIME").map_err(|error| daemon.error(error))?;
        let seconds = words.first().and_then(|word| word.parse::<i64>().ok());
        seconds.map(|seconds| seconds * 1_000).ok_or_else(|| daemon.error("no time"))
    }

    fn jump(&mut self, server: usize, ahead_ms: u64) -> Result<(), CompareError> {
        self.daemons.get(server).map_or(Ok(()), |daemon| daemon.jump(ahead_ms))
    }
}

/// A primary, and a replica that follows it through a link.
#[derive(Debug)]
pub(in super::super) struct Pair {
    redis: Redis,
    replication: Link,
}

impl Pair {
    pub(in super::super) fn start(system: System, runtime: &Handle) -> Result<Self, CompareError> {
        let redis = Redis::start(system, 2, &StoreOptions::default())?;
        let replication =
            Link::start(runtime, redis.addresses().into_iter().next().ok_or_else(none)?)?;
        let pair = Self { redis, replication };
        let (port, replica) = (pair.replication.address().port(), pair.replica()?);
        let error = |error| CompareError::store(NAME, error);
        ask(replica, &format!("REPLICAOF 127.0.0.1 {port}")).map_err(error)?;
        let is_copy = || {
            let lines = ask(replica, "INFO replication").ok()?;
            lines.iter().any(|line| line == "master_link_status:up").then_some(())
        };
        wait::until(COPIED_MAX, is_copy)
            .ok_or_else(|| CompareError::store(NAME, "the replica does not follow"))?;
        Ok(pair)
    }

    pub(in super::super) fn primary(&self) -> Result<SocketAddr, CompareError> {
        self.redis.addresses().first().copied().ok_or_else(none)
    }

    pub(in super::super) fn replica(&self) -> Result<SocketAddr, CompareError> {
        self.redis.addresses().get(1).copied().ok_or_else(none)
    }

    /// Has what the primary writes not reach the replica any more.
    pub(in super::super) fn falls_behind(&self) {
        self.replication.silence();
    }

    /// Waits until the replica has a number of locks; returns whether it has them.
    pub(in super::super) fn has_copied(&self, locks: usize) -> Result<bool, CompareError> {
        let replica = self.replica()?;
        let has_all = || {
            let keys = ask(replica, "KEYS *").ok()?;
            (keys.len() >= locks).then_some(())
        };
        Ok(wait::until(ANSWER_MAX, has_all).is_some())
    }

    /// Kills the primary and promotes the replica.
    pub(in super::super) fn fail_over(&mut self) -> Result<(), CompareError> {
        self.redis.kill(0)?;
        let error = |error| CompareError::store(NAME, error);
        ask(self.replica()?, "REPLICAOF NO ONE").map_err(error).map(drop)
    }
}

fn none() -> CompareError {
    CompareError::store(NAME, "the server is unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_once() {
        let lines = [
            "# Commandstats",
            "cmdstat_set:calls=7,usec=1,usec_per_call=1.00,rejected_calls=0,failed_calls=0",
            "cmdstat_evalsha:calls=2,usec=1,usec_per_call=1.00",
            "cmdstat_get:calls=2,usec=1,usec_per_call=1.00",
            "cmdstat_info:calls=9,usec=1,usec_per_call=1.00",
        ];
        assert_eq!(calls(&lines.map(str::to_owned)), 9);
        assert_eq!(calls(&[]), 0);
    }
}
