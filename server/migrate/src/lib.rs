//! The data directories of Apache `ZooKeeper`: read into zoolet's state, and written from it.
//!
//! [`import()`] reads the newest snapshot and the transactions behind it, of 3.4 to 3.9, as Apache's
//! own start does, and refuses what is damaged with file and offset. [`export()`] writes a snapshot
//! that Apache `ZooKeeper` starts from, with the digest of the tree.
//!
//! What is not here: how a server of zoolet is founded from a state, and the command line.

#![warn(missing_docs)]

mod acls;
mod compression;
mod digest;
mod error;
mod export;
mod files;
mod import;
mod log;
mod note;
mod owner;
mod progress;
mod replay;
mod snapshot;
mod source;
mod to_state;
mod tree;
mod txn;

#[cfg(test)]
mod tests;

pub use error::MigrateError;
pub use export::{Exported, check_export, export};
pub use import::{ImportOptions, Imported, import};
pub use note::Note;
pub use progress::Progress;
