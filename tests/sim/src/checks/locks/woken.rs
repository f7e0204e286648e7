//! K4: the end of a place in a queue wakes one waiter, where each waits for the one in front of it.

use std::collections::{BTreeMap, BTreeSet};

use zoolet_jute::{EventType, Request, SessionId, Zxid};

use super::grants::Notes;
use super::queue::{Place, Queue, Queues};
use super::{CURATOR, requests};
use crate::SimTime;
use crate::checks::{Arrival, Counts, Run, Violation};
use crate::model::path;

/// The modes of locks that one holds at a time, in the order of their numbers.
const ONE_BY_ONE: [&str; 5] = ["mutex", CURATOR, "latch", "selector", requests::MODE];

/// Counts for each znode that is gone the waiters behind it that were notified. One that has waited
/// before, and waits again farther behind, may have an old watch.
pub(super) fn check(
    run: &Run<'_>,
    notes: &Notes,
    queues: &Queues,
    counts: &mut Counts,
    found: &mut Vec<Violation>,
) {
    let directories = directories(notes);
    let mut woken: BTreeMap<(&str, Zxid), Vec<(SessionId, SimTime)>> = BTreeMap::new();
    let mut watches: BTreeMap<(SessionId, &str), Zxid> = BTreeMap::new();
    for link in run.links.values() {
        let Some(session) = link.granted.map(|granted| granted.session) else { continue };
        for arrival in &link.arrivals {
            match arrival {
                Arrival::Reply(number) => {
                    let Some(call) = run.calls.get(number) else { continue };
                    if let (Some(path), Some(answer)) = (watched(call.request), call.answer) {
                        watches.insert((session, path), answer.zxid);
                    }
                }
                Arrival::Event(notice) if notice.event.event_type == EventType::NodeDeleted => {
                    let gone = notice.event.path.as_str();
                    let directory = path::parent(gone).filter(|it| directories.contains(it));
                    let queue = directory.and_then(|directory| queues.get(directory));
                    let watched = watches.get(&(session, gone));
                    if let (Some(queue), Some(watched)) = (queue, watched)
                        && waits_behind(queue, gone, session, (*watched, notice.zxid))
                    {
                        let key = (gone, notice.zxid);
                        woken.entry(key).or_default().push((session, notice.at));
                    }
                }
                Arrival::Event(_) => {}
            }
        }
    }
    for ((gone, zxid), sessions) in woken {
        counts.woken += 1;
        if let [_, .., (_, at)] = sessions.as_slice() {
            let what = format!("the delete of {gone} by {zxid} has woken {sessions:?}");
            found.push(Violation { promise: "K4 one woken", at: *at, what });
        }
    }
}

/// The queues of such locks.
fn directories(notes: &Notes) -> BTreeSet<&str> {
    let mut all = BTreeMap::new();
    for grant in &notes.grants {
        let is_one_by_one = ONE_BY_ONE.contains(&grant.mode.as_str());
        if let Some(directory) = path::parent(&grant.znode) {
            *all.entry(directory).or_insert(true) &= is_one_by_one;
        }
    }
    all.into_iter().filter_map(|(directory, is_so)| is_so.then_some(directory)).collect()
}

/// The znode that a request watches.
fn watched(request: &Request) -> Option<&str> {
    let (Request::Exists(body) | Request::GetData(body)) = request else { return None };
    body.watch.then_some(&body.path)
}

/// Whether a session had a place behind this one, and has watched this one while it had it.
fn waits_behind(
    queue: &Queue,
    gone: &str,
    session: SessionId,
    (watched, deleted): (Zxid, Zxid),
) -> bool {
    let is_there = |place: &&Place| place.deleted.is_none_or(|at| at > deleted);
    let Some(gone) = queue.places.iter().find(|it| it.path == gone && it.deleted == Some(deleted))
    else {
        return false;
    };
    let mut own = queue.places.iter().filter(|place| place.owner == session).filter(is_there);
    own.any(|place| place.number > gone.number && place.created <= watched)
}
