//! The `zoolet` binary.

fn main() {}
