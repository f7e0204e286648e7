//! Holders that are paused, cut off or killed while others wait for their locks. Each goes on
//! with a write, as a program does whose pause comes between its last look and the write.

use std::time::{Duration, Instant};

use super::LEASE;
use super::error::CompareError;
use super::observation::{NOT_EXCLUSIVE, Question, seconds, within};
use super::referee::{Referee, Released, now};
use super::resource::Who;
use super::stage::{FREE_MAX, RELEASED_MAX, SETTLE, Stage, TAKEN_MAX, lock_name};
use super::way::Way;

/// How long a holder that goes on may take to notice before it writes.
const NOTICE_MAX: Duration = Duration::from_millis(1_500);
/// After this time every lease of a killed program has expired.
const EXPIRED: Duration = LEASE.saturating_add(Duration::from_secs(3));
const TOPIC: &str = "torture";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Pause,
    Cut,
    Crash,
}

/// Injects each fault into the holders of all locks, in each round.
pub(super) fn torture(stage: &mut Stage<'_>, rounds: usize) -> Result<(), CompareError> {
    let mut referee = stage.referee();
    let mut victim = stage.start(&mut referee, TOPIC)?;
    let waiter = stage.start(&mut referee, TOPIC)?;
    for _ in 0..rounds {
        for fault in [Fault::Pause, Fault::Cut, Fault::Crash] {
            inject(stage, &mut referee, (victim, waiter), fault)?;
            if fault == Fault::Crash {
                victim = stage.start(&mut referee, TOPIC)?;
            }
        }
    }
    for (number, way) in stage.group.ways.clone().into_iter().enumerate() {
        note_writes(stage, &referee, way, number);
    }
    remains(stage, referee, (victim, waiter))
}

fn inject(
    stage: &mut Stage<'_>,
    referee: &mut Referee,
    (victim, waiter): (usize, usize),
    fault: Fault,
) -> Result<(), CompareError> {
    let (holders, waiters) = (stage.all(victim), stage.all(waiter));
    let overlaps_before = referee.overlaps.len();
    if !referee.until_held(&holders, FREE_MAX)? {
        let what = format!("it does not get free locks before {fault:?}");
        return Err(CompareError::Program { way: stage.name().to_owned(), what });
    }
    for who in &waiters {
        referee.ask(*who)?;
    }
    referee.listen(SETTLE)?;
    let injected = now();
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
    let healed = now();
    if fault != Fault::Crash {
        heal(referee, victim, fault)?;
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
        note_exclusion(stage, referee, way, fault, overlaps_before);
        note_grant(stage, referee, way, (holder, next), (fault, injected, healed));
    }
    stage.leave(referee, waiter)
}

fn heal(referee: &Referee, victim: usize, fault: Fault) -> Result<(), CompareError> {
    if fault == Fault::Pause {
        return Ok(referee.signal(victim, "CONT")?);
    }
    referee.links(victim).iter().for_each(super::link::Link::heal);
    Ok(())
}

/// Notes when the next contender got a lock, and when its holder noticed.
fn note_grant(
    stage: &mut Stage<'_>,
    referee: &Referee,
    way: &'static Way,
    (holder, next): (Who, Who),
    (fault, injected, healed): (Fault, Instant, Instant),
) {
    let (holder, next) = (referee.turn(holder), referee.turn(next));
    let question = match fault {
        Fault::Pause => Question::Pause,
        Fault::Cut => Question::Cut,
        Fault::Crash => Question::Crash,
    };
    let taken = next.held_at.map(|at| seconds(injected, at));
    let evidence = format!("the next contender had it after {taken:.2?} s, lease {LEASE:?}");
    let before = next.held_at.is_some_and(|at| fault == Fault::Crash || at < healed);
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
    if !way.excludes {
        stage.seen.add(way.name, question, at_write(holder.released.as_ref()), None, "");
        return;
    }
    if !before {
        let verdict = match holder.released.as_ref() {
            Some(Released::Kept) => "loses nothing".to_owned(),
            other => format!("no other one has it; {}", at_release(other)),
        };
        stage.seen.add(way.name, question, verdict, None, "");
        return;
    }
    match holder.lost_at {
        Some(at) if fault == Fault::Pause => {
            let after = seconds(healed, at);
            stage.seen.add(way.name, question, "when it goes on, after", Some(after), "");
        }
        Some(at) => {
            let after = seconds(injected, at);
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

/// What becomes of the write of a holder whose version may be old.
fn at_write(released: Option<&Released>) -> &'static str {
    match released {
        Some(Released::Kept) => "its write is accepted",
        Some(Released::Gone) => "its write is refused",
        Some(Released::Failed(_)) => "by an error of its write",
        None => "never: its write does not end",
    }
}

/// Notes whether a lock was granted in a round beside a holder that had not noticed a loss.
fn note_exclusion(
    stage: &mut Stage<'_>,
    referee: &Referee,
    way: &'static Way,
    fault: Fault,
    overlaps_before: usize,
) {
    let question = match fault {
        Fault::Pause => Question::ExclusivePaused,
        Fault::Cut => Question::ExclusiveCut,
        Fault::Crash => Question::ExclusiveKilled,
    };
    let lock = lock_name(TOPIC, way.name);
    let new = referee.overlaps.iter().skip(overlaps_before);
    let count = new.filter(|overlap| overlap.lock == lock).count();
    let verdict = match (way.excludes, count) {
        (false, _) => "waits for no holder",
        (true, 0) => "yes",
        (true, _) => NOT_EXCLUSIVE,
    };
    let evidence = format!("{count} grants beside a holder that had not noticed");
    stage.seen.add(way.name, question, verdict, None, evidence);
}

/// Notes what became of the stale writes of all rounds.
fn note_writes(stage: &mut Stage<'_>, referee: &Referee, way: &'static Way, number: usize) {
    let lock = lock_name(TOPIC, way.name);
    let stale = referee.resource.stale(&lock);
    let refused_of_holder = referee.resource.refused_of_holder(&lock);
    let verdict = format!("{} / {} / {}", stale.attempted, stale.accepted, stale.refused);
    stage.seen.add(way.name, Question::Stale, verdict, None, "");
    let token = referee.turn(Who { process: 1, number }).token;
    let verdict = match (token, way.excludes) {
        (0, _) => "none",
        (_, false) => "the version",
        (_, true) if refused_of_holder > 0 => "does not rise",
        (_, true) => "yes",
    };
    let evidence =
        format!("the last one was {token}; {refused_of_holder} writes of holders refused");
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
