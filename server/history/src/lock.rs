//! Who has held a lock, and who has waited for it, from the places that came and went in its queue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zoolet_jute::{Id, SessionId, Zxid};
use zoolet_replica::state::{LockName, LockPlace};
use zoolet_replica::{HistoryCause, HistoryChange, HistoryEvent};

use crate::entry::{Entry, EntryKind};

/// One place in the queue of a lock: from its coming to its going.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The path of the place.
    pub path: String,
    /// The session that has made it; [`SessionId::NONE`] if that precedes the history.
    pub session: SessionId,
    /// Whom its connection had proved to be, its address among it.
    pub identities: Arc<[Id]>,
    /// Whether other places may hold at the same time.
    pub is_shared: bool,
    /// When it came, milliseconds since 1970; unknown if that precedes the history or a gap, and it is
    /// not there any more.
    pub queued_ms: Option<i64>,
    /// Whether it holds the lock, or has held it.
    pub has_held: bool,
    /// Since when it has held the lock; none if it has not, or if that is unknown.
    pub held_ms: Option<i64>,
    /// When it went, and why; none if it is there.
    pub ended: Option<(i64, TurnEnd)>,
}

/// Why a place went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnEnd {
    /// Its own session has deleted it.
    Released,
    /// Another session has deleted it.
    DeletedBy(SessionId),
    /// Its session was closed by its client.
    SessionClosed,
    /// Its session has expired.
    SessionExpired,
    /// The server has removed it, because its time to live was over.
    Reaped,
    /// The history has a gap here: it may be there or not.
    Unknown,
}

impl TurnEnd {
    /// The name of the end, in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::DeletedBy(_) => "deleted_by_other",
            Self::SessionClosed => "session_closed",
            Self::SessionExpired => "session_expired",
            Self::Reaped => "reaped",
            Self::Unknown => "unknown",
        }
    }

    /// Why a znode was deleted by an event, whose znode it was.
    pub fn of(event: &HistoryEvent, owner: SessionId) -> Self {
        match event.cause {
            HistoryCause::SessionClosed => Self::SessionClosed,
            HistoryCause::SessionExpired => Self::SessionExpired,
            HistoryCause::Reaped | HistoryCause::Ensemble => Self::Reaped,
            HistoryCause::Request if owner == event.session || owner == SessionId::NONE => {
                Self::Released
            }
            HistoryCause::Request => Self::DeletedBy(event.session),
        }
    }
}

/// A place that is there.
#[derive(Debug)]
struct Open {
    name: LockName,
    /// Its place in the list of all.
    turn: usize,
}

/// The queue at a moment.
#[derive(Debug, Default)]
struct Queue<'a> {
    /// The paths of the places that are there at the end.
    live: BTreeSet<&'a str>,
    /// By what [`LockName::order`] returns.
    open: BTreeMap<u64, Open>,
    turns: Vec<Turn>,
}

/// The places of the queue of one lock, in the order in which they came. The entries are those of
/// [`crate::Subject::Lock`], from the begin of the history to its `end`.
///
/// `live` are places that were there when the entries were looked for, or before: what came before
/// the history, or in a gap, is known by them.
pub fn turns(entries: &[Entry], live: &[LockPlace], end: Zxid) -> Vec<Turn> {
    let events = entries.iter().filter_map(|entry| match &entry.kind {
        EntryKind::Event(event) => Some(event),
        EntryKind::Gap(_) => None,
    });
    let creates = events.filter(|event| matches!(event.change, HistoryChange::Created { .. }));
    let recorded: BTreeSet<_> =
        creates.filter_map(|event| Some((event.change.path()?, event.zxid))).collect();
    let is_recorded = |place: &LockPlace| recorded.contains(&(place.path.as_str(), place.czxid));
    let mut unrecorded: Vec<_> =
        live.iter().filter(|place| place.czxid <= end && !is_recorded(place)).collect();
    unrecorded.sort_unstable_by_key(|place| place.czxid);
    let mut unrecorded = unrecorded.into_iter().peekable();
    let live = live.iter().map(|place| place.path.as_str()).collect();
    let mut queue = Queue { live, ..Queue::default() };
    for entry in entries {
        let until = match &entry.kind {
            EntryKind::Event(event) => event.zxid,
            EntryKind::Gap(gap) => {
                queue.lose_sight();
                gap.through
            }
        };
        let came = std::iter::from_fn(|| unrecorded.next_if(|place| place.czxid <= until));
        queue.find(came);
        if let EntryKind::Event(event) = &entry.kind {
            queue.take(event);
        }
    }
    queue.find(unrecorded);
    queue.turns
}

