//! The adapter alone: its bytes, and its stores in openraft's own suite.

mod codec;
mod storage;
