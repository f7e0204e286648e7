//! The storage on disks that lose power, fail, fill up and rot.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test stops where it is surprised"
)]

mod crash;
mod damage;
mod faults;
mod log;
mod real;
mod snapshots;
mod trace;
