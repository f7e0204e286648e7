//! Holders that stand still, are cut off or killed while others wait for their locks. Each goes on
//! with a write, as a program does whose pause comes between its last look and the write.

use std::time::{Duration, Instant};

use super::LEASE;
use super::error::CompareError;
use super::observation::{Question, seconds, within};
use super::referee::{Referee, Released, now};
use super::resource::Who;
use super::stage::{FREE_MAX, RELEASED_MAX, SETTLE, Stage, TAKEN_MAX, lock_name};
use super::way::Way;

/// How long a holder that goes on may take to notice before it writes.
const NOTICE_MAX: Duration = Duration::from_millis(1_500);
/// After this time every lease of a killed program has expired.
const EXPIRED: Duration = LEASE.saturating_mul(2);
const TOPIC: &str = "torture";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Pause,
    Cut,
    Crash,
}

/// Strikes the holders of all locks, with each fault in each round.
pub(super) fn torture(stage: &mut Stage<'_>, rounds: usize) -> Result<(), CompareError> {
    let mut referee = stage.referee();
    let mut victim = stage.start(&mut referee, TOPIC)?;
    let waiter = stage.start(&mut referee, TOPIC)?;
    for _ in 0..rounds {
        for fault in [Fault::Pause, Fault::Cut, Fault::Crash] {
            strike(stage, &mut referee, (victim, waiter), fault)?;
            if fault == Fault::Crash {
                victim = stage.start(&mut referee, TOPIC)?;
            }
        }
    }
    for (number, way) in stage.group.ways.clone().into_iter().enumerate() {
        judge(stage, &referee, way, number);
    }
    remains(stage, referee, (victim, waiter))
}

/// How often a lock was granted beside a holder that had not noticed a loss, without any fault.
pub(super) fn overlaps(stage: &mut Stage<'_>) -> Result<usize, CompareError> {
    let mut referee = stage.referee();
    let (one, other) = (stage.start(&mut referee, TOPIC)?, stage.start(&mut referee, TOPIC)?);
    referee.until_held(&stage.all(one), FREE_MAX)?;
    referee.until_held(&stage.all(other), LEASE / 2)?;
    Ok(referee.overlaps.len())
}

fn strike(
    stage: &mut Stage<'_>,
    referee: &mut Referee,
    (victim, waiter): (usize, usize),
    fault: Fault,
) -> Result<(), CompareError> {
    let (holders, waiters) = (stage.all(victim), stage.all(waiter));
    if !referee.until_held(&holders, FREE_MAX)? {
        let what = format!("it does not get free locks before {fault:?}");
        return Err(CompareError::Program { way: stage.name().to_owned(), what });
    }
    for who in &waiters {
        referee.ask(*who)?;
    }
    referee.listen(SETTLE)?;
    let struck = now();
    match fault {
        Fault::Pause => referee.signal(victim, "STOP")?,
        Fault::Cut => referee.links(victim).iter().for_each(super::link::Link::silence),
        Fault::Crash => referee.kill(victim)?,
    }
    referee.until_held(&waiters, TAKEN_MAX)?;
    // Where versions are compared, another write precedes that of the holder.
    for (way, who) in stage.group.ways.iter().zip(&waiters) {
        if !way.excludes && referee.turn(*who).holds() {
            referee.go_on(*who)?;
        }
    }
    // A client may notice a moment later.
    referee.listen(SETTLE)?;
    let relieved = now();
    if fault != Fault::Crash {
        relieve(referee, victim, fault)?;
        let noticed = |it: &Referee| holders.iter().all(|who| it.turn(*who).lost_at.is_some());
        referee.until(NOTICE_MAX, noticed)?;
        for who in &holders {
            referee.go_on(*who)?;
        }
        let freed = |it: &Referee| holders.iter().all(|who| it.turn(*who).freed_at.is_some());
        referee.until(RELEASED_MAX, freed)?;
    }
    referee.until_held(&waiters, RELEASED_MAX)?;
    let pairs = stage.group.ways.clone().into_iter().zip(holders.into_iter().zip(waiters));
    for (way, (holder, next)) in pairs {
        note(stage, referee, way, (holder, next), (fault, struck, relieved));
    }
    stage.leave(referee, waiter)
}

fn relieve(referee: &Referee, victim: usize, fault: Fault) -> Result<(), CompareError> {
    if fault == Fault::Pause {
        return Ok(referee.signal(victim, "CONT")?);
    }
    referee.links(victim).iter().for_each(super::link::Link::heal);
    Ok(())
}

