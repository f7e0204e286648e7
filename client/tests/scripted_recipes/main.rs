//! What the recipes do when servers refuse, lose and delay: a tree in memory stands for the servers,
//! at the other end of the `Connector` seam, and time is paused.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, also at a request that it does not expect"
)]

mod adopted;
mod cache;
mod latch;
mod locks;
#[path = "../session/log.rs"]
mod log;
mod losses;
mod queues;
#[allow(dead_code, reason = "the tests of sessions need more of it")]
#[path = "../session/script.rs"]
mod script;
mod tree;
mod written_once;
