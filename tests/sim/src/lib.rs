//! Whole ensembles of zoolet in one process: the real servers and the real client, on simulated
//! network, disks, clocks and chance, under faults that a seed draws, with checks of every promise.
//!
//! A run is one thread and has no other source of chance than its seed, so that a seed gives the same
//! run each time. `docs/testing.md` says how to use it.

pub mod checks;
pub mod history;
pub mod model;
mod time;

pub use time::SimTime;
