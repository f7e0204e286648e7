//! zoolet's own servers, as processes of the built binary: one server or an ensemble.
//!
//! They are started from the same `zoo.cfg` as Apache ZooKeeper's, so a suite runs on both by a
//! change of the constructor alone.

use std::ffi::OsString;
use std::io;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;

use thiserror::Error;

use crate::foreign::{Ensemble, EnsembleError};
use crate::servers::{Layout, Servers, ServersError};
use crate::tools;

/// Why zoolet's servers do not run.
#[derive(Debug, Error)]
pub enum ZooletError {
    #[error("the path of the test program: {0}")]
    Io(#[from] io::Error),
    #[error("{} is not built: cargo build -p zoolet", .0.display())]
    NotBuilt(PathBuf),
    #[error("zoolet: {0}")]
    Servers(#[from] ServersError),
}

/// What to start; see [`Zoolet::builder`].
#[derive(Debug, Clone)]
pub struct ZooletBuilder {
    servers: usize,
    observers: usize,
    lines: Vec<String>,
    wrapper: Vec<OsString>,
}

impl ZooletBuilder {
    /// The number of voting servers; one is a standalone server. Default 1.
    pub fn servers(mut self, servers: usize) -> Self {
        self.servers = servers;
        self
    }

    /// How many observers stand beside the voters. Default 0.
    pub fn observers(mut self, observers: usize) -> Self {
        self.observers = observers;
        self
    }

    /// A line of `zoo.cfg`. It stands after the harness' own lines, and the last line of a key
    /// wins.
    pub fn property(mut self, key: &str, value: &str) -> Self {
        self.lines.push(format!("{key}={value}"));
        self
    }

    /// The words that precede the command of each server.
    pub fn wrapper(mut self, words: Vec<OsString>) -> Self {
        self.wrapper = words;
        self
    }

    /// The digest of the superuser.
    pub fn super_digest(self, digest: &str) -> Self {
        self.property("DigestAuthenticationProvider.superDigest", digest)
    }

    /// Starts the servers and waits until each of them serves.
    pub fn start(self) -> Result<Zoolet, ZooletError> {
        let layout = Layout {
            name: "zoolet",
            command: [self.wrapper, server_command()?].concat(),
            voters: self.servers,
            observers: self.observers,
            lines: self.lines,
        };
        Ok(Zoolet { servers: Servers::start(layout)? })
    }
}

/// Running zoolet servers; what they can do is in [`Servers`].
#[derive(Debug)]
pub struct Zoolet {
    servers: Servers,
}

impl Zoolet {
    /// A standalone server with a tick of 500 ms, every four-letter word, and TTL nodes.
    pub fn builder() -> ZooletBuilder {
        ZooletBuilder { servers: 1, observers: 0, lines: Vec::new(), wrapper: Vec::new() }
    }
}

impl Deref for Zoolet {
    type Target = Servers;

    fn deref(&self) -> &Servers {
        &self.servers
    }
}

impl DerefMut for Zoolet {
    fn deref_mut(&mut self) -> &mut Servers {
        &mut self.servers
    }
}

impl Ensemble for Zoolet {
    fn connect_string(&self) -> String {
        Servers::connect_string(self)
    }

    fn kill_server(&mut self, address: &str) -> Result<(), EnsembleError> {
        self.servers.kill_server(address)
    }

    fn restart_server(&mut self, address: &str) -> Result<(), EnsembleError> {
        self.servers.restart_server(address)
    }
}

/// The command of one server, up to the path of its `zoo.cfg`.
pub fn server_command() -> Result<Vec<OsString>, ZooletError> {
    Ok(vec![binary()?.into_os_string(), "serve".into(), "--config".into()])
}

/// The `zoolet` of this build, or the one that `ZOOLET_BINARY` names, such as a release build to be
/// measured.
pub fn binary() -> Result<PathBuf, ZooletError> {
    let binary = tools::built_program("zoolet", "ZOOLET_BINARY")?;
    if binary.is_file() { Ok(binary) } else { Err(ZooletError::NotBuilt(binary)) }
}
