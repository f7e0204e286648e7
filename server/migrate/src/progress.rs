//! How far a long reading is.

/// How far the reading is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The znodes that were read from the snapshot.
    pub znodes: u64,
    /// The transactions that were applied to them.
    pub transactions: u64,
}

pub(crate) type ProgressHook<'a> = dyn FnMut(Progress) + 'a;
