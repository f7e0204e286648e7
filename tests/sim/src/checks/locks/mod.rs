//! K1 to K8: locks, judged by what their contenders have noted and by the log.
//!
//! What a lock is, the names of its znodes say: those with a number at the end wait in a queue, readers
//! for writers alone, all others for all that precede them; a semaphore's leases are counted. A grant
//! is right if its holder can have seen, at its session's newest zxid, that its turn had come.

mod grants;
mod guarded;
mod leftovers;
mod orphans;
mod queue;
mod requests;
mod woken;

use std::collections::{BTreeMap, BTreeSet};

use zoolet_jute::Zxid;
use zoolet_replica::Op;

use super::{Counts, Run, Violation};
use crate::SimTime;
use crate::model::{Transaction, path};
use grants::{Grant, Notes};
use queue::{Place, Queues, Wish};

const K1: &str = "K1 fencing";
const K2: &str = "K2 tokens";
const K3: &str = "K3 one holder";
const K4: &str = "K4 granted soon";
const K6: &str = "K6 loss first";
const K7: &str = "K7 queue order";
/// The mode of those who keep to Curator's form, which does not watch the znode of the holder.
const CURATOR: &str = "curator";
/// The mode of those who have two locks or none: a grant of one lock is noted with that of the other.
const MULTI: &str = "multi";

/// A grant whose znode was found in the log.
#[derive(Clone, Copy, Debug)]
struct Held<'a> {
    grant: &'a Grant,
    place: &'a Place,
    /// From when on its holder has believed in it: the newest zxid that it had seen.
    from: Zxid,
    /// How many may hold beside each other.
    permits: usize,
}

impl Held<'_> {
    /// Whether the two must not hold at the same time, as long as each has a permit of its own.
    fn excludes(&self, other: &Self) -> bool {
        self.permits == 1
            && other.permits == 1
            && !(self.place.wish == Wish::Read && other.place.wish == Wish::Read)
    }
}

/// Looks at all locks.
pub(super) fn check(run: &Run<'_>, counts: &mut Counts) -> Vec<Violation> {
    let notes = Notes::of(run);
    let mut directories = BTreeSet::new();
    for grant in &notes.grants {
        directories.extend(path::parent(&grant.znode).map(str::to_owned));
    }
    directories.extend(notes.last.keys().flat_map(|lock| orphans::directories(lock)));
    let queues = Queues::of(run, &directories);
    let mut found = Vec::new();
    let mut by_lock: BTreeMap<&str, Vec<Held<'_>>> = BTreeMap::new();
    for grant in &notes.grants {
        if let Some(held) = turn_of(run, &queues, grant, counts, &mut found) {
            by_lock.entry(&grant.lock).or_default().push(held);
        }
    }
    for held in by_lock.values() {
        tokens(run, held, &mut found);
        holders(held, &mut found);
        losses(run, held, counts, &mut found);
        found.extend(held.iter().filter_map(|one| unreported(run, one)));
    }
    fencing(&notes, counts, &mut found);
    guarded::check(run, &queues, counts, &mut found);
    requests::check(run, &notes, counts, &mut found);
    woken::check(run, &notes, &queues, counts, &mut found);
    waiters(run, &notes, &mut found);
    orphans::check(run, &notes, &queues, &mut found);
    leftovers::check(run, notes.last.keys().cloned(), &queues, counts, &mut found);
    found
}

/// The permits of a mode `semaphore 3`.
fn permits(mode: &str) -> Option<usize> {
    mode.strip_prefix("semaphore ")?.trim().parse().ok()
}

