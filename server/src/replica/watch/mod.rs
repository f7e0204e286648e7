//! Watches: who is told of which change (protocol §8).

mod delivery;
mod mode;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use mode::Modes;
pub(crate) use table::WatchTable;