/// Notes when the next contender got a lock, and when its holder noticed.
fn note(
    stage: &mut Stage<'_>,
    referee: &Referee,
    way: &'static Way,
    (holder, next): (Who, Who),
    (fault, struck, relieved): (Fault, Instant, Instant),
) {
    let (holder, next) = (referee.turn(holder), referee.turn(next));
    let question = match fault {
        Fault::Pause => Question::Pause,
        Fault::Cut => Question::Cut,
        Fault::Crash => Question::Crash,
    };
    let taken = next.held_at.map(|at| seconds(struck, at));
    let evidence = format!("the next contender had it after {taken:.2?} s, lease {LEASE:?}");
    let before = next.held_at.is_some_and(|at| fault == Fault::Crash || at < relieved);
    if !way.excludes {
        stage.seen.add(way.name, question, "waits for no holder", None, evidence);
    } else if before {
        stage.seen.add(way.name, question, "after", taken, evidence);
    } else {
        stage.seen.add(way.name, question, within(TAKEN_MAX), None, evidence);
    }
    let question = match fault {
        Fault::Pause => Question::LostPaused,
        Fault::Cut => Question::LostCut,
        Fault::Crash => return,
    };
    if !before || !way.excludes {
        let how = at_release(holder.released.as_ref());
        stage.seen.add(way.name, question, "loses nothing", None, format!("release: {how}"));
        return;
    }
    match holder.lost_at {
        Some(at) if fault == Fault::Pause => {
            let after = seconds(relieved, at);
            stage.seen.add(way.name, question, "when it goes on, after", Some(after), "");
        }
        Some(at) => {
            let after = seconds(struck, at);
            let early = next.held_at.is_some_and(|taken| at <= taken);
            let verdict = if early { "before the next one, after" } else { "too late, after" };
            let evidence = format!("the next contender had it after {taken:.2?} s");
            stage.seen.add(way.name, question, verdict, Some(after), evidence);
        }
        None => stage.seen.add(way.name, question, at_release(holder.released.as_ref()), None, ""),
    }
}

/// What a holder learns that was not notified.
fn at_release(released: Option<&Released>) -> &'static str {
    match released {
        Some(Released::Kept) => "never: the release succeeds",
        Some(Released::Gone) => "at its release",
        Some(Released::Failed(_)) => "by an error of its release",
        None => "never: the release does not end",
    }
}

/// Notes what became of the stale writes of all rounds.
fn judge(stage: &mut Stage<'_>, referee: &Referee, way: &'static Way, number: usize) {
    let lock = lock_name(TOPIC, way.name);
    let stale = referee.resource.stale(&lock);
    let refused_of_holder = referee.resource.refused_of_holder(&lock);
    let verdict = format!("{} of {}", stale.refused, stale.attempted);
    let evidence = format!("without a fence all {} are accepted", stale.attempted);
    stage.seen.add(way.name, Question::Stale, verdict, None, evidence);
    let overlaps = referee.overlaps.iter().filter(|overlap| overlap.lock == lock);
    let overlaps = overlaps.filter(|overlap| overlap.believer.number == number).count();
    let token = referee.turn(Who { process: 1, number }).token;
    let verdict = match (token, way.excludes) {
        (0, _) => "none",
        (_, false) => "the version",
        (_, true) if refused_of_holder > 0 => "does not rise",
        (_, true) => "yes",
    };
    let evidence = format!(
        "the last one was {token}; {refused_of_holder} writes of holders refused; {overlaps} grants \
         beside a holder that had not noticed"
    );
    stage.seen.add(way.name, Question::Token, verdict, None, evidence);
}

/// Ends all programs, and looks at what the store keeps when every lease has expired.
fn remains(
    stage: &mut Stage<'_>,
    mut referee: Referee,
    (victim, waiter): (usize, usize),
) -> Result<(), CompareError> {
    // A holder that is killed leaves behind what its store keeps for it.
    referee.until_held(&stage.all(victim), FREE_MAX)?;
    referee.kill(victim)?;
    referee.kill(waiter)?;
    referee.listen(EXPIRED)?;
    for way in stage.group.ways.clone() {
        let left = stage.store.remains(&lock_name(TOPIC, way.name))?;
        let verdict = match left.len() {
            0 => "nothing".to_owned(),
            1 => left.concat().replace(&format!("/{TOPIC}-{}", way.name), "its path"),
            many => format!("{many} entries"),
        };
        let evidence = format!("after a kill and {EXPIRED:?}: {}", left.join(", "));
        stage.seen.add(way.name, Question::Remains, verdict, None, evidence);
    }
    Ok(())
}