impl<'a> Queue<'a> {
    /// Enters places of which nothing but that they are there is known. Which of them holds is known,
    /// and since when is not.
    fn find(&mut self, places: impl Iterator<Item = &'a LockPlace>) {
        for place in places {
            let name = place.path.rsplit('/').next().and_then(LockName::parse);
            let Some(name) = name.filter(|name| !self.is_part(*name)) else { continue };
            self.open.insert(name.order(), Open { name, turn: self.turns.len() });
            self.turns.push(Turn {
                path: place.path.clone(),
                session: place.owner,
                identities: Arc::from([]),
                is_shared: name.is_shared(),
                queued_ms: Some(place.ctime_ms),
                has_held: false,
                held_ms: None,
                ended: None,
            });
        }
        self.grant(None);
    }

    /// Whether a name is that of a part of a place that is there.
    fn is_part(&self, name: LockName) -> bool {
        let has_exclusive = self.open.contains_key(&name.order_of_exclusive());
        let id_before = self.open.range(..name.order()).next_back().map(|(_, it)| it.name.id());
        name.is_part_of_another(has_exclusive, id_before)
    }

    fn take(&mut self, event: &HistoryEvent) {
        let Some(path) = event.change.path() else { return };
        let name = path.rsplit('/').next().and_then(LockName::parse);
        let Some(name) = name else { return };
        match &event.change {
            HistoryChange::Created { path, .. } => self.come(event, path, name),
            HistoryChange::Deleted { path, owner, .. } => self.go(event, path, name, *owner),
            HistoryChange::DataChanged { .. }
            | HistoryChange::AclChanged { .. }
            | HistoryChange::SessionOpened
            | HistoryChange::SessionResumed
            | HistoryChange::SessionEnded => return,
        }
        self.grant(Some(event.time_ms));
    }

    fn come(&mut self, event: &HistoryEvent, path: &str, name: LockName) {
        if self.is_part(name) {
            return;
        }
        self.open.insert(name.order(), Open { name, turn: self.turns.len() });
        self.turns.push(Turn {
            path: path.to_owned(),
            session: event.session,
            identities: Arc::clone(&event.identities),
            is_shared: name.is_shared(),
            queued_ms: Some(event.time_ms),
            has_held: false,
            held_ms: None,
            ended: None,
        });
    }

    fn go(&mut self, event: &HistoryEvent, path: &str, name: LockName, owner: SessionId) {
        let open = self.open.remove(&name.order());
        if let Some(turn) = open.and_then(|open| self.turns.get_mut(open.turn)) {
            let owner = if owner == SessionId::NONE { turn.session } else { owner };
            turn.ended = Some((event.time_ms, TurnEnd::of(event, owner)));
        } else {
            // It came before the history, or in a gap, or is a part of another one.
            let is_part = self.turns.iter().rev().any(|turn| {
                let known = turn.path.rsplit('/').next().and_then(LockName::parse);
                known.is_some_and(|known| {
                    let has_exclusive = known.order() == name.order_of_exclusive();
                    name.is_part_of_another(has_exclusive, Some(known.id()))
                })
            });
            if is_part {
                return;
            }
            self.take_back(name);
            self.turns.push(Turn {
                path: path.to_owned(),
                session: owner,
                identities: Arc::from([]),
                is_shared: name.is_shared(),
                queued_ms: None,
                has_held: false,
                held_ms: None,
                ended: Some((event.time_ms, TurnEnd::of(event, owner))),
            });
        }
    }

