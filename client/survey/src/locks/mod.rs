//! Locks: which names are places in a queue, who of those in it holds, and who waits for whom.

mod deadlock;
mod family;
mod json;
mod queue;
mod scan;
mod wait_graph;

pub use deadlock::{Deadlock, Spot, Turn};
pub use family::{Family, Place, Role, parse};
pub use json::Form;
pub use queue::{Kind, Lock, Member, Twin, Wait};
pub use scan::{
    Found, Known, Limits, Listed, Queues, Scanned, Scope, at, find, find_again, locks_of, scan,
};
pub use wait_graph::{Edges, WaitGraph};
