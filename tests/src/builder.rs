//! Which servers to start, of zoolet or of Apache ZooKeeper: both read the same `zoo.cfg`, so a
//! suite runs on both by a change of the constructor alone.

use std::ffi::OsString;

use crate::servers::{Layout, Servers, ServersError};
use crate::tools::ToolError;
use crate::{apache, zoolet};

/// Whose servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Zoolet,
    Apache,
}

impl Kind {
    /// Its name in the temporary directories.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Zoolet => "zoolet",
            Self::Apache => "apache",
        }
    }
}

/// What to start; see [`Servers::zoolet`] and [`Servers::apache`].
#[derive(Debug, Clone)]
pub struct ServersBuilder {
    kind: Kind,
    servers: usize,
    observers: usize,
    lines: Vec<String>,
    jvm_options: Vec<String>,
    wrapper: Vec<OsString>,
}

impl ServersBuilder {
    const fn new(kind: Kind) -> Self {
        Self {
            kind,
            servers: 1,
            observers: 0,
            lines: Vec::new(),
            jvm_options: Vec::new(),
            wrapper: Vec::new(),
        }
    }

    /// The number of voting servers; one is a standalone server. Default 1.
    pub fn servers(mut self, servers: usize) -> Self {
        self.servers = servers;
        self
    }

    /// The number of observers beside the voters. Default 0.
    pub fn observers(mut self, observers: usize) -> Self {
        self.observers = observers;
        self
    }

    /// A line of `zoo.cfg`. It comes after the harness' own lines, and the last line of a key wins.
    /// Keys that Apache ZooKeeper does not know become its system properties `zookeeper.KEY`.
    pub fn property(mut self, key: &str, value: &str) -> Self {
        self.lines.push(format!("{key}={value}"));
        self
    }

    /// The digest of the superuser, such as `super:` and the base64 of the SHA-1 of
    /// `super:password`.
    pub fn super_digest(self, digest: &str) -> Self {
        self.property("DigestAuthenticationProvider.superDigest", digest)
    }

    /// An argument for the `java` of Apache's servers, before the class name. zoolet's servers have
    /// no JVM and ignore it.
    pub fn jvm_option(mut self, option: &str) -> Self {
        self.jvm_options.push(option.to_owned());
        self
    }

    /// The words that precede the command of each server.
    pub fn wrapper(mut self, words: Vec<OsString>) -> Self {
        self.wrapper = words;
        self
    }

    /// Starts the servers and waits until each of them serves.
    pub fn start(self) -> Result<Servers, ServersError> {
        let command = [self.wrapper, server_command(self.kind, &self.jvm_options)?].concat();
        let Self { kind, servers: voters, observers, lines, .. } = self;
        Servers::start(Layout { kind, command, voters, observers, lines })
    }
}

/// The command of one server, up to the path of its `zoo.cfg`.
fn server_command(kind: Kind, jvm_options: &[String]) -> Result<Vec<OsString>, ToolError> {
    match kind {
        Kind::Zoolet => zoolet::server_command(),
        Kind::Apache => Ok(apache::server_command(&apache::classpath()?, jvm_options)),
    }
}

impl Servers {
    /// zoolet's own servers, as processes of the built binary: by default a standalone server with
    /// a tick of 500 ms, every four-letter word, and TTL nodes.
    pub const fn zoolet() -> ServersBuilder {
        ServersBuilder::new(Kind::Zoolet)
    }

    /// The same of Apache ZooKeeper, with which zoolet is compared.
    pub const fn apache() -> ServersBuilder {
        ServersBuilder::new(Kind::Apache)
    }
}
