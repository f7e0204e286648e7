//! The zoolet server.
