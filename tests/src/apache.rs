//! A real Apache ZooKeeper, one server or an ensemble: the oracle that zoolet is compared with.
//!
//! The jars are resolved once with Maven, at the version that `interop/apache/pom.xml` pins.

use std::ffi::{OsStr, OsString};
use std::ops::{Deref, DerefMut};
use std::process::Command;

use thiserror::Error;

use crate::servers::{Layout, Servers, ServersError};
use crate::tools::{self, ToolError};

/// Why an Apache ZooKeeper does not run.
#[derive(Debug, Error)]
pub enum ApacheError {
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error("apache zookeeper: {0}")]
    Servers(#[from] ServersError),
}

/// What to start; see [`Apache::builder`].
#[derive(Debug, Clone)]
pub struct ApacheBuilder {
    servers: usize,
    observers: usize,
    lines: Vec<String>,
    jvm_options: Vec<String>,
    wrapper: Vec<OsString>,
}

impl ApacheBuilder {
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
    /// wins. Keys that ZooKeeper does not know become system properties `zookeeper.KEY`.
    pub fn property(mut self, key: &str, value: &str) -> Self {
        self.lines.push(format!("{key}={value}"));
        self
    }

    /// The digest of the superuser, such as `super:` and the base64 of the SHA-1 of
    /// `super:password`.
    pub fn super_digest(self, digest: &str) -> Self {
        self.property("DigestAuthenticationProvider.superDigest", digest)
    }

    /// An argument for `java`, before the class name.
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
    pub fn start(self) -> Result<Apache, ApacheError> {
        let classpath = classpath()?;
        let layout = Layout {
            name: "apache",
            command: [self.wrapper, server_command(&classpath, &self.jvm_options)].concat(),
            voters: self.servers,
            observers: self.observers,
            lines: self.lines,
        };
        Ok(Apache { servers: Servers::start(layout)? })
    }
}

/// A running Apache ZooKeeper; what it can do is in [`Servers`].
#[derive(Debug)]
pub struct Apache {
    servers: Servers,
}

impl Apache {
    /// A standalone server with a tick of 500 ms, every four-letter word, and TTL nodes.
    pub fn builder() -> ApacheBuilder {
        ApacheBuilder {
            servers: 1,
            observers: 0,
            lines: Vec::new(),
            jvm_options: Vec::new(),
            wrapper: Vec::new(),
        }
    }
}

impl Deref for Apache {
    type Target = Servers;

    fn deref(&self) -> &Servers {
        &self.servers
    }
}

impl DerefMut for Apache {
    fn deref_mut(&mut self) -> &mut Servers {
        &mut self.servers
    }
}

/// The command of one server, up to the path of its `zoo.cfg`.
pub fn server_command(classpath: &OsStr, jvm_options: &[String]) -> Vec<OsString> {
    let java = java(classpath);
    let mut command = vec![java.get_program().to_owned()];
    command.extend(java.get_args().map(OsStr::to_owned));
    command.extend(jvm_options.iter().map(OsString::from));
    command.push("org.apache.zookeeper.server.quorum.QuorumPeerMain".into());
    command
}

/// `java` with a small heap and a quick start, for servers and command lines alike.
pub fn java(classpath: &OsStr) -> Command {
    let mut command = Command::new("java");
    command
        .args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"])
        .args(["-Djava.net.preferIPv4Stack=true", "-Dfile.encoding=UTF-8", "-Duser.timezone=UTC"])
        .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        .arg("-cp")
        .arg(classpath);
    command
}

/// The jars of Apache ZooKeeper and of its command line, resolved on the first call.
pub fn classpath() -> Result<OsString, ToolError> {
    for program in ["java", "mvn"] {
        if tools::find_program(program).is_none() {
            return Err(ToolError::Missing { what: program.to_owned() });
        }
    }
    let pom = tools::interop_dir("apache").join("pom.xml");
    let directory = tools::prepare_once("apache", &[pom], |directory| {
        tools::run(
            Command::new("mvn")
                .args(["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"])
                .current_dir(directory),
        )
    })?;
    Ok(directory.join("jars").join("*").into_os_string())
}