/// K7: when the grant came, nothing that it has to wait for preceded it in the queue.
fn turn_of<'a>(
    run: &Run<'_>,
    queues: &'a Queues,
    grant: &'a Grant,
    counts: &mut Counts,
    found: &mut Vec<Violation>,
) -> Option<Held<'a>> {
    let mut violated = |promise, why: String| {
        let what = format!("{}: {why}", grant.describe());
        found.push(Violation { promise, at: grant.at, what });
    };
    if grant.znode.is_empty() {
        counts.grants_unchecked += 1;
        return None;
    }
    let queue = path::parent(&grant.znode).and_then(|directory| queues.get(directory));
    let place = queue.and_then(|queue| {
        queue.find(&grant.znode, Zxid(grant.token), grant.session).map(|place| (queue, place))
    });
    let Some((queue, place)) = place else {
        violated(K2, "the log has no such znode of this session".to_owned());
        return None;
    };
    counts.grants += 1;
    // A reader may go on with the token of the writer that it was.
    let is_writers_token = place.wish == Wish::Read && Zxid(grant.token) < place.created;
    if place.created != Zxid(grant.token) && !is_writers_token {
        violated(K2, format!("the znode was created by {}", place.created));
    }
    if place.owner != grant.session {
        violated(K2, format!("the znode is of session {}", place.owner));
    }
    let among = permits(&grant.mode);
    let turn = match among {
        Some(most) => queue.turn_among(place, most).ok_or("there were too many others".to_owned()),
        None => queue.turn(place).map_err(|other| format!("{} precedes it", other.path)),
    };
    let is_gone = |turn: Zxid| place.deleted.is_some_and(|deleted| deleted <= turn);
    match &turn {
        Err(why) => violated(K7, format!("its turn never came: {why}")),
        Ok(turn) if is_gone(*turn) => {
            violated(K7, format!("its znode was gone before its turn came, with {turn}"));
        }
        Ok(turn) => {
            if let Some(why) = too_early(run, grant, *turn) {
                violated(K7, why);
            }
            soon(run, grant, *turn, counts, found);
        }
    }
    let from = grant.seen.unwrap_or(turn.unwrap_or(place.created)).max(place.created);
    Some(Held { grant, place, from, permits: among.unwrap_or(1) })
}

/// Why the holder cannot have known that its turn had come, if it cannot. Of sessions whose requests
/// are not recorded only the time is known.
fn too_early(run: &Run<'_>, grant: &Grant, turn: Zxid) -> Option<String> {
    if let Some(seen) = grant.seen {
        let why =
            format!("its turn came with {turn}, and its session had seen no more than {seen}");
        return (turn > seen).then_some(why);
    }
    let one = run.model.transaction(turn)?;
    let why =
        format!("its turn came with {turn}, which no server had applied before {}", one.first_at);
    (one.first_at > grant.at).then_some(why)
}

/// K4: a grant comes soon when it is its turn, all faults have ended, and what they have left is over.
fn soon(run: &Run<'_>, grant: &Grant, turn: Zxid, counts: &mut Counts, found: &mut Vec<Violation>) {
    let Some(one) = run.model.transaction(turn) else { return };
    let calm = run.history.healed_at + run.options.calm_after;
    if grant.mode == MULTI || grant.at < calm {
        return;
    }
    counts.grants_in_calm += 1;
    if grant.at > one.first_at.max(calm) + run.options.grants_in_calm_within {
        let what =
            format!("{}: its turn had come with {turn} at {}", grant.describe(), one.first_at);
        found.push(Violation { promise: K4, at: grant.at, what });
    }
}

/// K2: the tokens of those who hold alone rise with the grants. One that comes late, to a client that
/// had stood still, must be reported lost at once. One of several locks may have been deleted by hand
/// while its holder waited for the others; whether that is reported soon is judged by itself.
fn tokens(run: &Run<'_>, held: &[Held<'_>], found: &mut Vec<Violation>) {
    let mut before: Option<&Grant> = None;
    for one in held.iter().filter(|one| one.permits == 1 && one.place.wish == Wish::Alone) {
        let grant = one.grant;
        let is_lost = grant.lost.is_some_and(|lost| lost <= grant.at + run.options.loss_slack);
        if let Some(before) = before.filter(|before| before.token >= grant.token) {
            let end = deleted_by_hand(run, one).filter(|_| grant.mode == MULTI);
            let was_gone = end.is_some_and(|end| end.first_at <= grant.at);
            if !is_lost && !was_gone {
                let what = format!("{}: behind {}", grant.describe(), before.describe());
                found.push(Violation { promise: K2, at: grant.at, what });
            }
            continue;
        }
        before = Some(grant);
    }
}

