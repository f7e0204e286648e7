//! etcd: three servers.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use tempfile::TempDir;

use super::super::error::CompareError;
use super::Store;
use super::daemon::{self, Daemon};
use crate::http;
use crate::ports::PortLease;

const NAME: &str = "etcd";
const SERVERS: usize = 3;

#[derive(Debug)]
pub(super) struct Etcd {
    daemons: Vec<Daemon>,
    _directory: TempDir,
    _lease: PortLease,
}

impl Etcd {
    pub(super) fn start() -> Result<Self, CompareError> {
        let directory = tempfile::tempdir()?;
        let lease = PortLease::take(SERVERS * 2)?;
        let ports: Vec<(u16, u16)> = lease
            .ports()
            .chunks_exact(2)
            .filter_map(|pair| Some((*pair.first()?, *pair.get(1)?)))
            .collect();
        let members = ports.iter().enumerate();
        let members =
            members.map(|(server, (_, peer))| format!("s{server}=http://127.0.0.1:{peer}"));
        let members = members.collect::<Vec<_>>().join(",");
        let mut daemons = Vec::new();
        for (server, (client, peer)) in ports.iter().enumerate() {
            let own = directory.path().join(format!("s{server}"));
            fs::create_dir(&own).map_err(CompareError::file(&own))?;
            let (client_url, peer_url) =
                (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
            let words = [
                "etcd",
                "--name",
                &format!("s{server}"),
                "--data-dir",
                "data",
                "--listen-client-urls",
                &client_url,
                "--advertise-client-urls",
                &client_url,
                "--listen-peer-urls",
                &peer_url,
                "--initial-advertise-peer-urls",
                &peer_url,
                "--initial-cluster",
                &members,
                "--logger",
                "zap",
                "--log-level",
                "error",
            ];
            let command = words.iter().map(Into::into).collect();
            daemons.push(Daemon::new(NAME, own, *client, command));
        }
        let mut etcd = Self { daemons, _directory: directory, _lease: lease };
        etcd.restart(&[0, 1, 2])?;
        Ok(etcd)
    }

    fn ctl(&self, arguments: &[&str]) -> Result<String, CompareError> {
        let endpoints: Vec<String> = self.addresses().iter().map(ToString::to_string).collect();
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").arg("--endpoints").arg(endpoints.join(",")).args(arguments);
        daemon::output(NAME, &mut command)
    }

    fn metrics(daemon: &Daemon) -> Option<String> {
        // By HTTP/1.0: chunks would cut lines.
        http::send(daemon.address(), b"GET /metrics HTTP/1.0\r\n\r\n").ok()
    }
}

fn metric(text: &str, name: &str) -> f64 {
    let lines = text.lines().filter(|line| line.starts_with(name));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

impl Store for Etcd {
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
                Self::metrics(daemon)
                    .is_some_and(|text| metric(&text, "etcd_server_has_leader ") > 0.0)
            })?;
        }
        Ok(())
    }

    fn leader(&self) -> usize {
        let leads = |daemon: &Daemon| {
            Self::metrics(daemon).is_some_and(|text| metric(&text, "etcd_server_is_leader ") > 0.0)
        };
        self.daemons.iter().position(leads).unwrap_or(0)
    }

    fn requests(&self) -> Result<u64, CompareError> {
        let mut sum = 0.0;
        for daemon in &self.daemons {
            let text = Self::metrics(daemon).ok_or_else(|| daemon.error("no metrics"))?;
            sum += metric(&text, "grpc_server_msg_received_total");
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        Ok(sum as u64)
    }

    fn remains(&self, lock: &str) -> Result<Vec<String>, CompareError> {
        let keys = self.ctl(&["get", "--prefix", "--keys-only", &format!("/{lock}/")])?;
        Ok(keys.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
    }

    fn version(&self) -> Result<String, CompareError> {
        let text = daemon::output(NAME, Command::new("etcd").arg("--version"))?;
        let version = text.lines().find_map(|line| line.strip_prefix("etcd Version: "));
        Ok(version.unwrap_or("unknown").to_owned())
    }

    fn time_ms(&self, _: usize) -> Result<i64, CompareError> {
        Err(CompareError::store(NAME, "it shows no time"))
    }

    fn jump(&mut self, _: usize, _: u64) -> Result<(), CompareError> {
        // Its program asks the kernel for the time without the library that is replaced.
        Err(CompareError::store(NAME, "its clock cannot be replaced"))
    }
}
