//! P3 and P4: each connection gets exactly the events of its watches, each before any reply that shows
//! the change, in the order of the changes.
//!
//! All connections are followed at once, in the order of zxids: the changes of a transaction fire the
//! watches that are there, then the requests that were carried out at its zxid register and remove
//! watches. A reply's header says when its request was carried out. Where a connection ends, what had
//! not come may be lost.

mod timeline;
mod watcher;

use std::collections::BTreeMap;

use zoolet_jute::{
    AddWatchMode, ErrorCode, Id, Request, SetWatches2Request, WatchesRequest, Zxid, perms,
};

use super::{Answer, Call, Counts, Run, Violation};
use crate::SimTime;
use crate::history::Connection;
use crate::model::access::identities;
use crate::model::watches::{Fired, Modes, WatchList, WatchTable, set_watches, watch_lists};
use crate::model::{Replay, Transaction};
use timeline::{Item, Step, items};
use watcher::Watcher;

const P3: &str = "P3 watches";

/// A setWatches of this many paths takes several steps, each at a zxid that no reply shows.
const PATHS_AT_ONCE: usize = 250;

/// Follows the watches of all connections.
pub(super) fn check(run: &Run<'_>, counts: &mut Counts) -> Vec<Violation> {
    let mut sweep = Sweep {
        run,
        counts,
        replay: run.model.replay(),
        table: WatchTable::default(),
        watchers: BTreeMap::new(),
        away: BTreeMap::new(),
        found: Vec::new(),
    };
    let mut items = items(run).into_iter().peekable();
    for one in &run.model.transactions {
        while let Some(item) = items.next_if(|item| item.zxid < one.zxid) {
            sweep.step(item);
        }
        sweep.fire(one);
    }
    for item in items {
        sweep.step(item);
    }
    sweep.found
}

struct Sweep<'a> {
    run: &'a Run<'a>,
    counts: &'a mut Counts,
    replay: Replay<'a>,
    table: WatchTable,
    watchers: BTreeMap<Connection, Watcher<'a>>,
    /// The watches of connections whose servers are taking a snapshot over.
    away: BTreeMap<Connection, Away>,
    found: Vec<Violation>,
}

/// The watches of a connection whose server is taking a snapshot over.
struct Away {
    /// The last zxid before that.
    since: Zxid,
    /// Each with whether its path existed then.
    watches: Vec<(String, Modes, bool)>,
}

impl<'a> Sweep<'a> {
    /// The changes of a transaction fire watches.
    fn fire(&mut self, one: &Transaction) {
        let mut sent: Vec<(Fired, usize)> = Vec::new();
        for (place, change) in one.outcome.changes.iter().enumerate() {
            sent.extend(self.table.fire(change).into_iter().map(|fired| (fired, place)));
        }
        for (fired, place) in &sent {
            let Some(change) = one.outcome.changes.get(*place) else { continue };
            let acl = if fired.is_of_parent { &change.parent_acl } else { &change.acl };
            for connection in &fired.to {
                let watcher = self.watchers.entry(*connection).or_default();
                let may_read = watcher.may_read(acl);
                let has_no_order = one.outcome.ended.is_some();
                let event = (fired.event_type, fired.path.as_str());
                watcher.expect(one.zxid, event, may_read, has_no_order);
            }
        }
    }

