//! The true time of a run: the kernel's monotonic clock, which all processes of a machine share.
//!
//! It is asked for without the C library, so that the library that makes a server's clocks wrong
//! ([`crate::wrong_clock`]) does not change what the server's witness writes down.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};
use zoolet_sim::SimTime;

/// When the present run began.
static BEGIN_US: AtomicU64 = AtomicU64::new(0);

/// Microseconds of the machine's monotonic clock.
pub(super) fn machine_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let whole = u64::try_from(now.tv_sec).unwrap_or(0).saturating_mul(1_000_000);
    whole.saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0) / 1000)
}

/// Begins a run: its time is zero now.
pub(super) fn begin() {
    BEGIN_US.store(machine_us(), Ordering::Relaxed);
}

/// The time of the run at a time of the machine.
pub(super) fn of_machine(us: u64) -> SimTime {
    SimTime(us.saturating_sub(BEGIN_US.load(Ordering::Relaxed)))
}

/// The time of the run.
pub(super) fn now() -> SimTime {
    of_machine(machine_us())
}
