//! One simulated machine: a runtime of one thread, whose time goes on only when the world says so.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::{Instant, advance, sleep_until};

use super::clock::MachineClock;

/// A clock that goes right, in parts of a million.
pub(crate) const TRUE_RATE: u64 = 1_000_000;

/// A machine.
#[derive(Debug)]
pub(crate) struct Machine {
    /// The program that runs on it.
    life: Option<Life>,
    /// How fast its clocks go, in parts of a million.
    rate: u64,
    /// Its time since the begin of the run, by its own count, in nanoseconds.
    local_ns: u64,
    /// Its wall clock beside that, in milliseconds.
    wall_offset_ms: i64,
    /// It stands still until it is woken.
    is_stopped: bool,
    /// Its program has its turn in one of this number of steps.
    turn_every: u64,
    steps: u64,
}

#[derive(Debug)]
struct Life {
    runtime: Runtime,
    main: JoinHandle<()>,
    clock: MachineClock,
    /// `local_ns` at its begin.
    began_ns: u64,
    /// The time for which it stood still.
    missed: bool,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self {
            life: None,
            rate: TRUE_RATE,
            local_ns: 0,
            wall_offset_ms: 0,
            is_stopped: false,
            turn_every: 1,
            steps: 0,
        }
    }

    /// Starts a program, whose main task is made with the machine's clocks.
    pub(crate) fn start<F>(&mut self, program: impl FnOnce(MachineClock) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // The one thing in the world that asks the system for the time: where the runtime's begins.
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let Ok(runtime) = runtime else { return };
        let base = runtime.block_on(async { Instant::now() });
        let clock = MachineClock::new(base, self.local_ns / 1_000_000, self.wall_offset_ms);
        let main = runtime.spawn(program(clock.clone()));
        self.is_stopped = false;
        self.life = Some(Life { runtime, main, clock, began_ns: self.local_ns, missed: false });
    }

    pub(crate) fn runs(&self) -> bool {
        self.life.is_some()
    }

    /// Whether its program has come to its end, or was ended.
    pub(crate) fn is_done(&self) -> bool {
        self.life.as_ref().is_none_or(|life| life.main.is_finished())
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// The program stands still, and its clocks go on.
    pub(crate) fn stop(&mut self) {
        self.is_stopped = true;
    }

    pub(crate) fn go_on(&mut self) {
        self.is_stopped = false;
    }

    /// Sets how fast the clocks go.
    pub(crate) fn set_rate(&mut self, rate: u64) {
        self.rate = rate;
    }

    /// Sets in which steps the program has its turn: in one of this number.
    pub(crate) fn set_turn_every(&mut self, steps: u64) {
        self.turn_every = steps;
    }

    /// The wall clock jumps.
    pub(crate) fn jump(&mut self, by_ms: i64) {
        self.wall_offset_ms = self.wall_offset_ms.saturating_add(by_ms);
        if let Some(life) = &self.life {
            life.clock.jump(by_ms);
        }
    }

    /// Ends the program wherever it stands.
    pub(crate) fn end(&mut self) {
        if let Some(life) = self.life.take() {
            life.runtime.shutdown_background();
        }
    }

    /// How long some true time is by its clocks.
    pub(crate) fn by_its_clocks(&self, span: Duration) -> Duration {
        let span_ns = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let local = u128::from(span_ns) * u128::from(self.rate) / u128::from(TRUE_RATE);
        Duration::from_nanos(u64::try_from(local).unwrap_or(u64::MAX))
    }

    /// Gives the machine some true time. What is to be done in it is done.
    pub(crate) fn step(&mut self, span: Duration) {
        let local_ns = u64::try_from(self.by_its_clocks(span).as_nanos()).unwrap_or(u64::MAX);
        self.local_ns = self.local_ns.saturating_add(local_ns);
        self.steps += 1;
        let local_ns = self.local_ns;
        let Some(life) = &mut self.life else { return };
        if self.is_stopped {
            life.missed = true;
            return;
        }
        if !self.steps.is_multiple_of(self.turn_every) {
            return;
        }
        // Timers are exact to a millisecond.
        let target_ms = (local_ns - life.began_ns) / 1_000_000;
        let target = life.clock.base() + Duration::from_millis(target_ms);
        let jumps = std::mem::take(&mut life.missed);
        life.runtime.block_on(async {
            let now = Instant::now();
            if jumps && target > now {
                // All timers that were due meanwhile are due at once.
                advance(target - now).await;
            }
            if target > Instant::now() {
                // While it waits, all tasks have their turn, and timers fire one after the other.
                sleep_until(target).await;
            } else {
                // There is nothing to wait for, and what has come is to be done all the same.
                tokio::task::yield_now().await;
            }
        });
        life.clock.set_mono_us(target_ms * 1000);
    }

    /// As a step, which ends behind some turns of the program's tasks: for crashes in the midst of
    /// something.
    pub(crate) fn step_some(&mut self, turns: u64) {
        let Some(life) = &mut self.life else { return };
        if self.is_stopped {
            return;
        }
        life.runtime.block_on(async {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
        });
    }
}