    fn watcher(&mut self, connection: Connection) -> &mut Watcher<'a> {
        let run = self.run;
        self.watchers.entry(connection).or_insert_with(|| {
            let granted = run.links.get(&connection).and_then(|link| link.granted);
            Watcher { who: run.options.stranger(granted), ..Watcher::default() }
        })
    }

    fn step(&mut self, item: Item<'a>) {
        let Item { zxid, connection, arrived, step, .. } = item;
        if self.watcher(connection).is_given_up {
            return;
        }
        match step {
            Step::Reply(call) => {
                let Some(answer) = call.answer else { return };
                self.missed_while_away(call, answer, zxid);
                if self.watcher(connection).is_given_up {
                    return;
                }
                let mut counts = *self.counts;
                let settled = self.watcher(connection).settle(zxid, arrived, &mut counts);
                *self.counts = counts;
                match settled {
                    Ok(()) => self.registers(call, answer),
                    Err(why) => {
                        let why = format!(
                            "before the reply with {zxid} to {}: {why}",
                            self.run.describe(call)
                        );
                        self.violated(connection, answer.at, &why);
                    }
                }
            }
            Step::AuthSent(call) => {
                let proved = self.proved(call);
                self.watcher(connection).maybe.push_back(proved);
            }
            Step::AuthCounts(call) => {
                let watcher = self.watcher(connection);
                let proved = watcher.maybe.pop_front().unwrap_or_default();
                if call.answer.is_some_and(|answer| answer.result.is_ok()) {
                    watcher.who.ids.extend(proved);
                }
            }
            Step::JumpBegins => self.jump_begins(connection, zxid),
            Step::JumpEnds => self.jump_ends(connection, zxid),
            Step::End => {
                let ahead = self.watcher(connection).received.back().copied();
                let at = arrived.last().copied().or(ahead).map(|notice| notice.at);
                let mut counts = *self.counts;
                let ended = self.watcher(connection).end(arrived, &mut counts);
                *self.counts = counts;
                self.table.take(connection);
                if let Err(why) = ended {
                    let at = at.unwrap_or(self.run.history.ended_at);
                    self.violated(connection, at, &format!("behind the last reply: {why}"));
                }
            }
        }
    }

    fn proved(&self, call: &Call<'_>) -> Vec<Id> {
        let Request::Auth(packet) = call.request else { return Vec::new() };
        identities(packet, self.run.options.super_digest.as_deref())
    }

    fn violated(&mut self, connection: Connection, at: SimTime, why: &str) {
        let what = format!("connection {}, {why}", connection.0);
        self.found.push(Violation { promise: P3, at, what });
        self.give_up(connection);
    }

    fn give_up(&mut self, connection: Connection) {
        self.counts.watchers_given_up += 1;
        self.watcher(connection).is_given_up = true;
        self.table.take(connection);
        self.away.remove(&connection);
    }

    /// The server's state has jumped over changes: lasting watches have lost events, so that their
    /// connection must end.
    fn jump_begins(&mut self, connection: Connection, zxid: Zxid) {
        let taken = self.table.take(connection);
        let tree = &self.replay.to(zxid).tree;
        let existed = |path: &str| tree.get(path).is_some();
        let watches = taken.into_iter().map(|(path, modes)| {
            let existed = existed(&path);
            (path, modes, existed)
        });
        let watches = watches.collect();
        self.away.insert(connection, Away { since: zxid, watches });
    }

    fn jump_ends(&mut self, connection: Connection, zxid: Zxid) {
        let Some(Away { since, watches }) = self.away.remove(&connection) else { return };
        if watches.iter().any(|(_, modes, _)| modes.persistent || modes.recursive) {
            self.watcher(connection).must_end = Some(zxid);
            return;
        }
        let tree = &self.replay.to(zxid).tree;
        let mut events = Vec::new();
        for (path, modes, existed) in watches {
            let data = if existed { WatchList::Data } else { WatchList::Exist };
            let mut sent = None;
            for (mode, list) in [(Modes::DATA, data), (Modes::CHILD, WatchList::Child)] {
                if !(modes.data && mode.data || modes.child && mode.child) {
                    continue;
                }
                match list.missed(tree, &path, since) {
                    None => self.table.add(connection, &path, mode),
                    Some(event) if sent == Some(event) => {}
                    Some(event) => {
                        sent = Some(event);
                        let acl = tree.get(&path).map(|znode| znode.acl.clone());
                        events.push((event, path.clone(), acl));
                    }
                }
            }
        }
        let watcher = self.watchers.entry(connection).or_default();
        for (event, path, acl) in events {
            let may_read = acl.map_or(Some(true), |acl| watcher.may_read(&acl));
            watcher.expect(Zxid::NONE, (event, &path), may_read, false);
        }
    }

    /// The events that a setWatches makes up come before its reply (protocol §8.6).
    fn missed_while_away(&mut self, call: &Call<'_>, answer: Answer<'_>, zxid: Zxid) {
        let connection = call.connection;
        if let Some(jump) = self.watcher(connection).must_end.filter(|jump| zxid >= *jump) {
            let why = format!(
                "{} was answered, and the connection has lasting watches, of which a snapshot at {jump} \
                 has skipped events",
                self.run.describe(call)
            );
            return self.violated(connection, answer.at, &why);
        }
        let Some(body) = set_watches(call.request).filter(|_| answer.result.is_ok()) else {
            return;
        };
        let lists = watch_lists(&body);
        if lists.len() >= PATHS_AT_ONCE {
            return self.give_up(connection);
        }
        let tree = &self.replay.to(zxid).tree;
        let watcher = self.watchers.entry(connection).or_default();
        for (path, list) in lists {
            let Some(event) = list.missed(tree, path, body.relative_zxid) else { continue };
            let acl = tree.get(path).map(|znode| &znode.acl);
            let may_read = acl.map_or(Some(true), |acl| call.who.may(acl, perms::READ));
            watcher.expect(Zxid::NONE, (event, path), may_read, false);
        }
    }

    /// A request that was carried out registers or removes watches.
    fn registers(&mut self, call: &Call<'_>, answer: Answer<'_>) {
        let (connection, is_done) = (call.connection, answer.result.is_ok());
        let is_absent = *answer.result == Err(ErrorCode::NoNode);
        #[allow(clippy::wildcard_enum_match_arm, reason = "the others have to do with no watch")]
        let (path, modes) = match call.request {
            Request::GetData(body) if body.watch && is_done => (&body.path, Modes::DATA),
            Request::Exists(body) if body.watch && (is_done || is_absent) => {
                (&body.path, Modes::DATA)
            }
            Request::GetChildren(body) | Request::GetChildren2(body) if body.watch && is_done => {
                (&body.path, Modes::CHILD)
            }
            Request::AddWatch(body) if is_done => (
                &body.path,
                match body.mode {
                    AddWatchMode::Persistent => Modes::PERSISTENT,
                    AddWatchMode::PersistentRecursive => Modes::RECURSIVE,
                },
            ),
            Request::CheckWatches(body) => return self.removes(call, answer, body, false),
            Request::RemoveWatches(body) => return self.removes(call, answer, body, true),
            request => {
                if let Some(body) = set_watches(request).filter(|_| is_done) {
                    self.sets(call, &body, answer.zxid);
                }
                return;
            }
        };
        self.counts.watches += 1;
        self.table.add(connection, path, modes);
    }

    fn sets(&mut self, call: &Call<'_>, body: &SetWatches2Request, zxid: Zxid) {
        for (path, list) in watch_lists(body) {
            let tree = &self.replay.to(zxid).tree;
            if list.missed(tree, path, body.relative_zxid).is_none() {
                self.counts.watches += 1;
                self.table.add(call.connection, path, list.modes());
            }
        }
    }

    fn removes(
        &mut self,
        call: &Call<'_>,
        answer: Answer<'_>,
        body: &WatchesRequest,
        is_removal: bool,
    ) {
        let modes = Modes::of(body.watcher_type);
        let is_there = self.table.has(call.connection, &body.path, modes);
        let is_done = answer.result.is_ok();
        if is_done != is_there {
            let expected = if is_there { "is" } else { "is not" };
            let why = format!(
                "{} was answered {:?}, and the watch {expected} there",
                self.run.describe(call),
                answer.result
            );
            return self.violated(call.connection, answer.at, &why);
        }
        if is_removal {
            self.table.remove(call.connection, &body.path, modes);
        }
    }
}
