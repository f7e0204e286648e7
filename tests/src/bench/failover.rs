//! How long an ensemble acknowledges no write when its leader is lost.
//!
//! A writer at each other server has its session and writes before the fault, so that the time is
//! that of the ensemble and not of a client that looks for another server. Of the first
//! acknowledged write only those count that were sent after the signal: the old leader may have
//! committed earlier ones.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use super::error::BenchError;
use super::options::Options;
use super::progress::Recorder;
use super::real_time::{now, pause};
use super::results::{Figure, Figures, SYSTEMS};
use super::rounds;
use super::rows::{FAULTS, Fault, Row};
use super::writer::{Ack, SESSION_MS, Writer};
use crate::four_letter;
use crate::process::is_alive;
use crate::raw::RawConnection;
use crate::servers::{LEADER_MAX, Servers};
use crate::wait;

const SERVERS: usize = 3;
/// The writes that each writer has acknowledged before the fault.
const WRITES_BEFORE: usize = 100;
/// The longest time to a write, and to the end of a terminated server.
const FAILOVER_MAX: Duration = Duration::from_mins(1);
/// Between two runs, with all servers in agreement.
const SETTLE: Duration = Duration::from_secs(1);
/// Writes are watched for this long after the end of a terminated server.
const AFTERWARDS: Duration = Duration::from_secs(2);

/// Returns what all runs are expected to take.
pub(super) fn expected(options: &Options) -> Duration {
    let runs = u32::try_from(options.failovers * SYSTEMS.len()).unwrap_or(u32::MAX);
    FAULTS.into_iter().map(step).sum::<Duration>() * runs
}

/// A run with the start of the server and its catching up.
fn step(fault: Fault) -> Duration {
    Duration::from_secs(match fault {
        Fault::Killed => 4,
        Fault::Stopped => 9,
        Fault::Terminated => 6,
    })
}

/// Measures each fault on both systems in turns.
pub(super) fn measure(options: &Options, recorder: &mut Recorder) -> Result<(), BenchError> {
    let mut systems = Vec::new();
    for system in SYSTEMS {
        systems.push(rounds::start(system, SERVERS)?);
    }
    for run in 1..=options.failovers {
        for fault in FAULTS {
            for servers in &mut systems {
                let system = servers.kind();
                let figures = lose_leader(servers, fault)?;
                recorder.add(Row::Fault(fault), system, run, figures);
                recorder.finish(step(fault));
            }
        }
        systems.reverse();
    }
    Ok(())
}

/// Loses the leader under writes at the other servers and brings it back. Returns the measured time,
/// and for a planned end how many requests have failed.
fn lose_leader(servers: &mut Servers, fault: Fault) -> Result<Figures, BenchError> {
    let leader = settle(servers)?;
    let (sender, acks) = mpsc::channel();
    let mut writers = Vec::new();
    for index in (0..SERVERS).filter(|index| *index != leader) {
        writers.push(Writer::start(index, servers.client_address(index)?, sender.clone()));
    }
    drop(sender);
    let failed = |what: &str| failure(servers, &format!("{}: {what}", fault.title()));
    let mut seen = writes_before(&acks).ok_or_else(|| failed("no writes before it"))?;
    servers.signal(leader, fault.signal())?;
    let signaled = now();
    let time = match fault {
        Fault::Killed | Fault::Stopped => {
            let first = until_sent_after(signaled, &acks, &mut seen);
            first.map(|first| first.received - signaled)
        }
        Fault::Terminated => {
            let pid = servers.pid(leader);
            wait::until(FAILOVER_MAX, || pid.is_none_or(|pid| !is_alive(pid)).then_some(()))
                .ok_or_else(|| failed("the server does not end"))?;
            until_sent_after(now() + AFTERWARDS, &acks, &mut seen);
            longest_gap(signaled, &seen)
        }
    };
    let time = time.ok_or_else(|| failed("no write is acknowledged afterwards"))?;
    let mut figures = Figures::from([(Figure::Milliseconds, time.as_secs_f64() * 1_000.0)]);
    if fault == Fault::Terminated {
        let failed: usize = writers.iter().map(Writer::failed).sum();
        figures
            .0
            .insert(Figure::FailedRequests, f64::from(u32::try_from(failed).unwrap_or(u32::MAX)));
    }
    drop(writers);
    match fault {
        Fault::Killed | Fault::Terminated => servers.restart(leader)?,
        Fault::Stopped => {
            servers.signal(leader, "CONT")?;
            servers.wait_until_serving(leader)?;
        }
    }
    Ok(figures)
}

/// Waits until one server leads and all have applied the same, and returns the leader.
fn settle(servers: &Servers) -> Result<usize, BenchError> {
    let leader = servers.wait_for_leader(LEADER_MAX)?;
    let address = servers.client_address(leader)?;
    // A new session is a write: a server that has seen none in this epoch may show an old zxid.
    wait::until(LEADER_MAX, || RawConnection::open(address, SESSION_MS).ok())
        .ok_or_else(|| failure(servers, "the leader opens no session"))?;
    let addresses = (0..SERVERS).map(|index| servers.client_address(index));
    let addresses = addresses.collect::<Result<Vec<_>, _>>()?;
    let ask = |address: &SocketAddr| four_letter::ask(*address, "srvr").unwrap_or_default();
    let leader = wait::until(LEADER_MAX, || agreed(&addresses.iter().map(ask).collect::<Vec<_>>()))
        .ok_or_else(|| failure(servers, "the servers do not agree on a leader and a zxid"))?;
    pause(SETTLE);
    Ok(leader)
}

