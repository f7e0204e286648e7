//! When the machine stood still: a thread that wants to go on every 10 ms, and notes when it could
//! not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{io, mem};

use crate::context::{RunContext, block_thread};

const BEAT: Duration = Duration::from_millis(10);
/// A pause between two beats that is noted, in microseconds.
const STALL_US_MIN: u64 = 20_000;

/// The thread.
#[derive(Debug)]
pub(crate) struct StallMonitor {
    is_over: Arc<AtomicBool>,
    /// Only [`finish`](Self::finish) takes it.
    thread: Option<JoinHandle<Vec<(u64, u64)>>>,
}

impl StallMonitor {
    pub(crate) fn start(context: &Arc<RunContext>) -> io::Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (context, ends) = (Arc::clone(context), Arc::clone(&is_over));
        let thread = thread::Builder::new().name("metronome".to_owned()).spawn(move || {
            let mut stalls = Vec::new();
            let mut last_us = context.recorder.now_us();
            while !ends.load(Ordering::Relaxed) {
                block_thread(BEAT);
                let now_us = context.recorder.now_us();
                if now_us - last_us > STALL_US_MIN {
                    stalls.push((last_us, now_us));
                }
                last_us = now_us;
            }
            stalls
        })?;
        Ok(Self { is_over, thread: Some(thread) })
    }

    /// From when to when the machine stood still, in microseconds of the run.
    pub(crate) fn finish(&mut self) -> Vec<(u64, u64)> {
        self.is_over.store(true, Ordering::Relaxed);
        let stalls = mem::take(&mut self.thread).map(JoinHandle::join);
        stalls.and_then(Result::ok).unwrap_or_default()
    }
}

impl Drop for StallMonitor {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}
