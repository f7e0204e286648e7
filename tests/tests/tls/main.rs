//! TLS: the port for clients, between servers, the HTTP port and its console, and clients that others
//! have written.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod authority;
mod clients;
mod console;
mod ctl;
mod curl;
mod foreign;
mod https;
mod peers;
mod trial;

use std::time::Duration;

use authority::Authority;
use zoolet_tests::builder::ServersBuilder;
use zoolet_tests::ports::PortLease;
use zoolet_tests::servers::Servers;
use zoolet_tests::wait;

/// How long something may take that happens by itself.
const SOON: Duration = Duration::from_secs(30);

/// Servers with the stores of an authority for their clients.
fn with_client_stores(servers: ServersBuilder, authority: &Authority) -> ServersBuilder {
    let server = authority.issue_server();
    servers
        .property("ssl.keyStore.location", &server.display().to_string())
        .property("ssl.trustStore.location", &authority.text("ca.pem"))
}

/// A server that speaks TLS on a port beside the plain one, which is leased.
fn start_secure(authority: &Authority) -> (Servers, u16, PortLease) {
    let lease = PortLease::take(1).unwrap();
    let port = lease.ports()[0];
    let servers = with_client_stores(Servers::zoolet(), authority);
    (servers.property("secureClientPort", &port.to_string()).start().unwrap(), port, lease)
}

/// Waits until something is so; false if it is not soon.
fn soon(mut is_so: impl FnMut() -> bool) -> bool {
    wait::until(SOON, || is_so().then_some(())).is_some()
}

/// The runtime of a test.
fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}
