//! The HTTP port: `ZooKeeper`'s commands beside those of Apache, metrics and dashboards, health, and
//! bad input.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test of real sockets in real time fails by panicking"
)]

mod bad_input;
mod commands;
mod locks;
mod monitoring;
mod published_dashboard;
mod support;