    /// The first place holds, or all shared ones before the first that is not; `None` if it is unknown
    /// since when.
    fn grant(&mut self, now_ms: Option<i64>) {
        for (rank, open) in self.open.values().enumerate() {
            if rank > 0 && !open.name.is_shared() {
                return;
            }
            if let Some(turn) = self.turns.get_mut(open.turn)
                && !turn.has_held
            {
                (turn.has_held, turn.held_ms) = (true, now_ms);
            }
            if !open.name.is_shared() {
                return;
            }
        }
    }

    /// A place was there that is not in the history: what seemed to hold behind it has waited for it.
    fn take_back(&mut self, unknown: LockName) {
        for open in self.open.range(unknown.order()..).map(|(_, open)| open) {
            if let Some(turn) = self.turns.get_mut(open.turn)
                && !(turn.is_shared && unknown.is_shared())
            {
                (turn.has_held, turn.held_ms) = (false, None);
            }
        }
    }

    /// Behind a gap nothing is known of the places that were there, but for those that still are.
    fn lose_sight(&mut self) {
        for (order, open) in std::mem::take(&mut self.open) {
            let Some(turn) = self.turns.get_mut(open.turn) else { continue };
            if self.live.contains(turn.path.as_str()) {
                self.open.insert(order, open);
            } else {
                let at_ms = turn.held_ms.or(turn.queued_ms).unwrap_or(0);
                turn.ended = Some((at_ms, TurnEnd::Unknown));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use zoolet_jute::{Xid, Zxid};
    use zoolet_replica::ServerId;

    use super::*;
    use crate::entry::{Gap, GapReason};

    const LOCK: &str = "/lock";

    /// A place comes (`+`) or goes; the number names the session as well.
    fn entry(at_ms: i64, step: &str) -> Entry {
        let (sign, rest) = step.split_at(1);
        let (mark, number) = rest.split_once(' ').unwrap();
        let number: i64 = number.parse().unwrap();
        let path = format!("{LOCK}/_c_{number:08x}-0000-4000-8000-000000000000-{mark}{number:010}");
        let owner = SessionId(number);
        let (session, cause) = match sign {
            "+" | "-" => (owner, HistoryCause::Request),
            "x" => (owner, HistoryCause::SessionExpired),
            "c" => (owner, HistoryCause::SessionClosed),
            "!" => (SessionId(99), HistoryCause::Request),
            _ => panic!("{step}"),
        };
        let change = if sign == "+" {
            HistoryChange::Created { path, owner, data: None }
        } else {
            HistoryChange::Deleted { path, owner, version: 0 }
        };
        let event = HistoryEvent {
            zxid: Zxid(at_ms),
            time_ms: at_ms,
            server: ServerId(1),
            session,
            cxid: Xid(0),
            identities: Arc::from([]),
            cause,
            change,
        };
        Entry { number: at_ms.cast_unsigned(), kind: EntryKind::Event(event) }
    }

    /// Session, since when it waited and held, when and how it went.
    type Line = (i64, Option<i64>, Option<i64>, Option<(i64, TurnEnd)>);

    fn lines(entries: &[Entry]) -> Vec<Line> {
        let line = |turn: Turn| (turn.session.0, turn.queued_ms, turn.held_ms, turn.ended);
        turns(entries, &[], Zxid(i64::MAX)).into_iter().map(line).collect()
    }

    fn check(steps: &[(i64, &str)], expected: &[Line]) {
        let entries: Vec<_> = steps.iter().map(|(at_ms, step)| entry(*at_ms, step)).collect();
        assert_eq!(lines(&entries), expected, "{steps:?}");
    }

    #[test]
    fn holders_follow_each_other_and_their_ends_have_a_reason() {
        check(
            &[
                (10, "+lock- 1"),
                (20, "+lock- 2"),
                (30, "+lock- 3"),
                (40, "-lock- 1"),
                (50, "xlock- 2"),
                (60, "!lock- 3"),
                (70, "+lock- 4"),
                (80, "clock- 4"),
                (90, "+lock- 5"),
            ],
            &[
                (1, Some(10), Some(10), Some((40, TurnEnd::Released))),
                (2, Some(20), Some(40), Some((50, TurnEnd::SessionExpired))),
                (3, Some(30), Some(50), Some((60, TurnEnd::DeletedBy(SessionId(99))))),
                (4, Some(70), Some(70), Some((80, TurnEnd::SessionClosed))),
                (5, Some(90), Some(90), None),
            ],
        );
    }

    #[test]
    fn readers_hold_together_and_who_gives_up_has_never_held() {
        check(
            &[
                (1, "+__READ__ 1"),
                (2, "+__READ__ 2"),
                (3, "+__WRIT__ 3"),
                (4, "+__READ__ 4"),
                (5, "-__READ__ 1"),
                (6, "-__WRIT__ 3"),
                (7, "-__READ__ 2"),
            ],
            &[
                (1, Some(1), Some(1), Some((5, TurnEnd::Released))),
                (2, Some(2), Some(2), Some((7, TurnEnd::Released))),
                (3, Some(3), None, Some((6, TurnEnd::Released))),
                (4, Some(4), Some(6), None),
            ],
        );
    }

    #[test]
    fn a_place_from_before_the_history_has_held_until_it_went() {
        check(
            &[(10, "+lock- 2"), (20, "-lock- 1"), (30, "-lock- 2")],
            &[
                (2, Some(10), Some(20), Some((30, TurnEnd::Released))),
                (1, None, None, Some((20, TurnEnd::Released))),
            ],
        );
    }

    #[test]
    fn behind_a_gap_nothing_is_claimed_of_what_was_there() {
        let gap = Gap { after: Zxid(2), through: Zxid(9), reason: GapReason::Snapshot };
        let gap = Entry { number: 2, kind: EntryKind::Gap(gap) };
        let entries = [entry(1, "+lock- 1"), gap, entry(11, "+lock- 5")];
        let expected =
            [(1, Some(1), Some(1), Some((1, TurnEnd::Unknown))), (5, Some(11), Some(11), None)];
        assert_eq!(lines(&entries), expected);
    }

    /// A place that is there.
    fn place(czxid: i64, number: i64) -> LockPlace {
        let (EntryKind::Event(HistoryEvent { change, .. }), owner) =
            (entry(czxid, &format!("+lock- {number}")).kind, SessionId(number))
        else {
            panic!("an event")
        };
        let path = change.path().unwrap().to_owned();
        LockPlace { path, owner, czxid: Zxid(czxid), ctime_ms: czxid }
    }

    /// Session, whether it holds or has held, since when, and whether it is there.
    fn held(
        entries: &[Entry],
        live: &[LockPlace],
        end: i64,
    ) -> Vec<(i64, bool, Option<i64>, bool)> {
        let turns = turns(entries, live, Zxid(end));
        let line =
            |turn: &Turn| (turn.session.0, turn.has_held, turn.held_ms, turn.ended.is_none());
        turns.iter().map(line).collect()
    }

    /// A place behind one from before the history seemed to hold.
    #[test]
    fn who_was_there_before_the_history_holds_if_it_is_still_there() {
        let live = [place(3, 2), place(20, 4), place(5, 3), place(99, 9)];
        let entries = [entry(20, "+lock- 4")];
        let expected = [(2, true, None, true), (3, false, None, true), (4, false, None, true)];
        assert_eq!(held(&entries, &live, 50), expected, "the history has not come to 99 yet");
        assert_eq!(held(&[], &live[..1], 50), expected[..1], "without a word in the history");
        // One more was there, and has gone.
        let entries = [entry(20, "+lock- 4"), entry(30, "-lock- 1")];
        let (first, gone) = ((2, true, Some(30), true), (1, false, None, false));
        assert_eq!(held(&entries, &live, 50), [first, expected[1], expected[2], gone]);
    }

    #[test]
    fn who_is_still_there_was_there_in_a_gap() {
        let gap = Gap { after: Zxid(2), through: Zxid(9), reason: GapReason::Snapshot };
        let gap = Entry { number: 2, kind: EntryKind::Gap(gap) };
        let entries = [entry(1, "+lock- 1"), entry(2, "+lock- 2"), gap, entry(11, "+lock- 5")];
        let live = [place(2, 2), place(7, 4), place(11, 5)];
        let expected = [
            (1, true, Some(1), false),
            (2, true, None, true),
            (4, false, None, true),
            (5, false, None, true),
        ];
        assert_eq!(held(&entries, &live, 50), expected);
    }
}
