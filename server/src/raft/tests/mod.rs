//! Whole servers over loopback, with a machine that only writes down what it is told.

mod cluster;
mod ensemble;
mod recorder;
mod storage;
