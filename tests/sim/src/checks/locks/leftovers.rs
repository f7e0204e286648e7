//! K5, while the run goes on: what a contender has left behind is gone soon, wherever there is a leader
//! that works.

use std::collections::BTreeMap;
use std::time::Duration;

use zoolet_jute::SessionId;
use zoolet_replica::Op;

use super::orphans::{K5, clients, directories};
use super::queue::{Place, Queues};
use crate::SimTime;
use crate::checks::{Counts, Run, Violation};
use crate::history::{ClientNumber, LockStep, What};

/// A leader whose ensemble commits nothing for so long does not work.
const WORKS_WITHIN: Duration = Duration::from_secs(2);

/// When an attempt began, and when it was over, if it is.
type Span = (SimTime, Option<SimTime>);

/// When each client began to contend for a lock, and when it ended that: it gave up, gave the lock
/// back, lost it, or died.
#[derive(Debug, Default)]
struct Attempts<'a> {
    spans: BTreeMap<(ClientNumber, &'a str), Vec<Span>>,
}

impl<'a> Attempts<'a> {
    fn of(run: &Run<'a>) -> Self {
        let mut attempts = Self::default();
        for record in &run.history.records {
            match &record.what {
                What::Lock { client, lock, step: LockStep::Waits { .. } } => {
                    let spans = attempts.spans.entry((*client, lock)).or_default();
                    spans.push((record.at, None));
                }
                What::Lock { client, lock, step } if is_end(step) => {
                    let spans = attempts.spans.entry((*client, lock)).or_default();
                    end(spans, record.at);
                }
                What::ClientDied { client } => {
                    let of_client = attempts.spans.iter_mut().filter(|((it, _), _)| it == client);
                    for (_, spans) in of_client {
                        end(spans, record.at);
                    }
                }
                What::Connected { .. }
                | What::Disconnected { .. }
                | What::Called { .. }
                | What::Returned { .. }
                | What::Notified { .. }
                | What::Complained { .. }
                | What::Recipe { .. }
                | What::Lock { .. } => {}
            }
        }
        attempts
    }

    /// When the attempt was over for which a client created a znode at this time; `None` if it is not.
    fn over(&self, client: ClientNumber, lock: &str, created: SimTime) -> Option<SimTime> {
        let spans = self.spans.get(&(client, lock)).map_or(&[][..], Vec::as_slice);
        let later = spans.iter().find(|(_, to)| to.is_none_or(|to| to >= created));
        // It may be created when its client has given up.
        later.map_or(Some(created), |(_, to)| *to)
    }
}

fn is_end(step: &LockStep) -> bool {
    matches!(step, LockStep::GaveUp | LockStep::Releases { .. } | LockStep::Lost { .. })
}

fn end(spans: &mut [Span], at: SimTime) {
    if let Some((_, to @ None)) = spans.last_mut() {
        *to = Some(at);
    }
}

/// The longest timeout that each session was granted.
fn timeouts(run: &Run<'_>) -> BTreeMap<SessionId, Duration> {
    let mut timeouts: BTreeMap<SessionId, Duration> = BTreeMap::new();
    for one in &run.model.transactions {
        if let Op::CreateSession { timeout_ms } | Op::ResumeSession { timeout_ms } = one.command.op
        {
            let granted = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0));
            let longest = timeouts.entry(one.command.session).or_default();
            *longest = granted.max(*longest);
        }
    }
    timeouts
}

/// Looks at each znode in the queues whose client is known.
pub(super) fn check(
    run: &Run<'_>,
    locks: impl Iterator<Item = String>,
    queues: &Queues,
    counts: &mut Counts,
    found: &mut Vec<Violation>,
) {
    let (attempts, timeouts, clients) = (Attempts::of(run), timeouts(run), clients(run));
    for lock in locks {
        let all = directories(&lock);
        let places = all.iter().filter_map(|directory| queues.get(directory));
        for place in places.flat_map(|queue| &queue.places).filter(|it| it.number.is_some()) {
            let Some(client) = clients.get(&place.owner) else { continue };
            let Some(created) = run.model.transaction(place.created) else { continue };
            let Some(over) = attempts.over(*client, &lock, created.first_at) else { continue };
            let timeout = timeouts.get(&place.owner).copied().unwrap_or_default();
            counts.leftovers += 1;
            if let Some(seen) = outlives(run, place, over, timeout) {
                let what = format!(
                    "{} of session {} was there at {seen}: client {} has neither held {lock} nor waited \
                     for it by this znode since {over}",
                    place.path, place.owner, client.0
                );
                found.push(Violation { promise: K5, at: seen, what });
            }
        }
    }
}

/// When a znode was still there that should not have been. A client that lives deletes it as soon as
/// it has a connection; of one that has none, or is dead, the session ends. That takes two session
/// timeouts by a slow clock, under one leader that works.
fn outlives(run: &Run<'_>, place: &Place, over: SimTime, timeout: Duration) -> Option<SimTime> {
    let slowest = 1000_u32.saturating_sub(run.options.clock_slow_permille).max(1);
    let bound = timeout * 2 * 1000 / slowest + run.options.expires_within;
    let all = &run.model.transactions;
    let from = all.partition_point(|one| one.first_at < over);
    let (mut since, mut last, mut epoch) = (over, over, None);
    for one in all.iter().skip(from) {
        if place.deleted.is_some_and(|deleted| deleted <= one.zxid) {
            return None;
        }
        let is_steady = one.first_at <= last + WORKS_WITHIN && epoch == Some(one.zxid.epoch());
        if !is_steady {
            since = one.first_at;
        }
        if since + bound <= one.first_at {
            return Some(one.first_at);
        }
        (last, epoch) = (one.first_at, Some(one.zxid.epoch()));
    }
    None
}
