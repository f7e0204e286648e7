//! One standalone server at a time, all on the same client port, each with a directory of its own.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use zoolet_tests::ports::PortLease;
use zoolet_tests::process::ServerProcess;
use zoolet_tests::{apache, four_letter};

/// A JVM on a busy machine takes several seconds.
const START_MAX: Duration = Duration::from_secs(90);

/// Where the servers are.
pub(crate) struct Config {
    directory: tempfile::TempDir,
    lease: PortLease,
}

impl Config {
    pub(crate) fn new() -> Self {
        let (directory, lease) = (tempfile::tempdir().unwrap(), PortLease::take(1).unwrap());
        Self { directory, lease }
    }

    pub(crate) fn client(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.lease.ports()[0]))
    }

    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The file of the server with this directory.
    pub(crate) fn zoo_cfg(&self, name: &str) -> PathBuf {
        let path = self.directory.path().join(format!("{name}.cfg"));
        let (data, port) = (self.data(name), self.client().port());
        let text = format!(
            "dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\ntickTime=2000\n\
             4lw.commands.whitelist=*\nmaxSessionTimeout=60000\nadmin.enableServer=false\n\
             extendedTypesEnabled=true\n",
            data.display()
        );
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn ask(&self, word: &str) -> String {
        four_letter::ask(self.client(), word).unwrap()
    }
}

/// The `java` of a server of Apache ZooKeeper, which takes a snapshot every hundred transactions or
/// so.
pub(crate) fn java(jars: &OsStr, options: &[String]) -> Command {
    let mut command = apache::java(jars);
    command
        .args(["-Dzookeeper.snapCount=100", "-Dzookeeper.extendedTypesEnabled=true"])
        .args(["-Dzookeeper.admin.enableServer=false", "-Dzookeeper.4lw.commands.whitelist=*"])
        .args(options)
        .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain");
    command
}

/// A running server. Its end is a kill.
pub(crate) struct Server(ServerProcess);

impl Server {
    /// Starts a server, and waits until it serves. The path of its configuration comes last.
    pub(crate) fn start(command: Command, config: &Path, client: SocketAddr) -> Self {
        let server = Self::spawn(command, config, "out");
        let serves = four_letter::wait_until_serving(client, START_MAX);
        assert!(serves, "{}", fs::read_to_string(config.with_extension("out")).unwrap());
        server
    }

    /// Starts a server. What it writes goes beside the configuration.
    pub(crate) fn spawn(mut command: Command, config: &Path, extension: &str) -> Self {
        let file = File::create(config.with_extension(extension)).unwrap();
        command.arg(config).stdout(file.try_clone().unwrap()).stderr(file);
        Self(ServerProcess::spawn(&mut command).unwrap())
    }

    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
    }
}
