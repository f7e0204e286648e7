//! Whole servers over loopback, with a machine that only records what it receives.

mod calls;
mod cluster;
mod cut;
mod divergence;
mod ensemble;
mod founding;
mod gate;
mod lanes;
mod lease;
mod lost_entries;
mod numbers;
mod panics;
mod rebuilt;
mod recorder;
mod recovery;
mod refused;
mod replaced;
mod silences;
mod slow_disk;
mod snapshots;
mod start;
mod succession;
