//! Whole ensembles of zoolet in one process: the real servers and the real client, on simulated
//! network, disks, clocks and chance, under faults that a seed draws, with checks of every promise.
//!
//! A run is one thread and has no other source of chance than its seed, so that a seed gives the same
//! run each time. `docs/testing.md` says how to use it.

mod chance;
pub mod checks;
pub mod faults;
pub mod floods;
mod held_up;
pub mod history;
pub mod load;
pub mod model;
mod network;
pub mod report;
pub mod run;
pub mod situations;
pub mod swarm;
mod time;
pub mod trace;
mod world;

pub use chance::Chance;
pub use network::{Conditions, Figures, MachineId, Network};
pub use time::SimTime;
pub use world::{DiskConditions, Point, Standing, World};
