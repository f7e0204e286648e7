//! Three servers of each system that are short of processor time: how many elections there are, and how
//! many writes. Both systems are measured in the same minutes.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::error::BenchError;
use super::machine::Machine;
use super::options::Options;
use super::progress::Recorder;
use super::quota::Quota;
use super::real_time::{now, pause};
use super::results::{Figure, Figures, SYSTEMS};
use super::rounds;
use super::rows::{BUSY, Case, Row, STARVED_LOAD, STARVED_QUOTA};
use super::writer::{Ack, Writer};
use crate::four_letter;
use crate::servers::{LEADER_MAX, Servers};
use crate::wait;

const SERVERS: usize = 3;
/// With a busy loop for each core.
const LONG: Duration = Duration::from_mins(10);
/// With many loops, and with a quota.
const SHORT: Duration = Duration::from_mins(2);
/// Before the shortage begins.
const WARM_UP: Duration = Duration::from_secs(3);
/// The load of a machine with far more work than processors.
const LOOPS: usize = 60;
/// The processor time of each server per second, in microseconds.
const QUOTA_US: u64 = 15_000;

pub(super) fn expected(_: &Options) -> Duration {
    3 * WARM_UP + LONG + 2 * SHORT
}

pub(super) fn measure(_: &Options, recorder: &mut Recorder) -> Result<(), BenchError> {
    let cores = Machine::read()?.cores;
    observe(recorder, BUSY, LONG, |_| Ok(BusyLoops::start(cores)))?;
    observe(recorder, STARVED_LOAD, SHORT, |_| Ok(BusyLoops::start(LOOPS)))?;
    observe(recorder, STARVED_QUOTA, SHORT, |systems| {
        let quotas = systems.iter().map(|system| {
            let servers = &system.servers;
            let pids: Vec<u32> = (0..SERVERS).filter_map(|index| servers.pid(index)).collect();
            Quota::start(servers.kind().name(), &pids, QUOTA_US * SERVERS as u64)
        });
        quotas.collect::<Result<Vec<_>, _>>()
    })
}

/// Measures both systems under a shortage, which ends when it is dropped.
fn observe<S>(
    recorder: &mut Recorder,
    case: Case,
    time: Duration,
    shortage: impl FnOnce(&[Observed]) -> Result<S, BenchError>,
) -> Result<(), BenchError> {
    let mut systems = Vec::new();
    for system in SYSTEMS {
        systems.push(Observed::start(rounds::start(system, SERVERS)?)?);
    }
    pause(WARM_UP);
    for system in &mut systems {
        system.begin()?;
    }
    let begun = shortage(&systems)?;
    pause(time);
    drop(begun);
    for system in systems {
        let kind = system.servers.kind();
        recorder.add(Row::Case(case), kind, 1, system.end()?);
    }
    recorder.finish(WARM_UP + time);
    Ok(())
}

/// An ensemble with a client that writes at each of two servers.
struct Observed {
    servers: Servers,
    writers: Vec<Writer>,
    acks: mpsc::Receiver<Ack>,
    epoch: u64,
    began: Instant,
}

impl Observed {
    fn start(servers: Servers) -> Result<Self, BenchError> {
        servers.wait_for_leader(LEADER_MAX)?;
        let (sender, acks) = mpsc::channel();
        let mut writers = Vec::new();
        for index in 0..SERVERS - 1 {
            writers.push(Writer::start(index, servers.client_address(index)?, sender.clone()));
        }
        Ok(Self { servers, writers, acks, epoch: 0, began: now() })
    }

    /// What comes from here on counts.
    fn begin(&mut self) -> Result<(), BenchError> {
        self.epoch = self.epoch()?;
        self.began = now();
        self.acks.try_iter().for_each(drop);
        Ok(())
    }

    fn end(self) -> Result<Figures, BenchError> {
        let seconds = self.began.elapsed().as_secs_f64();
        let writes = self.acks.try_iter().count();
        let elections = self.epoch()?.saturating_sub(self.epoch);
        drop(self.writers);
        let number = |count: u64| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        Ok(Figures::from([
            (Figure::Elections, number(elections)),
            (Figure::OperationsPerSecond, number(writes as u64) / seconds),
        ]))
    }

    /// Returns the epoch of the last write: each election begins another. The servers are asked while
    /// the writers write.
    fn epoch(&self) -> Result<u64, BenchError> {
        let zxids = || (0..SERVERS).filter_map(|index| zxid(&self.servers, index)).max();
        let zxid = wait::until(LEADER_MAX, zxids);
        let unknown = || BenchError::of(self.servers.kind(), "no server shows its zxid");
        zxid.map(|zxid| zxid >> 32).ok_or_else(unknown)
    }
}

fn zxid(servers: &Servers, index: usize) -> Option<u64> {
    let reply = four_letter::ask(servers.client_address(index).ok()?, "srvr").ok()?;
    let zxid = reply.lines().find_map(|line| line.strip_prefix("Zxid: 0x"))?;
    u64::from_str_radix(zxid.trim(), 16).ok()
}

/// Threads that compute without end.
struct BusyLoops {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl BusyLoops {
    fn start(count: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let spin = || {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                let mut number = 1_u64;
                while !stop.load(Ordering::Relaxed) {
                    number = black_box(number.wrapping_mul(6_364_136_223_846_793_005) + 1);
                }
            })
        };
        let threads = (0..count).map(|_| spin()).collect();
        Self { stop, threads }
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic of the thread has been printed.
            let _ = thread.join();
        }
    }
}
