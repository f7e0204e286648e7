//! The Entropy seam: where chance comes in.

use std::fmt::Debug;

/// A source of chance.
pub trait Entropy: Debug + Send + Sync + 'static {
    /// Any number, unlike all others.
    fn number(&self) -> u64;
}

/// The system's own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RealEntropy;

impl Entropy for RealEntropy {
    fn number(&self) -> u64 {
        getrandom::u64().expect("the system has random numbers")
    }
}
