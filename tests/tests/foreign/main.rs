//! The clients that others have written, each on a zoolet ensemble and on one of Apache ZooKeeper.
//!
//! One program, so that they run side by side: each waits most of the time.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test ends at the first thing that goes wrong"
)]

mod apache_harness;
mod c_client;
mod curator;
mod ensembles;
mod foreign_protocol;
mod go_client;
mod node_client;
mod rust_client;
mod zkcli;
