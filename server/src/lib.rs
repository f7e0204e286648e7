//! The zoolet server.

pub mod clock;
pub mod host;
pub mod replica;
pub mod transport;