/// K3 and K8: no two that exclude each other have their znodes at one moment of the log, and no more
/// hold a semaphore than it has permits.
fn holders(held: &[Held<'_>], found: &mut Vec<Violation>) {
    let is_there = |one: &Held<'_>, at: Zxid| one.place.deleted.is_none_or(|deleted| deleted > at);
    let mut by_zxid: Vec<&Held<'_>> = held.iter().filter(|one| is_there(one, one.from)).collect();
    by_zxid.sort_by_key(|one| (one.from, one.place.created));
    let mut holding: Vec<&Held<'_>> = Vec::new();
    for one in by_zxid {
        holding.retain(|other| is_there(other, one.from));
        // A session may hold twice: a writer that goes on as a reader.
        let others = || holding.iter().filter(|it| it.grant.session != one.grant.session);
        let count = others().count();
        let why = match others().find(|other| one.excludes(other)) {
            Some(other) => other.grant.describe(),
            None if one.permits > 1 && count >= one.permits => {
                format!("{count} others, of {} permits", one.permits)
            }
            None => String::new(),
        };
        if !why.is_empty() {
            let what = format!("{} holds at {}, beside {why}", one.grant.describe(), one.from);
            found.push(Violation { promise: K3, at: one.grant.at, what });
        }
        holding.push(one);
    }
}

/// K6: a holder whose lock goes to another one knew it by then, in true time.
fn losses(run: &Run<'_>, held: &[Held<'_>], counts: &mut Counts, found: &mut Vec<Violation>) {
    let mut believing: Vec<&Held<'_>> = Vec::new();
    for one in held {
        let is_over =
            |other: &Held<'_>| other.grant.over().is_some_and(|over| over <= one.grant.at);
        believing.retain(|other| !is_over(other));
        for other in &believing {
            let is_same = other.grant.session == one.grant.session;
            let is_full = one.permits > 1 && believing.len() >= one.permits;
            if is_same || !(other.excludes(one) || is_full) {
                continue;
            }
            counts.handovers += 1;
            loss(run, other, one, counts, found);
        }
        believing.push(one);
    }
}

fn loss(
    run: &Run<'_>,
    before: &Held<'_>,
    next: &Held<'_>,
    counts: &mut Counts,
    found: &mut Vec<Violation>,
) {
    let end = before.place.deleted.and_then(|deleted| run.model.transaction(deleted));
    let (lost, at) = (before.grant.lost, next.grant.at);
    let mut violated = |why: &str| {
        let (before, next) = (before.grant.describe(), next.grant.describe());
        let what = format!("{next}: {before} {why}");
        found.push(Violation { promise: K6, at, what });
    };
    let Some(end) = end else {
        // A semaphore's permit that is held on was not lost.
        if before.permits == 1 {
            violated("has not ended");
        }
        return;
    };
    let session = before.grant.session;
    let is_expiry = matches!(end.command.op, Op::ExpireSession { .. });
    if end.command.session == session && !is_expiry {
        // Its own program gives it back.
        return;
    }
    let is_late = lost.is_none_or(|lost| lost > at + run.options.loss_slack);
    if !is_expiry || !is_late || run.options.ended_by_hand.contains(&session) {
        return;
    }
    if slept(run, before.grant, at) {
        counts.losses_slept += 1;
        return;
    }
    violated(&format!(
        "ended with its session, by {} at {}, and its loss was reported {}",
        end.zxid,
        end.first_at,
        lost.map_or_else(|| "never".to_owned(), |lost| format!("at {lost}"))
    ));
}

