//! ZooKeeper's wire protocol.
