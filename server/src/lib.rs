//! The zoolet server.

pub mod clock;
pub mod config;
pub mod host;
pub mod peer;
pub mod raft;
pub mod replica;
pub mod storage;
pub mod transport;
