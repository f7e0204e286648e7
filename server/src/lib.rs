//! The zoolet server: a small, embeddable, `ZooKeeper`-compatible coordination server.
//!
//! `ARCHITECTURE.md` is the map. Programs that embed it use [`embed`].

#[macro_use]
mod planted;

pub mod clock;
pub mod config;
pub mod embed;
pub mod entropy;
pub mod fatal;
pub mod host;
pub mod metrics;
pub mod net;
pub mod node;
pub mod outbox;
pub mod peer;
mod process;
pub mod raft;
pub mod transport;
