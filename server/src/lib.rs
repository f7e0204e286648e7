//! The zoolet server.

pub mod clock;
pub mod replica;
pub mod transport;
