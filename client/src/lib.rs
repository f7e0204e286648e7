//! The zoolet client.