/// Whether the holder stood still when the next one was granted the lock, and has reported the loss as
/// soon as it went on. What it does after that, the resource must refuse.
fn slept(run: &Run<'_>, grant: &Grant, at: SimTime) -> bool {
    let stops = run.history.stops.iter().filter(|stop| stop.client == grant.client);
    let mut there = stops.filter(|stop| stop.from <= at && at <= stop.until);
    there.any(|stop| {
        let due = stop.until + run.options.loss_reported_within;
        let is_known = grant.over().is_some_and(|over| over <= due);
        is_known || run.history.ended_at <= due
    })
}

/// The command by which another client has deleted a holder's znode, or an operator its session.
fn deleted_by_hand<'a>(run: &'a Run<'_>, held: &Held<'_>) -> Option<&'a Transaction> {
    let end = run.model.transaction(held.place.deleted?)?;
    let session = held.grant.session;
    let is_own = end.command.session == session || end.outcome.ended.is_some();
    (!is_own || run.options.ended_by_hand.contains(&session)).then_some(end)
}

/// K6: a holder whose znode another client has deleted learns it soon, if no fault is under way.
fn unreported(run: &Run<'_>, held: &Held<'_>) -> Option<Violation> {
    let end = deleted_by_hand(run, held)?;
    // One of several locks may be deleted before all are granted.
    let due = end.first_at.max(held.grant.at) + run.options.loss_reported_within;
    let is_calm = end.first_at >= run.history.healed_at && due <= run.history.ended_at;
    let is_known = held.grant.over().is_some_and(|over| over <= due);
    if held.grant.mode == CURATOR || !is_calm || is_known {
        return None;
    }
    let what = format!(
        "{} was deleted by {} at {}, and that was not reported soon",
        held.grant.describe(),
        end.zxid,
        end.first_at
    );
    Some(Violation { promise: K6, at: due, what })
}

/// K1: the guarded resource refuses what is below the highest token that it has taken, be it a write that
/// was under way when its lock was lost, and nothing else.
fn fencing(notes: &Notes, counts: &mut Counts, found: &mut Vec<Violation>) {
    for (lock, writes) in &notes.guarded {
        let mut highest = i64::MIN;
        for write in writes {
            counts.guarded += 1;
            if write.accepted && write.token < highest {
                let what = format!(
                    "the resource of {lock} took a write of client {} with token {:#x} behind token \
                     {highest:#x}",
                    write.client.0, write.token
                );
                found.push(Violation { promise: K1, at: write.at, what });
            }
            if !write.accepted {
                counts.guarded_refused += 1;
                if write.token >= highest {
                    let what = format!(
                        "the resource of {lock} refused a write of client {} with token {:#x}, and had \
                         taken none above {highest:#x}",
                        write.client.0, write.token
                    );
                    found.push(Violation { promise: K1, at: write.at, what });
                }
            }
            if write.accepted {
                highest = highest.max(write.token);
            }
        }
    }
}

/// K4: who waits at the end, waits for someone.
fn waiters(run: &Run<'_>, notes: &Notes, found: &mut Vec<Violation>) {
    for ((client, lock), wait) in notes.waits.iter().filter(|(_, wait)| wait.mode != MULTI) {
        let is_held =
            notes.grants.iter().any(|grant| grant.lock == *lock && grant.over().is_none());
        let last = notes.last.get(lock).copied().unwrap_or_default();
        let since = wait.since.max(last).max(run.history.healed_at);
        if !is_held && since + run.options.grants_within <= run.history.ended_at {
            let what = format!(
                "client {} has waited for {lock} ({}) since {}, no one holds it, and nothing has \
                 happened to it since {last}",
                client.0, wait.mode, wait.since
            );
            found.push(Violation { promise: K4, at: wait.since, what });
        }
    }
}
