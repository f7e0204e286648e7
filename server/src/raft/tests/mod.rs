//! Whole servers over loopback, with a machine that only writes down what it is told.

mod calls;
mod cluster;
mod codec;
mod divergence;
mod ensemble;
mod gate;
mod numbers;
mod panics;
mod rebuilt;
mod recorder;
mod recovery;
mod refused;
mod replaced;
mod slow_disk;
mod snapshots;
mod start;
mod storage;
