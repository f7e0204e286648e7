//! Contenders that wait for one lock: in which order they get it, and what they ask the store
//! meanwhile. And a holder that acquires its lock once more.

use std::time::Duration;

use super::LEASE;
use super::error::CompareError;
use super::observation::Question;
use super::referee::Referee;
use super::resource::Who;
use super::stage::{FREE_MAX, RELEASED_MAX, SETTLE, Stage, lock_name};
use super::way::Way;

const WAITERS: usize = 6;
/// Between two contenders that ask.
const APART: Duration = Duration::from_millis(250);

/// The reply of a client whose guards can be shared.
const GUARD_SHARED: &str = "waits, or shares its guard";

/// Watches waiters of each way in turn, for `window`, in as many rounds.
pub(super) fn waiting(
    stage: &mut Stage<'_>,
    window: Duration,
    rounds: usize,
) -> Result<(), CompareError> {
    for way in stage.group.ways.clone() {
        if !way.excludes {
            for question in [Question::Order, Question::Waiting] {
                stage.seen.add(way.name, question, "waits for no holder", None, "");
            }
            continue;
        }
        let mut referee = stage.referee();
        let contenders = vec![(way, lock_name("waiting", way.name)); WAITERS + 1];
        let servers = stage.store.addresses();
        let process = referee.start(stage.command, &servers, contenders, false)?;
        let mut in_order = 0;
        let mut orders = Vec::new();
        for round in 0..rounds {
            let order =
                take_turns(stage, &mut referee, way, process, (round == 0).then_some(window))?;
            let asked: Vec<usize> = (1..=WAITERS).chain([0]).collect();
            in_order += usize::from(order == asked);
            orders.push(format!("{order:?}"));
        }
        let verdict = if in_order == rounds { "yes" } else { "no" };
        let evidence = format!("asked 1 to {WAITERS}, then 0 again; granted {}", orders.join("; "));
        stage.seen.add(way.name, Question::Order, verdict, None, evidence);
    }
    Ok(())
}

/// Has the first contender hold, the others ask one after another, and each leave in turn; the first
/// one asks again as soon as it has left. Returns the order of the grants after the first.
fn take_turns(
    stage: &mut Stage<'_>,
    referee: &mut Referee,
    way: &'static Way,
    process: usize,
    window: Option<Duration>,
) -> Result<Vec<usize>, CompareError> {
    let who = |number| Who { process, number };
    if !referee.until_held(&[who(0)], FREE_MAX)? {
        let what = "it does not get a free lock".to_owned();
        return Err(CompareError::Program { way: way.name.to_owned(), what });
    }
    let mut alone = None;
    if let Some(window) = window {
        // The first pings of new sessions come after a third of a lease.
        referee.listen(LEASE / 3)?;
        alone = Some(rate(stage, referee, window)?);
    }
    for number in 1..=WAITERS {
        referee.ask(who(number))?;
        referee.listen(APART)?;
    }
    if let (Some(window), Some(alone)) = (window, alone) {
        referee.listen(SETTLE)?;
        let together = rate(stage, referee, window)?;
        #[allow(clippy::cast_precision_loss, reason = "a few waiters")]
        let each = ((together - alone) / WAITERS as f64).max(0.0);
        let verdict = if each < 0.5 { "waits without polling" } else { "polls" };
        let evidence =
            format!("{alone:.1}/s with the holder, {together:.1}/s with {WAITERS} waiters");
        stage.seen.add(way.name, Question::Waiting, verdict, Some(each), evidence);
    }
    let mut order = Vec::new();
    let mut holder = 0;
    for _ in 0..=WAITERS {
        referee.go_on(who(holder))?;
        referee.until(RELEASED_MAX, |it| it.turn(who(holder)).freed_at.is_some())?;
        if holder == 0 && order.is_empty() {
            referee.ask(who(0))?;
        }
        let next = |it: &Referee| (0..=WAITERS).find(|number| it.turn(who(*number)).holds());
        if !referee.until(RELEASED_MAX, |it| next(it).is_some())? {
            break;
        }
        holder = next(referee).unwrap_or(0);
        order.push(holder);
    }
    if referee.turn(who(holder)).holds() {
        referee.go_on(who(holder))?;
    }
    referee.until(RELEASED_MAX, |it| it.turn(who(holder)).freed_at.is_some())?;
    Ok(order)
}

/// The requests that the store receives in a second.
fn rate(stage: &Stage<'_>, referee: &mut Referee, window: Duration) -> Result<f64, CompareError> {
    let before = stage.store.requests()?;
    let began = super::referee::now();
    referee.listen(window)?;
    let count = stage.store.requests()?.saturating_sub(before);
    #[allow(clippy::cast_precision_loss, reason = "a rate")]
    let count = count as f64;
    Ok(count / began.elapsed().as_secs_f64())
}

/// Has holders acquire their locks once more while another contender waits.
pub(super) fn again(stage: &mut Stage<'_>) -> Result<(), CompareError> {
    let mut referee = stage.referee();
    let process = stage.start(&mut referee, "again")?;
    let other = stage.start(&mut referee, "again")?;
    let (holders, waiters) = (stage.all(process), stage.all(other));
    referee.until_held(&holders, FREE_MAX)?;
    for who in &waiters {
        referee.ask(*who)?;
    }
    referee.listen(SETTLE)?;
    for who in &holders {
        referee.ask_again(*who)?;
    }
    let replied = |it: &Referee| holders.iter().all(|who| it.turn(*who).again.is_some());
    referee.until(LEASE * 2, replied)?;
    // What the inner release has given away is taken by now.
    referee.listen(SETTLE)?;
    let pairs = stage.group.ways.clone().into_iter().zip(holders.iter().zip(&waiters));
    for (way, (holder, waiter)) in pairs {
        let reply = referee.turn(*holder).again;
        let taken = way.excludes && referee.turn(*waiter).held_at.is_some();
        let verdict = match (reply.as_deref(), taken) {
            _ if !way.excludes => "waits for no holder",
            (Some("granted"), false) => "yes",
            (Some("granted"), true) => "**the inner release frees the lock**",
            (Some("waits"), _) => "no: it waits for itself",
            (Some(GUARD_SHARED), _) => "no: it waits for itself (its guard can be shared)",
            (Some("refused"), _) => "no: it is refused",
            _ => "no: it hangs",
        };
        let evidence = format!("the reply was {reply:?}; a waiter got the lock: {taken}");
        stage.seen.add(way.name, Question::Again, verdict, None, evidence);
    }
    Ok(())
}
