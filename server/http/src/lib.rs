//! The HTTP port of a zoolet server: `/metrics` for Prometheus, `/health` and `/ready`, and the
//! commands of `ZooKeeper`'s `AdminServer` with their JSON.
//!
//! [`HttpPort::show_console`] adds the web console (`zoolet-console`), a client of the server.
//!
//! It speaks plain HTTP, TLS with the feature `tls`, or both ([`HttpOptions::tls`]).
//!
//! [`HttpPort::open`] listens; [`HttpPort::show`] gives it a server's
//! [`Reports`](zoolet_server::embed::Reports). All work is done on the runtime that opens the port,
//! never on the server's thread. What a caller can make it hold is bounded: connections, the head of
//! a request, the time for it, and long listings, of which one is made at a time.

#![warn(missing_docs)]

mod answer;
mod body;
mod commands;
mod health;
mod lane;
mod port;
mod prometheus;
mod routes;

pub use port::{HttpError, HttpOptions, HttpPort};
pub use zoolet_console::PortTls;
