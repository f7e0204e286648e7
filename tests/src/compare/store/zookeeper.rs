//! zoolet and Apache `ZooKeeper`: three servers.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;

use tokio::runtime::Builder;
use zoolet_client::{Client, CreateMode, ErrorCode};

use super::super::error::CompareError;
use super::{Store, StoreOptions, System};
use crate::four_letter;
use crate::servers::{LEADER_MAX, Servers};

const SERVERS: usize = 3;
/// The clock of a server, in its directory, which is its working directory.
const CLOCK: &str = "clock";

#[derive(Debug)]
pub(super) struct Ensemble {
    system: System,
    servers: Servers,
}

pub(super) fn start(system: System, options: &StoreOptions) -> Result<Ensemble, CompareError> {
    let mut builder = if system == System::ZooKeeper {
        Servers::apache().jvm_option("-XX:TieredStopAtLevel=4")
    } else {
        Servers::zoolet()
    };
    if let Some(library) = &options.clock {
        let mut preload = OsString::from("LD_PRELOAD=");
        preload.push(library);
        let file = format!("WRONG_CLOCK_FILE={CLOCK}");
        builder = builder.wrapper(vec!["env".into(), preload, file.into()]);
    }
    let builder = builder.servers(SERVERS).property("preAllocSize", "65536");
    let servers = builder.property("maxSessionTimeout", "60000").start()?;
    servers.wait_for_leader(LEADER_MAX)?;
    Ok(Ensemble { system, servers })
}

impl Ensemble {
    fn error(&self, what: impl std::fmt::Display) -> CompareError {
        CompareError::store(self.system.title(), what)
    }

    fn ask(&self, server: usize, word: &str) -> Result<String, CompareError> {
        let address = self.servers.client_address(server)?;
        four_letter::ask(address, word).map_err(|error| self.error(error))
    }
}

impl Store for Ensemble {
    fn addresses(&self) -> Vec<SocketAddr> {
        (0..SERVERS).filter_map(|server| self.servers.client_address(server).ok()).collect()
    }

    fn pids(&self) -> Vec<u32> {
        (0..SERVERS).filter_map(|server| self.servers.pid(server)).collect()
    }

    fn kill(&mut self, server: usize) -> Result<(), CompareError> {
        Ok(self.servers.kill(server)?)
    }

    fn restart(&mut self, servers: &[usize]) -> Result<(), CompareError> {
        for server in servers {
            self.servers.spawn(*server)?;
        }
        for server in servers {
            self.servers.wait_until_serving(*server)?;
        }
        Ok(())
    }

    fn leader(&self) -> usize {
        self.servers.wait_for_leader(LEADER_MAX).unwrap_or(0)
    }

    fn requests(&self) -> Result<u64, CompareError> {
        let mut sum = 0;
        for server in 0..SERVERS {
            let reply = self.ask(server, "mntr")?;
            let line = reply.lines().find_map(|line| line.strip_prefix("zk_packets_received"));
            let count = line.and_then(|text| text.trim().parse::<f64>().ok());
            let count = count.ok_or_else(|| self.error("mntr has no zk_packets_received"))?;
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a count that Apache's servers print with a point"
            )]
            let count = count as u64;
            sum += count;
        }
        Ok(sum)
    }

    fn remains(&self, lock: &str) -> Result<Vec<String>, CompareError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let found = runtime.block_on(async {
            let client = Client::connect(&self.servers.connect_string()).await?;
            let mut found = Vec::new();
            let mut paths = vec![format!("/{lock}")];
            while let Some(path) = paths.pop() {
                match client.children(&path).await {
                    Ok((names, _)) => {
                        paths.extend(names.iter().map(|name| format!("{path}/{name}")));
                        found.push(path);
                    }
                    Err(error) if error.code() == Some(ErrorCode::NoNode) => {}
                    Err(error) => return Err(error),
                }
            }
            client.close().await?;
            Ok(found)
        });
        found.map_err(|error: zoolet_client::Error| self.error(error))
    }

    fn version(&self) -> Result<String, CompareError> {
        let reply = self.ask(0, "srvr")?;
        let line = reply.lines().find_map(|line| line.strip_prefix("Zookeeper version: "));
        let version = line.and_then(|line| line.split(',').next()).unwrap_or("unknown");
        let own = if self.system == System::ZooKeeper {
            version.split('-').next()
        } else {
            version.split("-zoolet-").last()
        };
        Ok(own.unwrap_or(version).to_owned())
    }

    /// That of a new znode: it has the time of the server that leads.
    fn time_ms(&self, server: usize) -> Result<i64, CompareError> {
        let address = self.servers.client_address(server)?.to_string();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let time = runtime.block_on(async {
            let client = Client::connect(&address).await?;
            let (_, stat) = client.create("/time", b"", CreateMode::Ephemeral).await?;
            client.close().await?;
            Ok(stat.ctime)
        });
        time.map_err(|error: zoolet_client::Error| self.error(error))
    }

    fn jump(&mut self, server: usize, ahead_ms: u64) -> Result<(), CompareError> {
        let path = self.servers.server_dir(server).join(CLOCK);
        fs::write(&path, ahead_ms.to_string()).map_err(CompareError::file(&path))
    }
}
