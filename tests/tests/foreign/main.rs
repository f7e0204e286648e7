//! What needs Apache ZooKeeper or clients in other languages: the clients that others have written, each
//! on a zoolet ensemble and on one of Apache ZooKeeper, the Rust client on both, the oracle, and
//! programs of several languages on the same locks.
//!
//! One program, so that they run side by side: each waits most of the time.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test ends at the first thing that goes wrong"
)]

mod apache_harness;
mod c_client;
mod client;
mod cross_language;
mod curator;
mod ensembles;
mod foreign_protocol;
mod go_client;
mod node_client;
mod oracle;
mod oracle_model;
mod rust_client;
mod zkcli;
