//! Servers with HTTP ports.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that gets no servers fails by panicking"
)]

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::builder::ServersBuilder;
use crate::ports::PortLease;
use crate::servers::Servers;
use crate::up::{self, Up};
use crate::{http, wait};

/// How long something may take that happens by itself, on a busy machine.
pub const SOON: Duration = Duration::from_mins(1);

/// Servers of which one has an HTTP port: of several Apache servers, the first that opens it.
#[derive(Debug)]
pub struct WithHttp {
    pub servers: Servers,
    pub http: SocketAddr,
    _lease: PortLease,
}

impl WithHttp {
    pub fn start(servers: ServersBuilder) -> Self {
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

    pub fn command(&self, name: &str) -> Value {
        command(self.http, name)
    }
}

/// Three servers of zoolet, each with an HTTP port.
#[derive(Debug)]
pub struct Three {
    pub up: Up,
    pub connect_string: String,
    pub http: Vec<SocketAddr>,
    pub directory: TempDir,
    _lease: PortLease,
}

impl Three {
    pub fn start() -> Self {
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

    pub fn leader(&self) -> usize {
        let leads = |address: &SocketAddr| {
            let answer = http::get(*address, "/ready").ok()?;
            (answer.json()["mode"] == "leader").then_some(())
        };
        let look = || self.http.iter().position(|address| leads(address).is_some());
        wait::until(SOON, look).expect("one server leads")
    }
}

pub fn here(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// The JSON of a command.
pub fn command(address: SocketAddr, name: &str) -> Value {
    let answer = http::get(address, &format!("/commands/{name}")).unwrap();
    assert_eq!(answer.status, 200, "{name}: {answer:?}");
    assert!(answer.head.to_lowercase().contains("content-type: application/json"), "{answer:?}");
    answer.json()
}
