//! What happens to each connection's watches, in the order of zxids.

use std::collections::BTreeMap;

use zoolet_jute::{Request, Zxid};
use zoolet_replica::ServerId;

use crate::SimTime;
use crate::checks::same_log::jumps;
use crate::checks::{Arrival, Call, Link, Notice, Run};
use crate::history::{Applied, Connection, ServerLog};

/// Something that happens to a connection when its server's state has a zxid: behind the changes of
/// that transaction.
#[derive(Clone, Debug)]
pub(super) struct Item<'a> {
    pub(super) zxid: Zxid,
    /// The order among those of one connection with one zxid.
    pub(super) order: usize,
    pub(super) connection: Connection,
    /// The events that have come since the item before.
    pub(super) arrived: Vec<Notice<'a>>,
    pub(super) step: Step<'a>,
}

#[derive(Clone, Debug)]
pub(super) enum Step<'a> {
    /// A reply has come. Its request was carried out at this zxid.
    Reply(&'a Call<'a>),
    /// An auth request was sent: it may count from here on.
    AuthSent(&'a Call<'a>),
    /// It counts from here on.
    AuthCounts(&'a Call<'a>),
    /// The server takes over a snapshot: it knows nothing of what is between here and the end.
    JumpBegins,
    /// It has the state of the snapshot.
    JumpEnds,
    /// Nothing more has come.
    End,
}

/// A jump of a server's state, by zxids: from the last one that it had to that of a snapshot.
#[derive(Clone, Copy, Debug)]
struct Jump {
    from: Zxid,
    to: Zxid,
    /// The last moment before it of which the server has a note.
    at: SimTime,
    life: u64,
}

/// The lives of a server. A connection belongs to the life in which it got its session.
#[derive(Debug, Default)]
struct Lives {
    jumps: Vec<Jump>,
    /// The life in which each entry was applied for the first time.
    first: BTreeMap<u64, u64>,
}

impl Lives {
    fn of(run: &Run<'_>, log: &ServerLog) -> Self {
        let mut lives = Self::default();
        let (mut life, mut before): (u64, Option<&Applied>) = (0, None);
        let mut restored = log.restored.iter().peekable();
        let entries = log.applied.iter().map(Some).chain([None]);
        for (place, applied) in entries.enumerate() {
            let mut from = before.map(|before| run.model.zxid_at(before.index));
            let mut at = before.map_or(SimTime::default(), |before| before.at);
            // Snapshots come one behind the other, too, and clients are served in between.
            while let Some(one) = restored.next_if(|one| one.applied_before <= place) {
                if let Some(from) = from.filter(|from| *from < one.zxid) {
                    lives.jumps.push(Jump { from, to: one.zxid, at, life });
                }
                (from, at) = (from.max(Some(one.zxid)), one.at);
            }
            let Some(applied) = applied else { break };
            if let (Some(before), Some(from)) = (before, from) {
                let to = run.model.zxid_at(applied.index.saturating_sub(1));
                if applied.index <= before.index {
                    life += 1;
                } else if jumps(run, before.index, applied.index) && from < to {
                    lives.jumps.push(Jump { from, to, at, life });
                }
            }
            lives.first.entry(applied.index).or_insert(life);
            before = Some(applied);
        }
        lives
    }

    /// The jumps that a connection can have lived through.
    fn jumps_of(&self, run: &Run<'_>, link: &Link<'_>) -> Vec<Jump> {
        let Some(attach) = run.attach(link) else { return Vec::new() };
        let life = self.first.get(&attach.index);
        let is_open = |jump: &&Jump| link.ended_at.is_none_or(|ended| ended >= jump.at);
        let all = self.jumps.iter().filter(|jump| Some(&jump.life) == life);
        all.filter(is_open).filter(|jump| jump.from >= attach.zxid).copied().collect()
    }
}

/// All items, in order.
pub(super) fn items<'a>(run: &'a Run<'a>) -> Vec<Item<'a>> {
    let logs = run.history.servers.iter();
    let lives: BTreeMap<ServerId, Lives> =
        logs.map(|(server, log)| (*server, Lives::of(run, log))).collect();
    let mut items = Vec::new();
    for (connection, link) in &run.links {
        if let Some(granted) = link.granted {
            let lives = lives.get(&granted.server);
            let jumps = lives.map(|lives| lives.jumps_of(run, link)).unwrap_or_default();
            of_link(run, *connection, link, &jumps, &mut items);
        }
    }
    items.sort_by_key(|item| (item.zxid, item.order, item.connection));
    items
}

fn of_link<'a>(
    run: &'a Run<'a>,
    connection: Connection,
    link: &'a Link<'a>,
    jumps: &[Jump],
    items: &mut Vec<Item<'a>>,
) {
    let first = run.attach(link).map_or(Zxid(0), |attach| attach.zxid);
    let auths = link.calls.iter().filter_map(|number| run.calls.get(number));
    let mut auths = auths.filter(|call| matches!(call.request, Request::Auth(_))).peekable();
    let mut at = first;
    let mut order = 1;
    let mut arrived = Vec::new();
    let mut counts_next = Vec::new();
    let mut push = |zxid, order, arrived, step| {
        items.push(Item { zxid, order, connection, arrived, step });
    };
    for arrival in &link.arrivals {
        let place = match arrival {
            Arrival::Event(notice) => notice.place,
            Arrival::Reply(number) => {
                let answer = run.calls.get(number).and_then(|call| call.answer);
                answer.map_or(0, |answer| answer.place)
            }
        };
        while let Some(auth) = auths.next_if(|auth| auth.place < place) {
            push(at, order, Vec::new(), Step::AuthSent(auth));
            order += 1;
        }
        let number = match arrival {
            Arrival::Event(notice) => {
                arrived.push(*notice);
                continue;
            }
            Arrival::Reply(number) => number,
        };
        let Some(call) = run.calls.get(number) else { continue };
        let Some(answer) = call.answer else { continue };
        at = at.max(answer.zxid);
        // A reply without a zxid does not say what its server knew; the next one with a zxid does.
        let before = if answer.zxid.0 > 0 { std::mem::take(&mut arrived) } else { Vec::new() };
        push(at, order, before, Step::Reply(call));
        order += 1;
        if answer.zxid.0 > 0 {
            for auth in counts_next.drain(..) {
                push(at, order, Vec::new(), Step::AuthCounts(auth));
                order += 1;
            }
        }
        if matches!(call.request, Request::Auth(_)) {
            counts_next.push(call);
        }
    }
    for auth in auths {
        push(at, order, Vec::new(), Step::AuthSent(auth));
        order += 1;
    }
    // An event can come in front of a reply that shows the state before it.
    let newest = link.arrivals.iter().filter_map(|arrival| match arrival {
        Arrival::Event(notice) => Some(notice.zxid),
        Arrival::Reply(_) => None,
    });
    let mut last = at.max(newest.max().unwrap_or(at));
    for jump in jumps {
        push(jump.from, usize::MAX - 1, Vec::new(), Step::JumpBegins);
        push(jump.to, 0, Vec::new(), Step::JumpEnds);
        // Events that are made up have no zxid of their own, and come behind a jump.
        last = last.max(jump.to);
    }
    push(last, usize::MAX, arrived, Step::End);
}
