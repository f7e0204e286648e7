//! A move from three servers of Apache ZooKeeper to three of zoolet by the steps of
//! `docs/migration.md`, while clients that others have written hold locks and wait for them.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use zoolet_tests::foreign::{self, Ensemble, EnsembleError};
use zoolet_tests::ports::PortLease;
use zoolet_tests::servers::Servers;
use zoolet_tests::tools::{self, ToolError};
use zoolet_tests::{four_letter, kazoo, programs, wait};

use crate::live_move::{cluster_toml, start_server};
use crate::run_with;
use crate::server::{Config, Server};

const PATIENCE: Duration = Duration::from_mins(1);

/// Three servers of Apache ZooKeeper, until they are lost: three of zoolet then, with their data.
struct Moved {
    old: Servers,
    config: Config,
    lease: PortLease,
    new: Vec<Server>,
}

impl Moved {
    fn start() -> Self {
        // Sessions have to outlast the move.
        let old = Servers::apache().servers(3).property("maxSessionTimeout", "60000");
        let (config, lease) = (Config::new(), PortLease::take(6).unwrap());
        Self { old: old.start().unwrap(), config, lease, new: Vec::new() }
    }

    /// The client ports of zoolet's servers.
    fn clients(&self) -> impl Iterator<Item = String> {
        self.lease.ports().iter().step_by(2).map(|port| format!("127.0.0.1:{port}"))
    }

    /// The last zxid of each old server, as an import into a scratch directory prints it.
    fn last_zxid(&self, server: usize) -> u64 {
        let scratch = Config::new();
        let text =
            run_with("import", "--from", &self.data(server), &scratch.zoo_cfg("zoolet"), &[]);
        let line = text.lines().find_map(|line| line.trim().strip_prefix("last zxid"));
        let zxid = line.and_then(|zxid| zxid.trim().strip_prefix("0x")).unwrap();
        u64::from_str_radix(zxid, 16).unwrap()
    }

    fn data(&self, server: usize) -> PathBuf {
        self.old.server_dir(server).join("data")
    }
}

impl Ensemble for Moved {
    fn connect_string(&self) -> String {
        let old = self.old.connect_string();
        [old].into_iter().chain(self.clients()).collect::<Vec<_>>().join(",")
    }

    fn kill_server(&mut self, _: &str) -> Result<(), EnsembleError> {
        let cluster = cluster_toml(&self.config, self.lease.ports());
        self.new.extend([start_server(&cluster, 2), start_server(&cluster, 3)]);
        for server in 0..3 {
            self.old.kill(server)?;
        }
        let newest = (0..3).max_by_key(|server| self.last_zxid(*server)).ok_or("no server")?;
        run_with("import", "--from", &self.data(newest), &cluster, &["--id", "1"]);
        self.new.push(start_server(&cluster, 1));
        let synced = || {
            self.clients().find_map(|client| {
                let report = four_letter::ask(client.parse().ok()?, "mntr").ok()?;
                report.contains("zk_synced_followers\t2").then_some(())
            })
        };
        Ok(wait::until(PATIENCE, synced).ok_or("the others are not taken in")?)
    }

    fn restart_server(&mut self, _: &str) -> Result<(), EnsembleError> {
        Err("the old servers do not come back".into())
    }
}

fn moves(suite: &str, needs: &[&str], program: impl FnOnce() -> Result<Command, ToolError>) {
    if !tools::require_foreign(suite, &[needs, &["java", "mvn"]].concat()).unwrap() {
        return;
    }
    let mut program = program().unwrap();
    let report = foreign::run_program(&mut program, &mut Moved::start()).unwrap();
    assert_eq!(report.losses, 1);
}

#[test]
fn curator_holds_its_lock_throughout_the_move_of_an_ensemble() {
    moves("a move with Curator", &[], || programs::curator("Move", &[]));
}

#[test]
fn kazoo_holds_its_lock_throughout_the_move_of_an_ensemble() {
    moves("a move with kazoo", &["python3"], || {
        let mut program = Command::new(kazoo::python()?);
        program.arg(tools::interop_dir("kazoo").join("kazoo_move.py"));
        Ok(program)
    });
}