/// Returns the one leader, if the replies to `srvr` of all servers show the same zxid.
fn agreed(replies: &[String]) -> Option<usize> {
    let line = |reply: &String, key: &str| {
        reply.lines().find_map(|line| line.strip_prefix(key)).map(str::to_owned)
    };
    let zxids = replies.iter().map(|reply| line(reply, "Zxid: "));
    let zxids = zxids.collect::<Option<Vec<_>>>()?;
    let modes = replies.iter().map(|reply| line(reply, "Mode: "));
    let mut leaders = modes.enumerate().filter(|(_, mode)| mode.as_deref() == Some("leader"));
    let (leader, _) = leaders.next()?;
    let is_agreed =
        leaders.next().is_none() && zxids.iter().all(|zxid| zxids.first() == Some(zxid));
    is_agreed.then_some(leader)
}

fn failure(servers: &Servers, what: &str) -> BenchError {
    BenchError::of(servers.kind(), what)
}

/// Waits until each writer has written for a while; returns the acknowledged writes.
fn writes_before(acks: &Receiver<Ack>) -> Option<Vec<Ack>> {
    let mut seen: Vec<Ack> = Vec::new();
    let mut counts = BTreeMap::new();
    let limit = now() + FAILOVER_MAX;
    while counts.len() < SERVERS - 1 || counts.values().any(|count| *count < WRITES_BEFORE) {
        let ack = acks.recv_timeout(limit.saturating_duration_since(now())).ok()?;
        *counts.entry(ack.writer).or_insert(0) += 1;
        seen.push(ack);
    }
    Some(seen)
}

/// Waits for the first acknowledged write that was sent at `time` or later, and adds all
/// acknowledged writes up to it to `seen`.
fn until_sent_after(time: Instant, acks: &Receiver<Ack>, seen: &mut Vec<Ack>) -> Option<Ack> {
    let limit = time + FAILOVER_MAX;
    loop {
        let ack = acks.recv_timeout(limit.saturating_duration_since(now())).ok()?;
        seen.push(ack);
        if ack.sent >= time {
            return Some(ack);
        }
    }
}

/// Returns the longest time between two successive acknowledged writes, of those that end after
/// the signal.
fn longest_gap(signaled: Instant, seen: &[Ack]) -> Option<Duration> {
    let mut received: Vec<Instant> = seen.iter().map(|ack| ack.received).collect();
    received.sort_unstable();
    let pairs = received.iter().zip(received.iter().skip(1));
    let after = pairs.filter(|(_, next)| **next >= signaled);
    after.map(|(one, next)| next.duration_since(*one)).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(start: Instant, writer: usize, sent_ms: u64, received_ms: u64) -> Ack {
        let at = |ms| start + Duration::from_millis(ms);
        Ack { writer, sent: at(sent_ms), received: at(received_ms) }
    }

    /// A write that the old leader has committed may be acknowledged when it is dead.
    #[test]
    fn a_write_that_was_sent_before_the_signal_is_not_the_first() {
        let (sender, acks) = mpsc::channel();
        let start = now();
        for (writer, sent, received) in [(0, 90, 101), (1, 95, 480), (0, 102, 500), (1, 481, 501)] {
            sender.send(ack(start, writer, sent, received)).unwrap();
        }
        let mut seen = Vec::new();
        let signaled = start + Duration::from_millis(100);
        let first = until_sent_after(signaled, &acks, &mut seen).unwrap();
        assert_eq!(first.received - signaled, Duration::from_millis(400));
        assert_eq!(seen.len(), 3);
        drop(sender);
        assert!(until_sent_after(start + Duration::from_secs(9), &acks, &mut seen).is_none());
    }

    #[test]
    fn the_longest_gap_is_that_of_all_writers_together_and_after_the_signal() {
        let start = now();
        let gap = |times: &[(usize, u64)], signaled_ms| {
            let seen: Vec<Ack> =
                times.iter().map(|(writer, at)| ack(start, *writer, *at, *at)).collect();
            longest_gap(start + Duration::from_millis(signaled_ms), &seen)
        };
        let times = [(0, 0), (0, 500), (1, 510), (0, 720), (1, 600), (0, 730)];
        assert_eq!(gap(&times, 505), Some(Duration::from_millis(120)));
        assert_eq!(gap(&times, 400), Some(Duration::from_millis(500)));
        assert_eq!(gap(&times, 800), None);
    }

    #[test]
    fn servers_agree_on_one_leader_and_one_zxid() {
        let replies = |servers: [(&str, &str); 3]| {
            servers.map(|(zxid, mode)| format!("Zxid: {zxid}\nMode: {mode}\nNode count: 5\n"))
        };
        let all = [("0x9", "follower"), ("0x9", "leader"), ("0x9", "follower")];
        assert_eq!(agreed(&replies(all)), Some(1));
        let behind = [("0x9", "follower"), ("0x9", "leader"), ("0x8", "follower")];
        assert_eq!(agreed(&replies(behind)), None);
        let two = [("0x9", "leader"), ("0x9", "leader"), ("0x9", "follower")];
        assert_eq!(agreed(&replies(two)), None);
        let mut silent = replies(all);
        silent[0].clear();
        assert_eq!(agreed(&silent), None);
    }
}
