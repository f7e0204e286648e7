//! What becomes of a session and its calls when servers are silent, hostile or gone. The servers
//! are scripts at the other end of the `Connector` seam, and time is paused: it jumps to the next
//! deadline when nothing else is to be done, so that every wait has its exact length.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, also at a request that it does not expect"
)]

mod calls;
mod endings;
mod expiry;
mod hostile;
mod leftovers;
mod limits;
mod links;
mod log;
mod read_only;
mod reconnects;
mod script;
mod secrets;
mod watches;
