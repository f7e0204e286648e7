//! Whole servers over loopback, with a machine that only writes down what it is told.

mod cluster;
mod codec;
mod ensemble;
mod gate;
mod recorder;
mod slow_disk;
mod start;
mod storage;
