//! The adapter alone: its bytes, its appends to a follower, and its stores in openraft's own suite.

mod appends;
mod codec;
mod storage;
