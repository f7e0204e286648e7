//! Servers with an HTTP port.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use zoolet_client::{Client, CreateMode, OneshotWatcher, Version};
use zoolet_tests::builder::ServersBuilder;
use zoolet_tests::http;
use zoolet_tests::ports::PortLease;
use zoolet_tests::servers::Servers;
use zoolet_tests::up::{self, Up};
use zoolet_tests::wait;

/// How long something may take that happens by itself, on a busy machine.
pub(crate) const SOON: Duration = Duration::from_mins(1);

/// Servers of which one has an HTTP port: of several Apache servers, the first that opens it.
pub(crate) struct WithHttp {
    pub(crate) servers: Servers,
    pub(crate) http: SocketAddr,
    _lease: PortLease,
}

impl WithHttp {
    pub(crate) fn start(servers: ServersBuilder) -> Self {
        let lease = PortLease::take(1).unwrap();
        let port = lease.ports()[0];
        let servers = servers
            .property("admin.enableServer", "true")
            .property("admin.serverAddress", "127.0.0.1")
            .property("admin.serverPort", &port.to_string())
            .start()
            .unwrap();
        Self { servers, http: here(port), _lease: lease }
    }

    pub(crate) fn command(&self, name: &str) -> Value {
        command(self.http, name)
    }

    /// A client with an ephemeral znode and a watch.
    pub(crate) async fn client(&self) -> Witness {
        Witness::connect(&self.servers.connect_string()).await
    }
}

/// Three servers of zoolet, each with an HTTP port.
pub(crate) struct Three {
    pub(crate) up: Up,
    pub(crate) connect_string: String,
    pub(crate) http: Vec<SocketAddr>,
    pub(crate) directory: TempDir,
    _lease: PortLease,
}

impl Three {
    pub(crate) fn start() -> Self {
        let (lease, first) = PortLease::take_in_a_row(6).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let mut command = up::on_ports(3, first).unwrap();
        command.args(["--http-port", &(first + 3).to_string(), "--data-dir"]);
        command.arg(directory.path()).stderr(Stdio::null());
        let up = Up::spawn(&mut command, 3).unwrap();
        let connect_string = up.announced[0].strip_prefix("connect string: ").unwrap().to_owned();
        let http = (first + 3..first + 6).map(here).collect();
        Self { up, connect_string, http, directory, _lease: lease }
    }

    pub(crate) fn leader(&self) -> usize {
        let leads = |address: &SocketAddr| {
            let answer = http::get(*address, "/ready").ok()?;
            (answer.json()["mode"] == "leader").then_some(())
        };
        let look = || self.http.iter().position(|address| leads(address).is_some());
        wait::until(SOON, look).expect("one server leads")
    }
}

pub(crate) fn here(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// The JSON of a command.
pub(crate) fn command(address: SocketAddr, name: &str) -> Value {
    let answer = http::get(address, &format!("/commands/{name}")).unwrap();
    assert_eq!(answer.status, 200, "{name}: {answer:?}");
    assert!(answer.head.to_lowercase().contains("content-type: application/json"), "{answer:?}");
    answer.json()
}

/// A client with an ephemeral znode and a watch.
pub(crate) struct Witness {
    pub(crate) client: Client,
    _watcher: OneshotWatcher,
}

impl Witness {
    pub(crate) async fn connect(servers: &str) -> Self {
        let client = Client::connect(servers).await.unwrap();
        client.create("/http", b"1", CreateMode::Ephemeral).await.unwrap();
        let (_, _, watcher) = client.get_watched("/http").await.unwrap();
        Self { client, _watcher: watcher }
    }

    /// Changes the data, which fires the watch.
    pub(crate) async fn write(&self) {
        self.client.set_data("/http", b"2", Version::Any).await.unwrap();
    }
}
