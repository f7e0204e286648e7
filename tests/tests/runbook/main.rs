//! The pages of `docs/runbook.md`, step by step, with real servers.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod backup;
mod clock;
mod emergencies;
mod full_disk;
mod lost_log;
mod removed;
mod support;
mod upgrade;
mod waits;
