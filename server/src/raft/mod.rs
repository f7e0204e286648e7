//! The consensus on the log, by openraft. This is the only module that names it.
//!
//! [`start`] gives a [`Consensus`](crate::consensus::Consensus), which is all that the rest of the
//! server sees of it. Entries come back through an [`Applier`](crate::consensus::Applier).

mod acks;
mod adapter;
mod codec;
mod log_store;
mod network;
mod signals;
mod state_machine;
mod types;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub(crate) use self::adapter::{RaftConfig, RaftParts, start};
pub(crate) use self::codec::{
    append_refusal, batch_of, founding_of, last_of, membership_entry, snapshot_meta, vote_bytes,
    vote_term, with_founding,
};
pub(crate) use self::signals::PeerSignals;
