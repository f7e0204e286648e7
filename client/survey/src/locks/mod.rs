//! Locks: which names are places in a queue, who of those in it holds, and who waits for whom.

mod deadlock;
mod family;
mod queue;

pub use deadlock::{Deadlock, Spot, Turn, deadlocks, waits_for_itself};
pub use family::{Family, Place, Role, is_kazoo_lease, parse, parse_other};
pub use queue::{Kind, Lock, Member, Twin, Wait, sort};
