//! What happens to each connection's watches, in the order of zxids.

use std::collections::BTreeMap;

use zoolet_jute::{Request, Zxid};
use zoolet_replica::ServerId;

use crate::checks::same_log::jumps;
use crate::checks::{Arrival, Call, Link, Notice, Run};
use crate::history::Connection;

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

/// All items, in order.
pub(super) fn items<'a>(run: &'a Run<'a>) -> Vec<Item<'a>> {
    let jumps = jumps_of(run);
    let mut items = Vec::new();
    for (connection, link) in &run.links {
        if let Some(granted) = link.granted {
            let none = Vec::new();
            let jumps = jumps.get(&granted.server).unwrap_or(&none);
            of_link(run, *connection, link, jumps, &mut items);
        }
    }
    items.sort_by_key(|item| (item.zxid, item.order, item.connection));
    items
}

/// Where a server's state has jumped, by zxids: from the last one that it had applied to that of the
/// snapshot.
fn jumps_of(run: &Run<'_>) -> BTreeMap<ServerId, Vec<(Zxid, Zxid)>> {
    let mut all: BTreeMap<ServerId, Vec<(Zxid, Zxid)>> = BTreeMap::new();
    for (server, log) in &run.history.servers {
        for (before, behind) in log.applied.iter().zip(log.applied.iter().skip(1)) {
            if behind.index > before.index && jumps(run, before.index, behind.index) {
                let from = run.model.zxid_at(before.index);
                let to = run.model.zxid_at(behind.index.saturating_sub(1));
                all.entry(*server).or_default().push((from, to));
            }
        }
    }
    all
}

fn of_link<'a>(
    run: &'a Run<'a>,
    connection: Connection,
    link: &'a Link<'a>,
    jumps: &[(Zxid, Zxid)],
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
        push(at, order, std::mem::take(&mut arrived), Step::Reply(call));
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
    let end = at.max(newest.max().unwrap_or(at));
    for (from, to) in jumps.iter().filter(|(from, _)| *from >= first && *from <= end) {
        push(*from, usize::MAX - 1, Vec::new(), Step::JumpBegins);
        push(*to, 0, Vec::new(), Step::JumpEnds);
    }
    // Events that are made up have no zxid of their own, and come behind a jump.
    let behind = jumps.iter().rev().find(|(from, _)| *from >= first && *from <= end);
    let end = behind.map_or(end, |(_, to)| end.max(*to));
    push(end, usize::MAX, arrived, Step::End);
}
