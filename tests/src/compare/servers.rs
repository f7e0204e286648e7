//! What happens to locks when their servers are lost: one, all, or one whose replica takes over; and
//! when the clock of one is wrong.

use std::process::Command;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use super::LEASE;
use super::error::CompareError;
use super::observation::{Observations, Question, seconds};
use super::referee::{Referee, Released, Turn, now};
use super::resource::Who;
use super::stage::{FREE_MAX, RELEASED_MAX, SETTLE, Stage, lock_name};
use super::store::{Pair, System};
use super::way::{Group, Way};

/// What keeps a lock from being useful again, on any store.
pub(super) const RELEASE_DOES_NOT_END: &str = "**its release did not end**";
pub(super) const NOT_GRANTED_AGAIN: &str = "**not granted again**";

/// How far a clock jumps.
const JUMP_MS: u64 = 3_600_000;
/// How long clients may take to find another server.
const MOVED_MAX: Duration = LEASE.saturating_mul(5);
/// How long it is looked whether there is a lock without the one server.
const ALONE_MAX: Duration = Duration::from_secs(3);
/// How long a lock must stay with a holder whose servers came back, or whose clock jumped: longer than
/// a lease that is not renewed.
const KEPT: Duration = LEASE.saturating_add(Duration::from_secs(1));
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
    referee.until_held(&exclusive(&stage.group.ways, &waiters), KEPT)?;
    let down = seconds(killed, back);
    finish(&mut referee, &stage.group.ways, &holders, &waiters)?;
    let pairs = stage.group.ways.clone().into_iter().zip(holders.into_iter().zip(waiters));
    for (way, pair) in pairs {
        let outcome = outcome(&referee, way, pair, back);
        let evidence = format!("{}; the servers were down for {down:.1} s", outcome.evidence);
        stage.seen.add(way.name, Question::Restart, outcome.verdict, outcome.after, evidence);
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
    let alone = stage.store.addresses().len() == 1;
    let limit = if alone { ALONE_MAX } else { MOVED_MAX };
    referee.until_held(&exclusive(&stage.group.ways, &waiters), limit)?;
    let pairs = stage.group.ways.clone().into_iter().zip(holders.iter().zip(&waiters));
    for (way, (holder, who)) in pairs {
        let (holder, turn) = (referee.turn(*holder), referee.turn(*who));
        let (verdict, number) = goes_on(way, turn.held_at, killed, alone);
        let release = release_of(holder.released.as_ref());
        let evidence = format!("the holder's release {release}; {}", turn.why_failed);
        stage.seen.add(way.name, Question::Loss, verdict, number, evidence);
    }
    stage.store.restart(&[leader])
}

