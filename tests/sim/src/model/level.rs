//! Feature levels: which commands every server has to know at a place in the log.

use zoolet_replica::{Batch, FeatureLevel};

use crate::SimTime;

/// An entry of which a server need not know all commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooHigh {
    /// Its place.
    pub index: u64,
    /// When the first server has applied it.
    pub at: SimTime,
    /// The level that its commands need.
    pub needed: FeatureLevel,
    /// The level that is agreed on in front of it.
    pub agreed: FeatureLevel,
}

impl TooHigh {
    /// Finds that a batch may not be at this place.
    pub(super) fn find(
        batch: &Batch,
        agreed: FeatureLevel,
        (index, at): (u64, SimTime),
    ) -> Option<Self> {
        let needed = batch.level();
        (needed > agreed).then_some(Self { index, at, needed, agreed })
    }
}
