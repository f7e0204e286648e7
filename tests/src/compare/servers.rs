//! What happens to locks when their servers are lost: one, all, or one whose replica takes over; and
//! when the clock of one is wrong.

use std::process::Command;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use super::LEASE;
use super::error::CompareError;
use super::observation::{Observations, Question, seconds};
use super::referee::{Referee, Released, now};
use super::resource::Who;
use super::stage::{FREE_MAX, RELEASED_MAX, SETTLE, Stage, lock_name};
use super::store::{Pair, System};
use super::way::{Group, Way};

/// How far a clock jumps.
const JUMP_MS: u64 = 3_600_000;
/// How long clients may take to find another server.
const MOVED_MAX: Duration = LEASE.saturating_mul(5);
/// How long it is looked whether there is a lock without the one server.
const ALONE_MAX: Duration = Duration::from_secs(3);
/// How long a lock must stay with a holder whose servers came back, or whose clock jumped.
const KEPT: Duration = Duration::from_secs(6);
/// Servers of Redlock that a holder does not reach, so that it has a bare majority.
const UNREACHED: [usize; 2] = [3, 4];
/// One of the majority.
const JUMPS: usize = 2;

/// Kills all servers under holders and starts them again.
pub(super) fn restart(stage: &mut Stage<'_>) -> Result<(), CompareError> {
    let mut referee = stage.referee();
    let process = stage.start(&mut referee, "restart")?;
    let other = stage.start(&mut referee, "restart")?;
    let (holders, waiters) = (stage.all(process), stage.all(other));
    hold(stage, &mut referee, &holders, &waiters)?;
    let servers: Vec<usize> = (0..stage.store.addresses().len()).collect();
    for server in &servers {
        stage.store.kill(*server)?;
    }
    let killed = now();
    stage.store.restart(&servers)?;
    let back = now();
    until_taken(stage, &mut referee, &waiters, KEPT)?;
    let down = seconds(killed, back);
    finish(stage, &mut referee, process, &waiters)?;
    let pairs = stage.group.ways.clone().into_iter().zip(holders.into_iter().zip(waiters));
    for (way, pair) in pairs {
        let fate = fate(&referee, way, pair, back);
        let evidence = format!("{}; the servers were down for {down:.1} s", fate.evidence);
        stage.seen.add(way.name, Question::Restart, fate.verdict, fate.after, evidence);
    }
    Ok(())
}

/// Kills one server, the leader if there is one; then the holder releases.
pub(super) fn loss(stage: &mut Stage<'_>) -> Result<(), CompareError> {
    let mut referee = stage.referee();
    let process = stage.start(&mut referee, "loss")?;
    let other = stage.start(&mut referee, "loss")?;
    let (holders, waiters) = (stage.all(process), stage.all(other));
    hold(stage, &mut referee, &holders, &waiters)?;
    let leader = stage.store.leader();
    stage.store.kill(leader)?;
    let killed = now();
    for who in &holders {
        referee.go_on(*who)?;
    }
    let exclusive: Vec<Who> = stage
        .group
        .ways
        .iter()
        .zip(&waiters)
        .filter_map(|(way, who)| way.excludes.then_some(*who))
        .collect();
    let alone = stage.store.addresses().len() == 1;
    referee.until_held(&exclusive, if alone { ALONE_MAX } else { MOVED_MAX })?;
    let pairs = stage.group.ways.clone().into_iter().zip(holders.iter().zip(&waiters));
    for (way, (holder, who)) in pairs {
        let (holder, turn) = (referee.turn(*holder), referee.turn(*who));
        let after = turn.held_at.map(|at| seconds(killed, at));
        let (verdict, number) = match (after, alone) {
            (_, true) => ("no lock while the one server is down", None),
            (Some(after), _) => ("goes on, after", Some(after)),
            (None, _) => ("does not go on", None),
        };
        let release = release_of(holder.released.as_ref());
        let evidence = format!(
            "the holder's release {release}; granted after {after:.2?} s {}",
            turn.why_failed
        );
        stage.seen.add(way.name, Question::Loss, verdict, number, evidence);
    }
    stage.store.restart(&[leader])
}

/// Sets the clock of one server an hour ahead while locks are held.
pub(super) fn clock(stage: &mut Stage<'_>) -> Result<(), CompareError> {
    let mut referee = stage.referee();
    let process = stage.start(&mut referee, "clock")?;
    let other = stage.start(&mut referee, "clock")?;
    let (holders, waiters) = (stage.all(process), stage.all(other));
    let redlock = stage.group.system == System::Redlock;
    if redlock {
        for server in UNREACHED {
            referee.links(process).get(server).iter().for_each(|link| link.refuse());
        }
    }
    hold(stage, &mut referee, &holders, &waiters)?;
    if redlock {
        referee.links(process).iter().for_each(super::link::Link::heal);
    }
    let jumps = if redlock { JUMPS } else { stage.store.leader() };
    stage.store.jump(jumps, JUMP_MS)?;
    let jumped = now();
    until_taken(stage, &mut referee, &waiters, KEPT)?;
    finish(stage, &mut referee, process, &waiters)?;
    let pairs = stage.group.ways.clone().into_iter().zip(holders.into_iter().zip(waiters));
    for (way, pair) in pairs {
        let fate = fate(&referee, way, pair, jumped);
        let evidence = format!("{}; ahead by {JUMP_MS} ms", fate.evidence);
        stage.seen.add(way.name, Question::Clock, fate.verdict, fate.after, evidence);
    }
    Ok(())
}

