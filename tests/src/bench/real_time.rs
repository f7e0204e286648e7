//! The clock of the bench: it measures real time, on threads of its own.

#![allow(clippy::disallowed_methods, reason = "the bench measures real servers in real time")]

use std::thread;
use std::time::{Duration, Instant};

pub(super) fn now() -> Instant {
    Instant::now()
}

pub(super) fn pause(time: Duration) {
    thread::sleep(time);
}
