//! Chance that follows from the seed of a run.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use zoolet_server::internals::Entropy;

/// A generator of its own for one part of a run, so that one part's draws do not change another's.
#[derive(Clone, Debug)]
pub struct Chance(Rng);

impl Chance {
    /// The generator of a part of the run of this seed.
    pub fn of(seed: u64, part: &str) -> Self {
        // FNV-1a is the same on every machine and in every release.
        let mut mixed = seed ^ 0xcbf2_9ce4_8422_2325;
        for byte in part.bytes() {
            mixed = (mixed ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Self(Rng::with_seed(mixed))
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// A number from `min` to `max`, both included; `min` if `max` is less.
    pub fn between(&mut self, min: u64, max: u64) -> u64 {
        if min < max { self.0.u64(min..=max) } else { min }
    }

    /// True with this chance in a thousand.
    pub fn permille(&mut self, chance: u64) -> bool {
        self.0.u64(0..1000) < chance
    }

    /// A span between two, in microseconds.
    pub fn span_us(&mut self, (min, max): (u64, u64)) -> Duration {
        Duration::from_micros(self.between(min, max))
    }

    /// One of several; `None` if there are none.
    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        if all.is_empty() { None } else { all.get(self.0.usize(..all.len())) }
    }

    /// A part of several, each with even odds.
    pub fn some_of<T: Clone>(&mut self, all: &[T]) -> Vec<T> {
        all.iter().filter(|_| self.0.bool()).cloned().collect()
    }
}

/// The chance that a server has.
#[derive(Clone, Debug)]
pub(crate) struct SimEntropy(Arc<Mutex<Chance>>);

impl SimEntropy {
    pub(crate) fn new(chance: Chance) -> Self {
        Self(Arc::new(Mutex::new(chance)))
    }
}

impl Entropy for SimEntropy {
    fn number(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).number()
    }
}
