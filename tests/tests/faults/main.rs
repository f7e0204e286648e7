//! What servers do when something goes wrong: killed, stopped, cut off from each other, out of disk.
//!
//! One program, so that they run side by side: each waits most of the time.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod all_killed;
mod black_hole;
mod full_disk;
mod kill9;
mod leader_loss;
mod partitions;
mod paused;
mod read_only;
mod reconfig_faults;
mod replaced_disks;
mod starved;
mod up_ends;

use zoolet_tests::tools::{announce, is_tier};

/// Whether to run a suite whose faults the simulator and `make chaos` draw as well; `make faults` runs it.
fn is_due(suite: &str) -> bool {
    let is_due = is_tier("faults");
    if !is_due {
        announce(&format!("NOT RUN: {suite} is run by `make faults`"));
    }
    is_due
}
