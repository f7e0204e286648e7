//! What can be seen of an ensemble from outside: its servers, its sessions, and the locks of all its
//! clients. `zooletctl` and the web console show it.
//!
//! It is a client of an ensemble, zoolet's or Apache `ZooKeeper`'s, and changes nothing. How what it
//! finds is shown is up to the program; locks have one form in JSON ([`locks::Form`]).

#![warn(missing_docs)]

pub mod clock;
pub mod data;
pub mod ensemble;
pub mod four_letter;
pub mod http;
pub mod locks;
pub mod members;
pub mod path;
pub mod permissions;
pub mod reader;
pub mod sessions;
pub mod srvr;