/// Fails a Redis over to its replica, which has the lock or not.
pub(super) fn failover(
    group: &Group,
    command: &Command,
    runtime: &Handle,
    seen: &mut Observations,
) -> Result<(), CompareError> {
    for is_behind in [true, false] {
        let mut pair = Pair::start(group.system, runtime)?;
        let mut referee = Referee::new(runtime.clone());
        let primary = [pair.primary()?];
        let contenders: Vec<_> =
            group.ways.iter().map(|way| (*way, lock_name("failover", way.name))).collect();
        let process = referee.start(command, &primary, contenders.clone(), true)?;
        let other = referee.start(command, &primary, contenders, true)?;
        let of = |process| (0..group.ways.len()).map(move |number| Who { process, number });
        let (holders, waiters): (Vec<_>, Vec<_>) = (of(process).collect(), of(other).collect());
        if is_behind {
            pair.falls_behind();
        }
        referee.until_held(&holders, FREE_MAX)?;
        let copied = !is_behind && pair.has_copied(holders.len())?;
        pair.fail_over()?;
        let moved = now();
        for link in referee.links(process).iter().chain(referee.links(other)) {
            link.retarget(pair.replica()?);
        }
        referee.until_held(&waiters, LEASE / 2)?;
        for (way, (holder, waiter)) in group.ways.iter().zip(holders.into_iter().zip(waiters)) {
            let fate = fate(&referee, way, (holder, waiter), moved);
            let verdict = if is_behind {
                format!("replica behind: {}", fate.verdict)
            } else {
                format!("replica not behind: {}", fate.verdict)
            };
            let evidence = format!("{}; the replica had the lock: {copied}", fate.evidence);
            seen.add(way.name, Question::Failover, verdict, fate.after, evidence);
        }
    }
    Ok(())
}

/// Has the first of each pair hold, and the second wait.
fn hold(
    stage: &Stage<'_>,
    referee: &mut Referee,
    holders: &[Who],
    waiters: &[Who],
) -> Result<(), CompareError> {
    if !referee.until_held(holders, FREE_MAX)? {
        let what = "it does not get a free lock".to_owned();
        return Err(CompareError::Program { way: stage.name().to_owned(), what });
    }
    for who in waiters {
        referee.ask(*who)?;
    }
    referee.listen(SETTLE)
}

/// Waits until each waiter has a lock, asking again for those whose acquisition has failed.
fn until_taken(
    stage: &Stage<'_>,
    referee: &mut Referee,
    waiters: &[Who],
    limit: Duration,
) -> Result<(), CompareError> {
    let ways = stage.group.ways.iter().zip(waiters);
    let exclusive: Vec<Who> = ways.filter_map(|(way, who)| way.excludes.then_some(*who)).collect();
    referee.until_held(&exclusive, limit).map(drop)
}

/// Has all holders go on, so that it is seen what they learn from their release.
fn finish(
    stage: &Stage<'_>,
    referee: &mut Referee,
    process: usize,
    waiters: &[Who],
) -> Result<(), CompareError> {
    stage.leave(referee, process)?;
    let ways = stage.group.ways.iter().zip(waiters);
    let exclusive: Vec<Who> = ways.filter_map(|(way, who)| way.excludes.then_some(*who)).collect();
    referee.until_held(&exclusive, RELEASED_MAX).map(drop)
}

/// What a holder saw of its release.
fn release_of(released: Option<&Released>) -> String {
    match released {
        Some(Released::Kept) => "found it held".to_owned(),
        Some(Released::Gone) => "found it lost".to_owned(),
        Some(Released::Failed(why)) => format!("failed: {why}"),
        None => "did not end".to_owned(),
    }
}

/// What became of a held lock.
struct Fate {
    verdict: &'static str,
    after: Option<f64>,
    evidence: String,
}

fn fate(referee: &Referee, way: &Way, (holder, next): (Who, Who), since: Instant) -> Fate {
    let (holder, next) = (referee.turn(holder), referee.turn(next));
    let after = next.held_at.filter(|at| *at > since).map(|at| seconds(since, at));
    // It had the lock while the holder had not begun to release it.
    let early = match (next.held_at, holder.left_at) {
        (Some(taken), Some(left)) => taken < left,
        (Some(_), None) => true,
        (None, _) => false,
    };
    let noticed = match (holder.lost_at, next.held_at) {
        (Some(lost), Some(taken)) => lost <= taken,
        (Some(_), None) => true,
        (None, _) => false,
    };
    let release = release_of(holder.released.as_ref());
    let (verdict, after) = match (way.excludes, early, noticed) {
        (false, _, _) => ("waits for no holder", None),
        (true, true, false) => ("**held twice**, after", after),
        (true, true, true) => ("lost, and its holder knew; the next one after", after),
        (true, false, _)
            if holder.released == Some(Released::Kept) || holder.released.is_none() =>
        {
            (if noticed { "the holder keeps it, in doubt" } else { "the holder keeps it" }, None)
        }
        (true, false, _) => ("lost at the release, held once", None),
    };
    let evidence = format!("the holder noticed first: {noticed}; its release {release}");
    Fate { verdict, after, evidence }
}