/// Whether a lock is granted without one server, which may be the only one.
fn goes_on(
    way: &Way,
    held_at: Option<Instant>,
    killed: Instant,
    alone: bool,
) -> (&'static str, Option<f64>) {
    let after = held_at.filter(|at| *at > killed).map(|at| seconds(killed, at));
    match (way.excludes, after, alone) {
        (false, _, _) => ("waits for no holder", None),
        (true, None, _) if held_at.is_some() => ("**held twice before the loss**", None),
        (true, None, true) => ("no lock while the one server is down", None),
        (true, Some(after), true) => ("granted while the one server is down, after", Some(after)),
        (true, Some(after), false) => ("goes on, after", Some(after)),
        (true, None, false) => ("does not go on", None),
    }
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
    let before_ms = stage.store.time_ms(jumps)?;
    stage.store.jump(jumps, JUMP_MS)?;
    let jumped = now();
    referee.until_held(&exclusive(&stage.group.ways, &waiters), KEPT)?;
    let ahead_ms = stage.store.time_ms(jumps)? - before_ms;
    if ahead_ms < i64::try_from(JUMP_MS).unwrap_or(i64::MAX) {
        let what = format!("its clock went on by {ahead_ms} ms, and should have jumped");
        return Err(CompareError::store(stage.group.system.title(), what));
    }
    finish(&mut referee, &stage.group.ways, &holders, &waiters)?;
    let pairs = stage.group.ways.clone().into_iter().zip(holders.into_iter().zip(waiters));
    for (way, pair) in pairs {
        let outcome = outcome(&referee, way, pair, jumped);
        let evidence = format!("{}; the server's time went on by {ahead_ms} ms", outcome.evidence);
        stage.seen.add(way.name, Question::Clock, outcome.verdict, outcome.after, evidence);
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
        if !is_behind && !pair.has_copied(holders.len())? {
            return Err(CompareError::store(group.system.title(), "its replica stays behind"));
        }
        pair.fail_over()?;
        let moved = now();
        for link in referee.links(process).iter().chain(referee.links(other)) {
            link.retarget(pair.replica()?);
        }
        referee.until_held(&waiters, LEASE / 2)?;
        finish(&mut referee, &group.ways, &holders, &waiters)?;
        for (way, (holder, waiter)) in group.ways.iter().zip(holders.into_iter().zip(waiters)) {
            let outcome = outcome(&referee, way, (holder, waiter), moved);
            let verdict = if is_behind {
                format!("replica behind: {}", outcome.verdict)
            } else {
                format!("replica not behind: {}", outcome.verdict)
            };
            seen.add(way.name, Question::Failover, verdict, outcome.after, outcome.evidence);
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

/// Those of the contenders that wait for a holder.
fn exclusive(ways: &[&'static Way], waiters: &[Who]) -> Vec<Who> {
    let ways = ways.iter().zip(waiters);
    ways.filter_map(|(way, who)| way.excludes.then_some(*who)).collect()
}

/// Has all holders go on, so that it is seen what they learn from their release, and that the next
/// contenders get the locks.
fn finish(
    referee: &mut Referee,
    ways: &[&'static Way],
    holders: &[Who],
    waiters: &[Who],
) -> Result<(), CompareError> {
    referee.leave(holders, RELEASED_MAX)?;
    referee.until_held(&exclusive(ways, waiters), RELEASED_MAX).map(drop)
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
#[derive(Debug)]
struct Outcome {
    verdict: &'static str,
    after: Option<f64>,
    evidence: String,
}

fn outcome(referee: &Referee, way: &Way, (holder, next): (Who, Who), since: Instant) -> Outcome {
    outcome_of(way, &referee.turn(holder), &referee.turn(next), since)
}

fn outcome_of(way: &Way, holder: &Turn, next: &Turn, since: Instant) -> Outcome {
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
    let has_ended = match (holder.asked_at, next.held_at) {
        (Some(asked), Some(taken)) => !way.renews && taken >= asked + LEASE,
        _ => false,
    };
    let (verdict, after) = if !way.excludes {
        ("waits for no holder", None)
    } else if early && noticed {
        ("lost, and its holder knew; the next one after", after)
    } else if early && has_ended {
        ("kept until its lease ended, after", after)
    } else if early {
        ("**held twice**, after", after)
    } else if holder.released.is_none() {
        (RELEASE_DOES_NOT_END, None)
    } else if next.held_at.is_none() {
        (NOT_GRANTED_AGAIN, None)
    } else if holder.released != Some(Released::Kept) {
        ("lost at the release, held once", None)
    } else if noticed {
        ("the holder keeps it, in doubt", None)
    } else {
        ("the holder keeps it", None)
    };
    let release = release_of(holder.released.as_ref());
    let evidence = format!("the holder noticed first: {noticed}; its release {release}");
    Outcome { verdict, after, evidence }
}

#[cfg(test)]
mod tests {
    use super::super::way::WAYS;
    use super::*;

    fn verdict(way: &str, change: impl FnOnce(&mut Turn, &mut Turn, Instant)) -> &'static str {
        let way = WAYS.iter().find(|it| it.name == way).unwrap();
        let start = now();
        let at = |ms| Some(start + Duration::from_millis(ms));
        let mut holder = Turn { asked_at: at(0), held_at: at(1), ..Turn::default() };
        holder.left_at = at(7_000);
        holder.released = Some(Released::Kept);
        let mut next = Turn { held_at: at(7_001), ..Turn::default() };
        change(&mut holder, &mut next, start);
        outcome_of(way, &holder, &next, start).verdict
    }

    #[test]
    fn a_verdict_follows_what_was_seen() {
        let early = |_: &mut Turn, next: &mut Turn, start| {
            next.held_at = Some(start + Duration::from_millis(500));
        };
        let late = |_: &mut Turn, next: &mut Turn, start| next.held_at = Some(start + LEASE);
        assert_eq!(verdict("redis", |_, _, _| {}), "the holder keeps it");
        assert_eq!(verdict("redis", early), "**held twice**, after");
        assert_eq!(verdict("redis", late), "kept until its lease ended, after");
        assert_eq!(verdict("redis-renewed", late), "**held twice**, after");
        assert_eq!(
            verdict("redis-renewed", |holder, next, start| {
                late(holder, next, start);
                holder.lost_at = next.held_at;
            }),
            "lost, and its holder knew; the next one after"
        );
        assert_eq!(verdict("etcd-mutex", |it, _, _| it.released = None), RELEASE_DOES_NOT_END);
        assert_eq!(verdict("etcd-mutex", |_, it, _| it.held_at = None), NOT_GRANTED_AGAIN);
        assert_eq!(verdict("mariadb-version", early), "waits for no holder");
    }

    #[test]
    fn a_grant_from_before_the_loss_does_not_count_as_one_after_it() {
        let way = WAYS.iter().find(|it| it.name == "redis").unwrap();
        let (before, killed) = (now(), now() + Duration::from_secs(1));
        let after = Some(killed + Duration::from_secs(1));
        assert_eq!(goes_on(way, None, killed, true).0, "no lock while the one server is down");
        assert_eq!(goes_on(way, Some(before), killed, false).0, "**held twice before the loss**");
        assert_eq!(goes_on(way, after, killed, false), ("goes on, after", Some(1.0)));
        assert!(goes_on(way, after, killed, true).0.starts_with("granted while"));
    }
}
