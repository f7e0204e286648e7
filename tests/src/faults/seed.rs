//! The number that decides a run.

use std::env;

use crate::tools::announce;

/// Names the seed of an earlier run.
const SEED: &str = "ZOOLET_FAULTS_SEED";

/// Decides victims, moments and the order of the load's operations; how threads and servers
/// interleave is beyond it. When the test fails, it prints how to run it again.
#[derive(Debug)]
pub struct Seed {
    /// The test program, and which of its tests.
    program: &'static str,
    filter: &'static str,
    pub number: u64,
}

impl Seed {
    /// The seed in the environment, or any, for these tests of a program.
    pub fn of(program: &'static str, filter: &'static str) -> Self {
        let given = env::var(SEED).ok().and_then(|text| text.parse().ok());
        Self { program, filter, number: given.unwrap_or_else(|| fastrand::u64(..1 << 32)) }
    }

    /// A generator of its own for each purpose, so that one does not disturb the others.
    pub fn generator(&self, purpose: u64) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ purpose)
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { program, filter, number } = self;
            announce(&format!(
                "run it again with: \
                 ZOOLET_TIER={program} {SEED}={number} cargo test --workspace --test {program} -- {filter} --nocapture"
            ));
        }
    }
}
