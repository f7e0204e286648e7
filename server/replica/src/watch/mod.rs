//! Watches: which connection is notified of which change (protocol §8).

mod delivery;
mod mode;
mod room;
mod shares;
mod storm;
mod table;
#[cfg(test)]
mod tests;
mod watched;
mod watches_left;

pub(crate) use delivery::Jump;
pub(crate) use mode::Modes;
pub(crate) use shares::Share;
pub(crate) use storm::Storm;
pub use table::WatchPlace;
pub(crate) use table::WatchTable;
pub(crate) use watches_left::WatchesLeft;
