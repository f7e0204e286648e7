//! A machine's clocks, which may go wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use tokio::runtime::Handle;
use tokio::time::Instant;
use zoolet_server::internals::{Clock, Now};

/// The wall clock at the begin of a run, milliseconds since 1970: a day in 2026.
const BEGIN_WALL_MS: i64 = 1_790_000_000_000;

/// The clocks of one life of a machine's program. Clones are the same clocks.
#[derive(Clone, Debug)]
pub(crate) struct MachineClock {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// The runtime's time at its begin.
    base: Instant,
    /// The monotonic clock between the steps of the runtime, in microseconds since its begin.
    mono_us: AtomicU64,
    /// The wall clock at the begin of the runtime, milliseconds since 1970.
    wall_ms: AtomicI64,
}

impl MachineClock {
    /// Clocks that begin `since_begin_ms` behind the begin of the run, by the machine's own count.
    pub(crate) fn new(base: Instant, since_begin_ms: u64, offset_ms: i64) -> Self {
        let since = i64::try_from(since_begin_ms).unwrap_or(i64::MAX);
        let wall_ms = AtomicI64::new(BEGIN_WALL_MS.saturating_add(since).saturating_add(offset_ms));
        Self { shared: Arc::new(Shared { base, mono_us: AtomicU64::new(0), wall_ms }) }
    }

    /// The runtime has come to this time.
    pub(crate) fn set_mono_us(&self, mono_us: u64) {
        self.shared.mono_us.store(mono_us, Ordering::Relaxed);
    }

    /// The wall clock jumps.
    pub(crate) fn jump(&self, by_ms: i64) {
        self.shared.wall_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    pub(crate) fn base(&self) -> Instant {
        self.shared.base
    }
}

impl Clock for MachineClock {
    fn now(&self) -> Now {
        let mono_ms = self.mono_us() / 1000;
        let since = i64::try_from(mono_ms).unwrap_or(i64::MAX);
        let wall_ms = self.shared.wall_ms.load(Ordering::Relaxed).saturating_add(since);
        Now { mono_ms, wall_ms }
    }

    fn mono_us(&self) -> u64 {
        // Outside of the runtime, its time does not stand still.
        if Handle::try_current().is_err() {
            return self.shared.mono_us.load(Ordering::Relaxed);
        }
        let elapsed = Instant::now().saturating_duration_since(self.shared.base);
        u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
    }
}
